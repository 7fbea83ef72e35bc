"""The faults that triage must survive, each with the tests that name it: `python -m tests.abuse` runs them, writes ABUSE.md.

    python -m tests.abuse                 run the tests that name a fault, and write the table
    python -m tests.abuse --junit FILE    write it from the junit file of a run that has been (`pytest --junitxml=FILE`);
                                          several files are parts of one run

A test names a fault by its name (`test_NN_...`), by `@pytest.mark.abuse(NN, ...)`, or in abuse.toml. Exit code 0 where every
such test passed, 1 where one failed or was skipped.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "abuse.toml"
TABLE = ROOT / "tests" / "ABUSE.md"
FAULTS = range(1, 49)
WORST = ("failed", "skipped", "passed")  # the first of them that some test has is the result of a fault

HEAD = """\
# Faults that triage must survive

Written by `python -m tests.abuse`, which runs the tests below (on lab hosts where they need one). The numbers are stable.

| # | fault | tests | result | not shown |
|--:|---|---|---|---|
"""


@dataclass(frozen=True)
class Fault:
    """What the list says of one; `open` is the part of it that no test shows, "" where there is none."""

    what: str
    open: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """One test of a run, all its parameters together; `result` is the worst of them."""

    test: str  # "tests/loop/test_apply.py::test_34_..."
    faults: frozenset[int]
    result: str


@cache
def read_list() -> dict[int, Fault]:
    """The faults by number. Raises OSError, TOMLDecodeError, KeyError for a broken list."""
    read = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {int(n): Fault(entry["fault"], entry.get("open", ""), tuple(entry["tests"])) for n, entry in read.items()}


def faults_of(nodeid: str, marked: Iterable[int] = ()) -> tuple[int, ...]:
    """The faults that a test names; `nodeid` may hold parameters, `marked` comes from its markers."""
    plain = nodeid.partition("[")[0]
    named = re.search(r"::test_(\d\d?)_", plain)
    listed = {number for number, fault in read_list().items() if plain in fault.tests}
    return tuple(sorted({*marked, *listed, *([int(named[1])] if named else [])}))


def read_results(*junit: Path) -> list[Ran]:
    """The tests of junit files that name a fault; of a test in several files the last counts.

    Raises OSError, ElementTree.ParseError.
    """
    found: dict[str, Ran] = {}
    for file in junit:
        found |= {ran.test: ran for ran in _read_file(file)}
    return [found[test] for test in sorted(found)]


def _read_file(junit: Path) -> list[Ran]:
    found: dict[str, tuple[set[int], str]] = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        properties = {p.get("name"): p.get("value") or "" for p in case.iter("property")}
        if "abuse" not in properties:
            continue
        file = (case.get("classname") or "").replace(".", "/") + ".py"
        test = f"{file}::{(case.get('name') or '').partition('[')[0]}"
        failed = case.find("failure") is not None or case.find("error") is not None
        result = "failed" if failed else "skipped" if case.find("skipped") is not None else "passed"
        faults, before = found.get(test, (set(), "passed"))
        found[test] = ({*faults, *map(int, properties["abuse"].split())}, min(result, before, key=WORST.index))
    return [Ran(test, frozenset(faults), result) for test, (faults, result) in found.items()]


def draw_table(ran: Iterable[Ran]) -> str:
    """The Markdown file: a row for each fault, the tests with their result where it is not "passed"."""
    tests = list(ran)
    lines = []
    for number in FAULTS:
        of_it = [r for r in tests if number in r.faults]
        shown = "<br>".join(
            f"`{r.test.removeprefix('tests/')}`" + ("" if r.result == "passed" else f" ({r.result})") for r in of_it
        )
        result = next((word for word in WORST if any(r.result == word for r in of_it)), "no test")
        fault = read_list()[number]
        lines.append(f"| {number} | {fault.what} | {shown or '-'} | {result} | {fault.open} |\n")
    return HEAD + "".join(lines)


def read_table(text: str) -> Mapping[int, tuple[tuple[str, ...], str]]:
    """Fault -> (tests, result) of a table as draw_table writes it."""
    rows = re.findall(r"^\| (\d+) \| [^|]* \| ([^|]*) \| ([^|]*) \| [^|]*\|$", text, re.MULTILINE)
    return {int(n): (tuple(f"tests/{t}" for t in re.findall(r"`([^`]+)`", tests)), result) for n, tests, result in rows}


def run_tests(junit: Path) -> None:
    """All tests that name a fault, in one pytest process; what failed stands in the file."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "abuse", f"--junitxml={junit}", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=ROOT, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.abuse", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--junit", type=Path, nargs="+", metavar="FILE", help="read these files in place of running the tests")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        junit = args.junit or [Path(folder) / "junit.xml"]
        if args.junit is None:
            run_tests(junit[0])
        try:
            ran = read_results(*junit)
        except (OSError, ElementTree.ParseError) as error:
            print(f"{', '.join(map(str, junit))} cannot be read: {error}", file=sys.stderr)
            return 2
    TABLE.write_text(draw_table(ran), encoding="utf-8")
    without = [str(n) for n in FAULTS if not any(n in r.faults for r in ran)]
    print(
        f"{len(FAULTS) - len(without)} of {len(FAULTS)} faults have a test, {len(ran)} tests in all; none: {', '.join(without)}"
    )
    bad = [r for r in ran if r.result != "passed"]
    for one in bad:
        print(f"{one.result}: {one.test}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
