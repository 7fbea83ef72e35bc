"""Rehearsal on this machine, of a small package of our own whose validation does all that validation should not do."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.engines import ProfileEngine
from triage.errors import HostError, ServiceError
from triage.hosts import open_host
from triage.loop.rehearse import RehearsalLimits, rehearse_launches
from triage.model import Command, CommandResult, Edit, ExitStatus, Launch, Rehearsal, Rehearsed, ServiceState
from triage.protocols import EngineProfile, Host, RehearsalNames, Stage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read from /proc")

API_KEY = "key-that-nobody-may-see"
HIDDEN = "variable-that-nobody-may-see"
ABSENT = "198.51.100.7"  # an address that is nobody's (RFC 5737)

ARGS = r"""
import argparse, ctypes, dataclasses, errno, logging, os, resource, signal, socket, subprocess, sys, time, warnings

logger = logging.getLogger(__name__)
AT_IMPORT = os.environ.get("LITTLE_AT_IMPORT", "none")
if os.environ.get("LITTLE_BROKEN"):
    raise RuntimeError("the library says " + os.environ["LITTLE_TOKEN"])


def act_assert(args):
    assert args.size > 4, "size is to be more than 4"

def act_exit(args):
    print("good bye")
    sys.exit(0)

def act_quit(args):
    sys.exit("it does not like this")

def act_hang(args):
    time.sleep(600)

def act_hog(args):
    args.held = bytearray(os.urandom(1 << 20)) * 700
    time.sleep(600)

def act_daemon(args):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sleep", args.where])
        os._exit(0)
    os.wait()
    subprocess.Popen(["sleep", args.where], start_new_session=True)
    time.sleep(0.2)

def act_write(args):
    with open(args.where + "/left", "w") as stream:
        stream.write("x")

def act_try_write(args):
    try:
        act_write(args)
    except OSError:
        logger.warning("it cannot be written")

def act_scratch(args):
    import tempfile
    with tempfile.NamedTemporaryFile(delete=False) as stream:
        stream.write(b"x")
    os.makedirs(os.environ["LITTLE_CACHE"] + "/deep/er")
    args.where = stream.name

def act_semaphore(args):
    import multiprocessing
    args.held = multiprocessing.get_context("spawn").Lock()
    assert any(name.startswith("sem.") for name in os.listdir("/dev/shm"))

def act_shared_memory(args):
    from multiprocessing import shared_memory
    shared_memory.SharedMemory(create=True, size=64)

def act_folder(args):
    os.makedirs(args.where + "/made/in/depth", exist_ok=True)
    assert os.path.isdir(args.where + "/made/in")
    os.makedirs(args.where + "/made/in/depth", exist_ok=True)

def act_remove(args):
    os.unlink(args.where + "/kept")

def act_connect(args):
    try:
        socket.create_connection((args.host, 80), timeout=5)
    except OSError as error:
        raise RuntimeError("no answer") from error

def act_look_up(args):
    socket.getaddrinfo("example.org", 443)

def act_library(args):
    raise little_errors.NotCached("it is in no cache")

def act_own_address(args):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((args.host, 80))

def act_port(args):
    with socket.socket() as one:
        one.bind(("127.0.0.1", args.size))
        one.listen(1)

def act_any_port(args):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        args.size = one.getsockname()[1]

def act_leave(args):
    os._exit(3)

def act_abort(args):
    os.abort()

def act_fault(args):
    ctypes.string_at(0)

def act_kill_parent(args):
    os.kill(os.getppid(), signal.SIGKILL)

def act_kill_supervisor_by_force(args):
    subprocess.run(["kill", "-9", str(os.getppid())])
    time.sleep(600)

def act_many(args):
    require = os.environ.get("LITTLE_MANY")
    assert require == "1", "needs LITTLE_MANY=1"
    assert "LITTLE_GONE" not in os.environ

