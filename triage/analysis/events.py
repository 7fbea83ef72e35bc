"""Log records -> the events that a failure is chosen from: exceptions, usage errors, deaths, and signs of life."""

from __future__ import annotations

import re
import signal as signals
from dataclasses import dataclass, replace

from triage.analysis.gathering import is_error_line
from triage.analysis.tracebacks import Traceback, parse_dump, parse_tracebacks
from triage.model import FailureKind, Frame, Log, LogRecord, Raised

READY_MARKS = ("The server is fired up and ready to roll!", "Application startup complete")
_DUMP_RECORDS = 200  # of a fault handler's dump, one for each thread
_HEAD_CHARS = 4096  # patterns look at this much of a record

_USAGE_ERROR = re.compile(r"^(?P<prog>[^\s:][^:\n]{0,120}): error: ", re.MULTILINE)
_USAGE_ORPHAN = re.compile(
    r"(?:\S{0,200}\.py|[\w./-]{1,120}(?: serve)?): error: "
    r"(?=argument |unrecognized arguments|the following arguments|one of the arguments|ambiguous option|expected )"
)
_SYSTEMD_END = re.compile(r"Main process exited, code=(?P<how>killed|dumped|exited), status=(?P<status>\d{1,3})/")
_OOM_KILLER = re.compile(
    r"killed by the OOM killer|Out of memory: Killed process|Memory cgroup out of memory|\boom-kill:|\bOOMKilled\b"
    r"|result 'oom-kill'"
)
_MANAGER_TIMEOUT = re.compile(r"(?:start|start-pre|start-post|reload) operation timed out|Watchdog timeout \(limit")
_SHELL_DEATH = re.compile(
    r"(?:\S{0,300}: (?:line \d+: )?\s*\d* )?(Killed|Aborted|Segmentation fault|Bus error|Illegal instruction)\b"
)
_SHELL_SIGNALS = {
    "Killed": signals.SIGKILL,
    "Aborted": signals.SIGABRT,
    "Segmentation fault": signals.SIGSEGV,
    "Bus error": signals.SIGBUS,
    "Illegal instruction": signals.SIGILL,
}
_FATAL_PYTHON = re.compile(r"Fatal Python error: (?P<what>[^\n]{1,300})")
_TERMINATE = re.compile(
    r"terminate called (?:after throwing an instance of '(?P<name>[^'\n]{1,200})'|without an active exception)"
)
_WHAT = re.compile(r"what\(\): {1,3}(?P<what>[^\n]{1,4000})")
_CHILD_DIED = re.compile(
    r"Rank \d+ scheduler (?:is dead|died during initialization)|Subprocess \S{1,200} \(pid=\d+\) crashed with"
)
_EXIT_CODE = re.compile(r"[Ee]xit code:? (?P<code>-?\d{1,5})")
_COLLECTIVE_TIMEOUT = re.compile(r"Watchdog caught collective operation timeout")
_C_CHECK = re.compile(r"Failed: (?:Cuda|CUDA|HIP|NCCL) error ")  # printed by a library's C++ that then exits
_BIND = re.compile(
    r"\[Errno \d+\] (?:error while attempting to bind on address|Address already in use)|address already in use", re.I
)
_PEER = re.compile(r"\[rank\d+\]:\[[EWF]")
_START = (
    ("args", re.compile(r"server_args=(?:ServerArgs\()?")),
    ("launcher", re.compile(r"\S{1,300}launch_server\.py:\d+: UserWarning")),
    (
        "manager",
        re.compile(r"Started (?!server process)[^\n]{1,300}\.$|\S{1,200}\.service: Scheduled restart job|-- (?:Boot|Reboot)"),
    ),
)
_MANAGER_LINE = re.compile(r"\S{1,200}\.service: |(?:Started|Starting|Stopping|Stopped|Failed to start) \S|systemd\[")
_SERVED = re.compile(r"\S{1,100} - \"(?:GET|POST) [^\"\n]{1,500}\" 200")
_SHUTDOWN = re.compile(
    r"Shutting down|Waiting for (?:application shutdown|connections to close)|Application shutdown complete"
    r"|Finished server process|kill_process_tree|Received (?:sigquit|sigterm|SIGTERM|signal)|SIGTERM received|Gracefully"
    r"|Stopping "
)
# Words of errors that a process reports because another one is gone.
_FOLLOW_UP_TEXT = re.compile(
    r"Initialization failed\. Please see the error messages above"
    r"|Rank \d+ scheduler (?:is dead|died during initialization)"
    r"|Connection (?:closed|reset) by peer|[Bb]roken pipe|recvValue failed|failed to recv, got 0 bytes"
    r"|remote process exited or there was a network error|ncclRemoteError"
    r"|monitoredBarrier|while waiting for send/recv from rank"
    r"|could finish the model loading, but there are other ranks"
    r"|Watchdog caught collective operation timeout|Failed to check the \"should dump\" flag"
    r"|[Cc]hild process(?:es)? (?:died|exited|terminated)|actor died unexpectedly"
)
_FOLLOW_UP_NAMES = frozenset(
    {
        "EOFError",
        "BrokenPipeError",
        "ConnectionResetError",
        "ChildFailedError",
        "RayActorError",
        "ActorDiedError",
        "ContextTerminated",
    }
)
_NOISE_NAMES = frozenset({"KeyboardInterrupt", "SystemExit", "CancelledError", "GeneratorExit"})
_WARNED = re.compile(
    r"Ignore import error|(?:[Ff]ailed|[Uu]nable|[Cc]ould not) [^\n]{1,300}(?:[Ff]alling? back|[Ii]gnor|[Rr]etry|skipp)|Retry",
    re.M,
)


