"""What the real validation does with one launch: python -m tests.oracle.ask RELEASE [--facts NAME] -- ARGUMENTS"""

from __future__ import annotations

import argparse
import json
import sys

from tests.oracle.places import FACTS, run_harness, why_absent


def main() -> int:
    """0 when it lets the launch pass, 1 when not, 2 when it cannot be asked."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    names = sorted(p.stem for p in FACTS.glob("*.json"))
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.ask", description=__doc__)
    parser.add_argument("release")
    parser.add_argument("--facts", default="h100x8", choices=names, help="default: h100x8")
    parser.add_argument("--json", action="store_true", help="the whole answer")
    given = parser.parse_args(words[:cut])
    absent = why_absent(given.release)
    if absent is not None:
        print(absent, file=sys.stderr)
        return 2
    answer = json.loads(run_harness(given.release, ["--facts", str(FACTS / f"{given.facts}.json"), "--", *words[cut + 1 :]]))
    if given.json:
        print(json.dumps(answer, indent=1))
    else:
        for record in answer["records"]:
            print(f"{record['level']} {record['file']}:{record['line']} {record['message']}")
        print(answer.get("traceback") or answer.get("message") or answer["outcome"])
    return 0 if answer["outcome"] == "ok" else 1


if __name__ == "__main__":
    raise SystemExit(main())
