"""Round trips of generated units (unit_texts.py): read, edit one flag, read again, undo; and systemd's own reading of the same.

    python -m tests.services.roundtrip [--examples 10000] [--lab] [--batch 500]

Without --lab: by our own parser against what each unit was made to mean. With --lab every unit is loaded by the systemd of a
lab host, by turns as made and with the drop-in of its edit, and systemd must read exactly the same words. Prints counts; exit
code 1 where one differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

from tests.lab import LabHost, boot, find_labhost
from tests.services.unit_texts import ENTRY, MadeUnit, edited_units
from triage.errors import FileMissing
from triage.model import Command, CommandResult, Edit, RemoveFile, WriteFile
from triage.services import SystemdService
from triage.services.systemd_unit import read_unit

Example = tuple[MadeUnit, Edit, tuple[str, ...]]
ETC = "/etc/systemd/system"


def split_server(argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    at = next((i + 2 for i in range(len(argv)) if tuple(argv[i : i + 2]) == ENTRY), None)
    return None if at is None else (tuple(argv[:at]), tuple(argv[at:]))


@dataclass
class UnitHost:
    """A host that holds one unit's files and has a systemctl, but no bus to ask: all words are read by triage alone."""

    unit: str
    files: dict[str, bytes] = field(default_factory=dict)
    name: str = "made"

    def run(self, command: Command) -> CommandResult:
        words = [str(w) for w in command.argv]
        assert words[:2] == ["sh", "-c"] and " show -p " in words[2], "nothing but the unit is read"
        marker = words[4]
        fragment = f"{ETC}/{self.unit}"
        dropins = sorted((p for p in self.files if p != fragment), key=lambda p: p.rpartition("/")[2].encode())
        show = (
            f"Id={self.unit}\nLoadState=loaded\nFragmentPath={fragment}\nDropInPaths={' '.join(dropins)}\nNeedDaemonReload=no\n"
        )
        out = f"{marker} show\n{show}".encode()
        for path in (fragment, *dropins):
            out += f"\n{marker} file 644 {path}\n".encode() + self.files[path]
        kind = "folder" if dropins else "absent"
        out += f"\n{marker} bus\n\n{marker} manager\n\n{marker} passwd\n\n{marker} dropins {kind} {fragment}.d\n".encode()
        return CommandResult(0, out, b"")

    def read_file(self, path: str, max_bytes: int = 0, root: bool = False) -> bytes:
        if path not in self.files:
            raise FileMissing(f"{path} does not exist", path)
        return self.files[path]

    def write_file(self, path: str, data: bytes, mode: int, root: bool = False) -> None:
        self.files[path] = data

    def remove_file(self, path: str, root: bool = False) -> None:
        self.files.pop(path, None)

    def close(self) -> None: ...


def put_unit(unit: MadeUnit, name: str) -> dict[str, bytes]:
    """Path -> bytes of the unit's files."""
    dropins = {f"{ETC}/{name}.d/{file}": text.encode() for file, text in unit.dropins}
    return {f"{ETC}/{name}": unit.fragment.encode(), **dropins}


def check_reading(unit: MadeUnit) -> None:
    """Every word is read with its spelling and its meaning."""
    host = UnitHost("made.service", put_unit(unit, "made.service"))
    view = read_unit(host, host.unit, "--system")
    read = [command for commands in view.commands for command in commands]
    assert [(c.prefix, tuple(w.raw for w in c.words)) for c in read] == [(p, tuple(w.raw for w in ws)) for p, ws in unit.commands]
    assert list(view.texts) == [tuple(w.loaded for w in words) for _, words in unit.commands]
    launch = SystemdService(host, host.unit, split_server).read_launch()
    assert (launch.argv, launch.args) == (unit.argv, unit.args)


