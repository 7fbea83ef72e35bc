"""A server started by a plain command whose output goes to a log file."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Mapping, Sequence

from triage.argv import edit_words
from triage.errors import FileMissing, ServiceError
from triage.model import Command, Edit, ExitStatus, Launch, LogChunk, Plan, RemoveFile, RunCommand, ServiceState, Step, WriteFile
from triage.protocols import Host
from triage.redact import collect_secrets, mask_args, mask_env, mask_text, printable
from triage.services.command_scripts import (
    LOOK,
    READ_LOG,
    START,
    STOP,
    WRAPPER,
    Process,
    Seen,
    is_same_command,
    parse_look,
    read_launch_text,
    write_launch,
)
from triage.services.systemd import Split, split_by_form

MAX_LOG = 64 * 1024 * 1024  # bytes read at once; the newest are kept
_OPERATORS = re.compile(r"[0-9]*(>>?|<|&>>?)&?[0-9-]*\S*|[|;&()]+|&&|\|\|")


class CommandService:
    """Implements protocols.Service. Its state stands on the host in one folder beside the log; no root is needed.

    Files there: run (pid, start time and log offset of the last start by triage), status (its exit status), base.sh (the
    command as given), launch.sh (the patched one; what undo removes).
    """

    def __init__(
        self,
        host: Host,
        argv: Sequence[str],
        log: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        secret: Sequence[str] = (),
        *,
        split: Split = split_by_form,
        state_dir: str | None = None,
    ) -> None:
        """`log` is a path on the host; the folder defaults to `.triage-<name of the log>` beside it.

        Raises ServiceError (no command, shell syntax in it, a log path that means nothing on another machine).
        """
        self._host = host
        self._argv = _plain_command(argv)
        self._env = dict(env or {})
        self._cwd = cwd
        self._secret = tuple(secret)
        self._split = split
        if not log.startswith("/"):
            if host.name != "local":
                raise ServiceError(f"the log's path on {host.name} must begin with /: {printable(log)}")
            log = os.path.abspath(log)
        self._log = log
        folder, _, name = log.rpartition("/")
        self._dir = state_dir or f"{folder}/.triage-{name}"

    @property
    def name(self) -> str:
        return self._log

    @property
    def kind(self) -> str:
        return "command"

    @property
    def host(self) -> Host:
        return self._host

    # ------------------------------------------------------------ reading
    def read_state(self) -> ServiceState:
        """Of the last start by triage; of a running process with exactly this command where triage started none."""
        seen = self._look()
        mine = self._running(seen)
        if seen.run and (seen.alive or not mine):
            identity = "-".join(str(n) for n in seen.run)
            if seen.alive:
                return ServiceState("active", "running", identity, seen.child or seen.run[0], ExitStatus())
            return _ended(identity, seen.status)
        if mine:
            return ServiceState("active", "running", f"{mine[0].pid}-{mine[0].start}", mine[0].pid, ExitStatus())
        return ServiceState("inactive", "dead", None, None, ExitStatus())

    def read_launch(self) -> Launch:
        """The command that the next start runs, secrets masked. Raises ServiceError."""
        launch = self.reveal_launch()
        masked = mask_args(launch.entry, self._secret), mask_args(launch.args, self._secret), mask_env(launch.env, self._secret)
        return Launch(*masked, self._cwd)

    def reveal_launch(self) -> Launch:
        """The same with secrets in clear, for a rehearsal only. Raises ServiceError."""
        argv, env = self._effective()
        entry, args = self._parts(argv)
        return Launch(entry, args, {k: v for k, v in env.items() if v is not None}, self._cwd)

    def read_secrets(self) -> frozenset[str]:
        """Secret values of the launch, for masking them in the log and in every output. Raises ServiceError."""
        argv, env = self._effective()
        return collect_secrets(argv, {k: v for k, v in env.items() if v is not None}, self._secret)

    def read_log(self, run: str | None = None, after: str | None = None) -> LogChunk:
        """What the run wrote; the whole file where triage did not start it. The cursor is a byte offset. Raises ServiceError."""
        numbers = [int(n) for n in run.split("-")] if run and re.fullmatch(r"\d+-\d+(-\d+)?", run) else []
        now = self._look().run
        begin = numbers[2] if len(numbers) == 3 else now[2] if now and not run else 0
        # a later start by triage ends the part of an earlier run
        end = str(now[2]) if now and run and run != "-".join(map(str, now)) and now[2] > begin else ""
        if after is not None:
            if not after.isdigit():
                raise ServiceError(f"not a place in a log: {printable(ascii(after))}")
            begin = int(after)
        argv = ("sh", "-c", READ_LOG, "sh", self._log, str(begin), end, str(MAX_LOG))
        result = self._host.run(Command(argv, timeout=120.0, max_output=MAX_LOG + 100))
        head, newline, data = result.stdout.partition(b"\n")
        if result.status != 0 or not newline:
            raise ServiceError(
                printable(result.stderr.decode("utf-8", "replace")) or f"the log {printable(self._log)} cannot be read"
            )
        _, started, stopped = (int(n) for n in head.split())
        # what grew while it was read stays for the next time
        return LogChunk(data, str(min(stopped, started + len(data))), cut=started > begin)

    def _effective(self) -> tuple[tuple[str, ...], dict[str, str | None]]:
        text = self._patched()
        if text is None:
            return self._argv, dict(self._env)
        try:
            return read_launch_text(text.decode("utf-8", "surrogateescape"))
        except ValueError as error:
            raise ServiceError(
                f"{printable(self._dir)}/launch.sh cannot be read: {error}", "remove the file if you do not need it"
            ) from error

    def _patched(self) -> bytes | None:
        try:
            return self._host.read_file(f"{self._dir}/launch.sh", 1024 * 1024)
        except FileMissing:
            return None

    def _parts(self, argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        parts = self._split(argv)
        if parts is None:
            raise ServiceError(
                f"the command does not start the server itself: {printable(' '.join(argv[:2]))}",
                "give the server's own command line",
            )
        return parts

    def _look(self) -> Seen:
        # a word with a newline would be several patterns for grep
        word = max((line for w in self._argv for line in w.splitlines()), key=len, default="")
        return parse_look(self._host.run(Command(("sh", "-c", LOOK, "sh", self._dir, word))).stdout)

    def _running(self, seen: Seen) -> list[Process]:
        return [p for p in seen.processes if is_same_command(self._argv, p.words)]

    # ------------------------------------------------------------ changing
    def plan_patch(self, edits: Sequence[Edit]) -> Plan:
        """Our file launch.sh in the state folder; undo removes it or restores the one before. Raises ServiceError."""
        old = self._patched()
        argv, env = self._effective()
        entry, args = self._parts(argv)
        try:
            new = entry + tuple(w.text for w in edit_words(args, edits))
        except ValueError as error:
            raise ServiceError(f"the command cannot be patched so: {error}") from error
        for edit in edits:
            if edit.action == "env":
                if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", edit.name):
                    raise ServiceError(f"not a variable name: {printable(ascii(edit.name))}")
                env[edit.name] = edit.new
        data = write_launch(new, env).encode("utf-8", "surrogateescape")
        path = f"{self._dir}/launch.sh"
        digest = hashlib.sha256(data).hexdigest()
        undo: Step = RemoveFile(path, digest)
        if old is not None:
            undo = WriteFile(path, old, 0o600, digest)
        step = WriteFile(path, data, 0o600, hashlib.sha256(old).hexdigest() if old is not None else None)
        return Plan(f"start {printable(self._log)} by {printable(path)}", (step,), (undo,), self._diff(argv, new, edits))

    def _diff(self, before: tuple[str, ...], after: tuple[str, ...], edits: Sequence[Edit]) -> str:
        secrets = collect_secrets(before + after, {e.name: e.new for e in edits if e.action == "env" and e.new}, self._secret)
        old, new = ([f"{w}\n" for w in mask_args(words, self._secret)] for words in (before, after))
        lines = list(difflib.unified_diff(old, new, "command", "command (patched)", n=2))
        for edit in edits:
            if edit.action == "env":
                shown = mask_env({edit.name: edit.new}, self._secret)[edit.name] if edit.new is not None else None
                lines.append(f"+{edit.name}={shown}\n" if shown is not None else f"-{edit.name}\n")
        return mask_text("".join(lines), secrets)

    def plan_restart(self) -> Plan:
        """Stop what runs (our last start, processes with exactly this command), start it: patched if launch.sh stands then."""
        base = write_launch(self._argv, self._env).encode("utf-8", "surrogateescape")
        argv = ("sh", "-c", START, "sh", self._dir, self._log, self._cwd or "", WRAPPER, *self._pairs())
        step = RunCommand(Command(argv, stdin=base, timeout=60.0))
        return Plan(f"restart {printable(self._log)}", (step,), ())

    def plan_stop(self) -> Plan:
        """End what runs, as plan_restart does: TERM, and KILL after 20 s."""
        step = RunCommand(Command(("sh", "-c", STOP, "sh", self._dir, *self._pairs()), timeout=60.0))
        return Plan(f"stop {printable(self._log)}", (step,), ())

    def _pairs(self) -> tuple[str, ...]:
        return tuple(f"{p.pid}:{p.start}" for p in self._running(self._look()))


def _plain_command(argv: Sequence[str]) -> tuple[str, ...]:
    """The words without `nohup`, a trailing `&` and the redirections of its end. Raises ServiceError for other shell syntax."""
    words = list(argv)
    while words and words[0] in ("nohup", "exec", "setsid"):
        words.pop(0)
    while words and (words[-1] == "&" or re.fullmatch(r"[0-9]*(>>?|<|&>>?)&?[^\s>]+", words[-1])):
        words.pop()
    if len(words) > 2 and re.fullmatch(r"[0-9]*(>>?|<|&>>?)", words[-2]):
        return _plain_command(words[:-2])
    if not words:
        raise ServiceError("there is no command")
    odd = next((w for w in words if _OPERATORS.fullmatch(w)), None)
    if odd is not None:
        raise ServiceError(f"the command holds shell syntax: {printable(odd)}", "give one plain command and its arguments")
    return tuple(words)


def _ended(run: str, status: int | None) -> ServiceState:
    if status is None:
        return ServiceState("failed", "dead", run, None, ExitStatus(), "lost")
    if status == 0:
        return ServiceState("inactive", "dead", run, None, ExitStatus(code=0), "success")
    if 128 < status < 193:
        return ServiceState("failed", "failed", run, None, ExitStatus(signal=status - 128), "signal")
    return ServiceState("failed", "failed", run, None, ExitStatus(code=status), "exit-code")
