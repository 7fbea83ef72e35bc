"""systemd units on a real host: read as systemd reads them, patched by one drop-in, put back exactly."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.lab import LabHost
from triage.errors import HostError, ServiceError
from triage.model import MASK, Command, Edit, Plan, RemoveFile, RunCommand, Step, WriteFile
from triage.protocols import Host
from triage.services import SystemdService
from triage.services.unitfile import UnitSyntaxError, expand_specifiers, parse_exec, parse_unit, values_of

pytestmark = pytest.mark.lab
ETC = "/etc/systemd/system"
# writes what it was started with to a file named after the unit
SHOW = "#!/usr/bin/python3\nimport json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], open('/srv/show.json', 'w'))\n"


@pytest.fixture(scope="module")
def host(lab: LabHost, lab_root: Host) -> Iterator[Host]:
    lab.write("/opt/show", SHOW, 0o755)
    yield lab_root


def run_steps(host: Host, steps: Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, WriteFile):
            host.write_file(step.path, step.data, step.mode, root=step.as_root)
        elif isinstance(step, RemoveFile):
            host.remove_file(step.path, root=step.as_root)
        else:
            result = host.run(step.command)
            assert result.status == 0, (step, result)


def undo(lab: LabHost, host: Host, plan: Plan) -> None:
    for step in plan.undo:
        run_steps(host, [step])
        if isinstance(step, RemoveFile) and step.and_folder:
            lab.run("rmdir", "--ignore-fail-on-non-empty", step.and_folder)


def make_unit(lab: LabHost, name: str, text: str) -> str:
    lab.write(f"{ETC}/{name}.service", text)
    lab.run("systemctl", "daemon-reload")
    return name


def started_with(lab: LabHost, host: Host, service: SystemdService) -> tuple[list[str], dict[str, str]]:
    """What the unit's program really got."""
    lab.run("rm", "-f", "/srv/show.json")
    run_steps(host, service.plan_restart().steps)
    wait_for(lambda: lab.shell("cat /srv/show.json 2>/dev/null || true").endswith(b"}]"))
    words, env = json.loads(lab.read("/srv/show.json"))
    return words, env


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


HARD = r"""[Unit]
Description=hard
[Service]
# a comment
Environment=PORT=30001 "SPACED=two words" 'PCT=50%%' ESC=a\x41\tb
Environment=ONE=first
EnvironmentFile=/srv/hard.env
EnvironmentFile=-/srv/none-*.env
WorkingDirectory=/srv
ExecStart=-/opt/show -m mod --port ${PORT} \
  --json '{"a": "b%%", "c": [1, -2]}' $ARGS \
# a comment in between
; and another
  "--q=\"x\" y" --dollar $$5 $$HOME mid$PORT.x pre${ONE}post '${SPACED}' $SPACED $UNSET ${UNSET} \
  --unit %n %p a%%b --esc \x41\u00e9\101\s| --end \; "quoted ; semi" 'it\'s' --tail -1 \
  --last
ExecStartPre=/bin/true
"""
HARD_ENV = "# env\nARGS=\"--tp 2 'quoted words' --dp 3\"\nBACK=a\\\n b\nEMPTY=\nONE=second\nHF_TOKEN=hf_abcdefghijklmnopqrstuv\n"


def test_a_launch_is_read_as_systemd_starts_it(lab: LabHost, host: Host) -> None:
    lab.write("/srv/hard.env", HARD_ENV, 0o600)
    service = SystemdService(host, make_unit(lab, "hard", HARD))
    launch = service.read_launch()
    words, env = started_with(lab, host, service)
    assert list(launch.argv) == ["/opt/show", *words]
    assert launch.env["HF_TOKEN"] == MASK
    for name in ("PORT", "SPACED", "PCT", "ESC", "ONE", "ARGS", "BACK", "EMPTY", "PATH"):
        assert launch.env[name] == env[name], name
    assert (launch.cwd, launch.user) == ("/srv", None)
    assert "hf_abcdefghijklmnopqrstuv" in service.read_secrets()


