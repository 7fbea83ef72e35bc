"""Masking of secrets and of text that would act on a terminal. Pure; every output of triage goes through here."""

from __future__ import annotations

import fnmatch
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from triage.argv import is_flag
from triage.model import MASK

MIN_SECRET = 4  # characters: what is shorter is masked where it stands, not wherever it appears

_WORDS = {
    "KEY",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "BEARER",
}
_NOT_LAST = {"PATH", "FILE", "DIR", "ID", "IDS", "NAME", "TYPE", "SIZE", "LEN", "LIMIT", "COUNT", "MAP", "NUM", "DTYPE", "CACHE"}
_FLAG_NAMES = (
    "--*api-key",
    "--*access-key",
    "--*secret*",
    "--*password*",
    "--*passphrase*",
    "--*-token",
    "--token",
    "--*credential*",
)
_PLAIN_VALUE = re.compile(r"[+-]?\d{1,5}(\.\d+)?|true|false|none|null|yes|no|on|off|auto", re.IGNORECASE)


@dataclass(frozen=True)
class _Shape:
    """A value that gives itself away. Group "secret" is masked; `hints`: lower-case text without which it cannot match."""

    pattern: str
    hints: tuple[str, ...]


_PAIRS = (
    ("api", "key"),
    ("access", "key"),
    ("auth", "token"),
    ("access", "token"),
    ("hf", "token"),
    ("refresh", "token"),
    ("session", "token"),
)

# every repetition is of one class of characters with a clear end, so that no text makes them slow
_SHAPES = (
    _Shape(r"(?<![A-Za-z0-9_])(?P<secret>hf_[A-Za-z0-9]{16,256})", ("hf_",)),
    _Shape(r"(?<![A-Za-z0-9_])(?P<secret>api_org_[A-Za-z0-9]{16,256})", ("api_org_",)),
    _Shape(r"(?<![A-Za-z0-9])(?P<secret>sk-[A-Za-z0-9_-]{12,256})", ("sk-",)),
    _Shape(r"(?<![A-Za-z0-9])(?P<secret>gh[pousr]_[A-Za-z0-9]{20,256})", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    _Shape(r"(?<![A-Za-z0-9])(?P<secret>github_pat_[A-Za-z0-9_]{20,256})", ("github_pat_",)),
    _Shape(r"(?<![A-Za-z0-9])(?P<secret>glpat-[A-Za-z0-9_-]{16,256})", ("glpat-",)),
    _Shape(r"(?<![A-Za-z0-9])(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,256})", ("xox",)),
    _Shape(r"(?<![A-Z0-9])(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Z0-9])", ("akia", "asia")),
    _Shape(r"(?<![A-Za-z0-9])(?P<secret>AIza[A-Za-z0-9_-]{35})", ("aiza",)),
    _Shape(r"(?<![A-Za-z0-9_-])(?P<secret>eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{4,4096}\.[A-Za-z0-9_-]{0,4096})", ("eyj",)),
    _Shape(r"(?i:\b(?:bearer|basic)[ \t]{1,8})(?P<secret>[A-Za-z0-9._~+/=-]{8,4096})", ("bearer", "basic")),
    _Shape(r"[A-Za-z][A-Za-z0-9+.-]{1,16}://(?P<secret>[^\s/@:'\"<>]{0,256}:[^\s/@'\"<>]{1,256})@", ("://",)),
    _Shape(
        r"(?i:(?:api[_-]?key|access[_-]?key|secret|passwo?r?d|passphrase|(?:auth|access|hf|refresh|session)[_-]?token)[a-z_-]{0,16})"
        r"['\"]?[ \t]{0,4}[=:][ \t]{0,4}"
        r"(?:(?P<quote>['\"])(?P<quoted>[^'\"\r\n]{1,4096})(?P=quote)|(?P<bare>[^\s,;)}\]'\"]{1,4096}))",
        (*(f"{a}{j}{b}" for a, b in _PAIRS for j in ("", "-", "_")), "secret", "passw", "passphrase"),
    ),
    _Shape(
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?P<secret>(?:[A-Za-z0-9+/=\s\\:,]|-(?!-)){16,16384})"
        r"-----END [A-Z ]{0,40}PRIVATE KEY-----",
        ("private key",),
    ),
)
_TEXT = tuple(re.compile(s.pattern) for s in _SHAPES)
_BYTES = tuple(re.compile(s.pattern.encode()) for s in _SHAPES)


