"""The whole analysis over every sglang release on the package index, as Markdown: python -m tests.oracle.drift

Each release's wheel is a source tree; nothing is installed or run. One release at a time, each in a process of its own:
one that ends otherwise than by its answer is told in its row, and so is one that takes too long.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.oracle.real import _DEFAULTS, ORACLE, ask, model_names, why_absent
from triage.analysis.decoding import decode_source
from triage.analysis.downlevel import rewrite
from triage.analysis.evaluate import Evaluation, Evaluator, Program
from triage.analysis.flags import read_flags
from triage.analysis.foresee import foresee
from triage.analysis.lives.explain import explain_setting
from triage.analysis.sites import survey_sites
from triage.analysis.trees import open_tree, walk_python
from triage.codec import from_json, to_json
from triage.errors import TriageError
from triage.knowledge import load_profile
from triage.model import CaptureMeta, Edit, Facts, Launch, ModelConfig
from triage.protocols import Capture, SourceTree

MAX_CACHE = 3_000_000_000  # bytes of wheels that are kept
MIN_FREE = 2_000_000_000  # bytes of the disk that are left alone
MAX_SECONDS = 600  # of one release
PLAIN = ("--model-path", "models/llama")
EAGLE = (
    "--model-path", "models/kimi-k2", "--trust-remote-code", "--speculative-algorithm", "EAGLE3",
    "--speculative-draft-model-path", "models/eagle3-llama", "--speculative-num-draft-tokens", "3",
    "--speculative-eagle-topk", "4",
)  # fmt: skip
EXPLAINED = "mem_fraction_static"  # a setting that releases decide by themselves


@dataclass(frozen=True)
class Launched:
    """What the evaluation says of one launch."""

    verdict: str
    raised: str = ""  # the exception and its site
    possible: int = 0
    notes: tuple[str, ...] = ()
    steps: int = 0
    seconds: float = 0.0

    @property
    def cell(self) -> str:
        parts = [self.verdict + (f" {self.raised}" if self.raised else "")]
        parts += [f"{self.possible} possible"] if self.possible else []
        parts += [f"{len(self.notes)} unknown"] if self.notes else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Row:
    """One release. `unparsed` files do not parse here; `rewritten` of these were rewritten, `unread` could not be."""

    release: str
    files: int = 0
    unparsed: int = 0
    rewritten: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    flags: int = 0
    plain: Launched = field(default_factory=lambda: Launched("-"))
    eagle: Launched = field(default_factory=lambda: Launched("-"))
    check: str = ""
    unknowns: tuple[str, ...] = ()  # of the check
    sites: int = 0
    reached: int = 0
    clear: int = 0
    lost: int = 0  # calls with the args object that lead nowhere
    life: str = ""
    life_unknowns: tuple[str, ...] = ()
    seconds: float = 0.0  # CPU, without reading every file
    real: str = ""  # what the release's own code says of both launches
    broken: str = ""  # how the analysis ended where it did not answer


# ---------------------------------------------------------------- the index
def list_releases(first: str) -> list[str]:
    """The releases that pip finds on the index of this machine, from `first` on, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--pre", "sglang"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"the package index gives no versions: {done.stderr.strip()[-300:]}")
    versions = [v for v in found[1].split(", ") if re.fullmatch(r"[0-9.]+(rc\d+|\.post\d+)?", v)]
    return sorted((v for v in versions if order_of(v) >= order_of(first)), key=order_of)


def order_of(version: str) -> tuple[tuple[int, ...], int]:
    release, kind, number = next((version.partition(k) for k in ("rc", ".post") if k in version), (version, "", "0"))
    return tuple(int(n) for n in release.split(".")), {"rc": -1000, "": 0, ".post": 1}[kind] + int(number)