def patch_unit(unit: MadeUnit, edit: Edit, name: str) -> dict[str, bytes]:
    """The files with the drop-in that makes the edit; checks what the plan writes, and its undo."""
    before = put_unit(unit, name)
    host = UnitHost(name, dict(before))
    plan = SystemdService(host, name, split_server).plan_patch([edit])
    (written,) = [s for s in plan.steps if isinstance(s, WriteFile)]
    assert written.path not in before and not [s for s in plan.steps if isinstance(s, RemoveFile)]
    host.write_file(written.path, written.data, written.mode)
    after = dict(host.files)
    (undone,) = [s for s in plan.undo if isinstance(s, RemoveFile | WriteFile)]
    assert isinstance(undone, RemoveFile) and undone.path == written.path
    host.remove_file(undone.path)
    assert host.files == before
    return after


def check_edit(unit: MadeUnit, edit: Edit, args: tuple[str, ...]) -> None:
    """After the edit: the arguments are those that were worked out, and every other word is spelled as it was."""
    host = UnitHost("made.service", patch_unit(unit, edit, "made.service"))
    launch = SystemdService(host, host.unit, split_server).read_launch()
    assert launch.args == args and launch.entry == split_server(unit.argv)[0]  # type: ignore[index]
    view = read_unit(host, host.unit, "--system")
    read = [command for commands in view.commands for command in commands]
    assert len(read) == len(unit.commands)
    for i, (command, (prefix, words)) in enumerate(zip(read, unit.commands, strict=True)):
        old, new = [w.raw for w in words], [w.raw for w in command.words]
        assert command.prefix == prefix
        if i != unit.server:
            assert new == old
            continue
        touched = spoiled_words(unit, edit)
        kept = [raw for at, raw in enumerate(old) if at not in touched]
        rest = iter(new)
        assert all(raw in rest for raw in kept), (kept, new)  # in this order
        assert len(new) - len(kept) <= len([t for at in touched for t in words[at].final]) + 2


def spoiled_words(unit: MadeUnit, edit: Edit) -> set[int]:
    """Places of the words that the edit is about: those of which an argument goes or changes."""
    prefix, words = unit.commands[unit.server]
    named = [o for o in unit.options if o.name == edit.name]
    spans = named if edit.action == "remove" else named[-1:] if edit.action == "set" else []
    changed = {i for o in spans for i in range(o.first, o.end)}
    if edit.action == "set":
        changed -= {o.first for o in spans if not o.joined}  # the flag's own word stays
    at, spoiled = 0, set()
    for place, word in enumerate(words):
        if place <= len(ENTRY) + ("@" in prefix):
            continue
        if changed & set(range(at, at + len(word.final))):
            spoiled.add(place)
        at += len(word.final)
    return spoiled


# ---------------------------------------------------------------- many at once, and systemd
def make_examples(count: int, seed: int | None = None) -> list[Example]:
    """Different every time unless `seed` is given."""
    found: list[Example] = []
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    limits = settings(
        max_examples=count, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=checks, derandomize=False
    )

    def keep(example: Example) -> None:
        found.append(example)

    run: Callable[[], None] = limits(given(edited_units())(keep))
    if seed is not None:
        from hypothesis import seed as seeded

        run = seeded(seed)(run)
    run()
    return found


# stdin: JSON {path: text}
_PUT = """
import json, os, sys
for path, text in json.load(sys.stdin).items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
"""
# $1 to $2: numbers of units whose names begin with $3. Says the LoadState of each, then what the bus has of each.
_ASK = """
[ "$1" = 0 ] && systemctl daemon-reload
i=$1; set -- "$2" "$3"; names=
while [ $i -lt $1 ]; do names="$names $2$i.service"; i=$((i+1)); done
systemctl show -p LoadState --value $names | grep .
for name in $names; do
  busctl --json=short get-property org.freedesktop.systemd1 "/org/freedesktop/systemd1/unit/${name%.service}_2eservice" \\
    org.freedesktop.systemd1.Service ExecStart || echo
done
"""


