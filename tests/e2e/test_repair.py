"""Ten real failed units, over ssh: one command makes each healthy with one restart, and one command puts it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import SYSTEM, Failed, Repaired, read_unit, show_unit
from tests.e2e.person import Person
from tests.e2e.releases import CASES, LAUNCHES, MODELS, Launch, unit_text
from tests.lab import LabHost

pytestmark = pytest.mark.timeout(1800)

each_launch = pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)


@each_launch
def test_one_command_and_one_restart_make_it_healthy(repaired: dict[str, Repaired], launch: Launch) -> None:
    seen = repaired[launch.name]
    assert seen.done.code == 0, seen.done.text
    assert (seen.state["ActiveState"], seen.state["SubState"]) == ("active", "running")
    assert seen.starts == 2  # the one that failed, and one restart
    assert seen.done.json["outcome"] == "fixed"
    assert len(seen.done.json["session"]["attempts"]) == 1


@each_launch
def test_what_runs_passes_the_real_validation_and_keeps_what_was_typed(repaired: dict[str, Repaired], launch: Launch) -> None:
    seen = repaired[launch.name]
    assert seen.oracle["outcome"] == "ok", (seen.running, seen.oracle.get("message"))
    words = list(CASES[launch.case])
    typed = {words[i]: words[i + 1] for i in range(len(words) - 1) if words[i].startswith("--") and words[i + 1][:2] != "--"}
    removed = {e["name"] for e in seen.done.json["patches"][0]["edits"] if e["action"] in ("remove", "set")}
    told = {s["field"] for s in seen.done.json["patches"][0]["silent_changes"]}
    for flag, value in typed.items():
        field = flag.removeprefix("--").replace("-", "_")
        if flag not in removed and field not in told and field in seen.oracle["resolved"]:
            assert str(seen.oracle["resolved"][field]) == value, (flag, seen.done.json["patches"][0]["edits"])


@each_launch
def test_the_unit_is_otherwise_untouched_and_undo_restores_it(repaired: dict[str, Repaired], launch: Launch) -> None:
    seen = repaired[launch.name]
    assert f"{SYSTEM}/{launch.unit}.d".encode() not in seen.found
    assert seen.state["FragmentPath"] == f"{SYSTEM}/{launch.unit}"
    paths = seen.state["DropInPaths"].split()
    assert len(paths) == 1 and paths[0].startswith(f"{SYSTEM}/{launch.unit}.d/")
    assert seen.found in seen.changed and seen.changed != seen.found
    assert seen.state["NeedDaemonReload"] == "no"
    patch = seen.done.json["session"]["applied"]
    assert seen.running == tuple(patch["argv"])
    assert patch == seen.done.json["patches"][0]

    assert seen.undone.code == 0, seen.undone.text
    assert seen.restored == seen.found
    assert (seen.after["DropInPaths"], seen.after["NeedDaemonReload"]) == ("", "no")
    assert seen.after["InvocationID"] == seen.state["InvocationID"]  # undo does not restart


@each_launch
def test_the_report_names_the_failing_line_of_the_installed_source(
    repaired: dict[str, Repaired], failed: dict[str, Failed], launch: Launch
) -> None:
    found = repaired[launch.name].done.json
    log = (failed[launch.name].capture / "log.txt").read_text()
    if found["failure"]["kind"] == "usage":
        assert found["failure"]["message"] in log and "--mamba-scheduler-strategy" in found["failure"]["message"]
    else:
        frames = [line for line in log.splitlines() if line.strip().startswith("File ") and "/sglang/" in line]
        assert f'/{found["failure"]["file"]}", line {found["failure"]["line"]}, in ' in frames[-1]
        assert found["cause"]["category"] == "argument"
        assert any(e["kind"] == "source" for e in found["cause"]["evidence"])
    assert found["cause"]["constraints"] or found["failure"]["kind"] == "usage"
    assert found["patches"][0]["why"]
    assert found["patches"][0]["certainty"] == "rehearsed"
    said = [e["text"] for e in found["cause"]["evidence"] if e["kind"] == "rehearsal"]
    assert "refuses the launch as typed" in said[0], said


@pytest.mark.parametrize("name", ["e1-0.5.11", "n1-0.5.23"])
def test_check_before_the_first_start_foresees_what_the_host_then_confirms(
    repaired: dict[str, Repaired], real_lab: LabHost, tmp_path: Path, name: str
) -> None:
    """A unit that was never started: no log, no failure yet."""
    launch = repaired[name].launch
    unit = f"sg-before-{name.replace('.', '-')}.service"
    real_lab.write(f"{SYSTEM}/{unit}", unit_text(launch.version, launch.args))
    real_lab.run("systemctl", "daemon-reload")
    done = Person(real_lab, tmp_path / "state").on_host("check", "--unit", unit, "--json")
    assert done.code == 1, done.text
    assert (done.json["outcome"], done.json["rehearsed"], done.json["patches"][0]["certainty"]) == ("patch", "fails", "rehearsed")
    then = repaired[name].done.json
    assert [done.json["failure"][k] for k in ("exception", "file", "function")] == [
        then["failure"][k] for k in ("exception", "file", "function")
    ]
    assert done.json["cause"]["constraints"] == then["cause"]["constraints"]
    assert done.json["patches"][0]["edits"] == then["patches"][0]["edits"]
    assert done.json["failures"][-1]["patches"], "the chain ends in a launch that passes"
    assert show_unit(real_lab, unit)["ActiveState"] == "inactive"


@pytest.mark.parametrize("form", ["text", "md", "html", "json"])
@pytest.mark.parametrize("name", ["e3-0.5.11", "n2-0.5.23"])
def test_the_stored_session_reports_in_every_form(repaired: dict[str, Repaired], e2e_lab: LabHost, name: str, form: str) -> None:
    seen = repaired[name]
    done = Person(e2e_lab, seen.session).offline("report", "last", "--format", form)
    assert done.code == 0, done.text
    assert seen.done.json["patches"][0]["edits"][0]["name"].encode() in done.stdout
    if form == "json":
        assert json.loads(done.stdout)["session"]["why"].startswith("undone; before that: healthy after 1 restart")


def test_a_healthy_unit_is_left_alone(repaired: dict[str, Repaired], real_lab: LabHost, tmp_path: Path) -> None:
    unit = "sg-fine.service"
    args = ("--model-path", str(MODELS / "llama"), "--port", "30390")
    real_lab.write(f"{SYSTEM}/{unit}", unit_text("0.5.11", args))
    real_lab.shell('systemctl daemon-reload; systemctl start "$1"', unit)
    before, files = show_unit(real_lab, unit), read_unit(real_lab, unit)
    done = Person(real_lab, tmp_path / "state").on_host("run", "--unit", unit, "--apply", "--yes", "--json")
    assert (done.code, done.json["outcome"]) == (0, "healthy"), done.text
    assert done.json["patches"] == [] and "healthy already" in done.json["session"]["why"]
    assert (show_unit(real_lab, unit), read_unit(real_lab, unit)) == (before, files)
    real_lab.run("systemctl", "stop", unit)
