"""A systemd unit as read from its host in one or two commands: its files, its commands, its environment."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from triage.errors import HostError, ServiceError
from triage.model import Command
from triage.protocols import Host
from triage.redact import printable
from triage.services.unitfile import (
    CommandLine,
    UnitSyntaxError,
    expand_specifiers,
    expand_variables,
    parse_env_file,
    parse_exec,
    parse_unit,
    split_words,
    values_of,
)

PROPERTIES = (
    "Id,LoadState,LoadError,FragmentPath,DropInPaths,NeedDaemonReload,ActiveState,SubState,Result,MainPID,ExecMainStatus,"
    "ExecMainCode,NRestarts,InvocationID,User,WorkingDirectory,StandardOutput,StandardError"
)

# $1 marker, $2 scope, $3 unit, $4 its D-Bus path, $5 properties. Each block begins with a line "<marker> <kind> ...".
_READ = """
m=$1 scope=$2 u=$3 bus=$4
export LC_ALL=C SYSTEMD_COLORS=0 SYSTEMD_PAGER=cat
command -v systemctl >/dev/null || { echo 'there is no systemctl' >&2; exit 51; }
printf '%s show\\n' "$m"
show=$(systemctl "$scope" show -p "$5" -- "$u") || exit 52
printf '%s\\n' "$show"
get() { printf '%s\\n' "$show" | sed -n "s/^$1=//p"; }
set -f
for f in $(get FragmentPath) $(get DropInPaths); do
  if [ ! -f "$f" ]; then printf '\\n%s gone %s\\n' "$m" "$f"; continue; fi
  if [ ! -r "$f" ]; then printf '\\n%s denied %s\\n' "$m" "$f"; continue; fi
  printf '\\n%s file %s %s\\n' "$m" "$(stat -L -c %a -- "$f")" "$f"
  cat -- "$f"
done
printf '\\n%s bus\\n' "$m"
busctl "$scope" --json=short get-property org.freedesktop.systemd1 "$bus" org.freedesktop.systemd1.Service \\
  ExecStart Environment EnvironmentFiles UnsetEnvironment PassEnvironment 2>/dev/null
printf '\\n%s manager\\n' "$m"
systemctl "$scope" show-environment 2>/dev/null
user=$(get User)
printf '\\n%s passwd\\n' "$m"
[ -z "$user" ] || getent passwd -- "$user"
if [ "$scope" = --user ]; then base=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user; else base=/etc/systemd/system; fi
d=$base/$(get Id).d
kind=absent; [ -d "$d" ] && kind=folder; [ -L "$d" ] && kind=link
printf '\\n%s dropins %s %s\\n' "$m" "$kind" "$d"
exit 0
"""

# $1 marker, then glob patterns
_ENV_FILES = """
m=$1; shift
IFS=
for pattern; do
  for f in $pattern; do
    if [ ! -e "$f" ]; then printf '\\n%s gone %s\\n' "$m" "$f"; continue; fi
    if [ ! -r "$f" ]; then printf '\\n%s denied %s\\n' "$m" "$f"; continue; fi
    if [ ! -f "$f" ]; then printf '\\n%s gone %s\\n' "$m" "$f"; continue; fi
    printf '\\n%s file 0 %s\\n' "$m" "$f"
    head -c 1048576 <"$f"
  done
