"""Python source newer than the local Python, rewritten to what `ast` reads here, with every line kept.

Only what is new is replaced, by older syntax of the same value with as many lines; every statement begins on the line
where it began. libcst, whose parser reads newer grammar, is imported when the first such file is met.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache

from triage.analysis.decoding import decode_source
from triage.analysis.downlevel.bounds import too_much

_COOKIE = re.compile(r"^([ \t\f]*#.*?)coding([:=][ \t]*[-\w.]+)")
_FORM_FEED = re.compile(r"^[ \t]*\f[ \t\f]*", re.MULTILINE)


@dataclass(frozen=True)
class Rewritten:
    """`text` is None where the source could not be rewritten; `why` says why. `constructs` are what was replaced."""

    text: str | None
    constructs: tuple[str, ...] = ()
    why: str = ""

    @property
    def note(self) -> str:
        """What to tell of a file that was read so."""
        here = ".".join(map(str, sys.version_info[:2]))
        return (
            f"Python {here} does not read its {', '.join(self.constructs)}; it was read in a rewritten form with the same lines"
        )


def down_level(source: bytes) -> bytes | None:
    """UTF-8 source with the same lines that the local Python parses; None where `rewrite` gives a reason against it."""
    text = rewrite(decode_source(source)).text
    return None if text is None else _without_cookie(text).encode("utf-8", "replace")


@lru_cache(maxsize=16)
def rewrite(text: str) -> Rewritten:
    """A whole file's text (newlines as "\\n") in the syntax of the local Python."""
    why = too_much(text)
    if why is not None:
        return Rewritten(None, why=why)
    import libcst

    from triage.analysis.downlevel.constructs import rewrite_module
    from triage.analysis.downlevel.strings import CannotRewrite

    try:
        made, constructs = rewrite_module(libcst.parse_module(_FORM_FEED.sub(_blank, text)))
    except libcst.ParserSyntaxError as e:
        return Rewritten(None, why=f"line {e.raw_line}: no Python syntax that is known")
    except (libcst.CSTLogicError, libcst.CSTValidationError) as e:
        return Rewritten(None, why=f"libcst refuses it ({e})")
    except CannotRewrite as e:
        return Rewritten(None, why=str(e))
    except (RecursionError, MemoryError):
        return Rewritten(None, why="it is nested too deeply")
    if made.count("\n") != text.count("\n"):
        return Rewritten(None, why="its lines would move")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(made)
    except SyntaxError as e:
        return Rewritten(None, why=f"line {e.lineno}: {e.msg}")
    except (ValueError, RecursionError, MemoryError):
        return Rewritten(None, why="it is nested too deeply")
    return Rewritten(made, constructs)


def _blank(match: re.Match[str]) -> str:
    """Form feeds begin the count of the indentation anew."""
    return match.group().rpartition("\f")[2]


def _without_cookie(text: str) -> str:
    """Without the declaration of an encoding in the first two lines, which would contradict UTF-8."""
    first, *rest = text.split("\n", 2)
    lines = [_COOKIE.sub(r"\1c0ding\2", first), *rest]
    if len(lines) > 1:
        lines[1] = _COOKIE.sub(r"\1c0ding\2", lines[1])
    return "\n".join(lines)


__all__ = ["Rewritten", "down_level", "rewrite"]