def is_secret_flag(name: str, flag_patterns: Iterable[str] = ()) -> bool:
    """Whether the values of a flag are secret, by the given fnmatch patterns (`--x` or `x`) or by a name that says so."""
    bare = name.lstrip("-")
    return any(fnmatch.fnmatchcase(name, p) or fnmatch.fnmatchcase(bare, p) for p in flag_patterns) or any(
        fnmatch.fnmatchcase(name.lower().replace("_", "-"), p) for p in _FLAG_NAMES
    )


def is_secret_variable(name: str, patterns: Iterable[str] = ()) -> bool:
    """Whether a variable's value is secret, by the given fnmatch patterns or by a name that says so (..._KEY, HF_TOKEN, ...)."""
    parts = name.upper().split("_")
    return any(fnmatch.fnmatchcase(name, p) for p in patterns) or (
        parts[-1] not in _NOT_LAST and any(part in _WORDS or part.endswith(("PASSWORD", "APIKEY")) for part in parts)
    )


def collect_secrets(words: Sequence[str], env: Mapping[str, str], flag_patterns: Iterable[str] = ()) -> frozenset[str]:
    """Every secret value in a launch, as it stands there: by flag name, by variable name, by shape."""
    patterns = tuple(flag_patterns)
    found = {value for i, value in _flag_values(words, patterns) if value}
    found |= {v for k, v in env.items() if is_secret_variable(k, patterns) and not _PLAIN_VALUE.fullmatch(v)}
    for text in (*words, *env.values()):
        for at in range(len(_TEXT)):
            found |= {text[a:b] for a, b in _spans(at, text)}
    for url in list(found):
        if ":" in url and not url.startswith("eyJ"):
            found.add(url.partition(":")[2])  # the password of user:password by itself
    return frozenset(value for value in found if len(value) >= MIN_SECRET)


def mask_args(args: Sequence[str], flag_patterns: Iterable[str] = ()) -> tuple[str, ...]:
    """The same number of words: values of secret flags are MASK (`--flag=` stays), shapes are masked inside words."""
    patterns = tuple(flag_patterns)
    masked = [mask_text(word, ()) for word in args]
    for i, value in _flag_values(args, patterns):
        masked[i] = args[i][: len(args[i]) - len(value)] + MASK if value else args[i]
    return tuple(masked)


def mask_env(env: Mapping[str, str], patterns: Iterable[str] = ()) -> dict[str, str]:
    """The same names; values of secret variables are MASK, shapes are masked inside the others."""
    wanted = tuple(patterns)
    return {
        k: MASK if v and is_secret_variable(k, wanted) and not _PLAIN_VALUE.fullmatch(v) else mask_text(v, ())
        for k, v in env.items()
    }


