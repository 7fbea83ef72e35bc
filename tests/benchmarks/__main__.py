"""What a diagnosis costs beside what it saves, as ratios within one run: python -m tests.benchmarks [RELEASE ...]

For each release, with a complete capture of one failing launch (EAGLE-3 with draft tokens and top-k, without steps) and
everything in a process of its own: the real launch until it fails, `ast.parse` of the files that the diagnosis reads, and
`triage replay` and `triage check` with and without the answers that are kept. Each is run `--rounds` times, in turn; the
best time counts. Needs the releases: python -m tests.oracle.setup.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.logs import print_logs
from tests.benchmarks.processes import Cost, run
from tests.oracle.places import FACTS, ROOT, engine_names, python_of, run_environment, why_absent

RELEASES = ("0.5.11", "0.5.23")
HOST = "h100x8"
ARGS = (
    *("--model-path", "models/kimi-k2", "--trust-remote-code", "--speculative-algorithm", "EAGLE3"),
    *("--speculative-draft-model-path", "models/eagle3-llama"),
    *("--speculative-num-draft-tokens", "3", "--speculative-eagle-topk", "4"),
)
PARSE = "import ast, sys\nfor name in sys.argv[1:]:\n    ast.parse(open(name, 'rb').read())"


def write_capture(release: str, folder: Path) -> None:
    """A capture of the failing launch with all that a host tells, and exactly the source that its diagnosis reads."""
    from tests.oracle.real import Evaluators, ask
    from triage.analysis.diagnose import diagnose
    from triage.analysis.trees import RecordingTree
    from triage.loop.capture_files import save_capture
    from triage.model import CaptureMeta, ExitStatus, Launch
    from triage.protocols import Capture

    ours = Evaluators(release, [ARGS])
    facts = ours.get(HOST).machine.facts
    log = ask(release, HOST, [ARGS])[0].log.encode()
    launch = Launch(("/srv/venv/bin/python", "-m", "sglang.launch_server"), ARGS)
    meta = CaptureMeta("bench", "sglang", "systemd", "sglang", release, None, "1", None, ExitStatus(1), "failed")
    capture = Capture(meta, launch, facts, log, RecordingTree(ours.tree), tuple(ours.models))
    found = diagnose(capture, ours.profile)
    assert found.outcome == "patch", found
    save_capture(capture, folder / release)


def measure(release: str, folder: Path, rounds: int) -> dict[str, Cost]:
    """The best of some rounds for each command."""
    # in a process of its own: what this one holds would count as held by those that it starts
    subprocess.run([sys.executable, "-m", "tests.benchmarks", release, "--capture", str(folder)], cwd=ROOT, check=True)
    capture = folder / release
    files = [str(p) for p in sorted((capture / "source").rglob("*.py"))]
    triage = [sys.executable, "-m", "triage.cli"]
    here = {"PYTHONPATH": str(ROOT)}
    cold, warm = {**here, "TRIAGE_CACHE": "off"}, {**here, "TRIAGE_CACHE": str(folder / "answers")}
    facts = ["--facts", str(FACTS / f"{HOST}.json")]
    real = [str(python_of(release)), "-m", "harness", "--names", engine_names(), *facts, "--", *ARGS]
    commands: dict[str, Callable[[], Cost]] = {
        "launch": lambda: run(real, run_environment(), ROOT, (0,)),
        "parse": lambda: run([sys.executable, "-c", PARSE, *files], {}, ROOT, (0,)),
        "replay": lambda: run([*triage, "replay", str(capture)], cold, ROOT, (0,)),
        "check": lambda: run([*triage, "check", str(capture)], cold, ROOT, (1,)),
        "replay again": lambda: run([*triage, "replay", str(capture)], warm, ROOT, (0,)),
        "check again": lambda: run([*triage, "check", str(capture)], warm, ROOT, (1,)),
        "help": lambda: run([*triage, "--help"], cold, ROOT, (0,)),
    }
    commands["replay again"]()  # what is kept is made here
    commands["check again"]()
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            costs[name].append(command())
    return {name: Cost(min(c.seconds for c in all_), max(c.memory for c in all_)) for name, all_ in costs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--capture", metavar="DIR", help="only write the capture of one release there")
    given = parser.parse_args()
    if given.capture is not None:
        write_capture(given.releases[0], Path(given.capture))
        return
    print("| release | command | seconds | of the real launch | of ast.parse | MiB |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for release in given.releases:
            absent = why_absent(release)
            if absent is not None:
                print(f"| {release} | skipped: {absent} | | | | |")
                continue
            costs = measure(release, Path(folder), given.rounds)
            for name, cost in costs.items():
                ratios = [f"{cost.seconds / costs[peer].seconds:.2f}" for peer in ("launch", "parse")]
                print(f"| {release} | {name} | {cost.seconds:.2f} | {' | '.join(ratios)} | {cost.memory:.0f} |", flush=True)
        print_logs(5.0, given.rounds, Path(folder))
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)


if __name__ == "__main__":
    main()