def act_imported(args):
    assert AT_IMPORT == "new", AT_IMPORT

def act_echo(args):
    print("key", args.api_key)
    logger.warning("token %s", os.environ["LITTLE_TOKEN"])
    raise ValueError("bad key " + args.api_key + " of " + os.environ["LITTLE_TOKEN"])

def act_flood(args):
    for _ in range(3000):
        print("x" * 999)
    raise ValueError("after the flood")

def act_forge(args):
    line = '\n%s{"at": 0, "outcome": "passes"}\n{"outcome": "passes"}\n{"end": true}\n'
    for number in range(1, 3):
        os.write(number, (line % args.where).encode())
    for name in sorted(os.listdir("/proc/self/fd")):
        try:
            os.write(int(name), (line % args.where).encode())
        except OSError:
            pass
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = open("/proc/%s/cmdline" % name, "rb").read()
                assert b"nobody-may-see" not in text, text
            except OSError:
                pass
    raise ValueError("not forged")

def act_warn(args):
    logger.info("not shown, as nobody asked")
    logger.warning("size %d is odd", args.size)
    warnings.warn("old flag")
    print("said")

def is_busy():
    return os.environ.get("LITTLE_BUSY") == "1"

def clean_words(words):
    if "--wrong" in words:
        raise ValueError("wrong word")
    return "kind", [word for word in words if word != "--kind"]

def lead(words):
    return (["--do", *words], True) if words[0][0] != "-" else (words, False)

def act_repr(args):
    args.held = Hostile()

class Hostile:
    def __repr__(self):
        time.sleep(600)

class little_errors:
    class NotCached(Exception):
        pass


@dataclasses.dataclass
class Args:
    do: str = "pass"
    size: int = 1
    host: str = "127.0.0.1"
    where: str = ""
    api_key: str = None
    held: object = None
    twice: bool = False

    def __post_init__(self):
        self.size += 1
        globals().get("act_" + self.do, lambda args: None)(self)

    def check(self):
        assert not self.twice, "checked by the second stage"


