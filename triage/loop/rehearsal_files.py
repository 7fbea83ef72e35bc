"""Rehearsals beside a capture: what the host said is part of what a diagnosis rests on, so a replay gets it too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from triage.codec import clean, from_json, to_json
from triage.errors import CaptureError
from triage.model import Edit, JsonValue, Rehearsal, Rehearsed

if TYPE_CHECKING:
    from triage.loop.settle import Rehearse  # an answer from the cache does not wait for the analysis

MAX_REHEARSALS = 50


def write_rehearsals(rehearsals: Sequence[Rehearsal]) -> bytes:
    """The text of rehearsals.json. All in it is masked already."""
    return json.dumps([_write_one(r) for r in rehearsals[:MAX_REHEARSALS]], indent=1).encode("ascii")


def read_rehearsals(data: bytes, what: str) -> tuple[Rehearsal, ...]:
    """Raises CaptureError naming `what` for damage."""
    try:
        value: JsonValue = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{what} is damaged: {error}") from error
    if not isinstance(value, list):
        raise CaptureError(f"{what} is damaged: it is not a list")
    return tuple(_read_one(one) for one in value[:MAX_REHEARSALS])


def answer_from(rehearsals: Sequence[Rehearsal]) -> Rehearse:
    """What the host said when it was asked the same questions; nothing else can be asked."""

    def rehearse(launches: Sequence[tuple[Edit, ...]]) -> Rehearsal:
        asked = list(launches)
        found = next((r for r in rehearsals if [a.edits for a in r.answers] == asked), None)
        failed = next((r for r in rehearsals if r.problem is not None), None)
        return found or failed or Rehearsal(problem="the capture does not hold the host's answer")

    return rehearse


def _write_one(rehearsal: Rehearsal) -> JsonValue:
    shown = to_json(rehearsal)
    assert isinstance(shown, dict)
    answers: list[JsonValue] = []
    for answer in rehearsal.answers:
        one = to_json(answer)
        assert isinstance(one, dict)
        texts: dict[str, JsonValue] = {"log": clean(answer.log.decode("utf-8", "surrogateescape"))}
        texts["settings"], texts["asked"] = _write_texts(answer.settings), _write_texts(answer.asked)
        answers.append({**one, **texts})
    return {**shown, "answers": answers}


def _write_texts(texts: Mapping[str, str]) -> JsonValue:
    return {clean(k): clean(v) for k, v in texts.items()}


def _read_one(value: JsonValue) -> Rehearsal:
    found = from_json(Rehearsal, value)
    raw = value.get("answers") if isinstance(value, dict) else None
    pairs = zip(found.answers, raw if isinstance(raw, list) else [], strict=False)
    return replace(found, answers=tuple(_with_texts(answer, one) for answer, one in pairs))


def _with_texts(answer: Rehearsed, value: JsonValue) -> Rehearsed:
    held = value if isinstance(value, dict) else {}
    log = held.get("log")
    text = log if isinstance(log, str) else ""
    return replace(
        answer,
        log=text.encode("utf-8", "replace"),
        settings=_read_texts(held.get("settings")),
        asked=_read_texts(held.get("asked")),
    )


def _read_texts(value: JsonValue) -> dict[str, str]:
    return {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}
