"""A log and its failure -> the known kinds of failure that fit, most specific first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from triage.analysis.phrases import find_anchor, find_phrase, flatten_text, read_number
from triage.model import Failure, Frame, Holding, Log, LogRecord, Phrase, SaidLine, Signature, SignatureMatch, Where
from triage.protocols import SourceTree

MAX_SAID = 300  # characters of a quoted line
MAX_HOLE = 120  # characters of a gap's text inside a sentence
MAX_FILES = 2000  # of a folder of the source that are read
_GAP = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_BRACKETS = re.compile(r" \([^()]*\)")
_SENTENCE = re.compile(r"(?<=[.;])\s+")


def find_signatures(
    signatures: Sequence[Signature], log: Log, failure: Failure, tree: SourceTree | None = None
) -> tuple[SignatureMatch, ...]:
    """Every signature that fits the failure, the one to believe first; () where none does. `tree`: the installed source.

    Of the same rank the one whose phrases hold more text of their own comes first. Same input, same answer.
    """
    reader = _Reader(log, failure, tree)
    found: list[tuple[int, int, str, SignatureMatch]] = []
    for signature in signatures:
        best: tuple[int, SignatureMatch] | None = None
        for where in signature.where:
            fits = reader.fit(where)
            if fits is not None and (best is None or fits[0] > best[0]):
                best = (fits[0], SignatureMatch(signature, fits[1], fits[2]))
        if best is not None:
            found.append((-signature.rank, -best[0], signature.id, best[1]))
    return tuple(item[3] for item in sorted(found, key=lambda item: item[:3]))


def fill_text(text: str, holes: Mapping[str, str]) -> str:
    """A text of a signature with its gaps filled; brackets in which one is not known, else the sentence, are left out."""
    kept: list[str] = []
    for sentence in _SENTENCE.split(_BRACKETS.sub(lambda m: m[0] if _is_filled(m[0], holes) else "", text)):
        if _is_filled(sentence, holes):
            kept.append(_GAP.sub(lambda m: _clean(holes[m[1]]), sentence))
    return " ".join(kept)


def _is_filled(text: str, holes: Mapping[str, str]) -> bool:
    return all(name in holes for name in _GAP.findall(text))


def read_run(log: Log, failure: Failure) -> tuple[LogRecord, ...]:
    """The records of the run that failed."""
    if failure.run is None:
        return log.records
    first, last = failure.run
    return tuple(record for record in log.records if first <= record.first <= last)


def _clean(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_HOLE else line[: MAX_HOLE - 3] + "..."


class _Reader:
    def __init__(self, log: Log, failure: Failure, tree: SourceTree | None) -> None:
        self.failure = failure
        self.tree = tree
        self.records = read_run(log, failure)
        self.raised: list[tuple[str | None, str, tuple[Frame, ...]]] = [
            (failure.exception, flatten_text(failure.message), failure.frames)
        ]
        self.raised += [(r.exception, flatten_text("\n".join((r.message, *r.notes))), r.frames) for r in failure.chain]
        self.frames = tuple(frame for _, _, frames in self.raised for frame in frames)
        self.sites = [inside[-1] for _, _, frames in self.raised if (inside := [f for f in frames if f.file] or list(frames))]
        self.looked: dict[Phrase, tuple[Mapping[str, str], SaidLine] | None] = {}

    def fit(self, where: Where) -> tuple[int, dict[str, str], tuple[SaidLine, ...]] | None:
        """(characters of literal text that were found, what stood in the gaps, the lines), None where it does not fit."""
        failure = self.failure
        if where.kinds and failure.kind not in where.kinds:
            return None
        if where.signals and failure.signal not in where.signals:
            return None
        if where.phases and (not failure.phases or failure.phases[-1].name not in where.phases):
            return None
        if where.seconds is not None and (not failure.phases or (failure.phases[-1].seconds or 0) < where.seconds):
            return None
        if where.files and not any(_is_file(frame, where.files) for frame in self.frames):
            return None
        if where.functions and not any(_is_one(frame.function.rpartition(".")[2], where.functions) for frame in self.frames):
            return None
        if where.ranks and not any(_is_one(rank, where.ranks) for rank in failure.ranks):
            return None
        if where.sites and not any(_is_file(frame, where.sites) for frame in self.sites):
            return None
        weight, holes, said = 0, dict[str, str](), list[SaidLine]()
        if where.exceptions or where.messages:
            told = next(self.tellings(where), None)
            if told is None:
                return None
            weight, holes = told
        if where.lines:
            seen_in = next(
                (f for p in where.lines for t in self.frames if (f := find_phrase(p, flatten_text(t.text))) is not None), None
            )
            if seen_in is None:
                return None
            weight += 1
            holes = {**seen_in, **holes}
        for phrase in where.log:
            seen = self.look(phrase)
            if seen is None:
                return None
            weight += phrase.weight
            holes.update({name: text for name, text in seen[0].items() if name not in holes})
            said.append(seen[1])
        if any(self.look(phrase) is not None for phrase in where.absent):
            return None
        if where.source is not None and not self.holds(where.source, holes):
            return None
        if not all(_is_more(holes.get(larger), holes.get(smaller)) for larger, smaller in where.more):
            return None
        return weight, holes, tuple(said)

    def tellings(self, where: Where) -> Iterator[tuple[int, dict[str, str]]]:
        for exception, message, _ in self.raised:
            if where.exceptions and not (exception and _is_one(exception.rpartition(".")[2], where.exceptions)):
                continue
            if not where.messages:
                yield 0, {}
            for phrase in where.messages:
                found = find_phrase(phrase, message)
                if found is not None:
                    yield phrase.weight, found

    def holds(self, holding: Holding, holes: Mapping[str, str]) -> bool:
        """Whether a file of the folder holds the text; False without source, and where a gap of the text is not filled."""
        if self.tree is None or not _is_filled(holding.text, holes):
            return False
        text = _GAP.sub(lambda m: holes[m[1]], holding.text).encode()
        names = [name for name in self.tree.list_dir(holding.folder) if name.endswith(".py")][:MAX_FILES]
        return any(text in (self.tree.read(f"{holding.folder}/{name}") or b"") for name in names)

    def look(self, phrase: Phrase) -> tuple[Mapping[str, str], SaidLine] | None:
        """Where a phrase first stands in the run's records."""
        if phrase not in self.looked:
            self.looked[phrase] = self.search(phrase)
        return self.looked[phrase]

    def search(self, phrase: Phrase) -> tuple[Mapping[str, str], SaidLine] | None:
        anchor = find_anchor(phrase)
        for record in self.records:
            at = record.text.find(anchor)
            if at < 0:
                continue
            for start in dict.fromkeys((0, max(0, at - 1000))):  # of a long record the surroundings of the word too
                found = find_phrase(phrase, flatten_text(record.text[start:]))
                if found is not None:
                    line = record.text.count("\n", 0, at)
                    number = record.lines[line] if line < len(record.lines) else min(record.first + line, record.last)
                    begin = record.text.rfind("\n", 0, at) + 1
                    end = record.text.find("\n", at)
                    quoted = record.text[begin : end if end >= 0 else len(record.text)]
                    return found, SaidLine(quoted.strip()[:MAX_SAID], number)
        return None


def _is_file(frame: Frame, patterns: Sequence[str]) -> bool:
    path = "/" + (frame.file or frame.path).replace("\\", "/")
    return any(fnmatchcase(path, f"*/{pattern}") for pattern in patterns)


def _is_more(larger: str | None, smaller: str | None) -> bool:
    a, b = read_number(larger or ""), read_number(smaller or "")
    return a is not None and b is not None and a > b


def _is_one(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


__all__ = ["fill_text", "find_signatures", "read_run"]