def fetch_wheel(release: str, cache: Path) -> Path | str:
    """The release's wheel in the cache, downloaded where it is not there yet; or why there is none."""
    held = next(cache.glob(f"sglang-{release}-*.whl"), None)
    if held is not None:
        return held
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    done = subprocess.run(
        [*command, "-d", str(cache), f"sglang=={release}"], capture_output=True, text=True, timeout=900, check=False
    )
    held = next(cache.glob(f"sglang-{release}-*.whl"), None)
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return held or f"no wheel: {errors[-1] if errors else done.stderr.strip()[-200:]}"


def is_short(cache: Path) -> bool:
    held = sum(p.stat().st_size for p in cache.glob("*.whl"))
    return held > MAX_CACHE or shutil.disk_usage(cache).free < MIN_FREE


# ---------------------------------------------------------------- one release
def host_facts() -> Facts:
    """The oracle's H100 host; what is installed on it beside sglang is not known."""
    path = ORACLE / "facts/h100x8.json"
    raw = {**_DEFAULTS, **(json.loads(path.read_text()) if path.is_file() else {})}
    capability = ".".join(str(n) for n in raw["compute_capability"])
    absent = {f"{m}/generation_config.json": "absent" for m in model_names()}
    return Facts(
        "cuda", raw["gpu_name"], raw["num_gpus"], raw["gpu_memory_mib"], capability, raw["cuda_version"], "3.11.7", "x86_64",
        paths={**absent, **dict.fromkeys(model_names(), "dir")},
    )  # fmt: skip


def examine(release: str, wheel: Path) -> Row:
    """Everything that is asked of one release."""
    tree = open_tree(wheel)
    profile = load_profile("sglang")
    facts = host_facts()
    models = tuple(ModelConfig(m, (ORACLE / m / "config.json").read_text(), ("config.json",)) for m in model_names())
    files, unparsed, rewritten, unread = read_all(
        tree, profile.package, wheel.parent / f"parsed-{sys.version_info[0]}.{sys.version_info[1]}"
    )
    started = time.process_time()
    evaluator = Evaluator(Program(tree, profile.package), profile, facts, {}, models)
    plain = launch(evaluator, PLAIN)
    flags = len(read_flags(evaluator, tree).all)
    eagle = launch(evaluator, EAGLE)
    meta = CaptureMeta("local", "drift", "given", profile.name, release, None, None, None)
    capture = Capture(meta, Launch((), EAGLE), facts, b"", tree, models)
    seen = foresee(capture, profile)
    edits = " ".join(_edit(e) for p in seen.patches[:1] for e in p.edits)
    check = seen.outcome + (f", {len(seen.failures)} failing" if seen.failures else "") + (f", `{edits}`" if edits else "")
    survey = survey_sites(tree, profile)
    reached = [c for c in survey.conditions if c.ways]
    try:
        told = explain_setting(Capture(meta, None, facts, b"", tree, models), profile, EXPLAINED)
        where = told.declaration.location
        life = f"{where.file}:{where.line}" if where is not None else "no declaration"
        life += f", {len(told.writes)} writes, {len(told.checks)} checks"
        lacking = tuple(f"{u.what}: {u.why}" for u in told.unknowns)
    except TriageError as error:
        life, lacking = f"no: {error}", ()
    seconds = time.process_time() - started
    return Row(
        release, files, unparsed, rewritten, unread, flags, plain, eagle, check,
        tuple(f"{u.what}: {u.why}" for u in seen.unknowns), len(survey.conditions), len(reached),
        sum(not c.opaque for c in reached), len(survey.lost), life, lacking, seconds,
    )  # fmt: skip


def read_all(tree: SourceTree, package: str, memory: Path) -> tuple[int, int, tuple[str, ...], tuple[str, ...]]:
    """All files of the package: their number, how many do not parse here, and the names that were rewritten and were not.
    `memory` keeps the hashes of contents that parse, most of which the next release has as well."""
    known = set(memory.read_text().split()) if memory.is_file() else set()
    before = len(known)
    files, unparsed, rewritten, unread = 0, 0, [], []
    for file in walk_python(tree, package):
        files += 1
        data = tree.read(file)
        if data is None:
            unread.append(f"{file} (it cannot be read)")
            continue
        digest = hashlib.sha1(data).hexdigest()
        if digest in known:
            continue
        text = decode_source(data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text)
            known.add(digest)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            unparsed += 1
            older = rewrite(text)
            if older.text is None:
                unread.append(f"{file} ({error}; {older.why})")
            else:
                rewritten.append(f"{file} ({', '.join(older.constructs)})")
    if len(known) > before:
        memory.write_text("\n".join(sorted(known)))
    return files, unparsed, tuple(rewritten), tuple(unread)