done
printf '\\n%s end\\n' "$m"
"""


@dataclass(frozen=True)
class UnitFile:
    path: str
    data: bytes = field(repr=False)
    mode: int = 0o644

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "surrogateescape")

    @property
    def basename(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class UnitView:
    """Everything of one unit that a launch or a patch needs. `env` is what the process gets, secrets in clear."""

    id: str
    show: Mapping[str, str]
    files: tuple[UnitFile, ...]  # the fragment, then the drop-ins in systemd's order
    values: tuple[str, ...]  # the ExecStart values that act
    commands: tuple[tuple[CommandLine, ...], ...]  # of each value
    texts: tuple[tuple[str, ...], ...] = field(repr=False)  # of each command in order: its words, specifiers expanded
    env: Mapping[str, str] = field(repr=False)
    env_files: Mapping[str, bytes] = field(repr=False)  # EnvironmentFile= files that exist
    env_file_names: frozenset[str] = frozenset()  # variables that they set
    dropin_dir: str = ""
    dropin_dir_kind: str = "absent"


def check_unit_name(unit: str) -> str:
    """The full name of a service unit. Raises ServiceError for what is no such name."""
    name = unit if unit.endswith(".service") else f"{unit}.service"
    if not re.fullmatch(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,240}\.service", name) or name.startswith("."):
        raise ServiceError(f"not the name of a service unit: {printable(ascii(unit))}")
    if re.search(r"@\.service$", name):
        raise ServiceError(f"{name} is a template", "name an instance: NAME@INSTANCE.service")
    return name


def read_show(host: Host, unit: str, scope: str) -> dict[str, str]:
    """`systemctl show` of the unit. Raises ServiceError (missing, masked, broken, no systemd)."""
    argv = ("env", "LC_ALL=C", "SYSTEMD_PAGER=cat", "systemctl", scope, "show", "-p", PROPERTIES, "--", unit)
    result = host.run(Command(argv))
    if result.status == 127:
        raise ServiceError(f"{host.name} has no systemctl: {unit} cannot be a systemd unit there")
    if result.status != 0:
        raise ServiceError(f"systemctl on {host.name} says: {printable(result.stderr.decode('utf-8', 'replace'))}")
    show = _parse_show(result.stdout)
    check_loaded(show, unit, host.name)
    return show


def check_loaded(show: Mapping[str, str], unit: str, where: str) -> None:
    """Raises ServiceError unless systemd has loaded the unit."""
    state = show.get("LoadState", "")
    if state == "loaded":
        return
    if state == "not-found":
        raise ServiceError(f"{where} has no unit {unit}", "`systemctl list-units --all --type=service` lists them")
    why = printable(show.get("LoadError", ""))
    raise ServiceError(f"{unit} on {where} is {state or 'not loaded'}" + (f": {why}" if why and why != '"" ""' else ""))


def read_unit(host: Host, unit: str, scope: str) -> UnitView:
    """Raises ServiceError where the unit is missing, unreadable, or not read by us as systemd reads it."""
    marker = secrets.token_hex(16)
    bus = "/org/freedesktop/systemd1/unit/" + "".join(
        c if c.isascii() and c.isalnum() and not (i == 0 and c.isdigit()) else f"_{ord(c):02x}" for i, c in enumerate(unit)
    )
    argv = ("sh", "-c", _READ, "sh", marker, scope, unit, bus, PROPERTIES)
    blocks = _run_blocks(host, argv, marker, unit, scope)
    show = _parse_show(blocks[0][1]) if blocks and blocks[0][0] == ["show"] else {}
    check_loaded(show, unit, host.name)
    files: list[UnitFile] = []
    by_kind = {head[0]: data for head, data in blocks}
    dropin_dir, dropin_kind = "", "absent"
    for head, data in blocks:
        if head[0] in ("gone", "denied"):
            raise ServiceError(f"a file of {unit} cannot be read: {printable(' '.join(head[1:]))}")
        if head[0] == "file":
            files.append(UnitFile(" ".join(head[2:]), data, int(head[1], 8)))
        if head[0] == "dropins":
            dropin_kind, dropin_dir = head[1], " ".join(head[2:])
    if not files:
        raise ServiceError(f"{unit} has no unit file")
    assignments = tuple(a for f in files for a in parse_unit(f.text))
    values = values_of(assignments, "Service", "ExecStart")
    bus_values = _parse_bus(by_kind.get("bus", b""))
    try:
        commands = tuple(parse_exec(v) for v in values)
        specifiers = _specifiers(show.get("Id", unit), show.get("User", ""))
        texts = _pair(unit, [c for cs in commands for c in cs], bus_values, show.get("NeedDaemonReload") == "yes", specifiers)
        env_list = _environment(assignments, bus_values, show.get("NeedDaemonReload") == "yes", specifiers)
        patterns = [expand_specifiers(v, specifiers) for v in values_of(assignments, "Service", "EnvironmentFile")]
        unset = [w.text for v in values_of(assignments, "Service", "UnsetEnvironment") for w in split_words(v)]
    except UnitSyntaxError as error:
        raise ServiceError(f"{unit} has a line that triage does not read: {error}") from error
    env = _parse_manager(by_kind.get("manager", b""))
    env |= _login_env(by_kind.get("passwd", b"")) | env_list
    env_files = _read_env_files(host, unit, patterns, scope)
    from_files: dict[str, str] = {}
    for data in env_files.values():
        from_files |= parse_env_file(data.decode("utf-8", "surrogateescape"))
    env |= from_files
    for entry in unset:
        name, equals, value = entry.partition("=")
        if not equals or env.get(name) == value:
            env.pop(name, None)
    return UnitView(
        show.get("Id", unit),
        show,
        tuple(files),
        values,
        commands,
        texts,
        env,
        env_files,
        frozenset(from_files),
        dropin_dir,
        dropin_kind,
    )


def expand_words(view: UnitView, index: int, command: CommandLine) -> tuple[tuple[str, ...], ...]:
    """For each word of the command at `index` (counted over all values): the arguments that it becomes, possibly none."""
    if not command.expands_variables:
        return tuple((text,) for text in view.texts[index])
    return tuple((t,) if i == 0 else expand_variables(t, view.env) for i, t in enumerate(view.texts[index]))


def _pair(
    unit: str, commands: list[CommandLine], bus: Mapping[str, object], stale: bool, specifiers: Mapping[str, str]
) -> tuple[tuple[str, ...], ...]:
    """Each command's words with specifiers expanded: by systemd where it tells, and then it must agree with our reading."""
    loaded = bus.get("ExecStart")
    if not isinstance(loaded, list):
        return tuple(tuple(expand_specifiers(w.text, specifiers) for w in c.words) for c in commands)
    texts: list[tuple[str, ...]] = []
    agree = len(loaded) == len(commands)
    for command, entry in zip(commands, loaded, strict=False):
        theirs = [str(a) for a in entry[1]]
        mine = command.words
        if "@" in command.prefix:
            theirs = [str(entry[0]), *theirs]
        agree = agree and len(mine) == len(theirs)
        agree = agree and all(
            "%" in w.text or not w.text.isprintable() or w.text == t for w, t in list(zip(mine, theirs, strict=False))[1:]
        )
        texts.append(tuple(theirs))
    if not agree and stale:
        raise ServiceError(
            f"{unit} was changed on disk after systemd read it", "run `systemctl daemon-reload` and start it, then run again"
        )
    if not agree:
        raise ServiceError(f"systemd reads the ExecStart of {unit} in another way than triage does; it is not touched")
    return tuple(texts)