@overload
def mask_text(text: str, secrets: Iterable[str]) -> str: ...
@overload
def mask_text(text: bytes, secrets: Iterable[str]) -> bytes: ...
def mask_text(text: str | bytes, secrets: Iterable[str]) -> str | bytes:
    """The text with each secret (also as JSON, URL or Python spell it) and each telltale shape masked; lines stay lines."""
    spellings = {s for secret in secrets for s in _spellings(secret) if len(s) >= MIN_SECRET and s != MASK}
    ordered = sorted(spellings, key=lambda s: (-len(s), s))
    if isinstance(text, bytes):
        data = text
        for spelling in ordered:
            raw = spelling.encode("utf-8", "surrogateescape")
            data = data.replace(raw, MASK.encode() + b"\n" * raw.count(b"\n"))
        lower = data.lower() if data else b""
        for shape, compiled in zip(_SHAPES, _BYTES, strict=True):
            if any(hint.encode() in lower for hint in shape.hints):
                data = compiled.sub(lambda m: _masked_bytes(m), data)
        return data
    for spelling in ordered:
        text = text.replace(spelling, MASK + "\n" * spelling.count("\n"))
    low = text.lower()
    for shape, pattern in zip(_SHAPES, _TEXT, strict=True):
        if any(hint in low for hint in shape.hints):
            text = pattern.sub(lambda m: _masked_text(m), text)
    return text


def _masked_text(match: re.Match[str]) -> str:
    span = _secret_span(match)
    if span is None:
        return match[0]
    start, a, b = match.start(), *span
    secret = match.string[a:b]
    if _PLAIN_VALUE.fullmatch(secret) or secret.startswith(MASK[:-1]):
        return match[0]
    return match[0][: a - start] + MASK + "\n" * secret.count("\n") + match[0][b - start :]


def _masked_bytes(match: re.Match[bytes]) -> bytes:
    span = _secret_span(match)
    if span is None:
        return match[0]
    start, a, b = match.start(), *span
    secret = match.string[a:b]
    if _PLAIN_VALUE.fullmatch(secret.decode("latin-1")) or secret.startswith(MASK[:-1].encode()):
        return match[0]
    return match[0][: a - start] + MASK.encode() + b"\n" * secret.count(b"\n") + match[0][b - start :]


def _secret_span(match: re.Match[str] | re.Match[bytes]) -> tuple[int, int] | None:
    for name in ("secret", "quoted", "bare"):
        if name in match.re.groupindex and match.start(name) >= 0:
            return match.span(name)
    return None


def _spans(at: int, text: str) -> list[tuple[int, int]]:
    """Where one shape's secrets stand in the text."""
    spans = [_secret_span(m) for m in _TEXT[at].finditer(text)]
    return [s for s in spans if s and not _PLAIN_VALUE.fullmatch(text[s[0] : s[1]]) and text[s[0] : s[1]] != MASK]


def _flag_values(args: Sequence[str], patterns: tuple[str, ...]) -> list[tuple[int, str]]:
    """(index of the word, value in it) of every value of a secret flag."""
    found: list[tuple[int, str]] = []
    secret = named = False
    for i, word in enumerate(args):
        if is_flag(word):
            name, equals, value = word.partition("=")
            named = any(fnmatch.fnmatchcase(name, p) or fnmatch.fnmatchcase(name.lstrip("-"), p) for p in patterns)
            secret = is_secret_flag(name, patterns)
            if not (secret and equals):
                continue
            secret = False
        elif secret:
            value = word
        else:
            continue
        if named or not _PLAIN_VALUE.fullmatch(value):
            found.append((i, value))
    return found


def _spellings(secret: str) -> tuple[str, ...]:
    return (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], urllib.parse.quote(secret, safe="", errors="surrogatepass"))


# ---------------------------------------------------------------- terminal
_ESCAPES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]{0,65536}(?:\x07|\x1b\\\\|\x9c)"  # OSC, DCS and such, if ended
    "|\x1b[ -/]{0,8}[0-~]"
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def clean_text(text: str) -> str:
    """Safe for any terminal: escape sequences go, other control, bidi and invisible characters show as \\xNN or \\uNNNN.

    Newline and tab stay; \\r\\n becomes a newline.
    """
    return _HIDDEN.sub(_show, _ESCAPES.sub("", text.replace("\r\n", "\n")))


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def printable(text: str, limit: int = 200) -> str:
    """One line without control characters, for a message."""
    shown = "".join(c if c.isprintable() else " " for c in text[: limit * 4])
    shown = " ".join(shown.split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