@dataclass(frozen=True)
class Event:
    """Something in the log that may be the failure. `index` is that of its record in the log."""

    kind: FailureKind
    exception: str | None
    message: str
    index: int
    first: int
    last: int
    role: str  # "root", "follow_up" (another process's end), "noise" (how a shutdown looks)
    rank: str | None = None
    frames: tuple[Frame, ...] = ()
    chain: tuple[Raised, ...] = ()
    siblings: tuple[Raised, ...] = ()
    signal: int | None = None
    fatal: bool = False  # by its form: the process that printed it ends
    main: bool = False  # ends the launcher itself, so that what follows is another run
    warned: bool = False  # logged below error level, or with words of going on
    bare: bool = False  # an exception's own line without a traceback
    dumps: bool = False  # the interpreter's fault handler prints the threads' frames after it
    shell: bool = False  # a shell's word for a death, which may be the server's own kill of what was left


@dataclass(frozen=True)
class Marks:
    """Signs in the log, as indices of records."""

    ready: tuple[int, ...] = ()
    served: tuple[int, ...] = ()
    fatal: tuple[int, ...] = ()  # lines that a dying server prints
    ended: tuple[int, ...] = ()  # the manager's word that the process ended
    starts: tuple[tuple[int, str], ...] = ()


def collect_events(log: Log, package: str, fatal_marks: tuple[str, ...]) -> tuple[tuple[Event, ...], Marks]:
    """Every event of the log in the order of the file, and the marks between them."""
    events: list[Event] = []
    ready: list[int] = []
    served: list[int] = []
    fatal: list[int] = []
    ended: list[int] = []
    starts: list[tuple[int, str]] = []
    for index, record in enumerate(log.records):
        head = record.text[:_HEAD_CHARS]
        if any(mark in head for mark in READY_MARKS):
            ready.append(index)
        if _SERVED.match(head):
            served.append(index)
        if any(mark in head for mark in fatal_marks) or "Received sigquit from a child" in head:
            fatal.append(index)
        if _SYSTEMD_END.search(head) and "exited, status=0" not in head:
            ended.append(index)
        if record.rank is None:
            starts += [(index, kind) for kind, pattern in _START if pattern.match(head)]
        tracebacks = parse_tracebacks(record, package) if "File " in record.text or "Traceback" in record.text else ()
        if tracebacks:
            events += [_exception_event(traceback, record, index, fatal_marks) for traceback in tracebacks]
        else:
            event = _usage_event(record, index) or _death_event(record, index, head) or _bare_event(record, index)
            if event is not None:
                events.append(_add_dump(event, log, package) if event.dumps else event)
    return tuple(events), Marks(tuple(ready), tuple(served), tuple(fatal), tuple(ended), tuple(starts))


def is_shutdown_line(text: str) -> bool:
    """Whether a message is one that an ending server prints on its way out."""
    return bool(_SHUTDOWN.match(text[:_HEAD_CHARS]))


def is_manager_line(text: str) -> bool:
    """Whether a message is the service manager's, not the server's."""
    return bool(_MANAGER_LINE.match(text[:_HEAD_CHARS]))


def _exception_event(traceback: Traceback, record: LogRecord, index: int, fatal_marks: tuple[str, ...]) -> Event:
    raised = traceback.raised
    frames = raised.frames
    spawned = any("multiprocessing/spawn.py" in frame.path for frame in frames[:4])
    outermost = bool(frames) and frames[0].function in ("<module>", "_run_module_as_main")
    main = outermost and not spawned and not traceback.lead and record.rank is None and traceback.complete
    hit = "hit an exception" in traceback.lead or any(mark.strip() in traceback.lead for mark in fatal_marks if mark.strip())
    child = traceback.lead.startswith("Process ") or (outermost and spawned and not traceback.lead)
    warned = bool(_WARNED.search(record.text[:_HEAD_CHARS].split("Traceback (most", 1)[0])) or record.level in (
        "WARNING",
        "DEBUG",
    )
    return Event(
        kind="exception",
        exception=raised.exception or None,
        message=raised.message,
        index=index,
        first=min(min(r.first, r.last) for r in (raised, *traceback.chain)),
        last=max(max(r.first, r.last) for r in (raised, *traceback.chain)),
        role=_role(raised, traceback),
        rank=raised.rank,
        frames=frames,
        chain=traceback.chain,
        siblings=traceback.siblings,
        signal=_exit_signal(raised.message),
        fatal=main or hit or child,
        main=main,
        warned=warned and not hit and not main,
    )


