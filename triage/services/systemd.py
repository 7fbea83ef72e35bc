"""A server started by a systemd unit, of the system or (with `user`) of the login's own manager."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from triage.argv import edit_words
from triage.errors import HostError, NeverRun, ServiceError
from triage.model import (
    Command,
    Edit,
    ExitStatus,
    Launch,
    LogChunk,
    Plan,
    RemoveFile,
    RunCommand,
    ServiceState,
    Step,
    WriteFile,
)
from triage.protocols import Host
from triage.redact import collect_secrets, mask_args, mask_env, mask_text, printable
from triage.services.dropin import (
    HEADER,
    carry_environment,
    choose_basename,
    rebuild_words,
    render_command,
    render_dropin,
    verify_command,
)
from triage.services.journal import drop_partial_head, join_messages, parse_export, select_run
from triage.services.systemd_unit import UnitFile, UnitView, check_unit_name, expand_words, read_show, read_unit
from triage.services.unitfile import CommandLine, UnitSyntaxError, names_variables

Split = Callable[[Sequence[str]], tuple[tuple[str, ...], tuple[str, ...]] | None]

MAX_LOG = 64 * 1024 * 1024  # bytes of journal export read at once; the newest are kept
_WRAPPERS = {"sh", "bash", "dash", "zsh", "fish", "ksh", "csh", "tcsh", "docker", "podman", "srun", "screen", "tmux"}

# journalctl does not always tell that it left out the system's own journal
_LOCALE = "export LC_ALL=C SYSTEMD_COLORS=0\n"
_ACCESS = """
command -v journalctl >/dev/null || { echo 'there is no journalctl' >&2; exit 127; }
seen= open=
for f in /var/log/journal/*/system.journal /run/log/journal/*/system.journal; do
  [ -e "$f" ] && seen=1
  [ -r "$f" ] && open=1
done
[ -z "$seen" ] || [ -n "$open" ] || { echo 'insufficient permissions for the system journal' >&2; exit 77; }
"""

# $1 bytes to keep, $2 cursor to read on after (empty: from the run's first record), $3 fields, $4 and $5 matches that the run's
# records have for sure, then further matches. The status of journalctl goes to stderr, past the pipe.
_LOG = """
keep=$1 after=$2 fields=$3; shift 3
from=--after-cursor=$after
if [ -z "$after" ]; then
  first=$(journalctl --no-pager -o export --output-fields=_PID "$1" + "$2" | head -n 1)
  from=--cursor=${first#__CURSOR=}
  case $first in __CURSOR=*) ;; *) set -- "$1" "$2"; from=--quiet ;; esac
fi
a=$1 b=$2; shift 2
for more; do shift; set -- "$@" + "$more"; done
{ journalctl --no-pager -o export "--output-fields=$fields" "$from" "$a" + "$b" "$@"; echo "journalctl-status $?" >&2; } |
  tail -c "$keep"
"""

# $1 match, $2 field: the newest record of it
_NEWEST = """
journalctl --no-pager -o export "--output-fields=$2" -r -n 1 "$1"; echo "journalctl-status $?" >&2
"""


@dataclass(frozen=True)
class _Server:
    """The one command of the unit that starts the server."""

    value: int  # which ExecStart value
    place: int  # which command of it
    command: CommandLine
    words: tuple[tuple[str, ...], ...]  # what each word becomes; the argv[0] of an @ prefix becomes nothing
    entry: tuple[str, ...]
    args: tuple[str, ...]


def split_by_form(argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Entry and arguments by the look of the words alone, where no engine says: `python -m module`, else the program."""
    name = argv[0].rpartition("/")[2] if argv else ""
    if not argv or name in _WRAPPERS or argv[0].endswith(".sh"):
        return None
    if name.startswith("python"):
        for i, word in enumerate(argv[1:], 1):
            if word == "-m" and i + 1 < len(argv):
                return tuple(argv[: i + 2]), tuple(argv[i + 2 :])
            if not word.startswith("-"):
                return tuple(argv[: i + 1]), tuple(argv[i + 1 :])
    return tuple(argv[:1]), tuple(argv[1:])


