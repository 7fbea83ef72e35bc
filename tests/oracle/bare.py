"""What triage says of a launch when it has the log and the source alone: no facts of the host, no model's config.

Failing launches come with the log that the real code prints, read as `triage replay` reads it. The evaluation commits
itself when it raises the exception by its own reckoning: not "because the traceback shows one", and nothing else
before it may fail. It may have taken unknown tests as the traceback shows them, or as not holding ("supposed"); a
passing launch has no traceback, and is committed when nothing is left open but such tests.
"""

from __future__ import annotations

from dataclasses import replace

from tests.oracle.real import Answer, Evaluators
from triage.analysis.diagnose import find_trail
from triage.analysis.evaluate import Evaluation, Evaluator
from triage.analysis.evaluators import complete_facts
from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.analysis.source import find_sites
from triage.model import CaptureMeta, ExitStatus, Facts, PathCondition
from triage.protocols import Capture

META = CaptureMeta("local", "launch.log", "log", "sglang", None, None, None, None, ExitStatus(code=1))


class Bare:
    """Evaluators without facts, one for each environment (a launch's own variables are known with it)."""

    def __init__(self, ours: Evaluators) -> None:
        self.ours = ours
        self.made: dict[tuple[tuple[str, str], ...], Evaluator] = {}

    def get(self, env: tuple[tuple[str, str], ...]) -> Evaluator:
        if env not in self.made:
            facts, assumed = complete_facts(Capture(META, None, Facts(), b"", self.ours.tree))
            self.made[env] = Evaluator(self.ours.program, self.ours.profile, facts, dict(env), (), optimistic=bool(assumed))
        return self.made[env]

    def evaluate(self, argv: tuple[str, ...], env: tuple[tuple[str, str], ...], real: Answer) -> Evaluation:
        """With the trail of the real log, as far as it has one."""
        profile, tree = self.ours.profile, self.ours.tree
        log = read_log(real.log.encode())
        failure = find_failure(log, META.exit, profile.package, None, profile.fatal_marks) if real.log else None
        trail = ()
        if failure is not None:
            sites, _lost = find_sites(failure, tree)
            trail = find_trail(failure, PathCondition(sites), profile)
        said = self.get(env).evaluate(argv, trail)
        settled = said.verdict == "unknown" and said.raised is None and not said.possible and not said.why
        return replace(said, verdict="passes") if settled and not real.log else said
