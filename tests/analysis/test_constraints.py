"""From a failing launch of the small package to what is said of it."""

from __future__ import annotations

from tests.analysis.small_server import SOURCE, TREE, evaluators
from triage.analysis.constraints import describe_cause, find_constraints, find_settings
from triage.analysis.evaluate import Evaluation
from triage.analysis.flags import Options, read_flags
from triage.analysis.guards import complete_path
from triage.analysis.source import find_sites
from triage.model import Constraint, Failure, Frame


def explain(*args: str) -> tuple[tuple[Constraint, ...], Evaluation, Options, Failure]:
    """What is said of a launch, with the traceback that Python would print for it."""
    evaluator = evaluators()({})
    evaluation = evaluator.evaluate(args)
    raised = evaluation.raised
    assert raised is not None
    lines = SOURCE.split("\n")
    frames = tuple(Frame(p.file, p.line, p.function, lines[p.line - 1].strip(), p.file) for p in raised.places)
    failure = Failure("exception", raised.exception, raised.message or "", frames)
    sites, lost = find_sites(failure, TREE)
    assert not lost
    options = read_flags(evaluator, TREE)
    return find_constraints(complete_path(sites, TREE, failure), failure, evaluation, options), evaluation, options, failure


def test_a_missing_companion() -> None:
    (constraint,), *_ = explain("--model", "m", "--mode", "tree", "--budget", "3")
    assert "--width" in constraint.need and "--budget" in " ".join(constraint.when)
    assert {"width", "budget", "mode"} <= set(constraint.fields)
    assert constraint.location.file == "small/args.py"
    assert SOURCE.split("\n")[constraint.location.line - 1].strip() == "assert self.width is not None"


def test_an_excluding_pair() -> None:
    (constraint,), *_ = explain("--model", "m", "--alone", "--together")
    assert "--alone" in constraint.need and "--together" in constraint.need


def test_settings_tell_where_they_come_from() -> None:
    args = ("--model", "m", "--mode", "ring", "--width", "2")
    _, evaluation, options, _ = explain(*args)
    settings = {s.field: s for s in find_settings(evaluation, options, args, {})}
    assert settings["format"].origin == "default" and settings["format"].value == "'plain'"
    assert settings["mode"].origin == "typed" and settings["mode"].typed == "--mode ring"


def test_a_derived_setting_names_the_line_that_derived_it() -> None:
    args = ("--model", "m", "--mode", "ring", "--width", "2")
    _, evaluation, options, _ = explain(*args)
    write = next(w for w in evaluation.writes if w.field == "depth")
    assert SOURCE.split("\n")[write.place.line - 1].strip().startswith("self.depth =")
    for setting in find_settings(evaluation, options, args, {}):
        assert (setting.location is not None) == (setting.origin == "derived")


def test_environment_variables_are_settings() -> None:
    args = ("--model", "m", "--ways", "8")
    _, evaluation, options, _ = explain(*args)
    found = {s.field: s for s in find_settings(evaluation, options, args, {})}
    assert found["SMALL_MANY"].origin == "environment" and found["SMALL_MANY"].value == "not set"


def test_the_cause_quotes_the_message_and_says_when_there_is_none() -> None:
    args = ("--model", "m", "--alone", "--together")
    constraints, evaluation, options, failure = explain(*args)
    text = describe_cause(failure, constraints, find_settings(evaluation, options, args, {}), "small", "1.0")
    assert "small 1.0 refuses this launch" in text and "exclude each other" in text and "--alone" in text
    silent_args = ("--model", "m", "--mode", "tree", "--budget", "3")
    constraints, evaluation, options, failure = explain(*silent_args)
    assert "carries no message" in describe_cause(
        failure, constraints, find_settings(evaluation, options, silent_args, {}), "small", None
    )
