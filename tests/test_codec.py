"""Records to JSON values and back."""

from __future__ import annotations

import json

import pytest

from triage.codec import from_json, to_json
from triage.errors import CaptureError
from triage.model import (
    MASK,
    Attempt,
    CaptureMeta,
    Cause,
    Command,
    Constraint,
    Diagnosis,
    Edit,
    ExitStatus,
    Failure,
    Frame,
    Location,
    Observation,
    Patch,
    Plan,
    RemoveFile,
    RunCommand,
    Secret,
    Session,
    WriteFile,
)

PATCH = Patch(
    (Edit("add", "--a", None, "2"), Edit("env", "B", "0", "1")), ("--a", "2"), {"B": "1"}, "proved", "because", ("speed",)
)
PLAN = Plan(
    "write a drop-in",
    (WriteFile("/etc/x", b"", 0o600, "ab", True), RunCommand(Command(("systemctl", "daemon-reload"), root=True))),
    (RemoveFile("/etc/x", "cd", "/etc"),),
    "-a\n+b\n",
)
FAILURE = Failure(
    "exception", "AssertionError", "", (Frame("/v/sglang/x.py", 3, "f", "assert a", "sglang/x.py"),), ranks=("TP0",)
)
DIAGNOSIS = Diagnosis(
    "patch",
    FAILURE,
    None,
    Cause("argument", "text", (Constraint(("a",), "b", ("a", "b"), Location("sglang/x.py", 3)),)),
    (PATCH,),
)
SESSION = Session(
    "20261130T094512Z-0a1b2c",
    "ct129",
    "u.service",
    "2026-11-30T09:45:12Z",
    "fixed",
    "healthy",
    DIAGNOSIS,
    (Attempt(1, PATCH, Observation("healthy", "ready", 2.5, "answers", "run"), None),),
    PATCH,
    PLAN,
    CaptureMeta("ct129", "u.service", "systemd", "sglang", "0.5.11", "/v", "run", "2026-11-30T09:45:12Z", ExitStatus(1)),
)


def test_a_session_survives_the_round_trip_through_json_text() -> None:
    assert from_json(Session, json.loads(json.dumps(to_json(SESSION)))) == SESSION


def test_field_names_are_the_keys_and_choices_carry_their_type() -> None:
    value = to_json(SESSION)
    assert isinstance(value, dict)
    assert value["diagnosis"]["failure"]["exception"] == "AssertionError"  # type: ignore[index,call-overload]
    assert [s["type"] for s in value["plan"]["steps"]] == ["WriteFile", "RunCommand"]  # type: ignore[index,call-overload,union-attr]


def test_contents_and_secrets_never_leave() -> None:
    plan = Plan("x", (WriteFile("/p", b"hunter2"), RunCommand(Command(("login", Secret("hunter2")), stdin=b""))), ())
    observation = Observation("failed", "p", 1.0, "w", log=b"hunter2")
    text = json.dumps([to_json(plan), to_json(observation), to_json(Attempt(1, None, observation, None))])
    assert "hunter2" not in text
    assert MASK in text


def test_undecodable_bytes_in_text_do_not_stop_it() -> None:
    value = to_json(Edit("set", "--x", None, "a\udcffb"))
    assert json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"outcome": "splendid"}, "outcome"),
        ({"host": 5}, "host"),
        ({"attempts": {}}, "attempts"),
        ({"attempts": [5]}, "attempts[0]"),
        ({"plan": {"what": "x", "steps": [{"type": "Format"}], "undo": []}}, "plan"),
        ({"applied": {"edits": []}}, "applied"),
    ],
)
def test_damage_is_named_by_its_place(change: dict[str, object], place: str) -> None:
    value = to_json(SESSION)
    assert isinstance(value, dict)
    value.update(change)  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match=re_escape(place)):
        from_json(Session, value)


def re_escape(text: str) -> str:
    return text.replace("[", r"\[").replace("]", r"\]")
