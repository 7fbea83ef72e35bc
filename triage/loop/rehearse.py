"""Launches judged by the engine's own validation, as installed on the host, without a start."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from triage.argv import edit_args
from triage.errors import CommandTimeout, HostError, TriageError
from triage.model import Command, CommandResult, Edit, ExitStatus, JsonValue, Launch, Rehearsal, Rehearsed, RehearsedOutcome
from triage.protocols import Engine, Host, Service
from triage.redact import collect_secrets, mask_text, printable

_ALLOWED = 30.0  # seconds beside the rehearsal's own: the way to the host, and to end what does not want to
_SAID = "triage-rehearsal: "
_OTHER_USER = 92
_PARSER_LINE = re.compile(r"^\S.*?: error: (.*)$", re.MULTILINE)
_OUTCOMES = frozenset(get_args(RehearsedOutcome))


@dataclass(frozen=True)
class RehearsalLimits:
    """Bounds of one batch on the host; what passes one is ended there, and told."""

    seconds: float = 120.0  # all of it, the import too
    per_launch: float = 20.0  # seconds
    memory_mib: int = 16_384  # resident, the sum over all processes of the rehearsal
    launches: int = 40
    output: int = 1_000_000  # bytes kept of what one launch prints


def rehearse_launches(
    host: Host,
    service: Service,
    engine: Engine,
    launches: Sequence[Sequence[Edit]],
    limits: RehearsalLimits = RehearsalLimits(),
) -> Rehearsal:
    """How the host's own validation judges the service's launch with each list of edits made; () is the launch as typed.

    Never raises: where the host cannot rehearse (no such user, no interpreter, the package cannot be imported, a lost
    connection, ...), `problem` and `hint` say why. Nothing on the host changes, and nothing is left there. Everything
    that comes back is masked.
    """
    begun = time.monotonic()
    if not launches:
        return Rehearsal()
    if len(launches) > limits.launches:
        return Rehearsal(problem=f"{len(launches)} launches at once are more than the {limits.launches} that are judged at once")
    hidden: frozenset[str] = frozenset()
    try:
        hidden = service.read_secrets() | _edited_secrets(launches, engine)
        launch = service.reveal_launch()
        batch = _Batch(host, service, engine, launch, tuple(tuple(edits) for edits in launches), hidden, limits)
        found = batch.run()
    except TriageError as error:
        # the seam's words may quote the command, which is unmasked here
        return Rehearsal(
            problem=mask_text(str(error), hidden), hint=mask_text(error.hint, hidden), seconds=time.monotonic() - begun
        )
    return replace(found, seconds=time.monotonic() - begun)


def _edited_secrets(launches: Sequence[Sequence[Edit]], engine: Engine) -> frozenset[str]:
    words: list[str] = []
    env: dict[str, str] = {}
    for edit in (edit for edits in launches for edit in edits):
        if edit.new is not None and edit.action == "env":
            env[edit.name] = edit.new
        elif edit.new is not None:
            words += [edit.name, edit.new]
    return collect_secrets(words, env, engine.profile.secret)


@dataclass(frozen=True)
class _Batch:
    host: Host
    service: Service
    engine: Engine
    launch: Launch  # secrets in clear
    launches: tuple[tuple[Edit, ...], ...]
    hidden: frozenset[str]
    limits: RehearsalLimits

    def run(self) -> Rehearsal:
        token = f"rehearsal-{secrets.token_hex(16)}:"
        questions = [self._question(edits) for edits in self.launches]
        asked = [i for i, question in enumerate(questions) if isinstance(question, dict)]
        order: dict[str, JsonValue] = {
            "token": token,
            "launches": [q for q in questions if isinstance(q, dict)],
            "limits": {
                "seconds": self.limits.seconds,
                "per_launch": self.limits.per_launch,
                "memory": self.limits.memory_mib,
                "output": self.limits.output,
            },
            "running": self.service.read_state().main_pid is not None,
            "clean": self.service.kind == "systemd",
        }
        command = self.engine.build_rehearsal(self.host, self.launch, order, self.limits.seconds + _ALLOWED)
        result = self.host.run(command)
        if result.status == _OTHER_USER and _SAID.encode() in result.stderr:
            result = self._run_as_root(command)
        lines = list(_read_lines(result.stdout, token))
        problem = next((line for line in lines if "problem" in line), None)
        if problem is not None:
            return self._tell_import(problem)
        answers: dict[int, Rehearsed] = {}
        for line in lines:
            at = line.get("at")
            if isinstance(at, int) and 0 <= at < len(asked):
                answers[asked[at]] = self._read_answer(self.launches[asked[at]], line)
        for i, question in enumerate(questions):
            if isinstance(question, str):
                answers[i] = Rehearsed(self.launches[i], "usage", self._mask(question))
        ready = next((line.get("ready") for line in lines if "ready" in line), None)
        end = next((line for line in lines if "end" in line), None)
        if end is None or len(answers) < len(self.launches):
            return self._tell_broken(result.status, result.stderr)
        notes = end.get("notes")
        return Rehearsal(
            tuple(answers[i] for i in range(len(self.launches))),
            prepared=float(ready) if isinstance(ready, (int, float)) else 0.0,
            notes=tuple(self._mask(str(note)) for note in notes) if isinstance(notes, list) else (),
        )

    def _question(self, edits: tuple[Edit, ...]) -> dict[str, JsonValue] | str:
        """The launch with the edits made, or why they cannot be."""
        try:
            args = list(edit_args(self.launch.args, edits))
        except ValueError as error:
            return str(error)
        return {"args": list(args), "env": {e.name: e.new for e in edits if e.action == "env"}}

    def _run_as_root(self, command: Command) -> CommandResult:
        try:
            return self.host.run(replace(command, root=True))
        except CommandTimeout:
            raise
        except HostError as error:
            raise HostError(
                f"the launch runs as {self.launch.user}, and the login on {self.host.name} cannot become that user: {error}",
                "log in as root or as that user, or allow sudo without a password",
            ) from error

    def _read_answer(self, edits: tuple[Edit, ...], line: Mapping[str, JsonValue]) -> Rehearsed:
        outcome = line.get("outcome")
        if outcome not in _OUTCOMES:
            outcome = "crash"
        output = str(line.get("output") or "")
        why = str(line.get("why") or "")
        if outcome == "usage":
            found = _PARSER_LINE.findall(output)
            why = found[-1] if found else why
        code, number, seconds = line.get("code"), line.get("signal"), line.get("seconds")
        return Rehearsed(
            edits,
            outcome,  # type: ignore[arg-type]  # it is one of them
            "" if outcome == "passes" else self._mask(why),
            mask_text(output.encode("utf-8", "surrogateescape"), self.hidden),
            self._read_settings(line.get("settings")),
            self._read_settings(line.get("asked")),
            ExitStatus(code if isinstance(code, int) else None, number if isinstance(number, int) else None),
            float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        )

    def _read_settings(self, value: JsonValue) -> dict[str, str]:
        found = value if isinstance(value, dict) else {}
        return {name: mask_text(text, self.hidden) for name, text in found.items() if isinstance(text, str)}

    def _mask(self, text: str) -> str:
        return printable(mask_text(text, self.hidden), 1000)

    def _tell_import(self, line: Mapping[str, JsonValue]) -> Rehearsal:
        package = self.engine.profile.package
        why = self._mask(str(line.get("problem") or ""))
        output = [text for text in str(line.get("output") or "").splitlines() if text.strip()]
        return Rehearsal(
            problem=f"{package} cannot be imported on {self.host.name}: {why}",
            hint=f"it printed last: {self._mask(output[-1])}" if output else "",
        )

    def _tell_broken(self, status: int, stderr: bytes) -> Rehearsal:
        lines = [text for text in stderr.decode("utf-8", "replace").splitlines() if text.strip()]
        said = next((text.partition(_SAID)[2] for text in lines if text.startswith(_SAID)), None)
        if said is not None:
            return Rehearsal(problem=f"{self.host.name} cannot rehearse the launch: {self._mask(said)}")
        return Rehearsal(
            problem=f"the rehearsal on {self.host.name} ended before its last answer (status {status})",
            hint=self._mask(lines[-1]) if lines else "",
        )


def _read_lines(stdout: bytes, token: str) -> Iterator[dict[str, JsonValue]]:
    for line in stdout.split(b"\n"):
        if line.startswith(token.encode()):
            try:
                value = json.loads(line[len(token) :])
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
