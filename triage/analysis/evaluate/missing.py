"""What the source tree lacks of the package itself: said by name, never taken as harmless.

A module can be absent, be there in compiled form only, be listed but unreadable, or not parse. A function of it may do
anything: a call of it during validation is a possible failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage.analysis.evaluate.values import TargetRaise, Unknown, Value
from triage.analysis.trees import compiled_form, walk_python

if TYPE_CHECKING:
    from triage.analysis.evaluate.imports import Program
    from triage.analysis.evaluate.machine import Machine

LOST = "what the source lacks: "  # begins the reason of such a failure
MAX_FILES = 10_000  # names that are looked through for a file that was moved
MAX_READ = 5  # files of the same name that are read
MAX_SHOWN = 3


def find_compiled(program: Program, name: str) -> str | None:
    """The file that holds a module in compiled form."""
    return compiled_form(program.tree, name.replace(".", "/") + ".py")


def is_listed(program: Program, name: str) -> bool:
    """Whether a module's file stands in its folder, though nothing could be read from it."""
    folder, _, last = name.replace(".", "/").rpartition("/")
    return f"{last}.py" in program.tree.list_dir(folder)


def has_no_source(program: Program, name: str) -> bool:
    """Whether a module can be imported although its source cannot be read."""
    return find_compiled(program, name) is not None or is_listed(program, name)


def lose_module(program: Program, name: str) -> str:
    """What the import of a module that is not in the tree hangs on."""
    return f"{LOST}{name} ({explain_module(program, name) or 'it is not in the source'})"


def explain_module(program: Program, path: str) -> str | None:
    """Why the source of a module is not known, by the first file on the way that was not read; None where all were read."""
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        found = program.find(name)
        if found is None:
            compiled = find_compiled(program, name)
            file = name.replace(".", "/") + ".py"
            if compiled is not None:
                return f"only {compiled} is there, the source {file} is not"
            return f"{file} cannot be read" if is_listed(program, name) else f"{file} is not in the source"
        if found[0] in program.failures:
            return f"{found[0]} {program.failures[found[0]]}"
        if not found[2]:
            return None
    return None


def explain_class(program: Program, path: str) -> str:
    """Why the args class is not known, and where a file of its module's name holds a class of that name."""
    module, _, name = path.rpartition(".")
    why = explain_module(program, module)
    text = f"{path} is not in the source" + (f": {why}" if why else "")
    wanted = module.rpartition(".")[2] + ".py"
    same = [f for f in walk_python(program.tree, program.package, MAX_FILES) if f.rpartition("/")[2] == wanted]
    held = [f for f in same[:MAX_READ] if f"class {name}".encode() in (program.tree.read(f) or b"") and f not in program.failures]
    return text + (f"; {', '.join(held[:MAX_SHOWN])} has a class of that name" if held else "")


def call_missing(w: Machine, path: str) -> Value:
    """A call of something inside the package that has no source: any outcome, failures included."""
    why = explain_module(w.program, path.rpartition(".")[0]) or f"{path} is not in the source"
    unknown = Unknown(f"{path}()", why)
    if w.stack and w.stack[-1].is_function:
        w.note(why)
        w.maybe(TargetRaise(Exception, (unknown,)), f"{LOST}{path} ({why})")
    return unknown


__all__ = [
    "LOST",
    "call_missing",
    "explain_class",
    "explain_module",
    "find_compiled",
    "has_no_source",
    "is_listed",
    "lose_module",
]