def test_an_edit_changes_its_words_only(lab: LabHost, host: Host) -> None:
    lab.write("/srv/hard.env", HARD_ENV, 0o600)
    service = SystemdService(host, make_unit(lab, "hard", HARD))
    before, _ = started_with(lab, host, service)
    tree = lab.tree(ETC)
    edits = [
        Edit("add", "--steps", None, "3"),
        Edit("add", "--text", None, "a \"b\" %n $ONE ${ONE} \\x41 'é'\n;"),
        Edit("add", "--switch"),
        Edit("set", "--q", '"x" y', "new"),
        Edit("remove", "--tail"),
        Edit("remove", "--dp", "3"),
        Edit("env", "NEW", None, 'v "1" %n $ONE \\n é'),
        Edit("env", "PORT", "30001", "4"),
    ]
    plan = service.plan_patch(edits)
    assert lab.tree(ETC) == tree
    run_steps(host, plan.steps)
    after, env = started_with(lab, host, service)
    at, tail = before.index("--dp"), before.index("--tail")
    expected = [w for i, w in enumerate(before) if i not in (at, at + 1, tail, tail + 1)]
    expected = ["--q=new" if w.startswith("--q=") else "4" if w == "30001" else w for w in expected]
    assert after == [*expected, "--steps", "3", "--text", "a \"b\" %n $ONE ${ONE} \\x41 'é'\n;", "--switch"]
    assert (env["NEW"], env["PORT"]) == ('v "1" %n $ONE \\n é', "4")
    text = next(s.data for s in plan.steps if isinstance(s, WriteFile)).decode()
    for raw in (
        r"""'{"a": "b%%", "c": [1, -2]}'""",
        "${PORT}",
        r"\x41\u00e9\101\s|",
        r"\;",
        "%n",
        "a%%b",
        "$UNSET",
        "ExecStart=-/opt/show",
    ):
        assert raw in text, raw
    undo(lab, host, plan)
    assert lab.tree(ETC) == tree
    assert started_with(lab, host, service)[0] == before


def test_edits_on_edits_and_undo_in_order(lab: LabHost, host: Host) -> None:
    service = SystemdService(host, make_unit(lab, "twice", "[Service]\nExecStart=/opt/show -m x --a 1 --b 2\n"))
    trees, plans = [], []
    for edits in (
        [Edit("add", "--c", None, "3"), Edit("env", "X", None, "1")],
        [Edit("remove", "--a")],
        [Edit("env", "X", "1", None)],
    ):
        trees.append(lab.tree(ETC))
        plans.append(service.plan_patch(edits))
        run_steps(host, plans[-1].steps)
    words, env = started_with(lab, host, service)
    assert words == ["-m", "x", "--b", "2", "--c", "3"]
    assert "X" not in env
    for plan, tree in zip(reversed(plans), reversed(trees), strict=True):
        undo(lab, host, plan)
        assert lab.tree(ETC) == tree


def test_a_drop_in_of_a_later_name_does_not_win(lab: LabHost, host: Host) -> None:
    make_unit(lab, "late", "[Service]\nExecStart=/opt/show --a 1\n")
    lab.write(f"{ETC}/late.service.d/zzz-local.conf", "[Service]\nExecStart=\nExecStart=/opt/show --a 2\n")
    lab.write("/run/systemd/system/late.service.d/~x.conf", "[Service]\nEnvironment=A=1\n")
    lab.run("systemctl", "daemon-reload")
    service = SystemdService(host, "late.service")
    tree = lab.tree(ETC)
    first = service.plan_patch([Edit("add", "--b", None, "1")])
    run_steps(host, first.steps)
    assert started_with(lab, host, service)[0] == ["--a", "2", "--b", "1"]
    lab.write(f"{ETC}/late.service.d/~~~later.conf", "[Service]\nExecStart=\nExecStart=/opt/show --a 3\n")
    lab.run("systemctl", "daemon-reload")
    middle = lab.tree(ETC)
    second = service.plan_patch([Edit("add", "--b", None, "2")])
    run_steps(host, second.steps)
    assert started_with(lab, host, service)[0] == ["--a", "3", "--b", "2"]
    undo(lab, host, second)
    assert lab.tree(ETC) == middle
    lab.run("rm", f"{ETC}/late.service.d/~~~later.conf")
    undo(lab, host, first)
    assert lab.tree(ETC) == tree


