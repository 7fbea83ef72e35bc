"""The path conditions of the validation code, as Markdown: python -m tests.oracle.guards [RELEASE ...] [--launches N]"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.oracle.guards_real import Verdict, compare, generated, labelled
from tests.oracle.places import RELEASES, site_of, why_absent
from triage.analysis.sites import Survey, survey_sites
from triage.analysis.trees import FolderTree
from triage.knowledge import load_profile

STAGES = {stage.call.rpartition(".")[2] for stage in load_profile("sglang").stages}


@dataclass(frozen=True)
class Figures:
    """Of one release: `sites` stand in the files of the validation code, `reached` have a call path from the entry,
    `clear` of those have no opaque atom on any way."""

    survey: Survey
    sites: int
    reached: int
    clear: int
    seconds: float  # of this process

    @property
    def share(self) -> float:
        return self.clear / self.reached if self.reached else 0.0


def survey_release(release: str) -> Figures:
    site = site_of(release)
    profile = load_profile("sglang")
    started = time.process_time()
    survey = survey_sites(FolderTree(site), profile)
    seconds = time.process_time() - started
    reached = [c for c in survey.conditions if c.ways]
    return Figures(survey, len(survey.conditions), len(reached), sum(not c.opaque for c in reached), seconds)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.guards", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--launches", type=int, default=0, help="compare with this many generated launches and the labelled ones")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--notes", type=int, default=0, help="print this many differences from reality")
    given = parser.parse_args(argv)
    figures = {r: survey_release(r) for r in given.releases if why_absent(r) is None}
    print("# Path conditions of the validation code\n")
    compared = f"also compared with real failures (here {given.launches})"
    print(f"Printed by `python -m tests.oracle.guards`; with `--launches N` {compared}.\n")
    print(_ABOUT)
    print("| release | files | sites | reached | no opaque atom | share of reached | of all sites | ways | functions | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for release, f in figures.items():
        ways = sum(len(c.ways) for c in f.survey.conditions)
        print(
            f"| {release} | {len(f.survey.files)} | {f.sites} | {f.reached} | {f.clear} | {f.share:.1%} | "
            f"{f.clear / f.sites:.1%} | {ways} | {f.survey.functions} | {f.seconds:.1f} |"
        )
    print("\n## Opaque atoms\n")
    for release, f in figures.items():
        print(f"{release}: {_opaque(f.survey) or 'none'}\n")
    if given.launches:
        print("## Against real failures\n")
        print(_AGAINST)
        print("| release | failures | raised elsewhere | has a condition | real call path | guards hold | fields named |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for release, f in figures.items():
            for verdict in [against(release, f.survey, given.launches, given.seed)]:
                print(f"| {release} | {verdict.row()} |", flush=True)
                for note, count in verdict.notes.most_common(given.notes):
                    print(f"    {count} {note}")
        print()
    print("## Files and unreached sites\n")
    for release, f in figures.items():
        print(f"### {release}\n")
        print(", ".join(f"`{file}` {count}" for file, count in f.survey.files) + "\n")
        print(f"Not reached: {_unreached(f.survey) or 'none'}\n")
        lost = ", ".join(f"`{name}` at {where}" for where, name in f.survey.lost)
        print(f"Calls that take the args object and lead nowhere: {lost or 'none'}\n")


def against(release: str, survey: Survey, launches: int, seed: int) -> Verdict:
    failures = [*labelled(release, STAGES), *generated(release, launches, seed, STAGES)]
    return compare(release, survey, failures)


def _opaque(survey: Survey) -> str:
    reasons: Counter[str] = Counter()
    for condition in survey.conditions:
        for why in {a.why for a in condition.opaque}:
            reasons[why] += 1
    return "; ".join(f"{count} of {why}" for why, count in reasons.most_common())


def _unreached(survey: Survey) -> str:
    places = Counter((c.site.location.file, c.site.function) for c in survey.conditions if not c.ways)
    return ", ".join(f"{count} in `{file.rpartition('/')[2]}` {function}" for (file, function), count in sorted(places.items()))


_ABOUT = """\
Validation code: the files in which a function that takes the args object (or a view of it), or a method of its class, raises or
asserts, and that a static call walk from the profile's stages comes to. Sites: every raise and assert in these files. Reached:
a call path from the entry leads there. A condition counts as clear when on each of its ways (at most 8 are kept) every atom
names the settings, variables, facts of the host, attributes of the model or constants that decide it.
"""

_AGAINST = """\
Failures: generated launches (and the labelled ones, where a release has them) that the real validation refuses at a site of the
table. Raised elsewhere: at another kind of statement, or in a helper outside the validation code. Real call path: one of the
condition's ways goes through exactly the functions and statements of the real traceback. Guards hold: of that way, the guards
over settings and literals alone, with the settings as our evaluation of the same launch has them when it raises. Fields named:
launches of which the condition names every field and variable that the evaluation found to decide the tests on the way (it
counts a model's attributes to all settings that the model's object was made with; the condition to the model).
"""

if __name__ == "__main__":
    main()
