"""The numbers that one run's own log tells of it, and the values of its settings as far as they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from triage.analysis.evaluate import Value
from triage.analysis.observed import find_printed_args
from triage.analysis.phrases import find_anchor, find_phrase, flatten_text, read_number
from triage.argv import find_flag
from triage.model import MASK, Facts, FigureLine, LogRecord


@dataclass(frozen=True)
class Figures:
    """What a computation may use; what is not known is absent."""

    holes: Mapping[str, str] = field(default_factory=dict)  # of the signature that fits
    told: Mapping[str, float] = field(default_factory=dict)  # by the names of figures.toml; sizes in GB as printed
    settings: Mapping[str, Value] = field(default_factory=dict)  # by field, as the run resolved them
    facts: Facts = field(default_factory=Facts)

    def hole(self, name: str) -> float | None:
        """A gap's number; of a size in bytes."""
        return read_number(self.holes.get(name, ""))

    def setting(self, *names: str) -> float | None:
        """The first of these settings that is a number; booleans are none."""
        for name in names:
            value = self.settings.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        return None


def read_figures(records: Sequence[LogRecord], lines: Sequence[FigureLine]) -> dict[str, float]:
    """Name -> number, of the log lines that tell one; each line says which of several counts."""
    found: dict[str, float] = {}
    for line in lines:
        by_rank: dict[tuple[str, str | None], float] = {}
        anchors = [(phrase, find_anchor(phrase)) for phrase in line.phrases]
        for record in records:
            told = next(
                (f for p, a in anchors if a in record.text and (f := find_phrase(p, flatten_text(record.text))) is not None), None
            )
            for name, text in (told or {}).items():
                number = read_number(text)
                if number is not None and (line.take == "last" or (name, record.rank) not in by_rank):
                    by_rank[name, record.rank] = number
        for (name, _), number in by_rank.items():
            before = found.get(name)
            found[name] = number if before is None else (min if line.over == "min" else max)(before, number)
    return found


def read_settings(records: Sequence[LogRecord], class_name: str, args: Sequence[str]) -> dict[str, Value]:
    """Settings by field: those of the args object that the run printed, else plain numbers as typed after a flag of that
    name. For a launch whose source is not at hand; with it, evaluation knows them all."""
    printed = find_printed_args(records, class_name)
    out: dict[str, Value] = {}
    for word in args:
        name = word.split("=", 1)[0]
        if name.startswith("--") and (spans := find_flag(args, name)):
            first, end = spans[-1]
            text = args[first].split("=", 1)[1] if "=" in args[first] else " ".join(args[first + 1 : end])
            number = read_number(text)
            if number is not None:
                out[name[2:].replace("-", "_")] = int(number) if number.is_integer() and "." not in text else number
    if printed is not None:
        out.update({n: v.value for n, v in printed.fields.items() if v.literal and MASK not in v.text})
    return out
