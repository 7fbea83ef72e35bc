"""The walk over a module that replaces constructs newer than the local Python, each by an older one with as many lines."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator

import libcst as cst

from triage.analysis.downlevel.strings import CannotRewrite, code_of, old_string, old_template, parses

# construct -> the first Python that reads it
SINCE = {
    "f-strings of Python 3.12": (3, 12),
    "type parameters": (3, 12),
    "type statements": (3, 12),
    "defaults of type parameters": (3, 13),
    "except without parentheses": (3, 14),
    "t-strings": (3, 14),
    "lazy imports": (3, 15),
    "unpacking in comprehensions": (3, 15),
}
_TYPING = '__import__("typing")'
_KINDS = {cst.TypeVar: "TypeVar", cst.TypeVarTuple: "TypeVarTuple", cst.ParamSpec: "ParamSpec"}
_ITEM, _KEY, _VALUE = "_unpacked_item", "_unpacked_key", "_unpacked_value"

String = cst.FormattedString | cst.ConcatenatedString


def rewrite_module(module: cst.Module) -> tuple[str, tuple[str, ...]]:
    """The text in older syntax and the names of what was replaced. Raises CannotRewrite."""
    walk = _Rewrite()
    try:
        made = module.visit(walk)
    except cst.CSTValidationError as e:
        raise CannotRewrite(f"a rewritten form is not valid where it stands ({e})") from e
    return made.code, tuple(walk.done)


def _newer(name: str) -> bool:
    return sys.version_info[:2] < SINCE[name]


class _Rewrite(cst.CSTTransformer):
    def __init__(self) -> None:
        super().__init__()
        self.done: dict[str, None] = {}
        self.scopes: list[dict[str, str]] = []  # names of type parameters around -> what makes one
        self.known: set[str] = set()  # names bound so far
        self.inside: set[int] = set()  # strings that a concatenation around them takes care of
        self.fixed: set[int] = set()  # names that are no reads

    def replaced(self, name: str) -> bool:
        """Whether a construct has to be replaced; it counts as replaced then."""
        if _newer(name):
            self.done[name] = None
            return True
        return False

    # ------------------------------------------------------------ strings
    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> None:
        self.inside |= {id(node.left), id(node.right)}

    def leave_ConcatenatedString(
        self, original_node: cst.ConcatenatedString, updated_node: cst.ConcatenatedString
    ) -> cst.BaseExpression:
        if any(isinstance(s, cst.TemplatedString) for s in _strings(original_node)):
            raise CannotRewrite("t-strings in a row")
        return self.string(original_node, updated_node)

    def leave_FormattedString(self, original_node: cst.FormattedString, updated_node: cst.FormattedString) -> cst.BaseExpression:
        return self.string(original_node, updated_node)

    def string(self, original: String, updated: String) -> cst.BaseExpression:
        if id(original) in self.inside or parses(code_of(updated)):
            return updated
        self.done["f-strings of Python 3.12"] = None
        return old_string(original, updated)

    def leave_TemplatedString(self, original_node: cst.TemplatedString, updated_node: cst.TemplatedString) -> cst.BaseExpression:
        if id(original_node) in self.inside or not self.replaced("t-strings"):
            return updated_node
        return old_template(original_node, updated_node)

    # ------------------------------------------------------------ type parameters
    def enter(self, parameters: cst.TypeParameters | None) -> None:
        names = {p.param.name.value: _KINDS[type(p.param)] for p in parameters.params} if parameters is not None else {}
        self.scopes.append(names if _newer("type parameters") else {})
        if parameters is not None:
            self.fixed |= {id(p.param.name) for p in parameters.params}

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bind(node.name)
        self.enter(node.type_parameters)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bind(node.name)
        self.enter(node.type_parameters)

    def visit_TypeAlias(self, node: cst.TypeAlias) -> None:
        self.bind(node.name)
        self.enter(node.type_parameters)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.scopes.pop()
        if updated_node.type_parameters is None:
            return updated_node
        if self.replaced("type parameters"):
            space = _continued(original_node.type_parameters, original_node.whitespace_after_type_parameters)
            return updated_node.with_changes(
                type_parameters=None, whitespace_after_type_parameters=cst.SimpleWhitespace(""), whitespace_after_name=space
            )
        return updated_node.with_changes(type_parameters=self.without_defaults(updated_node.type_parameters))

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self.scopes.pop()
        parameters = updated_node.type_parameters
        if parameters is None:
            return updated_node
        if not self.replaced("type parameters"):
            return updated_node.with_changes(type_parameters=self.without_defaults(parameters))
        names = ", ".join(_make(p.param.name.value, _KINDS[type(p.param)], True) for p in parameters.params)
        bases = [b.with_changes(value=_erase(b.value)) for b in updated_node.bases]
        generic = cst.Arg(cst.parse_expression(f"{_TYPING}.Generic[{names}]"))
        space = _continued(original_node.type_parameters, original_node.whitespace_after_type_parameters)
        return updated_node.with_changes(
            type_parameters=None,
            whitespace_after_type_parameters=cst.SimpleWhitespace(""),
            whitespace_after_name=space,
            bases=[*bases, generic],
            lpar=updated_node.lpar if isinstance(updated_node.lpar, cst.LeftParen) else cst.LeftParen(),
            rpar=updated_node.rpar if isinstance(updated_node.rpar, cst.RightParen) else cst.RightParen(),
        )

    def without_defaults(self, parameters: cst.TypeParameters) -> cst.TypeParameters:
        if not any(p.default is not None for p in parameters.params) or not self.replaced("defaults of type parameters"):
            return parameters
        if "\n" in code_of(parameters):
            raise CannotRewrite("defaults of type parameters on several lines")
        none = cst.MaybeSentinel.DEFAULT
        return parameters.with_changes(params=[p.with_changes(default=None, equal=none, star="") for p in parameters.params])

    def leave_TypeAlias(self, original_node: cst.TypeAlias, updated_node: cst.TypeAlias) -> cst.BaseSmallStatement:
        parameters = self.scopes.pop()
        if not self.replaced("type statements"):
            return updated_node
        value = updated_node.value
        names = {n.value for n in _names(original_node.value)}
        if parameters or original_node.name.value in names or not names <= self.known | set(dir(builtins)):
            # its value is not evaluated before it is used: it may name what comes later
            text = code_of(original_node.value)
            lines = text.count("\n")
            value = cst.parse_expression(f"({' '.join(text.split())!a}" + "\n" * lines + ")")
        before = code_of(original_node).partition(original_node.name.value)[0].count("\n")
        lines = code_of(original_node).count("\n") - code_of(original_node.value).count("\n") - before
        space = cst.SimpleWhitespace(" " + "\\\n" * (lines + before))
        target = cst.AssignTarget(updated_node.name, whitespace_before_equal=space)
        return cst.Assign([target], value, semicolon=updated_node.semicolon)

    def bind(self, name: cst.CSTNode) -> None:
        """A name that is bound, not read. A type parameter that is bound again is not told apart from it."""
        self.fixed.add(id(name))
        if isinstance(name, cst.Name):
            self.known.add(name.value)
            if any(name.value in scope for scope in self.scopes):
                raise CannotRewrite(f"the type parameter {name.value} is bound again")

    def visit_Param(self, node: cst.Param) -> None:
        self.bind(node.name)

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:
        self.fixed.add(id(node.attr))

    def visit_Arg_keyword(self, node: cst.Arg) -> None:
        self.fixed.add(id(node.keyword))

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self.bind_all(node.target)

    def visit_AnnAssign_target(self, node: cst.AnnAssign) -> None:
        self.bind_all(node.target)

    def visit_AugAssign_target(self, node: cst.AugAssign) -> None:
        self.bind_all(node.target)

    def visit_NamedExpr_target(self, node: cst.NamedExpr) -> None:
        self.bind_all(node.target)

    def visit_For_target(self, node: cst.For) -> None:
        self.bind_all(node.target)

    def visit_CompFor_target(self, node: cst.CompFor) -> None:
        self.bind_all(node.target)

    def visit_AsName_name(self, node: cst.AsName) -> None:
        self.bind_all(node.name)

    def visit_MatchAs(self, node: cst.MatchAs) -> None:
        if node.name is not None:
            self.bind(node.name)

    def visit_MatchStar(self, node: cst.MatchStar) -> None:
        if node.name is not None:
            self.bind(node.name)

    def visit_NameItem(self, node: cst.NameItem) -> None:
        self.bind(node.name)

    def visit_Del_target(self, node: cst.Del) -> None:
        self.bind_all(node.target)

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        first = next(_names(node.name), None)
        for name in _names(node.name):
            self.fixed.add(id(name))
        if node.asname is None and first is not None:
            self.bind(first)

    def bind_all(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self.bind_all(element.value)
        elif isinstance(target, cst.Name):
            self.bind(target)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if id(original_node) in self.fixed:
            return updated_node
        for scope in reversed(self.scopes):
            if original_node.value in scope:
                made = cst.parse_expression(_make(original_node.value, scope[original_node.value]))
                return made.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
        return updated_node

    # ------------------------------------------------------------ statements
    def leave_ExceptHandler(self, original_node: cst.ExceptHandler, updated_node: cst.ExceptHandler) -> cst.ExceptHandler:
        return updated_node.with_changes(type=self.grouped(updated_node.type))

    def leave_ExceptStarHandler(
        self, original_node: cst.ExceptStarHandler, updated_node: cst.ExceptStarHandler
    ) -> cst.ExceptStarHandler:
        return updated_node.with_changes(type=self.grouped(updated_node.type))

    def grouped(self, kinds: cst.BaseExpression | None) -> cst.BaseExpression | None:
        if isinstance(kinds, cst.Tuple) and not kinds.lpar and self.replaced("except without parentheses"):
            return kinds.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return kinds

    def leave_LazyImport(self, original_node: cst.LazyImport, updated_node: cst.LazyImport) -> cst.BaseSmallStatement:
        if not self.replaced("lazy imports"):
            return updated_node
        space = _continued(updated_node.whitespace_after_lazy, updated_node.whitespace_after_import)
        return cst.Import(updated_node.names, updated_node.semicolon, whitespace_after_import=_spaced(space))

    def leave_LazyImportFrom(self, original_node: cst.LazyImportFrom, updated_node: cst.LazyImportFrom) -> cst.BaseSmallStatement:
        if not self.replaced("lazy imports"):
            return updated_node
        names = (
            "module",
            "names",
            "relative",
            "lpar",
            "rpar",
            "semicolon",
            "whitespace_before_import",
            "whitespace_after_import",
        )
        space = _continued(updated_node.whitespace_after_lazy, updated_node.whitespace_after_from)
        return cst.ImportFrom(**{n: getattr(updated_node, n) for n in names}, whitespace_after_from=_spaced(space))

    # ------------------------------------------------------------ comprehensions
    def leave_ListComp(self, original_node: cst.ListComp, updated_node: cst.ListComp) -> cst.BaseExpression:
        return self.flat(updated_node)

    def leave_SetComp(self, original_node: cst.SetComp, updated_node: cst.SetComp) -> cst.BaseExpression:
        return self.flat(updated_node)

    def leave_GeneratorExp(self, original_node: cst.GeneratorExp, updated_node: cst.GeneratorExp) -> cst.BaseExpression:
        return self.flat(updated_node)

    def flat(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> cst.BaseExpression:
        if not isinstance(node.elt, cst.StarredElement) or not self.replaced("unpacking in comprehensions"):
            return node
        return node.with_changes(elt=cst.Name(_ITEM), for_in=_then(node.for_in, _ITEM, f"({_one_line(node.elt.value)})"))

    def leave_StarredDictComp(self, original_node: cst.StarredDictComp, updated_node: cst.StarredDictComp) -> cst.BaseExpression:
        if not self.replaced("unpacking in comprehensions"):
            return updated_node
        items = f"{{**({_one_line(updated_node.value)})}}.items()"
        return cst.DictComp(
            cst.Name(_KEY),
            cst.Name(_VALUE),
            _then(updated_node.for_in, f"{_KEY}, {_VALUE}", items),
            lbrace=updated_node.lbrace,
            rbrace=updated_node.rbrace,
            lpar=updated_node.lpar,
            rpar=updated_node.rpar,
        )


def _strings(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    while isinstance(node, cst.ConcatenatedString):
        yield node.left
        node = node.right
    yield node


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that an expression reads."""
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, cst.Attribute | cst.Arg):
        yield from _names(node.value)
    else:
        for child in node.children:
            yield from _names(child)


