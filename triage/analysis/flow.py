"""What the shape of a block says about control: does it always leave, can it be left early, what does a pattern test."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence

_EXIT_CALLS = {"sys.exit", "exit", "quit", "os._exit", "os.abort", "parser.error", "parser.exit"}
_OPEN, _CLOSE = set("([{"), set(")]}")
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT}


def always_exits(block: Sequence[ast.stmt]) -> bool:
    """Whether control never reaches the end of the block (return, raise, break, continue, sys.exit on every way)."""
    return any(_exits(s) for s in block)


def _exits(node: ast.stmt) -> bool:
    match node:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return ast.unparse(func) in _EXIT_CALLS if isinstance(func, ast.Name | ast.Attribute) else False
        case ast.Assert(test=ast.Constant(value=value)):
            return not value
        case ast.If():
            while always_exits(node.body):  # an elif chain can be longer than recursion allows
                following = node.orelse[0] if len(node.orelse) == 1 else None
                if not isinstance(following, ast.If):
                    return always_exits(node.orelse)
                node = following
            return False
        case ast.With() | ast.AsyncWith():
            return not may_swallow(node) and always_exits(node.body)
        case ast.Try() | ast.TryStar():
            through = always_exits(node.body) or always_exits(node.orelse)
            return always_exits(node.finalbody) or (through and all(always_exits(h.body) for h in node.handlers))
        case ast.While(test=ast.Constant(value=value), body=body):
            return bool(value) and not breaks_out(body)
        case ast.Match(cases=cases):
            last = cases[-1]
            whole = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
            return whole and all(always_exits(c.body) for c in cases)
    return False


def exit_kind(block: Sequence[ast.stmt]) -> str:
    """How a block that always exits leaves: "raise", "return", "continue", "break", "exit"; "mixed" for more than one way."""
    node = next((s for s in block if _exits(s)), None)
    if node is None:
        return ""
    if isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break):
        return type(node).__name__.lower()
    if isinstance(node, ast.Assert):
        return "raise"
    if isinstance(node, ast.If):
        kinds = {exit_kind(node.body), exit_kind(node.orelse)}
        return kinds.pop() if len(kinds) == 1 else "mixed"
    if isinstance(node, ast.With | ast.AsyncWith):
        return exit_kind(node.body)
    return "exit" if isinstance(node, ast.Expr) else "mixed"


def breaks_out(body: Sequence[ast.stmt]) -> bool:
    """Whether a `break` of this very loop stands in its body."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            todo += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            todo += ast.iter_child_nodes(node)
    return False


def may_swallow(node: ast.With | ast.AsyncWith) -> bool:
    """Whether the context manager's name says that it can swallow an exception."""
    names = (n for item in node.items for n in ast.walk(item.context_expr))
    return any(word in getattr(n, a, "") for n in names for a in ("id", "attr") for word in ("suppress", "raises", "ignore"))


def pattern_test(subject: str, pattern: ast.pattern, lines: Sequence[str]) -> str | None:
    """The expression that a case pattern amounts to ("True" for one that always matches); None where there is none."""
    match pattern:
        case ast.MatchValue(value=value):
            return f"{subject} == {one_line(lines, value)}"
        case ast.MatchSingleton(value=value):
            return f"{subject} is {value}"
        case ast.MatchAs(pattern=None):
            return "True"
        case ast.MatchAs(pattern=inner) if inner is not None:
            return pattern_test(subject, inner, lines)
        case ast.MatchOr(patterns=patterns):
            values = [p.value for p in patterns if isinstance(p, ast.MatchValue)]
            if len(values) == len(patterns):
                return f"{subject} in ({', '.join(one_line(lines, v) for v in values)})"
            parts = [pattern_test(subject, p, lines) for p in patterns]
            return " or ".join(p for p in parts if p) if all(parts) else None
    return None


def one_line(lines: Sequence[str], node: ast.expr) -> str:
    """The source of an expression on one line, without comments; as `ast` writes it where the lines do not hold it."""
    end_line = node.end_lineno or node.lineno
    if end_line > len(lines):
        return ast.unparse(node)
    part = [line.encode() for line in lines[node.lineno - 1 : end_line]]
    part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0][node.col_offset :]
    text = [p.decode("utf-8", "replace") for p in part]
    return text[0] if len(text) == 1 else _join("(" + "\n".join(text) + ")") or ast.unparse(node)


def _join(source: str) -> str | None:
    """A parenthesised text of several lines on one; None where a token spans lines or it does not tokenize."""
    try:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type not in _SILENT]
    except (tokenize.TokenError, SyntaxError):
        return None
    if any(t.start[0] != t.end[0] for t in tokens) or len(tokens) < 3:
        return None
    out: list[str] = []
    previous: tokenize.TokenInfo | None = None
    inner = tokens[1:-1]
    for i, token in enumerate(inner):
        after = inner[i + 1] if i + 1 < len(inner) else None
        trailing = token.string == "," and after is not None and after.string in _CLOSE and after.start[0] > token.end[0]
        if trailing and not _lone(inner[:i]):
            continue
        if previous is not None:
            if previous.end[0] == token.start[0]:
                out.append(" " * (token.start[1] - previous.end[1]))
            elif not (previous.string in _OPEN or token.string in _CLOSE or token.string in ".," or previous.string == "."):
                out.append(" ")
        out.append(token.string)
        previous = token
    return "".join(out)


def _lone(tokens: Sequence[tokenize.TokenInfo]) -> bool:
    """Whether the innermost open bracket holds no comma so far: then a trailing comma makes a tuple of one."""
    depth = 0
    for token in reversed(tokens):
        if token.string in _CLOSE:
            depth += 1
        elif token.string in _OPEN:
            if depth == 0:
                return token.string == "("
            depth -= 1
        elif token.string == "," and depth == 0:
            return False
    return False
