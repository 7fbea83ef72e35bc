"""The shell half of a plain command as a service: start it so that it outlives the login, look at it, stop it. Pure text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEADER = "# Written by triage: what the command is started with in place of its own line. `triage undo` removes it.\n"

# Functions of the other scripts. A process is the one that was meant only while its start time is the same.
_COMMON = """
alive() {
  s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  s=${s##*) }
  set -- "$1" "$2" $s
  [ "$3" != Z ] && [ "$3" != X ] && [ "${22}" = "$2" ]
}
"""

# $1 state folder, $2 log, $3 working directory. The wrapper stays: it is the one that learns the exit status.
WRAPPER = """
d=$1 log=$2 cwd=$3
trap : TERM
s=$(cat /proc/$$/stat); s=${s##*) }
start=$(set -- $s; printf %s "${20}")
offset=0; [ -f "$log" ] && offset=$(wc -c <"$log")
printf '%s %s %s\\n' "$$" "$start" "$offset" >"$d/run.new" && mv -f -- "$d/run.new" "$d/run"
exec >>"$log" 2>&1 </dev/null
if [ -z "$cwd" ] || cd -- "$cwd"; then
  if [ -f "$d/launch.sh" ]; then . "$d/launch.sh"; else . "$d/base.sh"; fi
  (exec "$@")
  code=$?
else
  code=200
fi
printf '%s\\n' "$code" >"$d/status.new" && mv -f -- "$d/status.new" "$d/status"
"""

# $1 state folder, then pid:start pairs beside the one of the run file
_STOP = (
    _COMMON
    + """
d=$1; shift
if [ -f "$d/run" ]; then read -r pid start rest <"$d/run"; set -- "$@" "$pid:$start"; fi
reach() {
  g=$(ps -o pgid= -p "$2" 2>/dev/null | tr -d ' ')
  if [ "$g" = "$2" ]; then kill -s "$1" -- "-$2" 2>/dev/null; else kill -s "$1" "$2" 2>/dev/null; fi
}
for one; do alive "${one%:*}" "${one#*:}" && reach TERM "${one%:*}"; done
i=0
while [ "$i" -lt 100 ]; do
  left=0
  for one; do alive "${one%:*}" "${one#*:}" && left=1; done
  [ "$left" = 0 ] && break
  sleep 0.2; i=$((i + 1))
done
for one; do alive "${one%:*}" "${one#*:}" && reach KILL "${one%:*}"; done
# children that outlived their leader
for one; do p=${one%:*}; [ -e "/proc/$p" ] || kill -s KILL -- "-$p" 2>/dev/null; done
"""
)

STOP = _STOP + "exit 0\n"

# $1 state folder, $2 log, $3 working directory, $4 wrapper, then pid:start pairs. stdin: the launch text of the command itself.
START = (
    """
umask 077
d=$1 log=$2 cwd=$3 wrapper=$4; shift 4
mkdir -p -- "$d" || exit 1
cat >"$d/base.sh" || exit 1
umask 022
: >>"$log" || { echo "the log $log cannot be written" >&2; exit 1; }
[ -z "$cwd" ] || [ -d "$cwd" ] || { echo "there is no folder $cwd" >&2; exit 1; }
set -- "$d" "$@"
"""
    + _STOP
    + """
old=$(cat "$d/run" 2>/dev/null)
rm -f -- "$d/status"
if command -v setsid >/dev/null; then
  setsid sh -c "$wrapper" sh "$d" "$log" "$cwd" </dev/null >/dev/null 2>&1 &
else
  nohup sh -c "$wrapper" sh "$d" "$log" "$cwd" </dev/null >/dev/null 2>&1 &
fi
i=0
while [ "$i" -lt 100 ]; do
  now=$(cat "$d/run" 2>/dev/null)
  [ -n "$now" ] && [ "$now" != "$old" ] && exit 0
  sleep 0.05; i=$((i + 1))
done
echo 'the command was not started within 5 s' >&2
exit 1
"""
)

# $1 state folder, $2 a long word of the command. Prints: "run pid start offset alive child", "status code", and for each own
# process whose command line holds the word "process pid start <hex of its command line>".
LOOK = (
    _COMMON
    + """
d=$1 word=$2
if [ -f "$d/run" ]; then
  read -r pid start offset <"$d/run"
  state=dead child=0
  if alive "$pid" "$start"; then state=alive; read -r child rest <"/proc/$pid/task/$pid/children" 2>/dev/null; fi
  printf 'run %s %s %s %s %s\\n' "$pid" "$start" "$offset" "$state" "${child:-0}"
fi
[ -f "$d/status" ] && { read -r code <"$d/status"; printf 'status %s\\n' "$code"; }
for f in $(grep -l -a -F -e "$word" /proc/[0-9]*/cmdline 2>/dev/null); do
  p=${f%/cmdline}
  [ -O "$p" ] || continue
  s=$(cat "$p/stat" 2>/dev/null) || continue
  s=${s##*) }
  start=$(set -- $s; printf %s "${20}")
  printf 'process %s %s %s\\n' "${p#/proc/}" "$start" "$(od -An -v -tx1 <"$f" 2>/dev/null | tr -d ' \\n')"
done
exit 0
"""
)

# $1 log, $2 from, $3 to (empty: the end), $4 most bytes. Prints "size begin end", a newline, then the bytes.
READ_LOG = """
f=$1 from=$2 to=$3 most=$4
[ -e "$f" ] || { echo "there is no log file $f" >&2; exit 41; }
[ -f "$f" ] || { echo "the log $f is not a regular file" >&2; exit 42; }
[ -r "$f" ] || { echo "the log $f is not open to this login" >&2; exit 44; }
size=$(wc -c <"$f")
end=$size
[ -n "$to" ] && [ "$to" -lt "$end" ] && end=$to
[ "$from" -gt "$end" ] && from=0
[ $((end - from)) -gt "$most" ] && from=$((end - most))
printf '%s %s %s\\n' "$size" "$from" "$end"
tail -c +$((from + 1)) -- "$f" | head -c $((end - from))
"""


@dataclass(frozen=True)
class Process:
    pid: int
    start: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """What LOOK printed. `run` is (pid, start time, log offset) of the last start by triage."""

    run: tuple[int, int, int] | None
    alive: bool
    child: int | None
    status: int | None
    processes: tuple[Process, ...]


def parse_look(data: bytes) -> Seen:
    """Lines that do not parse are passed over: another user's process may end while it is read."""
    run: tuple[int, int, int] | None = None
    alive, child, status = False, None, None
    processes: list[Process] = []
    for line in data.decode("ascii", "replace").splitlines():
        words = line.split(" ")
        try:
            if words[0] == "run" and len(words) == 6:
                run, alive = (int(words[1]), int(words[2]), int(words[3])), words[4] == "alive"
                child = int(words[5]) or None
            elif words[0] == "status":
                status = int(words[1])
            elif words[0] == "process" and len(words) == 4:
                parts = bytes.fromhex(words[3]).decode("utf-8", "surrogateescape").split("\0")
                processes.append(Process(int(words[1]), int(words[2]), tuple(parts[:-1] if parts[-1] == "" else parts)))
        except (ValueError, IndexError):
            continue
    return Seen(run, alive, child, status, tuple(processes))


def is_same_command(argv: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a process is this command: the same words, the program by its base name, or behind a script's interpreter."""

    def base(word: str) -> str:
        return word.rpartition("/")[2]

    for skip in (0, 1):
        rest = words[skip:]
        if len(rest) == len(argv) and base(rest[0]) == base(argv[0]) and tuple(rest[1:]) == tuple(argv[1:]):
            return len(argv) > 1 or skip == 0
    return False


def write_launch(argv: Sequence[str], env: Mapping[str, str | None]) -> str:
    """Shell text that the wrapper sources: exports, then the words of the command. None unsets a variable."""
    lines = [HEADER]
    for name, value in env.items():
        lines.append(f"unset {shlex.quote(name)}\n" if value is None else f"export {shlex.quote(f'{name}={value}')}\n")
    lines.append(f"set -- {shlex.join(argv)}\n")
    return "".join(lines)


def read_launch_text(text: str) -> tuple[tuple[str, ...], dict[str, str | None]]:
    """The inverse of write_launch. Raises ValueError where the file is not one of ours."""
    if not text.startswith(HEADER):
        raise ValueError("not written by triage")
    words = shlex.split(text[len(HEADER) :])
    env: dict[str, str | None] = {}
    at = 0
    while at + 1 < len(words) and words[at] in ("export", "unset"):
        name, _, value = words[at + 1].partition("=")
        env[name] = value if words[at] == "export" else None
        at += 2
    if words[at : at + 2] != ["set", "--"] or len(words) < at + 3:
        raise ValueError("it has no command")
    return tuple(words[at + 2 :]), env
