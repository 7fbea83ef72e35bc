"""The same ten failures offline: captures give the live run's bytes, and the bare text of a log gives a working patch."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli_tools import TRIAGE
from tests.e2e.conftest import Failed, Repaired, describe_first, judge, two_at_a_time
from tests.e2e.figures import FIGURES
from tests.e2e.person import Done, run
from tests.e2e.releases import LAUNCHES, MODELS, TOLD_FACTS, Launch, find_releases, source_of
from triage.loop.settle import NOTED

pytestmark = pytest.mark.timeout(1800)

each_launch = pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)
MODES = ("bare", "told")


@dataclass(frozen=True)
class Replayed:
    """The replay of one log's text."""

    done: Done
    oracle: dict[str, Any]  # of the first patch


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Replayed]:
    """The text of the ten captured logs, each with --source and --launch only, and with facts and a model config. No host."""
    reason = find_releases()
    if reason:
        pytest.skip(reason)
    state = tmp_path_factory.mktemp("state")

    def replay(item: tuple[Launch, str]) -> Done:
        launch, mode = item
        # The log was captured with its models in /models, where this machine has nothing.
        args = [word.replace(f"{MODELS}/", "/models/") for word in launch.args]
        command = shlex.join(["/srv/venv/bin/python", "-m", "sglang.launch_server", *args])
        words = [str(launch.log), "--source", str(source_of(launch.version)), "--launch", command, "--json"]
        if mode == "told":
            words += [word for name, value in TOLD_FACTS.items() for word in ("--fact", f"{name}={value}")]
            words += ["--model-config", str(Path(launch.args[1]) / "config.json")]
        return run([*TRIAGE, "replay", *words], state)

    items = [(launch, mode) for mode in MODES for launch in LAUNCHES]
    done = {(launch.name, mode): result for (launch, mode), result in zip(items, two_at_a_time(replay, items), strict=True)}
    answers: dict[tuple[str, str], dict[str, Any]] = {}
    for mode in MODES:
        argvs = {launch.name: _first_args(done[launch.name, mode]) for launch in LAUNCHES}
        found = judge({launch.name: launch.version for launch in LAUNCHES}, argvs)
        answers.update({(name, mode): answer for name, answer in found.items()})
    for launch in LAUNCHES:
        FIGURES.row(launch.name).bare = done[launch.name, "bare"].seconds
        FIGURES.row(launch.name).patch = FIGURES.row(launch.name).patch or describe_first(done[launch.name, "bare"])
    return {key: Replayed(done[key], answers[key]) for key in done}


def _first_args(done: Done) -> tuple[str, ...]:
    """The first patch's argument list, with the models where the oracle has them; () for none."""
    if done.code != 0:
        return ()
    return tuple(word.replace("/models/", f"{MODELS}/") for word in done.json["patches"][0]["argv"])


@each_launch
@pytest.mark.parametrize("mode", MODES)
def test_the_first_patch_for_the_text_of_a_log_passes(bare: dict[tuple[str, str], Replayed], launch: Launch, mode: str) -> None:
    seen = bare[launch.name, mode]
    assert seen.done.code == 0, seen.done.stdout[-2000:].decode() + seen.done.text
    assert seen.oracle["outcome"] == "ok", (describe_first(seen.done), seen.oracle.get("message"))


@each_launch
def test_what_is_not_known_of_a_bare_log_is_said(bare: dict[tuple[str, str], Replayed], launch: Launch) -> None:
    """Facts make it surer, never the other way."""
    certain = {mode: bare[launch.name, mode].done.json["patches"][0]["certainty"] for mode in MODES}
    order = ("guess", "likely", "proved", "rehearsed")
    assert order.index(certain["told"]) >= order.index(certain["bare"]), certain
    assert bare[launch.name, "bare"].done.json["unknowns"] or certain["bare"] == "proved"


def without_rehearsal(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """What a capture alone can tell: the live run has asked the host's own validation as well."""
    cause = {**diagnosis["cause"], "evidence": [e for e in diagnosis["cause"]["evidence"] if e["kind"] != "rehearsal"]}
    patches = [{**p, "certainty": "", "why": ""} for p in diagnosis["patches"]]
    unknowns = [u for u in diagnosis["unknowns"] if u["what"] != NOTED]
    return {**diagnosis, "cause": cause, "patches": patches, "unknowns": unknowns}


@each_launch
def test_replay_of_a_capture_is_the_live_diagnosis_but_for_the_rehearsal(
    failed: dict[str, Failed], repaired: dict[str, Repaired], launch: Launch
) -> None:
    seen = failed[launch.name]
    assert seen.captured.code == 0, seen.captured.text
    assert seen.replayed.code == 0, seen.replayed.text
    live = without_rehearsal(repaired[launch.name].done.json["session"]["diagnosis"])
    replayed = without_rehearsal(json.loads(seen.replayed.stdout))
    assert json.dumps(replayed) == json.dumps(live)


@each_launch
def test_a_capture_holds_what_it_shall(failed: dict[str, Failed], launch: Launch) -> None:
    folder = failed[launch.name].capture
    assert (folder / "model" / "config.json").read_bytes() == (Path(launch.args[1]) / "config.json").read_bytes()
    files = [p.relative_to(folder / "source") for p in (folder / "source").rglob("*") if p.is_file()]
    assert files
    for file in files:
        assert (folder / "source" / file).read_bytes() == (source_of(launch.version) / file).read_bytes()


@pytest.mark.parametrize("version", ["0.5.11", "0.5.23"])
def test_the_sessions_own_capture_replays_too(repaired: dict[str, Repaired], person: Any, version: str) -> None:
    seen = repaired[f"e3-{version}"]
    (session,) = (seen.session / "sessions").iterdir()
    again = person.offline("replay", str(session / "capture"), "--json")
    assert again.code == 0, again.text
    assert again.json == seen.done.json["session"]["diagnosis"]
