"""What `triage run` must not repair, or cannot: one clear line each, the right exit code, and nothing changed."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli_tools import check_one_line
from tests.e2e.conftest import SYSTEM, read_unit, show_unit, start_failing
from tests.e2e.person import Done, Person
from tests.e2e.releases import MODELS, ROOT, Launch, source_of, unit_text
from tests.lab import LabHost

pytestmark = pytest.mark.timeout(600)

LOGS = ROOT / "fixtures" / "logs"
PLAIN = ("--model-path", str(MODELS / "llama"))
COPY = "/srv/copy"  # a sglang of its own, on the host


def put_unit(lab: LabHost, unit: str, text: str) -> None:
    lab.write(f"{SYSTEM}/{unit}", text)
    lab.run("systemctl", "daemon-reload")


def check_refused(done: Done, *words: str) -> None:
    """Exit 2, nothing on stdout, one line and at most a hint, which name what matters."""
    text = check_one_line(subprocess.CompletedProcess((), done.code, done.stdout, done.stderr))
    for word in words:
        assert word in text, text


def check_left_alone(lab: LabHost, unit: str, before: tuple[bytes, dict[str, str]]) -> None:
    assert (read_unit(lab, unit), show_unit(lab, unit)) == before


def look(lab: LabHost, unit: str) -> tuple[bytes, dict[str, str]]:
    return read_unit(lab, unit), show_unit(lab, unit)


# ---------------------------------------------------------------- failures that are not a matter of flags
@pytest.mark.parametrize("version", ["0.5.11", "0.5.23"])
def test_out_of_memory_is_no_matter_of_flags_that_contradict(real_lab: LabHost, person: Person, version: str) -> None:
    unit = f"sg-oom-{version.replace('.', '')}.service"
    real_lab.write("/srv/oom.log", (LOGS / "oom-four-ranks.log").read_bytes())
    put_unit(real_lab, unit, unit_text(version, (*PLAIN, "--port", "30391"), {"LAB_FAIL_AFTER_LOAD": "/srv/oom.log"}))
    start_failing(real_lab, unit)
    before = look(real_lab, unit)
    done = person.on_host("run", "--unit", unit, "--apply", "--yes", "--json")
    assert (done.code, done.json["outcome"], done.json["patches"]) == (1, "no_patch", []), done.text
    assert "OutOfMemoryError" in done.json["failure"]["exception"]
    assert (done.json["cause"]["category"], "ran out of memory" in done.json["cause"]["text"]) == ("memory", True)
    check_left_alone(real_lab, unit, before)
    shown = person.on_host("run", "--unit", unit, "--apply")
    assert shown.code == 1 and b"ran out of memory" in b" ".join(shown.stdout.split())


def test_a_log_without_a_failure(real_lab: LabHost, person: Person) -> None:
    """A server that was stopped in good order."""
    unit = "sg-stopped.service"
    put_unit(real_lab, unit, unit_text("0.5.11", (*PLAIN, "--port", "30392")))
    real_lab.shell(
        'systemctl start "$1"; for i in $(seq 300); do journalctl -u "$1" | grep -q "startup complete" && break; sleep 0.2; done;'
        ' systemctl stop "$1"',
        unit,
    )
    before = look(real_lab, unit)
    done = person.on_host("run", "--unit", unit, "--apply", "--yes", "--json")
    assert (done.code, done.json["outcome"], done.json["failure"]) == (3, "no_failure", None), done.text
    check_left_alone(real_lab, unit, before)


def test_replay_of_a_log_without_a_failure(person: Person) -> None:
    done = person.offline("replay", str(LOGS / "sglang-0.5.23-healthy.log"), "--json")
    assert (done.code, done.json["outcome"]) == (3, "no_failure"), done.text


# ---------------------------------------------------------------- hosts that cannot be reached
def test_an_unknown_host(person: Person) -> None:
    for name in ("run", "capture", "undo"):
        more = ("-o", str(person.state / "never")) if name == "capture" else ()
        check_refused(person.on_host(name, "--unit", "any", *more, host="no-such-host.invalid"), "no-such-host.invalid")
    assert not (person.state / "never").exists()


def test_a_host_where_nobody_listens(e2e_lab: LabHost, person: Person) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        config = person.state / "closed_config"
        config.write_text(f"Host closed\n  HostName 127.0.0.1\n  Port {closed.getsockname()[1]}\n")
        done = person.offline("run", "--host", "closed", "--ssh-config", str(config), "--unit", "any", "--apply")
    check_refused(done, "closed")


def test_a_host_key_that_is_unknown_or_changed(e2e_lab: LabHost, person: Person, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    other = "AAAAC3NzaC1lZDI1NTE5AAAAIHVudHJ1c3RlZC1rZXktb2YtYW5vdGhlci1ob3N0LWhlcmUu"
    for text in ("", f"{e2e_lab.address} ssh-ed25519 {other}\n"):
        known.write_text(text)
        check_refused(person.on_host("run", "--unit", "any", "--apply", known_hosts=known), "key", e2e_lab.name)


def test_a_login_that_the_host_refuses(e2e_lab: LabHost, person: Person, tmp_path: Path) -> None:
    e2e_lab.shell("id nokey >/dev/null 2>&1 || useradd -m nokey")
    done = person.on_host("run", "--unit", "any", "--apply", host=f"nokey@{e2e_lab.name}")
    check_refused(done, e2e_lab.name)


# ---------------------------------------------------------------- units that cannot be read
def test_a_missing_unit(e2e_lab: LabHost, person: Person) -> None:
    before = e2e_lab.tree(SYSTEM)
    check_refused(person.on_host("run", "--unit", "no-such.service", "--apply", "--yes"), "no-such.service")
    assert e2e_lab.tree(SYSTEM) == before


def test_no_sglang_in_the_python_of_the_unit(e2e_lab: LabHost, person: Person) -> None:
    unit = "sg-none.service"
    put_unit(e2e_lab, unit, "[Service]\nExecStart=/usr/bin/python3 -I -m sglang.launch_server --model-path /srv/m\n")
    start_failing(e2e_lab, unit)
    before = look(e2e_lab, unit)
    check_refused(person.on_host("run", "--unit", unit, "--apply", "--yes"), "sglang", "/usr/bin/python3")
    check_left_alone(e2e_lab, unit, before)


def test_a_journal_that_the_login_may_not_read(e2e_lab: LabHost, person: Person) -> None:
    unit = "sg-closed.service"
    put_unit(e2e_lab, unit, "[Service]\nExecStart=/usr/bin/python3 -m sglang.launch_server --model-path /srv/m\n")
    start_failing(e2e_lab, unit)
    e2e_lab.shell("id plain >/dev/null 2>&1 || exit 0; userdel -r plain")
    e2e_lab.add_user("plain")
    before = look(e2e_lab, unit)
    check_refused(person.on_host("run", "--unit", unit, "--apply", "--yes", host=f"plain@{e2e_lab.name}"), "journal")
    check_left_alone(e2e_lab, unit, before)


# ---------------------------------------------------------------- a source that is not what ran
@pytest.fixture(scope="module")
def changed_source(real_lab: LabHost) -> Launch:
    """A unit with a copy of sglang, which failed; then the failing file was edited, as an update in place would."""
    launch = Launch("0.5.11", "e1")
    site = source_of(launch.version)
    real_lab.shell('mkdir -p "$2"; cp -r "$1/sglang" "$1"/sglang-*.dist-info "$2/"', str(site), COPY)
    engine = unit_text(launch.version, launch.args).partition("PYTHONPATH=")[2].partition('"')[0]
    put_unit(real_lab, "sg-edited.service", unit_text(launch.version, launch.args, {"PYTHONPATH": f"{COPY}:{engine}"}))
    start_failing(real_lab, "sg-edited.service")
    real_lab.shell('sed -i "1i # an update\\n# in place\\n\\n" "$1/sglang/srt/server_args.py"', COPY)
    return launch


def test_source_that_does_not_match_the_traceback_on_a_host(changed_source: Launch, real_lab: LabHost, person: Person) -> None:
    unit = "sg-edited.service"
    before = look(real_lab, unit)
    done = person.on_host("run", "--unit", unit, "--apply", "--yes")
    check_refused(done, "server_args.py")
    check_left_alone(real_lab, unit, before)


def test_source_of_another_release_offline(real_lab: LabHost, person: Person, tmp_path: Path) -> None:
    """Where the failing line is not in it nothing can be said; where it stands elsewhere no patch is built on it."""
    log, launch = Launch("0.5.11", "e1").log, "python -m sglang.launch_server --model-path /m"
    done = person.offline("replay", str(log), "--source", str(source_of("0.5.23")), "--launch", launch)
    check_refused(done, "server_args.py:3521", "--source")
    near = tmp_path / "sglang" / "srt"
    near.mkdir(parents=True)
    text = (source_of("0.5.11") / "sglang/srt/server_args.py").read_text()
    (near / "server_args.py").write_text(f"# newer\n{text}")
    done = person.offline("replay", str(log), "--source", str(tmp_path), "--launch", launch, "--json")
    assert (done.code, done.json["patches"]) == (1, []), done.text
    assert any("source" in u["why"] for u in done.json["unknowns"])
