"""Asks an engine's own validation on a host, without starting it: the program that does so, as one command.

The modules of this folder but this one are sent to the host and run there, by the interpreter, user, folder and environment
of the launch. An order is a dict: `token` (begins each answer line; only the supervisor knows it), `launches` (`args` and `env`,
what differs from the environment: a value, or None for a variable that goes), `limits` (`seconds`, `per_launch`, `memory` in
MiB, `output` in bytes), `running` (the service's server is up), `clean` (nothing of the login's environment is passed). The
answers are those of supervise.py. Secrets of the launch go by stdin only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.model import Command, JsonValue, Launch
from triage.protocols import EngineProfile

MAX_OUTPUT = 64 * 1024 * 1024
SAID = "triage-rehearsal: "  # begins the line of stderr where the launch's user, folder or interpreter cannot be had

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULES = ("guard", "tree", "pipes", "typed", "errors", "judge", "supervise")  # each imports only earlier ones

# $1 user or empty, $2 folder or empty, $3 "-i" or empty, $4 the next script, then the interpreter and its options.
_STEP_DOWN = """
user=$1 cwd=$2 clean=$3 script=$4; shift 4
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
fail() { echo "triage-rehearsal: $1" >&2; exit 91; }
set -- sh -c "$script" sh "$cwd" "$@"
if [ -n "$user" ]; then
  id=$(id -u -- "$user" 2>/dev/null) || fail "there is no user $user"
  line=$(getent passwd "$user" || getent passwd "$id")
  home=$(printf %s "$line" | cut -d: -f6) name=$(printf %s "$line" | cut -d: -f1) shell=$(printf %s "$line" | cut -d: -f7)
  set -- env ${clean:+-i} HOME="$home" USER="$name" LOGNAME="$name" SHELL="$shell" PATH="$path" "$@"
  if [ "$(id -u)" != "$id" ]; then
    [ "$(id -u)" = 0 ] || { echo "triage-rehearsal: the launch runs as $user" >&2; exit 92; }
    command -v runuser >/dev/null || fail "there is no runuser to become $user"
    set -- runuser -u "$name" -- "$@"
  fi
elif [ -n "$clean" ]; then
  set -- env -i PATH="$path" "$@"
fi
exec "$@"
"""

# Its first line of stdin sets the launch's variables: their values are on no command line. $1 folder, then the interpreter.
_ENTER = """
_triage_env=$(command -v env)
IFS= read -r _triage_line; eval "$_triage_line"; unset _triage_line
if [ -n "$1" ]; then
  cd -- "$1" 2>/dev/null || { echo "triage-rehearsal: its working directory cannot be entered: $1" >&2; exit 91; }
fi
shift
[ -x "$1" ] || { echo "triage-rehearsal: its interpreter cannot be run: $1" >&2; exit 91; }
exec "$_triage_env" -u OLDPWD -u SHLVL -u _ "$@"
"""

# `P` is the payload: sources, and the order. The modules get the names that they have here.
_BOOT = """
def _boot(payload):
    import sys, types
    def add(name, **given):
        module = sys.modules[name] = types.ModuleType(name)
        module.__dict__.update(given)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
        return module
    for name in ("triage", "triage.engines", "triage.engines.rehearsal"):
        add(name, __path__=[])
    for name, source in payload["sources"]:
        file = "<triage rehearsal " + name + ">"
        module = add("triage.engines.rehearsal." + name, __file__=file)
        exec(compile(source, file, "exec"), module.__dict__)
    if payload["script_dir"]:
        sys.path[0:1] = [payload["script_dir"]]
    module.main(payload)
_boot(P)
"""


@dataclass(frozen=True)
class Interpreter:
    """How the launch starts its Python: the program, all options, and what stands first in sys.path in place of the folder."""

    python: str
    options: tuple[str, ...] = ()
    script_dir: str | None = None


def build_rehearsal(
    order: Mapping[str, JsonValue], profile: EngineProfile, found: Interpreter, launch: Launch, start: int, timeout: float
) -> Command:
    """The command that judges the launches of the order. `launch` is unmasked; its folder, user and environment are taken on.

    `start` is where the profile's entry begins in the command. The status is 91 or 92 (the login is not root, and not the
    launch's user) with a line SAID + reason on stderr where the rehearsal could not begin.
    """
    words = (found.python, "-B", *found.options, "-")
    module, rest = split_program(launch.entry, start)
    full: dict[str, JsonValue] = {**order, "names": _names(profile, launch.entry[-1]), "module": module, "words": list(rest)}
    full["forked"] = list(profile.environment_prefixes)
    sources: list[JsonValue] = [[name, Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")] for name in _MODULES]
    payload: dict[str, JsonValue] = {"sources": sources, "data": full, "boot": _BOOT, "python": list(words)}
    payload["script_dir"] = found.script_dir
    program = f"P = __import__('json').loads({json.dumps(payload)!r})\n{_BOOT}"
    names = [name for name, value in launch.env.items() if _NAME.fullmatch(name) and "\0" not in value]
    variables = "".join(f" export {name}={_quote(launch.env[name])};" for name in names)
    first = f"_triage_n=$(printf '\\nx'); _triage_n=${{_triage_n%x}};{variables} unset _triage_n\n"
    argv = ("sh", "-c", _STEP_DOWN, "sh", launch.user or "", launch.cwd or "", "-i" if order.get("clean") else "", _ENTER)
    stdin = first.encode("utf-8", "surrogateescape") + program.encode("ascii")
    return Command((*argv, *words), stdin=stdin, timeout=timeout, max_output=MAX_OUTPUT)


def split_program(entry: Sequence[str], start: int) -> tuple[str | None, tuple[str, ...]]:
    """(module behind `-m` or None, what stands in sys.argv before the server's own arguments; without the module's file)."""
    if entry[start] == "-m":
        return entry[start + 1], tuple(entry[start + 2 :])
    return None, tuple(entry[start:])


def _quote(value: str) -> str:
    """One word for the shell, on one line."""
    return "'" + value.replace("'", "'\"'\"'").replace("\n", "'\"$_triage_n\"'") + "'"


def _names(profile: EngineProfile, last_word: str) -> JsonValue:
    names = profile.rehearsal
    return {
        "stages": [[s.call, s.unless_field] for s in profile.stages],
        "view": profile.view,
        "args_class": profile.args_class,
        "secret": list(profile.secret),
        "imports": list(names.imports),
        "first": list(names.first),
        "environment": dict(names.environment),
        "caches": list(names.caches),
        "network_errors": list(names.network_errors),
        "warm": list(names.warm),
        "busy": names.busy,
        "words": list(names.words.get(last_word, ())),
    }