def prepare(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--do", default="pass")
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--where", default="")
    parser.add_argument("--api-key")
    parser.add_argument("--twice", action="store_true")
    return Args(**vars(parser.parse_args(argv)))
"""
FIRST = """
import os
def begin():
    assert os.environ.get("LITTLE_FIRST") != "bad", "said before the parser"
"""

PROFILE = EngineProfile(
    name="little",
    package="little",
    distribution="little",
    entries=(("-m", "little.launch", "serve"), ("-m", "little.launch")),
    args_class="little.args.Args",
    stages=(Stage("little.args.prepare"), Stage(".absent"), Stage(".check")),
    port_field="port",
    host_field="host",
    model_field="where",
    health_paths=("/health",),
    generate_path=None,
    ready_marks=("ready",),
    fatal_marks=("dead",),
    secret=("*api_key*", "*api-key*", "*_TOKEN"),
    environment_prefixes=("LITTLE_",),
    rehearsal=RehearsalNames(
        imports=("little.launch", "little.not_there"),
        first=("little.first.begin", "little.gone.begin"),
        environment={"LITTLE_OFFLINE": "1"},
        caches=("LITTLE_CACHE",),
        busy="little.args.is_busy",
        words={"serve": ("little.args.clean_words", "little.args.gone", "little.args.lead")},
        network_errors=("little.args.little_errors.*",),
    ),
)
ENGINE = ProfileEngine(PROFILE)
LIMITS = RehearsalLimits(seconds=60, per_launch=2.0, memory_mib=500, output=100_000)


@dataclass(frozen=True)
class Told:
    """A service that is what it is told to be."""

    host: Host
    launch: Launch
    pid: int | None = None
    kind: str = "systemd"
    name: str = "told"

    def reveal_launch(self) -> Launch:
        return self.launch

    def read_secrets(self) -> frozenset[str]:
        return frozenset({API_KEY, HIDDEN})

    def read_state(self) -> ServiceState:
        return ServiceState("active" if self.pid else "failed", "", None, self.pid, ExitStatus())


@dataclass(frozen=True)
class Place:
    folder: Path
    service: Told

    def rehearse(self, *launches: Sequence[Edit], limits: RehearsalLimits = LIMITS, **changed: object) -> Rehearsal:
        service = replace(self.service, launch=replace(self.service.launch, **changed))  # type: ignore[arg-type]
        return rehearse_launches(service.host, service, ENGINE, launches, limits)  # type: ignore[arg-type]

    def judge(self, *words: str, limits: RehearsalLimits = LIMITS) -> Rehearsed:
        return self.answer(self.rehearse(doing(*words), limits=limits))

    @staticmethod
    def answer(rehearsal: Rehearsal) -> Rehearsed:
        assert rehearsal.problem is None, (rehearsal.problem, rehearsal.hint)
        (answer,) = rehearsal.answers
        return answer


def doing(*words: str) -> tuple[Edit, ...]:
    """Edits from ("act", "--flag", "value", ...)."""
    flags = [Edit("add", words[i], None, words[i + 1]) for i in range(1, len(words), 2)]
    return (Edit("add", "--do", None, words[0]), *flags)


def words(*given: str) -> tuple[Edit, ...]:
    """Edits that append words as they are."""
    return tuple(Edit("add", word) for word in given)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    package = tmp_path / "site" / "little"
    package.mkdir(parents=True)
    for name, text in {"__init__": "", "launch": "", "args": ARGS, "first": FIRST}.items():
        (package / f"{name}.py").write_text(text)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    (work / "kept").write_text("kept")
    env = {
        "PYTHONPATH": str(tmp_path / "site"),
        "TMPDIR": str(scratch),
        "LITTLE_TOKEN": HIDDEN,
        "LITTLE_GONE": "1",
        "ODD": "two\nlines and 'quotes' \"$HOME\" `no`",
        "PATH": os.environ["PATH"],
    }
    entry = (sys.executable, "-m", "little.launch")
    with_host = open_host("local")
    launch = Launch(entry, ("--api-key", API_KEY), env, str(work), None)
    before = tree(tmp_path)
    yield Place(tmp_path, Told(with_host, launch))
    assert tree(tmp_path) == before, "it left something"
    assert processes(str(tmp_path)) == []


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


def processes(word: str) -> list[str]:
    """Command lines of other processes that hold the word; the dead that nobody waited for have none."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if word in text and int(path.parent.name) != os.getpid():
            found.append(text)
    return found


# ---------------------------------------------------------------- what validation says
def test_a_launch_that_passes_has_its_settings_and_what_was_asked(place: Place) -> None:
    found = place.rehearse((), doing("pass", "--size", "7"))
    assert found.problem is None and found.notes == ()
    typed, edited = found.answers
    assert (typed.outcome, typed.why, typed.log, typed.exit) == ("passes", "", b"", ExitStatus())
    assert (typed.settings["size"], edited.settings["size"], edited.asked["size"]) == ("2", "8", "7")
    assert typed.settings["api_key"] == typed.asked["api_key"] == "'<masked>'"
    assert edited.edits == doing("pass", "--size", "7")
    assert 0 < found.prepared < found.seconds


def test_a_failure_reads_as_the_log_of_a_start(place: Place) -> None:
    answer = place.judge("assert", "--size", "3")
    assert (answer.outcome, answer.why, answer.exit.code) == ("fails", "AssertionError: size is to be more than 4", 1)
    failure = find_failure(read_log(answer.log), answer.exit, "little")
    assert failure is not None and failure.exception == "AssertionError"
    files = [(Path(f.path).name, f.function) for f in failure.frames]
    assert files == [("args.py", "prepare"), ("<string>", "__init__"), ("args.py", "__post_init__"), ("args.py", "act_assert")]
    assert answer.settings["size"] == "4", "the settings as far as validation came"


def test_the_later_stages_are_run_and_what_the_launcher_does_first(place: Place) -> None:
    second, first = place.rehearse((Edit("add", "--twice"),), (Edit("env", "LITTLE_FIRST", None, "bad"),)).answers
    assert second.why == "AssertionError: checked by the second stage"
    assert first.why == "AssertionError: said before the parser"


def test_the_parser_and_exits(place: Place) -> None:
    usage, exit_0, text, absent = place.rehearse(
        (Edit("add", "--nothing-like-it"),), doing("exit"), doing("quit"), (Edit("remove", "--not-typed"),)
    ).answers
    assert (usage.outcome, usage.why, usage.exit.code) == ("usage", "unrecognized arguments: --nothing-like-it", 2)
    assert usage.log.startswith(b"usage: launch.py [-h]")
    assert (exit_0.outcome, exit_0.log, exit_0.exit.code) == ("exit", b"good bye\n", 0)
    assert (text.outcome, text.exit.code, text.log) == ("fails", 1, b"it does not like this\n")
    assert absent.outcome == "usage" and "--not-typed" in absent.why


def test_words_that_the_entry_takes_for_itself(place: Place) -> None:
    entry = (*place.service.launch.entry, "serve")
    edits = words("assert", "--kind"), words("--wrong"), words("--kind", "--do", "assert"), words("--nothing")
    found = place.rehearse(*edits, entry=entry, args=())
    assert [a.why for a in found.answers] == [
        *("AssertionError: size is to be more than 4", "ValueError: wrong word", "AssertionError: size is to be more than 4"),
        "unrecognized arguments: --nothing",
    ]
    assert b"launch.py: error: " in found.answers[-1].log
    assert place.answer(place.rehearse(words("--kind"))).outcome == "usage", "only behind that word"


def test_where_a_fork_would_break_the_device_each_launch_has_a_process_of_its_own(place: Place) -> None:
    found = place.rehearse(doing("assert"), doing("pass"), doing("leave"), env={**place.service.launch.env, "LITTLE_BUSY": "1"})
    assert [a.outcome for a in found.answers] == ["fails", "passes", "crash"]
    assert any("process of its own" in note for note in found.notes)


def test_what_is_printed_is_what_a_log_would_hold(place: Place) -> None:
    answer = place.judge("warn", "--size", "3")
    lines = answer.log.decode().splitlines()
    assert answer.outcome == "passes"
    assert "size 4 is odd" in lines and "said" in lines
    assert any(line.endswith("UserWarning: old flag") for line in lines)
    assert "not shown" not in answer.log.decode()


def test_edits_of_variables_act_also_on_what_is_read_by_the_import(place: Place) -> None:
    many = (Edit("env", "LITTLE_MANY", None, "1"), Edit("env", "LITTLE_GONE", "1", None))
    imported = (Edit("env", "LITTLE_AT_IMPORT", None, "new"),)
    other = (Edit("env", "OTHER", None, "1"),)
    found = place.rehearse(
        doing("many"), (*doing("many"), *many), doing("imported"), (*doing("imported"), *imported), (*doing("pass"), *other)
    )
    assert [a.outcome for a in found.answers] == ["fails", "passes", "fails", "passes", "passes"]


def test_the_environment_is_the_launch_s_own_and_values_keep_their_form(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITTLE_MANY", "1")
    launch = place.service.launch
    env = {k: v for k, v in launch.env.items() if k != "LITTLE_GONE"}
    assert place.answer(place.rehearse(doing("many"), env=env)).outcome == "fails", "the login's own variable is not passed"
    probe = "import os; assert os.environ['ODD'] == " + repr(launch.env["ODD"]) + "; assert 'SHLVL' not in os.environ\n"
    probe += "assert os.environ['LITTLE_OFFLINE'] == '1' and os.getcwd() == " + repr(launch.cwd) + "\n"
    (place.folder / "site" / "usercustomize.py").write_text("")
    (place.folder / "site" / "sitecustomize.py").write_text("import os\nos.environ['FROM_SITE'] = '1'\n")
    (place.folder / "site" / "little" / "launch.py").write_text(probe + "assert os.environ['FROM_SITE'] == '1'\n")
    try:
        assert place.answer(place.rehearse(())).outcome == "passes"
    finally:
        (place.folder / "site" / "little" / "launch.py").write_text("")
        (place.folder / "site" / "usercustomize.py").unlink()
        (place.folder / "site" / "sitecustomize.py").unlink()


# ---------------------------------------------------------------- what validation must not do here
def test_nothing_is_written_outside_and_what_needs_it_is_not_called_a_failure(place: Place) -> None:
    work = str(place.service.launch.cwd)
    found = place.rehearse(
        doing("write", "--where", work),
        doing("try_write", "--where", work),
        doing("folder", "--where", work),
        doing("remove", "--where", work),
        doing("scratch"),
    )
    write, tried, folder, remove, scratch = found.answers
    assert write.outcome == "offline" and "changes no file" in write.why
    assert (tried.outcome, tried.log) == ("passes", b"it cannot be written\n")
    assert folder.outcome == "passes"
    assert remove.outcome == "offline"
    assert scratch.outcome == "passes" and not os.path.exists(scratch.settings["where"].strip("'"))
    assert any("kept from changing" in note and note.endswith("/left") for note in found.notes)
    assert any("taken as made" in note for note in found.notes)


def test_no_semaphore_and_no_shared_memory_is_left(place: Place) -> None:
    before = set(os.listdir("/dev/shm"))
    semaphore, shared = place.rehearse(doing("semaphore"), doing("shared_memory")).answers
    assert (semaphore.outcome, shared.outcome) == ("passes", "offline"), (semaphore.why, shared.why)
    assert not {n for n in set(os.listdir("/dev/shm")) - before if "triage" in n or n.startswith(("psm_", "sem.mp"))}


def test_a_folder_that_cannot_be_made_fails_as_it_would(place: Place) -> None:
    answer = place.judge("folder", "--where", "/proc/1")
    assert answer.outcome == "fails"
    assert answer.why.startswith(("FileNotFoundError", "PermissionError")), answer.why


def test_nobody_is_reached_and_what_needs_somebody_is_told_apart(place: Place) -> None:
    found = place.rehearse(
        doing("connect", "--host", ABSENT), doing("look_up"), doing("library"), doing("own_address", "--host", ABSENT)
    )
    connect, look_up, library, own = found.answers
    assert connect.outcome == look_up.outcome == library.outcome == "offline"
    assert ABSENT in connect.why and "example.org" in look_up.why and "in no cache" in library.why
    assert own.outcome == "passes", "a datagram socket that is connected sends nothing"


def test_ports(place: Place) -> None:
    with socket.socket() as held, socket.socket() as lone:
        held.bind(("127.0.0.1", 0))
        held.listen(5)
        held.setblocking(False)
        port = held.getsockname()[1]
        lone.bind(("127.0.0.1", 0))
        free = lone.getsockname()[1]
        lone.close()
        # act_port takes the number after the settings added one
        taken, unused = doing("port", "--size", str(port - 1)), doing("port", "--size", str(free - 1))
        stopped = place.rehearse(taken, unused, doing("any_port"))
        running = replace(place, service=replace(place.service, pid=os.getpid())).rehearse(taken)
        with pytest.raises(BlockingIOError):
            held.accept()
    assert [a.outcome for a in stopped.answers] == ["fails", "passes", "passes"]
    assert "Address already in use" in stopped.answers[0].why
    assert running.answers[0].outcome == "passes", "the server that runs is stopped before another is started"
    assert any(f"port {port} is in use now" in note for note in running.notes)


def test_what_hangs_grows_dies_or_stays_does_not_stop_the_others(place: Place) -> None:
    mark = str(90_000_000 + os.getpid())
    found = place.rehearse(
        doing("hang"),
        doing("pass"),
        doing("hog"),
        doing("daemon", "--where", mark),
        doing("leave"),
        doing("abort"),
        doing("fault"),
        doing("kill_parent"),
        doing("repr"),
        doing("assert"),
    )
    assert [a.outcome for a in found.answers] == [
        *("timeout", "passes", "memory", "passes", "crash", "crash", "crash", "offline", "passes", "fails")
    ]
    hang, _, hog, _, leave, abort, fault, kill, *_ = found.answers
    assert hang.why == "no answer within 2 s"
    assert "500 MiB" in hog.why
    assert (leave.exit, abort.exit, fault.exit) == (ExitStatus(code=3), ExitStatus(signal=6), ExitStatus(signal=11))
    assert "SIGABRT" in abort.why
    assert "signals no other process" in kill.why
    assert processes(f"sleep {mark}") == []


def test_the_importing_process_may_die_and_the_rest_is_still_judged(place: Place) -> None:
    found = place.rehearse(doing("kill_supervisor_by_force"), doing("assert"), doing("pass"))
    assert [a.outcome for a in found.answers] == ["crash", "fails", "passes"]


def test_the_time_of_the_whole_batch_is_bounded(place: Place) -> None:
    found = place.rehearse(*[doing("hang")] * 3, doing("pass"), limits=replace(LIMITS, seconds=3.0))
    assert [a.outcome for a in found.answers] == ["timeout"] * 4
    assert "3 s of the whole rehearsal" in found.answers[-1].why


def test_secrets_come_back_masked_wherever_they_stand(place: Place) -> None:
    new = "another-key-of-the-edit"
    found = place.rehearse(doing("echo"), (*doing("echo"), Edit("set", "--api-key", None, new)))
    for answer in found.answers:
        text = repr(answer.why) + answer.log.decode() + repr(answer.settings) + repr(answer.asked)
        assert answer.outcome == "fails" and "<masked>" in answer.why
        assert "key <masked>" in answer.log.decode() and "token <masked>" in answer.log.decode()
        assert API_KEY not in text and HIDDEN not in text and new not in text


def test_much_output_is_cut_in_the_middle(place: Place) -> None:
    answer = place.judge("flood")
    assert answer.outcome == "fails"
    assert 90_000 < len(answer.log) < 110_000
    assert b"bytes left out]" in answer.log and answer.log.endswith(b"ValueError: after the flood\n")


def test_an_answer_cannot_be_forged_and_no_command_line_shows_a_secret(place: Place) -> None:
    forge = doing("forge", "--where", "rehearsal-00000000000000000000000000000000:")
    found = place.rehearse(doing("assert"), forge)
    assert [a.why for a in found.answers] == ["AssertionError: size is to be more than 4", "ValueError: not forged"]


def pythons() -> list[str]:
    """Interpreters of this machine that a launch may have, this one too."""
    found = {sys.executable: sys.version_info[:2]}
    places = [str(p) for p in (Path.home() / ".pyenv" / "versions").glob("*/bin/python3")]
    places += filter(None, (shutil.which(f"python3.{n}") for n in range(8, 15)))
    for place in places:
        asked = subprocess.run([place, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, check=False)
        version = tuple(map(int, asked.stdout.split())) if asked.returncode == 0 else ()
        if version >= (3, 8) and version not in found.values():
            found[place] = version  # type: ignore[assignment]
    return list(found)


def test_every_python_that_a_launch_may_have(place: Place) -> None:
    questions = doing("assert"), doing("connect", "--host", ABSENT), doing("semaphore"), words("--nothing"), doing("leave")
    imported = (*doing("imported"), Edit("env", "LITTLE_AT_IMPORT", None, "new"))
    for python in pythons():
        found = place.rehearse(*questions, imported, entry=(python, "-u", "-m", "little.launch"))
        outcomes = [a.outcome for a in found.answers]
        assert outcomes == ["fails", "offline", "passes", "usage", "crash", "passes"], (python, found.problem, found.hint)


# ---------------------------------------------------------------- hosts that cannot
def test_a_package_that_cannot_be_imported_is_a_problem(place: Place) -> None:
    env = dict(place.service.launch.env)
    broken = place.rehearse((), env={**env, "LITTLE_BROKEN": "1"})
    assert broken.answers == ()
    assert broken.problem == "little cannot be imported on local: RuntimeError: the library says <masked>"
    absent = place.rehearse((), env={**env, "PYTHONPATH": ""})
    assert absent.problem is not None and "No module named 'little'" in absent.problem
    slow = place.rehearse((), env={**env, "PYTHONPATH": ""}, limits=replace(LIMITS, seconds=0.0))
    assert slow.problem is not None


def test_where_the_launch_cannot_be_taken_on_it_says_why(place: Place) -> None:
    user = place.rehearse((), user="nobody-of-this-name")
    assert user.problem is not None and "there is no user nobody-of-this-name" in user.problem
    folder = place.rehearse((), cwd="/not/there")
    assert folder.problem is not None and "/not/there" in folder.problem
    python = place.rehearse((), entry=("/not/python3", "-m", "little.launch"))
    assert python.problem is not None and "/not/python3" in python.problem
    launcher = place.rehearse((), entry=("docker", "python", "-m", "little.launch"))
    assert launcher.problem is not None and "docker" in launcher.problem
    shown = place.rehearse((), entry=("docker", API_KEY, "python", "-m", "other.launch"))
    assert shown.problem is not None and "<masked>" in shown.problem and API_KEY not in shown.problem
    many = place.rehearse(*[()] * 41)
    assert many.problem is not None and "41" in many.problem


class Lost:
    """A host whose link goes in the middle of the rehearsal."""

    name = "far"

    def __init__(self, host: Host) -> None:
        self.host = host

    def run(self, command: Command) -> CommandResult:
        if command.timeout > 60:
            raise HostError("the connection to far was lost", "try again")
        return self.host.run(command)


def test_a_lost_connection_and_a_unit_that_cannot_be_read_are_problems(place: Place) -> None:
    lost = rehearse_launches(Lost(place.service.host), place.service, ENGINE, [()], LIMITS)  # type: ignore[arg-type]
    assert (lost.problem, lost.hint, lost.answers) == ("the connection to far was lost", "try again", ())

    class Unreadable(Told):
        def reveal_launch(self) -> Launch:
            raise ServiceError("it starts a script", "name the server")

    odd = Unreadable(place.service.host, place.service.launch)
    assert rehearse_launches(odd.host, odd, ENGINE, [()]).problem == "it starts a script"  # type: ignore[arg-type]


def test_when_nobody_listens_any_more_it_ends_by_itself(place: Place) -> None:
    """As where the link drops: the reader of its answers is gone while a launch hangs."""
    host = place.service.host
    order = {
        "token": "t:",
        "launches": [{"args": ["--do", "hang"], "env": {}}],
        "limits": {"seconds": 60.0, "per_launch": 60.0, "memory": 500, "output": 1000},
        "running": False,
        "clean": True,
    }
    command = ENGINE.build_rehearsal(host, place.service.launch, order, 60.0)  # type: ignore[arg-type]
    words = [str(word) for word in command.argv]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin and process.stdout
    process.stdin.write(command.stdin)
    process.stdin.close()
    while b'"ready"' not in process.stdout.readline():
        pass
    until = time.monotonic() + 20
    while not list((place.folder / "tmp").glob("*/tmp/0")) and time.monotonic() < until:
        time.sleep(0.02)
    process.stdout.close()
    assert process.wait(20) == 1
