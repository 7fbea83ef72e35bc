"""Generated units come back byte for byte, an edit changes its own words only, and systemd reads all of them the same way.

`python -m tests.services.roundtrip --lab` does the same for 10,000 units.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.lab import LabHost
from tests.services.roundtrip import (
    ETC,
    Example,
    check_edit,
    check_reading,
    compare_with_systemd,
    make_examples,
    patch_unit,
    put_unit,
    split_server,
)
from tests.services.unit_texts import MadeUnit, edited_units, units
from triage.model import Edit
from triage.protocols import Host
from triage.services import SystemdService

slow = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@slow
@given(units())
def test_32_words_are_read_with_their_spelling_and_their_meaning(unit: MadeUnit) -> None:
    check_reading(unit)


@slow
@given(edited_units())
def test_32_an_edit_changes_its_own_words_and_its_undo_restores_the_files(example: Example) -> None:
    check_edit(*example)


@pytest.mark.lab
def test_32_systemd_reads_generated_units_as_they_are_meant(lab: LabHost) -> None:
    examples = make_examples(150, seed=4)
    assert len(examples) > 100 and {e.action for _, e, _ in examples} == {"add", "remove", "set"}
    assert compare_with_systemd(lab, examples) == []


@pytest.mark.lab
def test_32_over_ssh_with_systemd_to_ask_the_launch_is_the_same(lab: LabHost, lab_root: Host) -> None:
    """The whole way of `triage run`: words and specifiers by the bus, variables by the manager, files by one command."""
    examples = make_examples(8, seed=11)
    lines = Edit("add", "--added", None, "n\u2028\x85\x1c\n%n $ONE")  # characters that end a line for some readers
    for i, (unit, _, _) in enumerate(examples):
        name = f"way{i}.service"
        for files, args in (
            (put_unit(unit, name), unit.args),
            (patch_unit(unit, lines, name), (*unit.args, "--added", lines.new)),
        ):
            for path, data in files.items():
                lab.write(path, data)
            lab.run("systemctl", "daemon-reload")
            launch = SystemdService(lab_root, name, split_server).read_launch()
            assert (launch.entry, launch.args) == (split_server(unit.argv)[0], args)  # type: ignore[index]
    lab.write(f"{ETC}/way99.service", '[Service]\nExecStart=/bin/python3 -m srv.launch --text "a\u2028\x85b" --id %b\n')
    lab.run("systemctl", "daemon-reload")
    boot_id = lab.read("/proc/sys/kernel/random/boot_id").decode().strip().replace("-", "")  # which only systemd can tell
    assert SystemdService(lab_root, "way99", split_server).read_launch().args == ("--text", "a\u2028\x85b", "--id", boot_id)
    lab.shell('rm -rf "$1"/way[0-9]*; systemctl daemon-reload', ETC)
