"""The import table and the house rules that a program can check, over every module of the package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "triage"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 400

# part of the package -> the parts it may import; its own modules are always allowed
TABLE: dict[str, set[str]] = {
    "errors": set(),
    "model": set(),
    "protocols": {"model"},
    "argv": {"model", "errors"},
    "redact": {"model", "argv"},
    "codec": {"model", "errors"},
    "knowledge": {"model", "protocols", "errors"},
    "engines": {"model", "protocols", "errors", "knowledge", "redact", "argv"},
    "analysis": {"model", "protocols", "errors", "redact", "argv"},
    "hosts": {"model", "protocols", "errors", "redact", "argv"},
    "services": {"model", "protocols", "errors", "redact", "argv"},
    "report": {"model", "protocols", "redact"},
    "loop": {"model", "protocols", "errors", "analysis", "redact", "argv", "codec"},
}
TABLE["cli"] = set(TABLE)
ROOT = {"__init__", "__main__"}  # the package's own files: version, and a way to start the command

# each third-party library (and subprocess) stands behind these modules only
BEHIND: dict[str, tuple[str, ...]] = {
    "paramiko": ("hosts/ssh.py",),
    "subprocess": ("hosts/local.py",),
    "jedi": ("analysis/names.py",),
    "libcst": ("analysis/",),
    "rich": ("report/", "cli/"),
    "jinja2": ("report/html.py",),
    "platformdirs": ("loop/places.py",),
    "filelock": ("loop/session.py",),
    "yaml": ("analysis/evaluate/yaml_text.py",),
}
# where one clause may take any exception
BROAD = {
    "cli/__init__.py": "a bug of ours is told in one line",
    "analysis/evaluate/comparing.py": "what an operation of the target raises is the target's own failure",
    "engines/rehearsal/judge.py": "what the target's validation raises is the answer",
}
# Programs that are sent to the host and run there: never imported here.
SENT = tuple(f"engines/rehearsal/{name}.py" for name in ("errors", "guard", "judge", "pipes", "supervise", "tree", "typed"))
# other ways to start a process or to run what is only to be read
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "os.system", "os.popen", "os.fork", "importlib.import_module", "runpy.run_path"}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def part_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Dotted names that the module imports, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import"
            assert node.module
            if node.module == "triage":
                yield from ((f"triage.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


def test_there_are_modules_to_check() -> None:
    assert len(MODULES) > 20
    assert {part_of(m) for m in MODULES} - ROOT <= set(TABLE)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_follow_the_table(path: Path) -> None:
    part = part_of(path)
    wrong = []
    for name, line in imports_of(path):
        top, *rest = name.split(".")
        if top == "triage":
            target = rest[0] if rest else ""
            allowed = part in ROOT or target == part or target in TABLE[part] or target == "__version__"
        elif top in BEHIND:
            allowed = name_of(path).startswith(BEHIND[top])
        else:
            allowed = top in sys.stdlib_module_names
        if not allowed:
            wrong.append(f"{name_of(path)}:{line} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short(path: Path) -> None:
    lines = path.read_bytes().count(b"\n")
    assert lines <= MAX_LINES


def broad_clauses(path: Path) -> list[str]:
    """Where a clause takes every exception and keeps it; one that cleans up and raises it again is not meant."""
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ExceptHandler) and not (isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None):
            kinds = [node.type] if not isinstance(node.type, ast.Tuple) else list(node.type.elts)
            if any(kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException")) for kind in kinds):
                found.append(f"{name_of(path)}:{node.lineno}")
    return found


def test_broad_clauses_stand_where_they_are_meant_and_nowhere_else() -> None:
    found = [place.partition(":")[0] for path in MODULES for place in broad_clauses(path)]
    assert sorted(found) == sorted(set(found))
    assert set(found) <= set(BROAD)


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p) not in SENT], ids=name_of)
def test_nothing_is_run_that_is_only_to_be_read(path: Path) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)}
    assert calls & FORBIDDEN_CALLS == set()


def test_programs_for_the_host_are_sent_and_not_imported_here() -> None:
    sent = {f"triage.{name.removesuffix('.py').replace('/', '.')}" for name in SENT}
    importing = {name_of(path) for path in MODULES for name, _ in imports_of(path) if name in sent}
    assert importing <= set(SENT)
    for path in (PACKAGE / name for name in SENT):
        assert {n for n, _ in imports_of(path) if n not in sent and n.partition(".")[0] not in sys.stdlib_module_names} == set()


def test_the_table_would_catch_a_wrong_import(tmp_path: Path) -> None:
    module = tmp_path / "bad.py"
    module.write_text("def f():\n    import paramiko.client\n    from triage import loop\n")
    assert [name for name, _ in imports_of(module)] == ["paramiko.client", "triage.loop"]


def test_every_record_is_a_name_of_the_model_package() -> None:
    import triage.model

    defined: set[str] = set()
    for path in (PACKAGE / "model").glob("[a-z]*.py"):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Assign):
                defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert len(defined) > 40 and defined == set(triage.model.__all__)