def _environment(
    assignments: tuple[object, ...], bus: Mapping[str, object], stale: bool, specifiers: Mapping[str, str]
) -> dict[str, str]:
    loaded = bus.get("Environment")
    if isinstance(loaded, list) and not stale:
        entries = [str(e) for e in loaded]
    else:
        values = values_of(assignments, "Service", "Environment")  # type: ignore[arg-type]
        entries = [expand_specifiers(w.text, specifiers) for v in values for w in split_words(v)]
    return dict(e.split("=", 1) for e in entries if "=" in e)


def _specifiers(unit: str, user: str) -> dict[str, str]:
    """Those that follow from the name alone, for hosts where systemd cannot be asked."""
    prefix, at, rest = unit.removesuffix(".service").partition("@")
    last = prefix.rpartition("-")[2]
    plain = {"n": unit, "N": unit.removesuffix(".service"), "p": prefix, "i": rest if at else "", "j": last}
    plain |= {"t": "/run", "S": "/var/lib", "C": "/var/cache", "L": "/var/log", "E": "/etc", "T": "/tmp", "V": "/var/tmp"}
    if "\\" not in unit and "-" not in rest:
        plain |= {"I": rest, "J": last} | ({"P": prefix} if "-" not in prefix else {})
    return plain | {"u": user or "root"}


