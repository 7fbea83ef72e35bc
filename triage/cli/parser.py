"""The command line's grammar. Imports argparse only: `triage --help` must not wait for the libraries."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from triage import __version__

FORMAT_NAMES = ("text", "md", "html", "json")
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

EXIT_CODES = """\
exit codes: 0 healthy, fixed, a patch proposed (replay), or nothing surely fails (check); 1 diagnosed but not fixed, or
the launch would fail (check); 2 wrong usage, or the host cannot be reached or read; 3 the log holds no failure that can
be diagnosed; 4 out of budget; 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="triage",
        description="Finds why an SGLang launch fails, in the sglang that is installed on the host, and repairs it reversibly.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"triage {__version__}")
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_capture(commands)
    _add_replay(commands)
    _add_check(commands)
    _add_explain(commands)
    _add_report(commands)
    _add_undo(commands)
    _add_doctor(commands)
    _add_demo(commands)
    return parser


def place_flag(argv: Sequence[str]) -> list[str]:
    """The words of `triage explain --flag ...` with the flag, which is the server's and none of ours, where FIELD stands."""
    words = list(argv)
    is_flag = len(words) > 1 and words[0] == "explain" and words[1].startswith("--") and words[1] != "--"
    if is_flag and words[1].partition("=")[0] not in _explain_options():
        return [words[0], *words[2:], "--", words[1]]
    return words


def _explain_options() -> set[str]:
    own = argparse.ArgumentParser(allow_abbrev=False)
    _fill_explain(own)
    return {name for action in own._actions for name in action.option_strings}


def parse_seconds(text: str) -> float:
    """`90`, `90s`, `30m`, `1.5h` -> seconds."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 30m or 2h")
    seconds = float(match[1]) * UNITS[match[2]]
    if seconds <= 0:
        raise argparse.ArgumentTypeError("the time must be longer than nothing")
    return seconds


def parse_count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 9999")
    return int(text)


def parse_pair(text: str) -> tuple[str, str]:
    """`NAME=VALUE` -> (NAME, VALUE)."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_command(commands: Commands, name: str, what: str, more: str = "") -> argparse.ArgumentParser:  # type: ignore[valid-type]
    added: argparse.ArgumentParser = commands.add_parser(  # type: ignore[attr-defined]
        name, help=what, description=f"{what[0].upper()}{what[1:]}. {more}".rstrip(), epilog=EXIT_CODES, allow_abbrev=False
    )
    return added


def _add_target(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument_group("the server")
    target.add_argument("--host", default="local", metavar="H", help="a name for ssh; `local` (the default) is this machine")
    target.add_argument("--unit", metavar="U", help="its systemd unit")
    target.add_argument("--user-unit", action="store_true", help="the unit belongs to the login's own systemd")
    target.add_argument("--command", metavar="ARGV", help="its command line, for a server that no manager starts; needs --log")
    target.add_argument("--log", metavar="PATH", help="the file on the host that the command's output goes to")
    target.add_argument("--cwd", metavar="DIR", help="the folder on the host that --command starts in")
    ssh = parser.add_argument_group("ssh")
    ssh.add_argument("--ssh-config", metavar="FILE", help="in place of ~/.ssh/config")
    ssh.add_argument("--known-hosts", metavar="FILE", help="in place of ~/.ssh/known_hosts")


def _add_rehearsal(parser: argparse.ArgumentParser) -> None:
    what = "trust the evaluation of the source; do not ask the validation that is installed on the host"
    parser.add_argument("--no-rehearsal", action="store_true", help=what)


def _add_run(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(
        commands,
        "run",
        "the closed loop: capture, diagnose, patch, restart, watch; repeat until healthy",
        "Without --apply it asks before it changes anything; without a terminal it only shows the plan.",
    )
    _add_target(parser)
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--apply", action="store_true", help="apply the patch without asking")
    change.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    parser.add_argument("--yes", action="store_true", help="answer yes to every question")
    parser.add_argument("--keep", action="store_true", help="leave the last patch in place even when the server is not healthy")
    _add_rehearsal(parser)
    parser.add_argument("--max-attempts", type=parse_count, default=5, metavar="N", help="restarts at most (default 5)")
    parser.add_argument(
        "--deadline", type=parse_seconds, default=1800.0, metavar="30m", help="for the whole session (default 30m)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_capture(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(
        commands, "capture", "write everything that a diagnosis needs as a directory, redacted", "Changes nothing on the host."
    )
    _add_target(parser)
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="a directory that does not exist yet, or is empty")


def _add_replay(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(
        commands, "replay", "the same diagnosis offline, from a capture directory or a bare log; no host is touched"
    )
    parser.add_argument("what", metavar="DIR|LOG", help="a capture directory, a log file, or - for a log on standard input")
    _add_given(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_given(parser: argparse.ArgumentParser) -> None:
    """What is laid over a capture."""
    parser.add_argument(
        "--source", metavar="TREE", help="a folder that holds the package (site-packages, an unpacked wheel), or a wheel"
    )
    parser.add_argument("--launch", metavar="ARGV", help="the command line as the operator has it, or its arguments alone")
    parser.add_argument("--env", action="append", type=parse_pair, default=[], metavar="K=V", help="a variable of the launch")
    parser.add_argument("--fact", action="append", type=parse_pair, default=[], metavar="NAME=VALUE", help="a fact of the host")
    parser.add_argument("--model-config", metavar="FILE", help="the model's config.json")


def _add_check(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(
        commands,
        "check",
        "before the first launch: everything that would fail, in order, each with what gets past it",
        "Of a unit on a host, of --source TREE with --launch ARGV, or of a capture directory. Changes nothing. "
        "Exit code 0: nothing surely fails; 1: the launch would fail.",
    )
    parser.add_argument("what", metavar="DIR", nargs="?", help="a capture directory; its log is not read")
    _add_target(parser)
    _add_given(parser)
    _add_rehearsal(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_explain(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(
        commands,
        "explain",
        "a setting's whole life: declared, defaulted, checked, overwritten",
        "Of --source TREE or of a unit on a host; with --launch (or the unit's own) also the values of that launch.",
    )
    _fill_explain(parser)


def _fill_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("field", metavar="FIELD|--flag", help="a setting's name, or its flag")
    _add_target(parser)
    _add_given(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_report(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(commands, "report", "the root-cause report of a session, or of a capture directory")
    parser.add_argument("what", metavar="SESSION|DIR", help="a session's id (`last` for the newest) or a directory")
    parser.add_argument("--format", choices=FORMAT_NAMES, default="text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there in place of standard output")


def _add_undo(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(commands, "undo", "put the unit back exactly as it was before the last session")
    _add_target(parser)


def _add_doctor(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(
        commands,
        "doctor",
        "what triage can and cannot do for a server, and what to do about it",
        "Changes nothing. Exit code 0: all that `run` needs is there; 1: something that it needs is missing.",
    )
    _add_target(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_demo(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add_command(commands, "demo", "the whole loop on this machine in seconds: no root, no ssh, no sglang")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