def _role(raised: Raised, traceback: Traceback) -> str:
    name = raised.exception.rsplit(".", 1)[-1]
    if traceback.lead.startswith("Exception ignored in") or name in _NOISE_NAMES:
        return "noise"
    if any(frame.path.endswith(("multiprocessing/resource_tracker.py", "weakref.py")) for frame in raised.frames[:2]):
        return "noise"
    if name in _FOLLOW_UP_NAMES or _FOLLOW_UP_TEXT.search(raised.message[:_HEAD_CHARS]):
        return "follow_up"
    return "root"


def _exit_signal(message: str) -> int | None:
    match = _EXIT_CODE.search(message[:_HEAD_CHARS]) if _CHILD_DIED.search(message[:_HEAD_CHARS]) else None
    return -int(match["code"]) if match and int(match["code"]) < 0 else None


def _usage_event(record: LogRecord, index: int) -> Event | None:
    text = record.text
    match = _USAGE_ERROR.search(text) if text.startswith("usage: ") else _USAGE_ORPHAN.match(text)
    if match is None:
        return None
    message = text[match.end() :].strip()
    above = text.count("\n", 0, match.start())
    first = record.lines[above] if record.lines else record.first + above
    return Event("usage", None, message, index, first, record.last, "root", fatal=True, main=True)


def _death_event(record: LogRecord, index: int, head: str) -> Event | None:
    def event(kind: FailureKind, role: str, signal: int | None = None, message: str = "", exception: str | None = None) -> Event:
        text = message or head.split("\n", 1)[0].strip()
        dumps, shell = bool(_FATAL_PYTHON.match(head)), bool(_SHELL_DEATH.match(head))
        where = (index, record.first, record.last, role, record.rank)
        return Event(kind, exception, text, *where, signal=signal, fatal=True, dumps=dumps, shell=shell)

    if _OOM_KILLER.search(head):
        return event("signal", "root", signals.SIGKILL)
    if _MANAGER_TIMEOUT.search(head):
        return event("timeout", "root")
    if match := _SYSTEMD_END.search(head):
        if match["how"] == "exited":
            return None
        return event("signal", "follow_up", int(match["status"]))
    if match := _SHELL_DEATH.match(head):
        return event("signal", "follow_up", int(_SHELL_SIGNALS[match[1]]))
    if match := _FATAL_PYTHON.match(head):
        number = next((int(s) for word, s in _SHELL_SIGNALS.items() if word in match["what"]), None)
        aborted = number == signals.SIGABRT  # who aborts has said why before
        return event("signal" if number else "exit", "follow_up" if aborted else "root", number)
    if match := _TERMINATE.match(head):
        what = _WHAT.search(head)
        message = what["what"].strip() if what else ""
        role = "follow_up" if _FOLLOW_UP_TEXT.search(message) else "root"
        return event("signal", role, signals.SIGABRT, message, match["name"])
    if _CHILD_DIED.match(head):
        number = _exit_signal(head)
        return event("signal" if number else "exit", "follow_up", number)
    if (match := _EXIT_CODE.match(head)) and int(match["code"]) < 0:
        return event("signal", "follow_up", -int(match["code"]))
    if _COLLECTIVE_TIMEOUT.search(head) and _PEER.match(head):
        return event("timeout", "follow_up")
    if _C_CHECK.match(head):
        return event("exit", "root")
    if _BIND.search(head) and record.level in ("ERROR", "CRITICAL"):
        return event("exit", "root")
    return None


def _bare_event(record: LogRecord, index: int) -> Event | None:
    """An exception's own line where its traceback is not in the log."""
    name, _, message = record.text.partition(":")
    if record.stamp is not None or not is_error_line(record.text.split("\n", 1)[0]):
        return None
    raised = Raised(name.split("\n", 1)[0].strip(), message.strip(), (), record.first, record.last, record.rank)
    role = _role(raised, Traceback(raised))
    where = (raised.exception, raised.message, index, record.first, record.last, role, record.rank)
    return Event("exception", *where, signal=_exit_signal(raised.message), bare=True)


def _add_dump(event: Event, log: Log, package: str) -> Event:
    """The event with the frames of the thread in which it happened, as dumped after it."""
    for record in log.records[event.index : event.index + _DUMP_RECORDS]:
        frames = parse_dump(record, package)
        if frames and ("Current thread" in record.text[:200] or event.frames == ()):
            event = replace(event, frames=frames, last=max(event.last, record.last))
            if "Current thread" in record.text[:200]:
                break
    return event
