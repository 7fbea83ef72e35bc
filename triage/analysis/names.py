"""Where a name is defined and whether it is the args object. The only user of jedi; nothing of the target is imported or run.

`find_definition` follows imports by syntax alone and works on every tree; `goto` asks jedi, for what needs inference
(a method of a local's class), and needs the tree as a folder on disk.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from triage.analysis.conditions import read_scope
from triage.analysis.source import MAX_SOURCE, decode_source, flat_block, function_chain, imported_module, read_module
from triage.errors import CaptureError
from triage.model import Location, Unknown
from triage.protocols import SourceTree

_MAX_HOPS = 12  # re-exports followed for one name
_MAX_RESULTS = 20  # answers of jedi that are looked at


def is_args_object(tree: SourceTree, file: str, line: int, name: str, args_class: str = "ServerArgs") -> bool:
    """Whether `name`, read at a line, is the args object or a view of it (parameter, `self`, alias, view helper)."""
    data = tree.read(file)
    if data is None or len(data) > MAX_SOURCE:
        return False
    return name in read_scope(decode_source(data), line, args_class).args_names


# ---------------------------------------------------------------- by syntax
def find_definition(tree: SourceTree, file: str, name: str, line: int | None = None) -> Location | None:
    """Where a dotted `name` that `file` reads (at `line`, so that imports inside its function count) is defined.

    Follows imports and re-exports across the modules of the tree, at most 12 hops. The rest of a dotted name is looked for
    in the module or class that its first part names. None: a builtin, a local, outside the tree, or not settled by syntax.
    """
    head, *rest = name.split(".")
    return _define(tree, file, head, rest, line, _MAX_HOPS)


def _define(tree: SourceTree, file: str, head: str, rest: list[str], line: int | None, hops: int) -> Location | None:
    module = read_module(tree, file, line or 0)
    if hops <= 0 or isinstance(module, Unknown):
        return None
    blocks: list[list[ast.stmt]] = [module.tree.body]
    if line is not None:
        blocks = [f.body for f in reversed(function_chain(module.tree, line)) if isinstance(f, ast.FunctionDef)] + blocks
    for block in blocks:
        for node in reversed(flat_block(block)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    found = _imported(tree, file, node, alias, head, rest, hops)
                    if found is not None:
                        return found
            elif head in _defined(node):
                return _inside(tree, file, node, rest, hops)
    return None


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}


def _inside(tree: SourceTree, file: str, node: ast.stmt, rest: list[str], hops: int) -> Location | None:
    if not rest:
        return Location(file, node.lineno, node.end_lineno)
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
        made = node.value.func  # `envs = Envs()`: an attribute of the instance is looked for in the class
        head = made.id if isinstance(made, ast.Name) else None
        return _define(tree, file, head, rest, None, hops - 1) if head else None
    if not isinstance(node, ast.ClassDef):
        return None
    for member in flat_block(node.body):
        if rest[0] in _defined(member):
            return _inside(tree, file, member, rest[1:], hops - 1)
    for base in node.bases:
        found = (
            _define(tree, file, *_split(ast.unparse(base)), None, hops - 1)
            if isinstance(base, ast.Name | ast.Attribute)
            else None
        )
        owner = read_module(tree, found.file, found.line) if found is not None else None
        if found is None or owner is None or isinstance(owner, Unknown):
            continue
        classes = (n for n in ast.walk(owner.tree) if isinstance(n, ast.ClassDef) and n.lineno == found.line and n is not node)
        for found_class in classes:
            inherited = _inside(tree, found.file, found_class, rest, hops - 1) if hops > 0 else None
            if inherited is not None:
                return inherited
    return None


def _split(name: str) -> tuple[str, list[str]]:
    head, *rest = name.split(".")
    return head, rest


def _imported(
    tree: SourceTree, file: str, node: ast.Import | ast.ImportFrom, alias: ast.alias, head: str, rest: list[str], hops: int
) -> Location | None:
    if isinstance(node, ast.Import):
        if alias.asname:
            return _in_module(tree, alias.name, rest, hops) if alias.asname == head else None
        parts = alias.name.split(".")
        if parts[0] != head or rest[: len(parts) - 1] != parts[1:]:
            return None
        return _in_module(tree, alias.name, rest[len(parts) - 1 :], hops)
    base = imported_module(file, node.module, node.level)
    if alias.name == "*":
        target = _module_file(tree, base)
        return _define(tree, target, head, rest, None, hops - 1) if target and not head.startswith("_") else None
    if (alias.asname or alias.name) != head:
        return None
    found = _in_module(tree, base, [alias.name, *rest], hops)
    return found if found is not None else _in_module(tree, f"{base}.{alias.name}", rest, hops)


def _in_module(tree: SourceTree, module: str, names: list[str], hops: int) -> Location | None:
    target = _module_file(tree, module)
    if target is None:
        return None
    return _define(tree, target, names[0], names[1:], None, hops - 1) if names else Location(target, 1)


def _module_file(tree: SourceTree, module: str) -> str | None:
    base = module.replace(".", "/")
    return next((f for f in (f"{base}.py", f"{base}/__init__.py") if tree.read(f) is not None), None)


# ---------------------------------------------------------------- by jedi
def goto(source: str, file: str, line: int, column: int, root: Path, cache: Path | None = None) -> Location | None:
    """Where the name at a position (line from 1, column from 0) of `file` under the folder `root` is defined.

    `cache` is the folder in which jedi keeps what it has parsed, else that of the user.

    Follows imports across the folder's modules. None when it is defined outside the folder, not found, or the source is
    too large to infer over. Raises CaptureError when jedi itself fails.
    """
    if len(source) > MAX_SOURCE:
        return None
    import jedi  # type: ignore[import-untyped]
    from jedi.api.environment import InterpreterEnvironment  # type: ignore[import-untyped]

    # Neither may jedi import modules that it knows to be hard to infer, nor run properties of live objects.
    jedi.settings.auto_import_modules = []
    jedi.settings.allow_unsafe_interpreter_executions = False
    before = jedi.settings.cache_directory
    jedi.settings.cache_directory = str(cache) if cache is not None else before
    real = root.resolve()
    try:
        # The folder alone is on the path, and the environment is this process: no interpreter is started or asked.
        project = jedi.Project(real, sys_path=[str(real)], load_unsafe_extensions=False, smart_sys_path=False)
        script = jedi.Script(source, path=real / file, project=project, environment=InterpreterEnvironment())
        names: list[Any] = script.goto(line, column, follow_imports=True, follow_builtin_imports=False)
    except (ValueError, RecursionError):
        return None  # no name at that position, or inference without end
    except (jedi.InternalError, AttributeError, KeyError, IndexError, TypeError, AssertionError, OSError) as e:
        raise CaptureError(f"the definition of the name at {file}:{line} cannot be inferred") from e
    finally:
        jedi.settings.cache_directory = before
    for name in names[:_MAX_RESULTS]:
        path = name.module_path
        if path is None or name.line is None:
            continue
        try:
            inside = Path(path).resolve().relative_to(real)
        except (ValueError, OSError):
            continue
        return Location(inside.as_posix(), name.line)
    return None