def _make(name: str, kind: str, spread: bool = False) -> str:
    return f"{'*' if spread and kind == 'TypeVarTuple' else ''}{_TYPING}.{kind}({name!r})"


def _erase(base: cst.BaseExpression) -> cst.BaseExpression:
    """A base class without parameters that name a type parameter: `Base` for `Base[T]`."""
    if not isinstance(base, cst.Subscript) or _TYPING not in code_of(base):
        return base
    lines = code_of(base).count("\n")
    return cst.parse_expression(f"({code_of(base.value)}" + "\n" * (lines - code_of(base.value).count("\n")) + ")")


def _continued(*nodes: cst.CSTNode | None) -> cst.SimpleWhitespace:
    """Nothing, on as many lines as the nodes take."""
    lines = sum(code_of(node).count("\n") for node in nodes if node is not None)
    return cst.SimpleWhitespace("\\\n" * lines)


def _spaced(space: cst.SimpleWhitespace) -> cst.SimpleWhitespace:
    return cst.SimpleWhitespace(" " + space.value)


def _one_line(node: cst.BaseExpression) -> str:
    text = code_of(node)
    if "\n" in text:
        raise CannotRewrite("an unpacked element of a comprehension on several lines")
    return text


def _then(loop: cst.CompFor, target: str, source: str) -> cst.CompFor:
    """The loops of a comprehension with one more inside them."""
    if loop.inner_for_in is not None:
        return loop.with_changes(inner_for_in=_then(loop.inner_for_in, target, source))
    made = cst.parse_expression(f"[0 for {target} in {source}]")
    assert isinstance(made, cst.ListComp)
    return loop.with_changes(inner_for_in=made.for_in.with_changes(whitespace_before=cst.SimpleWhitespace(" ")))
