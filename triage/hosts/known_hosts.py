"""known_hosts files, read strictly: is this key the one that stands there for this host? Pure."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class KnownKey:
    """One usable line. `marker` is "", "@revoked" or "@cert-authority"."""

    marker: str
    hosts: str  # the pattern field as it stands
    type: str
    blob: bytes


@dataclass(frozen=True)
class KeyVerdict:
    """`known` holds the keys that stand for the host (verdict "changed"), or the cert authorities (verdict "unknown")."""

    verdict: Literal["ok", "unknown", "changed", "revoked"]
    known: tuple[KnownKey, ...] = ()


def parse_known_hosts(text: str) -> tuple[KnownKey, ...]:
    """The usable lines of one file; comments and lines that do not parse are left out."""
    keys: list[KnownKey] = []
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        marker = fields.pop(0) if fields[0].startswith("@") else ""
        if len(fields) < 3:
            continue
        try:
            blob = base64.b64decode(fields[2], validate=True)
        except binascii.Error:
            continue
        keys.append(KnownKey(marker, fields[0], fields[1], blob))
    return tuple(keys)


def matches_host(pattern: str, name: str) -> bool:
    """Whether a line's pattern field names the host; `name` is `host`, or `[host]:port` for another port than 22."""
    if pattern.startswith("|1|"):
        parts = pattern.split("|")
        try:
            salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
        except (IndexError, binascii.Error):
            return False
        return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
    found = False
    for one in pattern.split(","):
        negated = one.startswith("!")
        # only * and ? are wild in this file; [ is a part of "[host]:port"
        wild = one.lstrip("!").lower().replace("[", "[[]")
        if fnmatch.fnmatchcase(name.lower(), wild):
            if negated:
                return False
            found = True
    return found


def judge_key(keys: Iterable[KnownKey], name: str, blob: bytes) -> KeyVerdict:
    """What the files say of the key that the host showed."""
    mine = [k for k in keys if matches_host(k.hosts, name)]
    if any(k.marker == "@revoked" and k.blob == blob for k in mine):
        return KeyVerdict("revoked")
    plain = tuple(k for k in mine if not k.marker)
    if any(k.blob == blob for k in plain):
        return KeyVerdict("ok")
    if plain:
        return KeyVerdict("changed", plain)
    return KeyVerdict("unknown", tuple(k for k in mine if k.marker == "@cert-authority"))


def known_types(keys: Iterable[KnownKey], name: str) -> tuple[str, ...]:
    """Key types that stand for the host, in file order: to be asked for first."""
    return tuple(dict.fromkeys(k.type for k in keys if not k.marker and matches_host(k.hosts, name)))


def fingerprint(blob: bytes) -> str:
    """As `ssh-keygen -l` prints it: SHA256:..."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