def launch(evaluator: Evaluator, args: Sequence[str]) -> Launched:
    started = time.process_time()
    said = evaluator.evaluate(args)
    seconds = time.process_time() - started
    raised = f"{said.raised.exception} at {said.raised.site_text}" if said.raised is not None else ""
    return Launched(said.verdict, raised, len(said.possible), tuple(_notes(said)), said.steps, seconds)


def _notes(said: Evaluation) -> Iterator[str]:
    if said.why:
        yield f"the evaluation: {said.why}"
    yield from said.notes
    for one in said.possible:
        yield f"whether {one.site_text} raises {one.exception}: it depends on {one.depends}"


def _edit(edit: Edit) -> str:
    if edit.action == "remove":
        return f"without {edit.name}"
    return f"{edit.name} {edit.new}" if edit.new is not None else edit.name


# ---------------------------------------------------------------- all releases
def examine_apart(release: str, cache: Path) -> Row:
    """As examine, in a process of its own."""
    wheel = fetch_wheel(release, cache)
    if isinstance(wheel, str):
        return Row(release, broken=wheel)
    command = [sys.executable, "-m", "tests.oracle.drift", "--wheel", str(wheel), "--from", release]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Row(release, broken=f"no answer in {MAX_SECONDS} s")
    finally:
        if is_short(cache):
            wheel.unlink(missing_ok=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        return Row(release, broken=f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:200]}")
    row = from_json(Row, json.loads(done.stdout))
    return replace(row, real=compare_real(row))


def compare_real(row: Row) -> str:
    """Whether the two verdicts are those of the release's own validation, where the release is installed for the oracle."""
    if why_absent(row.release) is not None:
        return ""
    out = []
    for said, real in zip((row.plain, row.eagle), ask(row.release, "h100x8", [PLAIN, EAGLE]), strict=True):
        passes = real.outcome == "ok"
        site = re.search(r" at (.+):(\d+)$", said.raised)
        there = site is not None and site[1] == real.file and real.first <= int(site[2]) <= real.last
        right = said.verdict == ("passes" if passes else "fails") and (passes or there or real.outcome == "argparse")
        out.append("same" if right else f"differs: {real.outcome} {real.exception or ''} {real.file or ''}:{real.first}")
    return " / ".join(out)


_COLUMNS = (
    "release", "files", "not parsed here", "rewritten", "not read", "flags", "plain launch", "steps", "s", "E1", "steps", "s",
    "real code", "check of E1", "sites", "reached", "opaque", f"explain {EXPLAINED}", "CPU s",
)  # fmt: skip


def markdown_row(row: Row) -> str:
    if row.broken:
        return f"| {row.release} | {row.broken} |" + " |" * (len(_COLUMNS) - 2)
    opaque = f"{row.reached - row.clear} ({(row.reached - row.clear) / row.reached:.1%})" if row.reached else "-"
    cells = [
        row.release, row.files, row.unparsed, len(row.rewritten), len(row.unread), row.flags,
        row.plain.cell, row.plain.steps, f"{row.plain.seconds:.2f}", row.eagle.cell, row.eagle.steps, f"{row.eagle.seconds:.2f}",
        row.real, row.check, row.sites, row.reached, opaque, row.life, f"{row.seconds:.1f}",
    ]  # fmt: skip
    return f"| {' | '.join(str(c).replace('sglang/srt/', '') for c in cells)} |"