def ask_systemd(lab: LabHost, files: Sequence[dict[str, bytes]], stem: str) -> list[list[tuple[str, tuple[str, ...]]] | str]:
    """For each unit `<stem><i>.service`: (program, argv) of its commands as systemd loaded them, or the state it is in."""
    texts = {p: d.decode("utf-8", "surrogateescape") for one in files for p, d in one.items()}
    lab.run("python3", "-c", _PUT, stdin=json.dumps(texts).encode())
    answers: list[list[tuple[str, tuple[str, ...]]] | str] = []
    for first in range(0, len(files), 100):  # one command of the lab has 60 s
        last = min(first + 100, len(files))
        lines = lab.shell(_ASK, str(first), str(last), stem).decode().split("\n")[:-1]
        states, raws = lines[: last - first], lines[last - first :]
        for state, raw in zip(states, raws, strict=True):
            fine = state == "loaded" and raw.startswith("{")
            answers.append([(e[0], tuple(e[1])) for e in json.loads(raw)["data"]] if fine else state)
    lab.shell(f"rm -rf {ETC}/{stem}[0-9]*")
    return answers


def meant_commands(commands: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, tuple[str, ...]]]:
    """(program, argv) as systemd has them, of (prefix, loaded words)."""
    return [(words[0], tuple(words[1:]) if "@" in prefix else tuple(words)) for prefix, words in commands]


def compare_with_systemd(lab: LabHost, examples: Sequence[Example], stem: str = "rt") -> list[str]:
    """What differs between systemd's reading and the meaning; every second unit is read with its edit made."""
    wrong: list[str] = []
    names = [f"{stem}{i}.service" for i in range(len(examples))]
    files = [
        patch_unit(unit, edit, name) if i % 2 else put_unit(unit, name)
        for i, ((unit, edit, _), name) in enumerate(zip(examples, names, strict=True))
    ]
    for i, found in enumerate(ask_systemd(lab, files, stem)):
        unit, edit, args = examples[i]
        if i % 2 == 0:
            meant = meant_commands([(p, [w.loaded for w in ws]) for p, ws in unit.commands])
        else:
            host = UnitHost(names[i], files[i])
            view = read_unit(host, names[i], "--system")
            flat = [c for commands in view.commands for c in commands]
            meant = meant_commands([(c.prefix, texts) for c, texts in zip(flat, view.texts, strict=True)])
            launch = SystemdService(host, names[i], split_server).read_launch()
            if launch.args != args:
                wrong.append(f"{names[i]} after {edit}: {launch.args!r}, meant {args!r}")
        if found != meant:
            wrong.append(f"{names[i]}{f' after {edit}' if i % 2 else ''}: systemd {found!r}, meant {meant!r}\n{files[i]!r}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.services.roundtrip", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--lab", action="store_true", help="ask the systemd of a lab host as well")
    args = parser.parse_args()
    examples: list[Example] = []
    while len(examples) < args.examples:  # hypothesis may stop before its number
        examples += make_examples(args.examples - len(examples), args.seed if not examples else None)
    wrong: list[str] = []
    for unit, edit, meant in examples:
        try:
            check_reading(unit)
            check_edit(unit, edit, meant)
        except AssertionError as error:
            wrong.append(f"{edit}: {error}\n{unit.fragment}{unit.dropins}")
    different = len({u.fragment + str(u.dropins) for u, _, _ in examples})
    print(f"{len(examples)} units ({different} different): {len(wrong)} differ from what they mean")
    if args.lab:
        found = find_labhost()
        if isinstance(found, str):
            print(found, file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory() as folder, boot(Path(folder)) as lab:
            before = len(wrong)
            for first in range(0, len(examples), args.batch):
                wrong += compare_with_systemd(lab, examples[first : first + args.batch])
            print(f"{len(examples)} units read by systemd, by turns as made and edited: {len(wrong) - before} readings differ")
    for text in wrong[:5]:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
