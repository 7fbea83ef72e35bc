"""`triage doctor` before a repair: the real releases, as installed on the host, are asked and nothing is changed."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import SYSTEM, put_files, start_failing
from tests.e2e.person import Person
from tests.e2e.releases import CASES, VERSIONS, python_of, source_of, unit_text
from tests.lab import LabHost


@pytest.mark.lab
@pytest.mark.parametrize("version", VERSIONS)
def test_all_that_a_repair_rests_on_is_seen(real_lab: LabHost, person: Person, version: str) -> None:
    unit = f"doctor-{version.replace('.', '')}.service"
    put_files(real_lab, {f"{SYSTEM}/{unit}": unit_text(version, (*CASES["e1"], "--port", "30990"))})
    real_lab.run("systemctl", "daemon-reload")
    start_failing(real_lab, unit)
    before = real_lab.tree("/etc/systemd"), real_lab.run("systemctl", "show", "-p", "InvocationID,NRestarts", unit)
    done = person.on_host("doctor", "--unit", unit, "--json")
    assert done.code == 0, done.text
    checks = {check["name"]: check for check in done.json["checks"]}
    assert [name for name, check in checks.items() if check["ability"] != "ok"] == []
    assert checks["python"]["why"].startswith(str(python_of(version)))
    assert checks["package"]["why"] == f"sglang {version} in {source_of(version)}"
    assert "8 x NVIDIA H100" in checks["facts"]["why"] and "compute capability 9.0" in checks["facts"]["why"]
    assert "(folder)" in checks["model config"]["why"]
    assert "refuses the launch as typed (AssertionError" in checks["rehearsal"]["why"]
    assert (real_lab.tree("/etc/systemd"), real_lab.run("systemctl", "show", "-p", "InvocationID,NRestarts", unit)) == before
    real_lab.shell('rm "$1"; systemctl daemon-reload', f"{SYSTEM}/{unit}")
