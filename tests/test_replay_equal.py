"""A replay is the live diagnosis again, byte for byte, on a real release, over ssh, with files outside the package."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli_tools import ROOT, TRIAGE
from tests.e2e.releases import LAUNCHES, TOOLS, find_releases, nvidia_smi, source_of, stand_ins, unit_text
from tests.lab import LabHost
from tests.loop.toyhost import Recorder
from triage.analysis.diagnose import diagnose
from triage.analysis.trees import FolderTree, RecordingTree
from triage.engines import open_engine
from triage.loop.capture import capture_run, load_capture, save_capture
from triage.protocols import Capture
from triage.report import render_report
from triage.services import SystemdService

E1 = next(launch for launch in LAUNCHES if launch.name == "e1-0.5.11")
ENGINE = open_engine("sglang")
FAIL = """
systemctl daemon-reload; systemctl start "$1"
for i in $(seq 300); do systemctl is-failed -q "$1" && exit 0; sleep 0.2; done; exit 1
"""
# as where several installs share their packages by a .pth file
MOVE = 'mkdir -p "$2"; cp -a "$1"/transformers "$2"/; rm -r "$1"/transformers; echo "$2" >"$1"/zz_shared.pth'


@pytest.fixture(scope="module")
def failed(lab: LabHost) -> LabHost:
    """A lab host on which the launch has failed as a unit."""
    why_not = find_releases()
    if why_not:
        pytest.skip(why_not)
    for path, text in stand_ins(E1.version).items():
        lab.write(path, text)
    lab.write(f"{TOOLS}/nvidia-smi", nvidia_smi(), 0o755)
    lab.write(f"/etc/systemd/system/{E1.unit}", unit_text(E1.version, E1.args))
    lab.shell(FAIL, E1.unit)
    return lab


def take(lab: LabHost) -> Capture:
    host = lab.open()
    try:
        service = SystemdService(host, E1.unit, ENGINE.split_command, ENGINE.profile.secret)
        return capture_run(host, service, ENGINE, Recorder())
    finally:
        host.close()


def answer(capture: Capture) -> str:
    return render_report(diagnose(capture, ENGINE.profile), "json")


def test_a_saved_capture_gives_the_diagnosis_of_the_full_tree(failed: LabHost, tmp_path: Path) -> None:
    capture = take(failed)
    assert capture.source is not None
    full = answer(capture)
    assert json.loads(full)["outcome"] == "patch", full
    # the whole folder of packages, as `--source` gives it
    real = source_of(E1.version)
    assert answer(replace(capture, source=FolderTree(real))) == full

    recorded = replace(capture, source=RecordingTree(capture.source))
    assert answer(recorded) == full
    save_capture(recorded, tmp_path / "c")
    again = load_capture(tmp_path / "c")
    assert again.models == capture.models and [model.files for model in again.models] == [("config.json",)] * 2
    assert answer(again) == full

    # of what stands beside the package the diagnosis reads some, and only that is in the capture
    stored = tmp_path / "c" / "source"
    beside = {p.relative_to(stored).as_posix() for p in (stored / "transformers").rglob("*.py")}
    assert "transformers/models/auto/configuration_auto.py" in beside and len(beside) < 20
    for name in beside:
        assert (stored / name).read_bytes() == (real / name).read_bytes()


def test_replay_prints_what_the_live_run_said(failed: LabHost, tmp_path: Path) -> None:
    ssh = ("--host", f"root@{failed.name}", "--ssh-config", str(failed.ssh_config), "--known-hosts", str(failed.known_hosts))
    env = {**os.environ, "TRIAGE_STATE_DIR": str(tmp_path / "state"), "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}

    def triage(*words: str, code: int) -> bytes:
        done = subprocess.run([*TRIAGE, *words], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=250)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout

    live = json.loads(triage("run", *ssh, "--unit", E1.unit, "--dry-run", "--json", code=1))["session"]["diagnosis"]
    stored = next((tmp_path / "state" / "sessions").glob("*/capture"))
    replayed = json.loads(triage("replay", str(stored), "--json", code=0))
    assert json.dumps(replayed) == json.dumps(live)


def test_a_package_in_another_folder_makes_no_difference(failed: LabHost, tmp_path: Path) -> None:
    before = answer(take(failed))
    site, moved = str(source_of(E1.version)), "/srv/shared-packages"
    failed.shell(MOVE, site, moved)
    host = failed.open()
    try:
        launch = SystemdService(host, E1.unit, ENGINE.split_command, ENGINE.profile.secret).read_launch()
        entry, args = ENGINE.split_command(launch.argv) or ((), ())
        install = ENGINE.locate(host, replace(launch, entry=entry, args=args))
    finally:
        host.close()
    assert (install.root, dict(install.extra_roots)) == (site, {"transformers": moved})
    capture = take(failed)
    assert answer(capture) == before
    assert capture.source is not None
    recorded = replace(capture, source=RecordingTree(capture.source))
    answer(recorded)
    save_capture(recorded, tmp_path / "c")
    assert (tmp_path / "c" / "source" / "transformers" / "models" / "auto" / "configuration_auto.py").is_file()
    assert answer(load_capture(tmp_path / "c")) == before