def write_table(rows: Sequence[Row]) -> str:
    head = f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}"
    broken = [r for r in rows if r.broken]
    total = (
        f"{len(rows)} releases; {len(broken)} without an answer; {sum(r.files for r in rows)} files, "
        f"{sum(r.unparsed for r in rows)} of them not parsed by Python {sys.version_info[0]}.{sys.version_info[1]}, "
        f"{sum(len(r.rewritten) for r in rows)} rewritten, {sum(len(r.unread) for r in rows)} not read; "
        f"{sum(r.reached for r in rows)} sites reached, {sum(r.reached - r.clear for r in rows)} with an opaque atom."
    )
    parts = [f"# Every release\n\n{_ABOUT}", total, "\n".join([head, *map(markdown_row, rows)])]
    parts.append("## Files that this Python does not parse\n\n" + (_by_release(rows, _files) or "None."))
    parts.append("## What the plain launch leaves unknown\n\n" + (_by_release(rows, lambda r: r.plain.notes) or "Nothing."))
    parts.append("## What E1 leaves unknown\n\n" + (_by_release(rows, lambda r: r.eagle.notes) or "Nothing."))
    parts.append("## What `check` of E1 names as unknown\n\n" + (_by_release(rows, lambda r: r.unknowns) or "Nothing."))
    parts.append("## What `explain` names as unknown\n\n" + (_by_release(rows, lambda r: r.life_unknowns) or "Nothing."))
    return "\n\n".join(parts) + "\n"


def _files(row: Row) -> tuple[str, ...]:
    return (*(f"rewritten: {f}" for f in row.rewritten), *(f"not read: {f}" for f in row.unread))


def _by_release(rows: Sequence[Row], texts: Callable[[Row], tuple[str, ...]]) -> str:
    """Each text once, with the releases that have it; line numbers are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for text in dict.fromkeys(re.sub(r"(\.py):\d+", r"\1", t) for t in texts(row)):
            found[text].append(row.release)
    order = {row.release: i for i, row in enumerate(rows)}
    return "\n".join(f"- {_span(held, order)}: {text[:400]}" for text, held in found.items())


def _span(held: Sequence[str], order: Mapping[str, int]) -> str:
    """Neighbours as first to last."""
    out: list[list[str]] = []
    for release in held:
        if out and order[release] == order[out[-1][-1]] + 1:
            out[-1].append(release)
        else:
            out.append([release])
    return ", ".join(group[0] if len(group) == 1 else f"{group[0]} to {group[-1]}" for group in out)


_ABOUT = f"""\
Printed by `python -m tests.oracle.drift`. Each release's wheel is read as a source tree; nothing is installed or run. The host
is the oracle's with eight H100, the models' config.json are its own. What else is installed is not known (`facts.packages` is
empty), and the sources of other packages are not there: what hangs on these is an unknown with its reason.

Plain launch: `{" ".join(PLAIN)}`. E1: `{" ".join(EAGLE)}`.
possible: statements that raise for some value of what is unknown. real code: what the release's own validation does with both
launches, where it is installed for the oracle; same: it passes, or it fails at the same statement. Sites: raise and assert
statements of the validation code; reached: a call path leads there; opaque: a condition has an atom that nobody can name. CPU s:
all but reading every file of the package, which the analysis never does."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.drift", description=__doc__)
    parser.add_argument("--from", dest="first", default="0.4.0", metavar="RELEASE")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "sglang-wheels", metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--wheel", type=Path, help="answer for this wheel alone, as JSON")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth release only")
    given = parser.parse_args(argv)
    if not (ORACLE / "models").is_dir():
        raise SystemExit(f"not here: no models in {ORACLE} (set TRIAGE_SHARED)")
    if given.wheel is not None:
        print(json.dumps(to_json(examine(given.first, given.wheel))))
        return
    given.cache.mkdir(parents=True, exist_ok=True)
    rows = []
    for release in list_releases(given.first)[:: given.every]:
        rows.append(examine_apart(release, given.cache))
        print(markdown_row(rows[-1]), file=sys.stderr, flush=True)
        if given.out is not None:
            given.out.write_text(write_table(rows))
    if given.out is None:
        print(write_table(rows))


if __name__ == "__main__":
    main()
