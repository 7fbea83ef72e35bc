"""Statements that bind and unbind names: import, global, nonlocal, del."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from triage.analysis.evaluate.expressions import compile_expression
from triage.analysis.evaluate.signals import Signal, Step
from triage.analysis.evaluate.values import LazyImport, Module
from triage.analysis.outline import fill_all

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine


def compile_import(node: ast.Import) -> Step:
    def run(w: Machine, f: Frame) -> Signal | None:
        for alias in node.names:
            w.require(alias.name, f)
            module = w.import_module(alias.name)
            if alias.asname:
                f.assign(w, alias.asname, module)
            else:
                top = alias.name.split(".")[0]
                f.assign(w, top, w.import_module(top))
                if "." in alias.name and not f.is_function and isinstance(module, Module) and not _mentions(w, f.module, top):
                    w.execute(module)  # imported for what it does (registrations)
        return None

    return run


def _mentions(w: Machine, module: Module, name: str) -> bool:
    spec = w.program.find(module.name)
    if spec is not None and not re.search(rb"^(?!\s*(?:import|from)\b).*\b" + name.encode() + rb"\b", spec[1], re.MULTILINE):
        return False
    tree = w.program.parse(module.file, spec[1]) if spec is not None else None
    if tree is not None:
        fill_all(tree)
    return tree is None or any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(tree))


def compile_import_from(node: ast.ImportFrom) -> Step:
    def run(w: Machine, f: Frame) -> Signal | None:
        base = w.absolute_name(f.module, node.module or "", node.level)
        w.require(base, f)
        for alias in node.names:
            if alias.name == "*":
                w.import_star(f, base)
            else:
                w.preload(base, alias.name)
                f.assign(w, alias.asname or alias.name, LazyImport(base, alias.name))
        return None

    return run


def compile_delete(node: ast.Delete) -> Step:
    def run(w: Machine, f: Frame) -> Signal | None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                w.heap.delete(f.locals, target.id)
            elif isinstance(target, ast.Attribute):
                w.delete_attribute(compile_expression(target.value)(w, f), target.attr)
            elif isinstance(target, ast.Subscript):
                w.delete_item(compile_expression(target.value)(w, f), compile_expression(target.slice)(w, f))
        return None

    return run


def compile_global(node: ast.Global) -> Step:
    def run(w: Machine, f: Frame) -> Signal | None:
        f.globals |= frozenset(node.names)
        return None

    return run


def compile_nonlocal(node: ast.Nonlocal) -> Step:
    def run(w: Machine, f: Frame) -> Signal | None:
        f.nonlocals |= frozenset(node.names)
        return None

    return run
