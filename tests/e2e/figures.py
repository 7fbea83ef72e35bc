"""What is measured while the tests run, shown at their end: these figures are published."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass
class Row:
    """One launch. Times in seconds, memory in bytes; None: not measured in this run."""

    restarts: int | None = None
    launch: float | None = None  # the real server, from its start to its failure
    replay: float | None = None  # `triage replay` of the capture, whole process
    bare: float | None = None  # `triage replay` of the log's text with --source and --launch
    repair: float | None = None  # `triage run --apply`, whole process, to a healthy server
    replay_memory: int | None = None
    run_memory: int | None = None
    patch: str = ""


@dataclass
class Figures:
    rows: dict[str, Row] = field(default_factory=dict)

    def row(self, name: str) -> Row:
        return self.rows.setdefault(name, Row())

    def lines(self) -> list[str]:
        """A Markdown table, one row for each launch."""
        head = "launch", "restarts", "real launch fails after", "log to proposal", "bare log to proposal", "run to healthy"
        table = [(*head, "peak memory, replay", "peak memory, run", "first patch")]
        for name, row in self.rows.items():
            times = [f"{t:.1f} s" if t is not None else "" for t in (row.launch, row.replay, row.bare, row.repair)]
            sizes = [f"{m / 2**20:.0f} MiB" if m is not None else "" for m in (row.replay_memory, row.run_memory)]
            table.append((name, "" if row.restarts is None else str(row.restarts), *times, *sizes, row.patch))
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in table]
        lines.insert(1, "| " + " | ".join("-" * w for w in widths) + " |")
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        return [*lines, f"{os.cpu_count()} processors, load {load}; launch and replay one after the other, repairs two at a time"]


FIGURES = Figures()