class SystemdService:
    """Implements protocols.Service. Reads as the login user; asks for root only where a file or the journal is refused."""

    def __init__(
        self, host: Host, unit: str, split: Split = split_by_form, secret: Sequence[str] = (), user: bool = False
    ) -> None:
        """`split` is an Engine's split_command; `secret` holds fnmatch patterns of flags and variables. Raises ServiceError."""
        self._host = host
        self._unit = check_unit_name(unit)
        self._split = split
        self._secret = tuple(secret)
        self._scope = "--user" if user else "--system"
        self._access = _LOCALE if user else _LOCALE + _ACCESS

    @property
    def name(self) -> str:
        return self._unit

    @property
    def kind(self) -> str:
        return "systemd"

    @property
    def host(self) -> Host:
        return self._host

    # ------------------------------------------------------------ reading
    def read_state(self) -> ServiceState:
        """What systemd says now. Raises ServiceError (no such unit, masked, no systemd)."""
        show = read_show(self._host, self._unit, self._scope)
        code, status = _number(show, "ExecMainCode"), _number(show, "ExecMainStatus")
        ended = ExitStatus(code=status) if code == 1 else ExitStatus(signal=status) if code in (2, 3) else ExitStatus()
        return ServiceState(
            active=show.get("ActiveState", ""),
            sub=show.get("SubState", ""),
            run=show.get("InvocationID") or None,
            main_pid=_number(show, "MainPID") or None,
            exit=ended,
            result=show.get("Result", ""),
            restarts=_number(show, "NRestarts"),
        )

    def read_launch(self) -> Launch:
        """The command and environment that the next start gets, secrets masked. Raises ServiceError."""
        launch = self._read_plain()
        # a variable may hold a whole flag with its secret (ARGS="--api-key ...")
        secrets = collect_secrets(launch.argv, launch.env, self._secret)
        return replace(
            launch,
            entry=mask_args(launch.entry, self._secret),
            args=mask_args(launch.args, self._secret),
            env={k: mask_text(v, secrets) for k, v in mask_env(launch.env, self._secret).items()},
        )

    def reveal_launch(self) -> Launch:
        """The same with secrets in clear and the user named, for a rehearsal only. Raises ServiceError."""
        launch = self._read_plain()
        return launch if launch.user or self._scope == "--user" else replace(launch, user="root")

    def _read_plain(self) -> Launch:
        view = read_unit(self._host, self._unit, self._scope)
        server = self._find_server(view)
        cwd = view.show.get("WorkingDirectory", "").removeprefix("!") or None
        cwd = cwd if cwd and cwd.startswith("/") else view.env.get("HOME") if cwd == "~" else None
        return Launch(server.entry, server.args, view.env, cwd, view.show.get("User") or None)

    def read_secrets(self) -> frozenset[str]:
        """Secret values of the launch, for masking them in the log and in every output. Raises ServiceError."""
        view = read_unit(self._host, self._unit, self._scope)
        words = [t for i, c in enumerate(_flat(view)) for ts in expand_words(view, i, c) for t in ts]
        return collect_secrets(words, view.env, self._secret)

    def read_log(self, run: str | None = None, after: str | None = None) -> LogChunk:
        """What the run printed, with systemd's own lines about it. Raises ServiceError (journal refused, none, or never run)."""
        run = run or self._last_run()
        if not re.fullmatch(r"[0-9a-f]{32}", run):
            raise ServiceError(f"not an invocation id: {printable(ascii(run))}")
        user = "USER_" if self._scope == "--user" else ""
        of_unit = (f"_SYSTEMD_{user}UNIT={self._unit}", f"{user}UNIT={self._unit}")
        matches = (f"_SYSTEMD_INVOCATION_ID={run}", f"{user}INVOCATION_ID={run}", *of_unit)
        fields = f"MESSAGE,_STREAM_ID,_LINE_BREAK,_SYSTEMD_INVOCATION_ID,{user}INVOCATION_ID,_SYSTEMD_{user}UNIT"
        raw = self._read_journal(("sh", "-c", self._access + _LOG, "sh", str(MAX_LOG), after or "", fields, *matches))
        cut = len(raw) >= MAX_LOG
        records = list(select_run(parse_export(drop_partial_head(raw) if cut else raw), run, f"{user}INVOCATION_ID"))
        if not after and not any("_STREAM_ID" in r.fields for r in records):
            self._check_output()
        data, cursor = join_messages(records)
        return LogChunk(data, cursor or after, cut)

    def _check_output(self) -> None:
        """Raises ServiceError where what the server prints does not go to the journal at all."""
        show = read_show(self._host, self._unit, self._scope)
        out, error = show.get("StandardOutput", ""), show.get("StandardError", "")
        for target in (out if error == "inherit" else error, out):
            if target in ("null", "file", "append", "truncate", "socket", "tty"):
                raise ServiceError(
                    f"the output of {self._unit} does not go to the journal (StandardOutput={out}, StandardError={error})",
                    "let it go to the journal, or give the file's text to `triage replay`",
                )

    def _last_run(self) -> str:
        show = read_show(self._host, self._unit, self._scope)
        if show.get("InvocationID"):
            return show["InvocationID"]
        user = "USER_" if self._scope == "--user" else ""
        argv = ("sh", "-c", self._access + _NEWEST, "sh", f"{user}UNIT={self._unit}", f"{user}INVOCATION_ID")
        # since the last boot it did not run; the journal may know earlier runs
        for record in parse_export(self._read_journal(argv)):
            if found := record.fields.get(f"{user}INVOCATION_ID"):
                return found.decode("ascii", "replace")
        raise NeverRun(f"{self._unit} has not run yet: the journal of {self._host.name} knows no run of it")

    def _read_journal(self, argv: tuple[str, ...]) -> bytes:
        command = Command(argv, timeout=120.0, max_output=MAX_LOG)
        result = self._host.run(command)
        if b"nsufficient permissions" in result.stderr or b"not seeing messages from other users" in result.stderr:
            try:
                result = self._host.run(Command(command.argv, timeout=120.0, max_output=MAX_LOG, root=True))
            except HostError as error:
                raise ServiceError(
                    f"the journal of {self._host.name} is not open to this login: {error}",
                    "add the login to the group systemd-journal, log in as root, or allow sudo without a password",
                ) from error
        said = printable(result.stderr.decode("utf-8", "replace").replace("journalctl-status 0", ""))
        if b"journalctl-status 0" not in result.stderr or "No journal files were found" in said:
            raise ServiceError(f"the journal of {self._host.name} cannot be read: {said}")
        return result.stdout

    def _find_server(self, view: UnitView) -> _Server:
        found: list[_Server] = []
        index = 0
        first: tuple[str, ...] = ()
        for v, commands in enumerate(view.commands):
            for p, command in enumerate(commands):
                words = list(expand_words(view, index, command))
                if "@" in command.prefix and len(words) > 1:
                    words[1] = ()
                argv = tuple(t for texts in words for t in texts)
                first = first or argv
                parts = self._split(argv)
                if parts is not None:
                    found.append(_Server(v, p, command, tuple(words), *parts))
                index += 1
        if len(found) == 1:
            return found[0]
        if found:
            raise ServiceError(f"{self._unit} starts the server by {len(found)} commands; triage patches one only")
        program = printable(" ".join(first[:2])) if first else "nothing"
        raise ServiceError(
            f"{self._unit} does not start the server itself, it starts: {program}",
            "triage does not look into a script or `sh -c`: put the server's own command into ExecStart",
        )

    # ------------------------------------------------------------ changing
    def plan_patch(self, edits: Sequence[Edit]) -> Plan:
        """A drop-in that is read last; undo restores what stood there. Raises ServiceError (flag or form not patchable)."""
        view = read_unit(self._host, self._unit, self._scope)
        if view.files[0].path.startswith("/run/systemd/transient/"):
            raise ServiceError(f"{self._unit} was made by systemd-run and ends with this run; it cannot be patched")
        if view.dropin_dir_kind == "link":
            raise ServiceError(f"a link stands in place of the drop-in folder: {printable(view.dropin_dir)}")
        server = self._find_server(view)
        ours = next(
            (f for f in view.files[1:] if f.text.startswith(HEADER) and f.path == f"{view.dropin_dir}/{f.basename}"), None
        )
        others = [f.basename for f in view.files[1:] if f is not ours]
        path = f"{view.dropin_dir}/{choose_basename(others)}"
        try:
            edited = edit_words(server.args, edits)
            values = self._edit_values(view, server, edits) if any(e.action != "env" for e in edits) or _sets_exec(ours) else ()
            environment, unset = carry_environment(ours.text if ours else "", edits)
            text = render_dropin(values, environment, unset)
        except (UnitSyntaxError, ValueError) as error:
            raise ServiceError(f"{self._unit} cannot be patched so: {error}") from error
        self._check_env_edits(view, edits)
        data = text.encode("utf-8", "surrogateescape")
        diff = self._diff(server.entry + server.args, server.entry + tuple(w.text for w in edited), edits)
        return self._plan_file(view, ours, path, data, diff)

    def _edit_values(self, view: UnitView, server: _Server, edits: Sequence[Edit]) -> tuple[str, ...]:
        command = server.command
        new = rebuild_words(
            command.words, server.words, len(server.entry), edit_words(server.args, edits), command.expands_variables
        )
        hidden = 1 if "@" in command.prefix else 0
        if hidden and len(new) > 1 and new[1].raw != command.words[1].raw:
            raise ServiceError("the program name behind @ cannot be kept")
        self._check_moved_secrets(view, server, new)
        value = render_command(command.prefix, new)
        verify_command(value, command, new)
        out = list(view.values)
        siblings = [c.render() for c in view.commands[server.value]]
        siblings[server.place] = value
        out[server.value] = " ; ".join(siblings)
        return tuple(out)

    def _check_moved_secrets(self, view: UnitView, server: _Server, new: Sequence[object]) -> None:
        """A variable's secret must not be spelled out in a file that more people can read."""
        texts = [t for t in (getattr(w, "text", None) for w in new) if t]
        moved = [
            t
            for w, ts in zip(server.command.words, server.words, strict=True)
            if names_variables(w.text)
            for t in ts
            if t in texts
        ]
        secrets = collect_secrets(server.args, view.env, self._secret)
        if any(secret in text for text in moved for secret in secrets):
            raise ServiceError(
                f"the flag stands in a variable of {self._unit} with a secret, which is not copied into a drop-in",
                "change it in the EnvironmentFile by hand",
            )

    def _check_env_edits(self, view: UnitView, edits: Sequence[Edit]) -> None:
        for edit in edits:
            if edit.action != "env":
                continue
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", edit.name):
                raise ServiceError(f"not a variable name: {printable(ascii(edit.name))}")
            if edit.new is not None and edit.name in view.env_file_names:
                files = ", ".join(printable(p) for p in view.env_files)
                raise ServiceError(
                    f"{edit.name} is set in an EnvironmentFile, which wins over any drop-in", f"change it there: {files}"
                )

    def _plan_file(self, view: UnitView, ours: UnitFile | None, path: str, data: bytes, diff: str) -> Plan:
        root = self._scope != "--user"
        mode = 0o644
        for file in view.files:
            if "ExecStart" in file.text:
                mode &= file.mode | 0o600
        check = [f for f in view.files if f is not ours]
        listing = "".join(f"{_sha(f.data)}  {f.path}\n" for f in check)
        listing += "".join(f"{_sha(content)}  {file}\n" for file, content in view.env_files.items())
        same = RunCommand(
            Command(("sha256sum", "--check", "--quiet", "-"), stdin=listing.encode("utf-8", "surrogateescape"), root=root)
        )
        reload = RunCommand(Command(("systemctl", self._scope, "daemon-reload"), timeout=90.0, root=root))
        in_place = ours is not None and ours.path == path
        steps: list[Step] = [same, WriteFile(path, data, mode, _sha(ours.data) if ours and in_place else None, root)]
        undo: list[Step] = []
        if ours and in_place:
            undo.append(WriteFile(path, ours.data, ours.mode, _sha(data), root))
        else:
            folder = view.dropin_dir if view.dropin_dir_kind == "absent" else None
            undo.append(RemoveFile(path, _sha(data), folder, root))
        if ours and not in_place:
            steps.append(RemoveFile(ours.path, _sha(ours.data), None, root))
            undo.append(WriteFile(ours.path, ours.data, ours.mode, None, root))
        return Plan(f"drop-in for {self._unit}: {path}", (*steps, reload), (*undo, reload), diff)

    def _diff(self, before: tuple[str, ...], after: tuple[str, ...], edits: Sequence[Edit]) -> str:
        secrets = collect_secrets(before + after, {e.name: e.new for e in edits if e.action == "env" and e.new}, self._secret)
        old = [f"{w}\n" for w in mask_args(before, self._secret)]
        new = [f"{w}\n" for w in mask_args(after, self._secret)]
        lines = list(difflib.unified_diff(old, new, f"{self._unit} ExecStart", f"{self._unit} ExecStart (patched)", n=2))
        for edit in edits:
            if edit.action == "env":
                value = mask_env({edit.name: edit.new}, self._secret)[edit.name] if edit.new is not None else None
                lines.append(f"+Environment={edit.name}={value}\n" if value is not None else f"-Environment={edit.name}\n")
        return mask_text("".join(lines), secrets)

    def plan_restart(self) -> Plan:
        """Start it anew without waiting; a start limit that was hit is cleared first. Its undo is empty: see plan_stop."""
        root = self._scope != "--user"
        # a unit that never failed has nothing to reset, which systemctl reports as an error
        reset = 'systemctl "$1" reset-failed -- "$2" 2>/dev/null; exec systemctl "$1" restart --no-block -- "$2"'
        step = RunCommand(Command(("sh", "-c", reset, "sh", self._scope, self._unit), timeout=60.0, root=root))
        return Plan(f"restart {self._unit}", (step,), ())

    def plan_stop(self) -> Plan:
        """Stop it and wait for its end (systemd kills it after its own time-out)."""
        root = self._scope != "--user"
        step = RunCommand(Command(("systemctl", self._scope, "stop", "--", self._unit), timeout=150.0, root=root))
        return Plan(f"stop {self._unit}", (step,), ())


def _flat(view: UnitView) -> list[CommandLine]:
    return [c for commands in view.commands for c in commands]


def _sets_exec(file: UnitFile | None) -> bool:
    return file is not None and "\nExecStart=" in file.text


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _number(show: dict[str, str], key: str) -> int:
    value = show.get(key, "")
    return int(value) if value.isdigit() else 0