def test_the_unit_edited_in_between_stops_the_plan(lab: LabHost, host: Host) -> None:
    service = SystemdService(host, make_unit(lab, "race", "[Service]\nRemainAfterExit=yes\nExecStart=/opt/show --a 1\n"))
    started_with(lab, host, service)
    plan = service.plan_patch([Edit("add", "--b", None, "1")])
    lab.write(f"{ETC}/race.service", "[Service]\nRemainAfterExit=yes\nExecStart=/opt/show --a 2\n")
    first = plan.steps[0]
    assert isinstance(first, RunCommand)
    assert host.run(first.command).status != 0
    with pytest.raises(ServiceError, match="changed on disk"):
        service.read_launch()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("ExecStart=/bin/bash -c 'exec /opt/show --a 1'", "does not start the server itself.*bash"),
        ("ExecStart=/srv/start.sh --a 1", "does not start the server itself"),
        ("ExecStart=/opt/show --b 1", "--a does not stand"),
    ],
)
def test_what_cannot_be_patched_says_why(lab: LabHost, host: Host, line: str, error: str) -> None:
    service = SystemdService(host, make_unit(lab, "cannot", f"[Service]\n{line}\n"))
    with pytest.raises(ServiceError, match=error):
        service.plan_patch([Edit("remove", "--a")])


def test_a_secret_is_not_copied_out_of_a_file(lab: LabHost, host: Host) -> None:
    lab.write("/srv/sec.env", "ARGS=--api-key topsecret --a 1\nMODE=x\n", 0o600)
    name = make_unit(lab, "sec", "[Service]\nEnvironmentFile=/srv/sec.env\nExecStart=/opt/show $ARGS --b 2\n")
    service = SystemdService(host, name, secret=("--api-key",))
    launch = service.read_launch()
    assert "topsecret" not in repr(launch)
    with pytest.raises(ServiceError, match="with a secret"):
        service.plan_patch([Edit("remove", "--a")])
    with pytest.raises(ServiceError, match="EnvironmentFile, which wins"):
        service.plan_patch([Edit("env", "MODE", "x", "y")])
    plan = service.plan_patch([Edit("set", "--b", "2", "3")])
    written = next(s.data for s in plan.steps if isinstance(s, WriteFile))
    assert b"$ARGS" in written and b"topsecret" not in written
    assert "topsecret" not in plan.diff and MASK in service.plan_patch([Edit("add", "--api-key", None, "k3y9")]).diff


def test_a_private_unit_gets_a_private_drop_in(lab: LabHost, host: Host) -> None:
    make_unit(lab, "priv", "[Service]\nExecStart=/opt/show --api-key topsecret --a 1\n")
    lab.run("chmod", "600", f"{ETC}/priv.service")
    plan = SystemdService(host, "priv").plan_patch([Edit("remove", "--a")])
    assert [s.mode for s in plan.steps if isinstance(s, WriteFile)] == [0o600]


def test_missing_masked_broken_and_odd_units(lab: LabHost, host: Host) -> None:
    make_unit(lab, "broken", "[Service]\nExecStart=relative/path x\n")
    lab.shell(f"ln -sf /dev/null {ETC}/masked.service; systemctl daemon-reload")
    for name, text in (("absent", "no unit absent"), ("masked", "masked"), ("broken", "bad-setting")):
        for act in (SystemdService(host, name).read_state, SystemdService(host, name).read_launch):
            with pytest.raises(ServiceError, match=text):
                act()
    for name in ("-x", "../x", "a b", "x\ny", "$(id)", "x;y", "é", "", "foo@", "a/b"):
        with pytest.raises(ServiceError):
            SystemdService(host, name)


