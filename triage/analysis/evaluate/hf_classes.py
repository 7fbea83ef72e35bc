"""Config classes of transformers, read as text from its source beside the package: literal defaults and computed names."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from triage.analysis.evaluate.imports import Program
from triage.analysis.evaluate.values import ABSENT, Value
from triage.analysis.outline import fill_body


@dataclass(frozen=True)
class ConfigClass:
    """A config class as its source declares it: literal defaults, names that it computes, names that stand for others."""

    defaults: dict[str, Value]
    computed: frozenset[str]
    aliases: dict[str, str]
    parts: dict[str, str]  # sub-config name -> class name


def _class_value(node: ast.ClassDef, name: str) -> ast.expr | None:
    for item in node.body:
        if isinstance(item, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in item.targets):
            return item.value
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id == name:
            return item.value
    return None


def _literal(node: ast.expr | None) -> Value:
    if node is None:
        return ABSENT
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return ABSENT


def _read(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> ConfigClass:
    defaults: dict[str, Value] = {}
    computed: set[str] = set()
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            inherited = _read(classes[base.id], classes)
            defaults.update(inherited.defaults)
            computed |= inherited.computed
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            _note(defaults, computed, item.target.id, item.value)
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    _note(defaults, computed, target.id, item.value)
        elif isinstance(item, ast.FunctionDef) and item.name in ("__init__", "__post_init__"):
            given = dict(zip([a.arg for a in item.args.args][::-1], item.args.defaults[::-1], strict=False))
            fill_body(item)
            for child in ast.walk(item):
                if isinstance(child, ast.Assign):
                    for target in child.targets:
                        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                            source = child.value
                            if isinstance(source, ast.Name) and source.id == target.attr and source.id in given:
                                _note(defaults, computed, target.attr, given[source.id])
                            elif target.attr not in defaults:
                                computed.add(target.attr)
        elif isinstance(item, ast.FunctionDef) and any(
            isinstance(d, ast.Name) and d.id == "property" for d in item.decorator_list
        ):
            computed.add(item.name)
    aliases = _literal(_class_value(node, "attribute_map"))
    parts: dict[str, str] = {}
    sub = _class_value(node, "sub_configs")
    if isinstance(sub, ast.Dict):
        for key, value in zip(sub.keys, sub.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                parts[str(key.value)] = value.id
    return ConfigClass(defaults, frozenset(computed - set(defaults)), aliases if isinstance(aliases, dict) else {}, parts)


def _note(defaults: dict[str, Value], computed: set[str], name: str, node: ast.expr | None) -> None:
    value = _literal(node)
    if value is ABSENT:
        computed.add(name)
        defaults.pop(name, None)
    else:
        defaults[name] = value


def read_class(program: Program, model_type: str) -> ConfigClass | None:
    """The class of a model type as transformers' source declares it; None where that is not in the tree."""
    parts = model_type.replace("-", "_").split("_")
    for size in range(len(parts), 0, -1):
        folder = "_".join(parts[:size])
        data = program.tree.read(f"transformers/models/{folder}/configuration_{folder}.py")
        if data is None:
            continue
        tree = program.parse(f"transformers/models/{folder}/configuration_{folder}.py", data)
        classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)} if tree is not None else {}
        for node in classes.values():
            if _literal(_class_value(node, "model_type")) == model_type:
                return _read(node, classes)
    return None
