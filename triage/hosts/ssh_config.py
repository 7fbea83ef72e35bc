"""What to connect to, from names and ssh config text. Pure but for reading the config files; knows no ssh library."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from triage.errors import HostError, UsageError

# As OpenSSH does since 9.6: these names reach ProxyCommand's shell through %h and %r.
_HOST = re.compile(r"[A-Za-z0-9_.:%\[\]][A-Za-z0-9_.:%\[\]+-]*\Z")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+@\\-]*\Z")
_MAX_INCLUDE_DEPTH = 16
_MAX_CONFIG = 1024 * 1024


@dataclass(frozen=True)
class Target:
    """A host as typed: `[user@]host[:port]` (the port form is for jump hosts and ssh:// names only)."""

    host: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Endpoint:
    """Where and how to connect. `key_name` is the name that known_hosts is asked for."""

    name: str
    host: str
    port: int
    user: str
    key_name: str
    identity_files: tuple[str, ...]
    explicit_identity: bool  # IdentityFile stands in the config
    identities_only: bool
    use_agent: bool
    known_hosts: tuple[str, ...]
    proxy_command: str | None
    jumps: tuple[Target, ...]
    timeout: float


def parse_target(text: str, with_port: bool = False) -> Target:
    """`[user@]host`, `ssh://[user@]host[:port]`; `with_port` takes `host:port` too. Raises UsageError."""
    rest = text
    if rest.startswith("ssh://"):
        rest, with_port = rest[len("ssh://") :].rstrip("/"), True
    user: str | None = None
    if "@" in rest:
        user, _, rest = rest.rpartition("@")
    port: int | None = None
    bracketed = re.fullmatch(r"\[([^\[\]]+)\](?::(\d{1,5}))?", rest)
    if bracketed:
        rest, port = bracketed[1], int(bracketed[2]) if bracketed[2] else None
    elif with_port and rest.count(":") == 1 and rest.rpartition(":")[2].isdigit():
        rest, port = rest.partition(":")[0], int(rest.rpartition(":")[2][:6])
    if not _HOST.match(rest) or (user is not None and not _USER.match(user)) or (port is not None and not 0 < port < 65536):
        raise UsageError(
            f"not a host name: {text!a}",
            "give a name of your ssh config, a host name or an address, with user@ before it if needed",
        )
    return Target(rest, user, port)


def read_config_text(path: Path, home: Path) -> str:
    """One config file with its Include lines replaced by the files' text; "" where it does not exist. Raises HostError."""
    return _read(path, home, 0)


def _read(path: Path, home: Path, depth: int) -> str:
    if depth > _MAX_INCLUDE_DEPTH:
        raise HostError(f"Include goes too deep in the ssh config: {str(path)!a}")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read(_MAX_CONFIG)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise HostError(f"cannot read the ssh config {str(path)!a}: {error.strerror}") from error
    lines: list[str] = []
    block = "Host *"
    for line in text.splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if word.lower() in ("host", "match"):
            block = line
        if word.lower() != "include":
            lines.append(line)
            continue
        for pattern in rest.replace('"', " ").split():
            full = os.path.join(home, pattern[2:]) if pattern.startswith("~/") else os.path.join(path.parent, pattern)
            for name in sorted(glob.glob(full)):
                lines.append(_read(Path(name), home, depth + 1))
        # the included file's Host lines end with it
        lines.append(block)
    return "\n".join(lines)


def join_configs(user: str, system: str) -> str:
    """User's text first (the first value wins); the system's own top lines apply to every host."""
    return f"{user}\nHost *\n{system}\n" if system else user


def make_endpoint(
    target: Target, options: Mapping[str, str | list[str]], home: Path, login: str, known_hosts: Path | None, timeout: float
) -> Endpoint:
    """From a target and what the config says of it (`SSHConfig.lookup`). `known_hosts` replaces the config's files.

    Raises UsageError for a value that does not parse.
    """

    def text(key: str) -> str | None:
        value = options.get(key)
        return value if isinstance(value, str) and value.lower() != "none" else None

    def path(name: str) -> str:
        return os.path.join(home, name[2:]) if name.startswith("~/") else name

    host = text("hostname") or target.host
    if not _HOST.match(host):
        raise UsageError(f"the ssh config gives {target.host} a HostName that is not one: {host!a}")
    raw_port = text("port") or "22"
    if target.port is None and not raw_port.isdigit():
        raise UsageError(f"the ssh config gives {target.host} a Port that is not one: {raw_port!a}")
    port = target.port or int(raw_port)
    identities = options.get("identityfile")
    explicit = tuple(path(f) for f in identities) if isinstance(identities, list) else ()
    files = explicit or tuple(str(home / ".ssh" / f"id_{kind}") for kind in ("ed25519", "ecdsa", "rsa"))
    if known_hosts is not None:
        known: tuple[str, ...] = (str(known_hosts),)
    else:
        mine = text("userknownhostsfile") or "~/.ssh/known_hosts ~/.ssh/known_hosts2"
        every = text("globalknownhostsfile") or "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
        known = tuple(path(f) for f in f"{mine} {every}".replace('"', " ").split())
    alias = text("hostkeyalias")
    seconds = text("connecttimeout")
    jump = text("proxyjump")
    return Endpoint(
        name=target.host,
        host=host,
        port=port,
        user=target.user or text("user") or login,
        key_name=alias or (host if port == 22 else f"[{host}]:{port}"),
        identity_files=files,
        explicit_identity=bool(explicit),
        identities_only=(text("identitiesonly") or "no").lower() == "yes",
        use_agent=options.get("identityagent") != "none",
        known_hosts=known,
        proxy_command=text("proxycommand") if not jump else None,
        jumps=tuple(parse_target(one.strip(), with_port=True) for one in jump.split(",")) if jump else (),
        timeout=float(seconds) if seconds and seconds.isdigit() and int(seconds) else timeout,
    )