def test_a_link_in_place_of_the_folder_is_refused(lab: LabHost, host: Host) -> None:
    make_unit(lab, "linked", "[Service]\nExecStart=/opt/show --a 1\n")
    lab.shell(f"mkdir -p /srv/elsewhere; ln -s /srv/elsewhere {ETC}/linked.service.d")
    with pytest.raises(ServiceError, match="a link stands"):
        SystemdService(host, "linked").plan_patch([Edit("remove", "--a")])


def test_an_instance_of_a_template(lab: LabHost, host: Host) -> None:
    make_unit(lab, "tmpl@", "[Service]\nExecStart=/opt/show --name %i --a 1\n")
    service = SystemdService(host, "tmpl@one-two")
    assert service.read_launch().args == ("--name", "one-two", "--a", "1")
    run_steps(host, service.plan_patch([Edit("set", "--a", "1", "2")]).steps)
    assert started_with(lab, host, service)[0] == ["--name", "one-two", "--a", "2"]


# ---------------------------------------------------------------- reading lines as systemd does
def test_random_lines_are_read_as_systemd_reads_them(lab: LabHost) -> None:
    rng = random.Random(7)
    pieces = ["a", "--x", "=", " ", "  ", "\t", "'", '"', "\\", "\\\\", "\\n", "\\x41", "\\101", "\\u00e9",
        "\\q", "\\s", ";", " ; ", "\\;",
              "%%", "$$", "$A", "${A}", "é", "#", "\\\n", "\\\n#c\n", " \\\n  ", "{", "-1", '"b c"', "'d e'", "\\'"]  # fmt: skip
    lines = ["/bin/p " + "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 14))) for _ in range(250)]
    blob = "\0".join(f"[Service]\nType=oneshot\nExecStart={line}\n" for line in lines)
    lab.write("/srv/units", blob)
    lab.run(
        "python3",
        "-c",
        "import pathlib\nfor i, t in enumerate(open('/srv/units', newline='').read().split(chr(0))):"
        " p = pathlib.Path(f'/run/systemd/system/r{i}.service'); p.parent.mkdir(exist_ok=True); p.write_text(t, newline='')",
    )
    script = (
        "systemctl daemon-reload; i=0; while [ $i -lt $1 ]; do"
        " systemctl show -p LoadState --value r$i.service | tr '\\n' ' ';"
        " busctl --json=short get-property org.freedesktop.systemd1 /org/freedesktop/systemd1/unit/r${i}_2eservice"
        " org.freedesktop.systemd1.Service ExecStart || echo; i=$((i+1)); done"
    )
    answers = lab.shell(script, str(len(lines))).decode().splitlines()
    assert len(answers) == len(lines)
    compared = refused = 0
    for line, answer in zip(lines, answers, strict=True):
        state, _, raw = answer.partition(" ")
        try:
            values = values_of(parse_unit(f"[Service]\nExecStart={line}\n"), "Service", "ExecStart")
            mine = [[expand_specifiers(w.text, {}) for w in c.words] for v in values for c in parse_exec(v)]
        except UnitSyntaxError:
            mine = []
            refused += 1
        theirs = [entry[1] for entry in json.loads(raw)["data"]] if raw.startswith("{") else []
        if state != "loaded" or len(theirs) != len(mine):
            # a line of several commands one of which is refused: read by nobody as a whole
            assert state != "loaded" or not mine or not theirs or ";" in line, (line, mine, theirs)
            continue
        assert mine == theirs, line
        compared += bool(mine)
    assert compared > 100 and refused > 10


# ---------------------------------------------------------------- state and journal
NOISY = r"""#!/usr/bin/python3
import sys, os
out = sys.stdout.buffer
out.write(b"start\n" + b"k" * 6000 + b"\n" + b"\x1b[31mred\x1b[0m \xff\xfe bytes\n")
out.write(b"L" * 100_000 + b"\nprogress 1\rprogress 2\n\ntail without end")
out.flush()
sys.exit(7)
"""


def test_the_journal_gives_the_bytes_of_one_run(lab: LabHost, host: Host) -> None:
    lab.write("/opt/noisy", NOISY, 0o755)
    service = SystemdService(host, make_unit(lab, "noisy", "[Service]\nExecStart=/opt/noisy\n"))
    with pytest.raises(ServiceError, match="has not run yet"):
        service.read_log()
    runs = []
    for _ in range(2):
        run_steps(host, service.plan_restart().steps)
        wait_for(lambda: service.read_state().active == "failed" and service.read_state().run not in runs)
        state = service.read_state()
        assert (state.exit.code, state.exit.signal, state.result, state.main_pid) == (7, None, "exit-code", None)
        runs.append(state.run)
    wait_for(lambda: b"status=7" in service.read_log().data)
    chunk = service.read_log()
    lines = chunk.data.split(b"\n")
    for wanted in (
        b"start",
        b"k" * 6000,
        b"\x1b[31mred\x1b[0m \xff\xfe bytes",
        b"L" * 100_000,
        b"progress 1\rprogress 2",
        b"tail without end",
    ):
        assert lines.count(wanted) == 1, wanted[:20]
    assert any(b"Main process exited, code=exited, status=7" in line for line in lines)  # systemd's own line
    assert service.read_log(run=runs[0]).data.count(b"start\n") == 1
    assert runs[0] != runs[1] and not chunk.cut
    assert service.read_log(after=chunk.cursor).data == b""
    run_steps(host, service.plan_restart().steps)
    for bad in ("x", "-f", f"{runs[0]} "):
        with pytest.raises(ServiceError):
            service.read_log(run=bad)
    with pytest.raises(ServiceError):
        service.read_log(after="no cursor")


def test_no_line_of_a_run_that_ends_at_once_is_lost(lab: LabHost, host: Host) -> None:
    """Under load journald may see such a process too late to know its invocation."""
    script = "[Service]\nExecStart=/opt/quick\n"
    lab.write("/opt/quick", "#!/bin/sh\necho one; echo two; exit 7\n", 0o755)
    service = SystemdService(host, make_unit(lab, "quick", script))
    lab.shell("for i in 1 2 3; do timeout 10 sh -c 'while :; do :; done' & done >/dev/null 2>&1")
    runs: list[str] = []
    for _ in range(12):
        lab.shell("systemctl reset-failed quick 2>/dev/null; systemctl restart --no-block quick")
        wait_for(lambda: service.read_state().active == "failed" and service.read_state().run not in runs)
        runs.append(str(service.read_state().run))
    wait_for(lambda: b"Failed with" in service.read_log().data)
    lab.run("journalctl", "--sync")  # the manager's own word comes sooner than what the last runs printed
    for run in runs:
        lines = service.read_log(run=run).data.split(b"\n")
        # a line without an invocation id between two runs may be shown with both; none may be shown with neither
        assert min(lines.count(b"one"), lines.count(b"two")) >= 1, (run, lines)


def test_states_of_a_running_a_killed_and_a_limited_unit(lab: LabHost, host: Host) -> None:
    service = SystemdService(host, make_unit(lab, "sleeper", "[Service]\nExecStart=/bin/sleep 1000\n"))
    run_steps(host, service.plan_restart().steps)
    wait_for(lambda: service.read_state().sub == "running")
    state = service.read_state()
    assert state.exit.code is None and state.main_pid and b"sleep" in lab.run("ps", "-o", "args=", "-p", str(state.main_pid))
    lab.run("kill", "-9", str(state.main_pid))
    wait_for(lambda: service.read_state().active == "failed")
    assert (service.read_state().exit.signal, service.read_state().result) == (9, "signal")
    text = "[Unit]\nStartLimitBurst=2\nStartLimitIntervalSec=1000\n"
    text += "[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=10ms\n"
    limited = SystemdService(host, make_unit(lab, "limited", text))
    run_steps(host, limited.plan_restart().steps)
    wait_for(lambda: limited.read_state().active == "failed")
    assert limited.read_state().restarts >= 1
    run_steps(host, limited.plan_restart().steps)  # the hit limit is cleared first
    run_steps(host, service.plan_restart().steps)
    wait_for(lambda: service.read_state().sub == "running")
    run_steps(host, service.plan_stop().steps)
    assert service.read_state().active in ("inactive", "failed") and service.read_state().main_pid is None


def test_no_access_to_the_journal_is_not_an_empty_log(lab: LabHost, host: Host) -> None:
    lab.write("/opt/noisy", NOISY, 0o755)
    service = SystemdService(host, make_unit(lab, "guarded", "[Service]\nExecStart=/opt/noisy\n"))
    run_steps(host, service.plan_restart().steps)
    wait_for(lambda: service.read_state().active == "failed")
    lab.add_user("outsider")
    lab.add_user("insider", groups=["systemd-journal"])
    login = lab.open("outsider")
    with pytest.raises(ServiceError, match="not open to this login") as caught:
        SystemdService(login, "guarded").read_log()
    assert "systemd-journal" in caught.value.hint
    login.close()
    login = lab.open("insider")
    assert b"k" * 6000 in SystemdService(login, "guarded").read_log().data
    # reading needs no root, writing does: refused with what is missing
    plan = SystemdService(login, "guarded").plan_patch([Edit("add", "--a")])
    if shutil.which("sudo"):
        with pytest.raises(HostError, match="needs root"):
            run_steps(login, plan.steps)
    login.close()
    lab.run("chmod", "600", f"{ETC}/guarded.service")
    login = lab.open("outsider")
    with pytest.raises(ServiceError, match="cannot be read"):
        SystemdService(login, "guarded").read_launch()
    login.close()


@pytest.mark.parametrize("output", ["null", "append:/srv/out.log", "file:/srv/out2.log"])
def test_output_that_goes_elsewhere_is_not_an_empty_log(lab: LabHost, host: Host, output: str) -> None:
    lab.write("/opt/noisy", NOISY, 0o755)
    service = SystemdService(host, make_unit(lab, "aside", f"[Service]\nStandardOutput={output}\nExecStart=/opt/noisy\n"))
    run_steps(host, service.plan_restart().steps)
    wait_for(lambda: service.read_state().active == "failed")
    with pytest.raises(ServiceError, match="does not go to the journal"):
        service.read_log()


def test_a_unit_of_the_user(lab: LabHost) -> None:
    lab.add_user("owner")
    lab.run("loginctl", "enable-linger", "owner")
    lab.write("/opt/wait", "#!/bin/sh\necho with $*\nexec sleep 600\n", 0o755)
    login = lab.open("owner")
    wait_for(lambda: login.run(Command(("systemctl", "--user", "show-environment"))).status == 0)
    folder = "/home/owner/.config/systemd/user"
    login.write_file(f"{folder}/mine.service", b"[Service]\nExecStart=/opt/wait --a 1\n", 0o644)
    assert login.run(Command(("systemctl", "--user", "daemon-reload"))).status == 0
    service = SystemdService(login, "mine", user=True)
    plan = service.plan_patch([Edit("add", "--b", None, "2")])
    run_steps(login, plan.steps)
    assert lab.read(f"{folder}/mine.service.d/zz-triage.conf")
    run_steps(login, service.plan_restart().steps)
    wait_for(lambda: b"with --a 1 --b 2" in service.read_log().data)
    assert service.read_state().active == "active"
    run_steps(login, service.plan_stop().steps)
    undo(lab, login, plan)
    assert lab.run("ls", "-A", folder) == b"mine.service\n"
    login.close()