def _read_env_files(host: Host, unit: str, values: list[str], scope: str) -> dict[str, bytes]:
    """Contents of the EnvironmentFile= files in order; a leading `-` makes one optional. Raises ServiceError."""
    if not values:
        return {}
    optional = {v[1:] for v in values if v.startswith("-")}
    patterns = [v.removeprefix("-") for v in values]
    marker = secrets.token_hex(16)
    found: dict[str, bytes] = {}
    for head, data in _run_blocks(host, ("sh", "-c", _ENV_FILES, "sh", marker, *patterns), marker, unit, scope):
        path = " ".join(head[2:] if head[0] == "file" else head[1:])
        if head[0] == "denied":
            raise ServiceError(f"the EnvironmentFile {printable(path)} of {unit} cannot be read")
        if head[0] == "gone" and path not in optional:
            raise ServiceError(f"{unit} names an EnvironmentFile that does not exist: {printable(path)}")
        if head[0] == "file":
            found.pop(path, None)
            found[path] = data
    return found


def _run_blocks(host: Host, argv: tuple[str, ...], marker: str, unit: str, scope: str) -> list[tuple[list[str], bytes]]:
    """(words of the head line, bytes) of each block; again as root where a file was refused and root is to be had."""
    result = host.run(Command(argv, timeout=60.0))
    if scope != "--user" and f"\n{marker} denied ".encode() in result.stdout:
        with contextlib.suppress(HostError):
            result = host.run(Command(argv, timeout=60.0, root=True))
    if result.status != 0:
        said = printable(result.stderr.decode("utf-8", "replace")) or f"status {result.status}"
        raise ServiceError(f"{unit} on {host.name} cannot be read: {said}")
    blocks: list[tuple[list[str], bytes]] = []
    for part in (b"\n" + result.stdout).split(f"\n{marker} ".encode())[1:]:
        head, _, data = part.partition(b"\n")
        blocks.append((head.decode("utf-8", "surrogateescape").split(" "), data))
    return blocks


def _parse_show(data: bytes) -> dict[str, str]:
    lines = data.decode("utf-8", "surrogateescape").split("\n")  # text may hold other characters that end lines
    return {k: v for k, equals, v in (line.partition("=") for line in reversed(lines)) if equals}


def _parse_bus(data: bytes) -> dict[str, object]:
    names = ("ExecStart", "Environment", "EnvironmentFiles", "UnsetEnvironment", "PassEnvironment")
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    if len(lines) <= len(names):
        return {}
    try:
        return {name: json.loads(line)["data"] for name, line in zip(names, lines, strict=False)}
    except (ValueError, KeyError, TypeError):
        return {}


def _parse_manager(data: bytes) -> dict[str, str]:
    """`systemctl show-environment`: NAME=value, odd values as $'...' with C escapes."""
    env: dict[str, str] = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        name, equals, value = line.partition("=")
        if value.startswith("$'") and value.endswith("'"):
            words = split_words('"' + value[2:-1].replace('"', '\\"') + '"')
            value = words[0].text if words else ""
        if equals:
            env[name] = value
    return env


def _login_env(data: bytes) -> dict[str, str]:
    fields = data.decode("utf-8", "surrogateescape").strip().split(":")
    if len(fields) < 7:
        return {}
    return {"HOME": fields[5], "LOGNAME": fields[0], "USER": fields[0], "SHELL": fields[6]}
