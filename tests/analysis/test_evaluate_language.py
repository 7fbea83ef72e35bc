"""Each feature of the language, evaluated and really run: same value, or same exception at the same line."""

# ruff: noqa: E501
from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.analysis.snippet_runs import TAIL, evaluate, make_evaluator, really, really_package, same_story, told

# name -> (source with a function work(argv), argument lists)
SNIPPETS: dict[str, tuple[str, list[list[str]]]] = {
    "classes": (
        """
        class Base:
            kind = "base"
            def __init__(self, n):
                self.n = n
            def double(self):
                return self.n * 2
            def label(self):
                return f"{self.kind}-{self.double()}"
        class Mixin:
            def label(self):
                return "mixed " + super().label()
        class Child(Mixin, Base):
            kind = "child"
            def double(self):
                return super().double() + 1
        def work(argv):
            c = Child(int(argv[0]))
            return [c.label(), isinstance(c, Base), isinstance(c, int), Child.__name__, type(c) is Child, Child.__mro__[1] is Mixin]
        """,
        [["3"], ["x"]],
    ),
    "super with arguments": (
        """
        class A:
            def f(self): return ["A"]
        class B(A):
            def f(self): return super(B, self).f() + ["B"]
        def work(argv):
            return B().f()
        """,
        [[]],
    ),
    "dataclass": (
        """
        import dataclasses
        from dataclasses import dataclass, field
        @dataclass
        class D:
            a: int
            b: str = "b"
            c: list = field(default_factory=list)
            def __post_init__(self):
                if self.a < 0:
                    raise ValueError(f"a is {self.a}")
                self.c.append(self.a)
        @dataclass
        class E(D):
            e: float = 1.5
        def work(argv):
            d, e = D(int(argv[0])), E(2, "x")
            d2 = dataclasses.replace(d, a=7)
            return [d.a, d.b, d.c, d2.a, d2.c, e.e, e.c, [f.name for f in dataclasses.fields(E)], dataclasses.asdict(e), D(1) == D(1)]
        """,
        [["1"], ["-1"]],
    ),
    "enum": (
        """
        from enum import Enum, IntEnum, auto
        class Color(str, Enum):
            RED = "red"
            BLUE = "blue"
        class Level(IntEnum):
            LOW = 1
            HIGH = 2
        class Auto(Enum):
            A = auto()
            B = auto()
            def is_a(self): return self is Auto.A
        def work(argv):
            c = Color(argv[0])
            return [c is Color.RED, c == "red", c.value, c.name, [m.value for m in Color], Level.HIGH > Level.LOW, Level["LOW"].value,
                    Auto.A.is_a(), Auto.B.is_a(), Auto.B.value, argv[0] in [m.value for m in Color], len(Color)]
        """,
        [["red"], ["blue"], ["green"]],
    ),
    "descriptor and property": (
        """
        class Checked:
            def __set_name__(self, owner, name): self.name = "_" + name
            def __get__(self, obj, owner=None):
                if obj is None: return self
                return getattr(obj, self.name, 0)
            def __set__(self, obj, value):
                if value > 10: raise ValueError("too big")
                setattr(obj, self.name, value)
        class Box:
            size = Checked()
            def __init__(self): self.parts = []
            @property
            def area(self): return self.size * self.size
            @area.setter
            def area(self, value): self.parts.append(value)
            @classmethod
            def make(cls): return cls()
            @staticmethod
            def twice(n): return 2 * n
        def work(argv):
            b = Box.make()
            b.size = int(argv[0])
            b.area = 5
            return [b.size, b.area, b.parts, Box.twice(4)]
        """,
        [["3"], ["11"]],
    ),
    "getattr hooks": (
        """
        class View:
            def __init__(self, inner): self._inner = inner
            def __getattr__(self, name):
                if name.startswith("no"): raise AttributeError(name)
                return self._inner[name]
        def work(argv):
            v = View({"a": 1})
            return [v.a, getattr(v, "nope", "default"), hasattr(v, "nothing"), getattr(v, argv[0])]
        """,
        [["a"], ["b"]],
    ),
    "closures": (
        """
        def counter(start):
            n = start
            def step(by=1):
                nonlocal n
                n += by
                return n
            return step
        total = 0
        def add(x):
            global total
            total += x
            return total
        def work(argv):
            c = counter(10)
            fs = [lambda i=i: i * 2 for i in range(3)]
            late = [lambda: i for i in range(3)]
            return [c(), c(5), add(2), add(3), [f() for f in fs], [f() for f in late]]
        """,
        [[]],
    ),
    "comprehensions": (
        """
        def work(argv):
            n = int(argv[0])
            rows = [(a, b) for a in range(n) if a % 2 for b in "xy"]
            return [rows, {k: len(k) for k in argv}, sorted({x % 3 for x in range(n)}), sum(i for i in range(n)), list(map(str, range(n))),
                    any(x > 2 for x in range(n)), all(x < 3 for x in range(n)), [y for x in range(n) if (y := x * x) > 3],
                    dict(zip("ab", range(2))), list(enumerate("ab", 1)), max(range(n + 1)), min([3, n], key=lambda v: -v)]
        """,
        [["0"], ["4"], ["7"]],
    ),
    "exceptions": (
        """
        class Custom(Exception):
            def __init__(self, code):
                super().__init__(f"code {code}")
                self.code = code
        def fail(kind):
            if kind == "key": return {}["missing"]
            if kind == "none": return None > 3
            if kind == "zero": return 1 // 0
            if kind == "attr": return None.x
            if kind == "index": return [][1]
            if kind == "custom": raise Custom(7)
            if kind == "int": return int("q")
            if kind == "assert": assert kind == "x", f"bad {kind}"
            if kind == "unpack":
                a, b = [1]
            if kind == "name": return undefined_name
            return "fine"
        def work(argv):
            log = []
            try:
                log.append(fail(argv[0]))
            except (KeyError, IndexError) as e:
                log.append(["lookup", type(e).__name__, str(e)])
            except Custom as e:
                log.append([e.code, str(e), isinstance(e, Exception)])
                raise RuntimeError("wrapped") from e
            except ZeroDivisionError:
                log.append("zero")
                raise
            else:
                log.append("else")
            finally:
                log.append("finally")
            return log
        """,
        [[k] for k in ("key", "none", "zero", "attr", "index", "custom", "int", "assert", "unpack", "name", "ok")],
    ),
    "finally overrides": (
        """
        def f(x):
            for i in range(3):
                try:
                    if x == "return": return "body"
                    if x == "raise": raise ValueError("lost")
                    if x == "continue": continue
                finally:
                    if x != "continue": break
            return "after"
        def g():
            try:
                return "try"
            finally:
                return "finally"
        def work(argv):
            return [f(argv[0]), g()]
        """,
        [["return"], ["raise"], ["continue"], [""]],
    ),
    "with": (
        """
        import contextlib
        class Guard:
            def __init__(self, log): self.log = log
            def __enter__(self):
                self.log.append("in")
                return self
            def __exit__(self, kind, value, trace):
                self.log.append("out")
                return None
        def work(argv):
            log = []
            with Guard(log) as g, Guard(log):
                log.append("body")
                if argv: return log
            with contextlib.nullcontext():
                log.append("null")
            return log
        """,
        [[], ["x"]],
    ),
    "exit that swallows": (
        """
        import contextlib
        class Quiet:
            def __init__(self, log): self.log = log
            def __enter__(self): return self
            def __exit__(self, kind, value, trace):
                self.log.append(kind is not None)
                return kind is ValueError
        def work(argv):
            log = []
            with Quiet(log):
                if argv[0] == "v": raise ValueError("v")
                if argv[0] == "k": raise KeyError("k")
            with contextlib.suppress(KeyError):
                log.append({}["x"])
            log.append("after")
            return log
        """,
        [["v"], ["k"], [""]],
    ),
    "loops": (
        """
        def work(argv):
            n, out = int(argv[0]), []
            for i in range(10):
                if i == n: break
                if i % 2: continue
                out.append(i)
            else:
                out.append("no break")
            while n > 0:
                n -= 2
                if n == 1: break
            else:
                out.append("while else")
            return out, n
        """,
        [["3"], ["4"], ["99"]],
    ),
    "generators": (
        """
        def gen(n):
            for i in range(n):
                if i == 3: return
                yield i
            yield "end"
        def outer(n):
            yield "first"
            yield from gen(n)
        def work(argv):
            n = int(argv[0])
            it = iter(gen(n))
            return [list(outer(n)), next(it, "none"), sum(1 for _ in gen(n)), next((x for x in gen(n) if x == 1), None)]
        """,
        [["0"], ["2"], ["9"]],
    ),
    "match": (
        """
        from dataclasses import dataclass
        @dataclass
        class P:
            x: int
            y: int
        def kind(v):
            match v:
                case 0 | 1: return "small"
                case int(n) if n > 100: return f"big {n}"
                case [a, *rest]: return ["seq", a, rest]
                case {"k": k, **more}: return ["map", k, more]
                case P(x=0, y=y): return ["axis", y]
                case str(): return "text"
                case None: return "none"
                case _: return "other"
        def work(argv):
            return [kind(v) for v in (0, 1, 500, 7, [1, 2, 3], {"k": 1, "z": 2}, P(0, 4), P(1, 2), "s", None, 2.5)]
        """,
        [[]],
    ),
    "star arguments": (
        """
        def f(a, /, b=2, *rest, c, d=4, **more):
            return [a, b, list(rest), c, d, more]
        def work(argv):
            first, *mid, last = [1, 2, 3, 4]
            k = {"c": 9, "z": 1}
            out = [f(1, c=3), f(*[1, 2, 3], **k), [*mid, *"ab"], {**k, "c": 0}, first, last]
            if argv:
                f(1, 2)
            return out
        """,
        [[], ["x"]],
    ),
    "text": (
        """
        def work(argv):
            x = float(argv[0])
            name = "v"
            return [f"{x:.2f} {name!r:>5} {x=} {'nested' + name}", "%s-%d %5.1f" % (name, 3, x), "{} {b:03d}".format(name, b=7),
                    "a,b".split(","), "-".join(["x", "y"]), " s ".strip().upper(), "abc"[::-1], "x" in "xyz", "b" < "c",
                    "pre-fix".removeprefix("pre-"), "a=b=c".partition("="), "%(k)s" % {"k": 1}, name * 3, str(None), repr("q")]
        """,
        [["1"], ["2.345"], ["?"]],
    ),
    "numbers": (
        """
        import math
        def work(argv):
            a, b = int(argv[0]), int(argv[1])
            return [a + b, a - b, a * b, a / b, a // b, a % b, -a, a ** 2, a << 1, a & b, a | b, a ^ b, ~a, divmod(a, b), abs(-a),
                    round(a / 3, 2), math.ceil(a / 2), 1 < a <= 5, a == 3.0, not a, a and b, a or b, bool(a), int("0x10", 16)]
        """,
        [["3", "2"], ["0", "5"], ["1", "0"]],
    ),
    "containers": (
        """
        import collections, copy
        def work(argv):
            d = {"a": 1}
            d.setdefault("b", []).append(2)
            d.update(c=3)
            gone = d.pop("a")
            cnt = collections.defaultdict(list)
            cnt["x"].append(1)
            l = [3, 1, 2]
            l.sort(reverse=True)
            l[0:1] = [9, 9]
            del l[-1]
            l += [4]
            s = {1, 2} | {3}
            t = (1, 2) + (3,)
            deep = copy.deepcopy(d)
            deep["b"].append(5)
            return [d, gone, dict(cnt), l, sorted(s - {1}), t, t[-1], deep, list(d.items()), "b" in d, d.get("zz", 0), sorted(d, key=str),
                    [1, 2] == [1, 2], (1, 2) < (1, 3), l.index(4), l.count(9), list(reversed(l)), len(s)]
        """,
        [[]],
    ),
    "decorators": (
        """
        import functools
        def twice(fn):
            @functools.wraps(fn)
            def inner(*a, **k):
                return [fn(*a, **k), fn(*a, **k)]
            return inner
        def tag(name):
            def deco(fn):
                REGISTRY[name] = fn
                return fn
            return deco
        REGISTRY = {}
        calls = []
        @functools.lru_cache(maxsize=None)
        def cached(n):
            calls.append(n)
            return n + 1
        @tag("x")
        def handler(v): return v * 2
        @twice
        def f(x): return x + 1
        def work(argv):
            part = functools.partial(handler, 21)
            return [f(1), f.__name__, REGISTRY["x"](4), cached(1), cached(1), calls, part(), functools.reduce(lambda a, b: a * b, [1, 2, 3])]
        """,
        [[]],
    ),
    "class bodies": (
        """
        class Meta:
            names = [n.upper() for n in ("a", "b")]
            if len(names) > 1:
                extra = "yes"
            def __init_subclass__(cls, tag=None):
                cls.tag = tag
            def __eq__(self, other): return True
            def __len__(self): return 3
            def __bool__(self): return False
            def __call__(self, x): return x + 1
            def __contains__(self, x): return x == 5
            def __getitem__(self, i): return i * 10
            def __iter__(self): return iter([1, 2])
            def __add__(self, o): return "sum"
            def __str__(self): return "text"
        class Sub(Meta, tag="t"):
            pass
        def work(argv):
            m = Meta()
            return [m.names, m.extra, Sub.tag, m == 1, len(m), bool(m), m(1), 5 in m, m[4], list(m), m + 1, str(m), f"{m}"]
        """,
        [[]],
    ),
    "assert lines": (
        """
        def work(argv):
            n = int(argv[0])
            assert n > 0, (
                "not positive: "
                f"{n}"
            )
            assert n < 10
            if n == 5:
                raise ValueError(
                    f"five {n}"
                )
            return n
        """,
        [["1"], ["0"], ["5"], ["10"]],
    ),
    "namedtuple": (
        """
        import collections
        from typing import NamedTuple
        P = collections.namedtuple("P", "x y")
        class Q(NamedTuple):
            a: int
            b: str = "d"
        def work(argv):
            p, q = P(1, 2), Q(3)
            return [p.x, p.y, q.a, q.b, p == P(1, 2)]
        """,
        [[]],
    ),
    "parser": (
        """
        import argparse
        def positive(text):
            n = int(text)
            if n <= 0: raise argparse.ArgumentTypeError("not positive")
            return n
        class Collect(argparse.Action):
            def __call__(self, parser, namespace, values, option_string=None):
                setattr(namespace, self.dest, (getattr(namespace, self.dest) or []) + [values])
        def work(argv):
            p = argparse.ArgumentParser()
            p.add_argument("--size", "-s", type=positive, default=4)
            p.add_argument("--mode", choices=["a", "b"], default="a")
            p.add_argument("--fast", action="store_true")
            p.add_argument("--many", nargs="*", type=int)
            p.add_argument("--maybe", nargs="?", const="C", default="D")
            p.add_argument("--each", action=Collect)
            p.add_argument("--no-x", dest="x", action="store_false")
            ns = p.parse_args(argv)
            return {k: v for k, v in sorted(vars(ns).items())}
        """,
        [
            [],
            ["--size", "3", "--fast"],
            ["-s", "2", "--mod", "b"],
            ["--many", "1", "2"],
            ["--maybe"],
            ["--each", "1", "--each=2"],
            ["--no-x"],
        ],
    ),
}
CASES = [
    pytest.param(source, argv, id=f"{name} {' '.join(argv)}") for name, (source, lists) in SNIPPETS.items() for argv in lists
]


@pytest.mark.parametrize(("source", "argv"), CASES)
def test_feature_is_evaluated_as_python_runs_it(source: str, argv: list[str]) -> None:
    text = textwrap.dedent(source)
    same_story(told(evaluate(text, argv)), really(text, argv))


PACKAGES: dict[str, dict[str, str]] = {
    "module getattr": {
        "toy/lazy.py": "def __getattr__(name):\n    if name == 'late':\n        return 42\n    raise AttributeError(name)\nearly = 1\n",
        "toy/main.py": "from toy import lazy\nfrom toy.lazy import early\ndef work(argv):\n    return [lazy.late, early, hasattr(lazy, 'never')]\n",
    },
    "lazy import": {
        "toy/deep/__init__.py": "",
        "toy/deep/inner.py": "from .sibling import value\nfrom ..top import NAME\ndef f():\n    return value + NAME\n",
        "toy/deep/sibling.py": "value = 'v'\n",
        "toy/top.py": "NAME = 'n'\n",
        "toy/main.py": "def work(argv):\n    from toy.deep import inner\n    import toy.deep.sibling as s\n    return [inner.f(), s.value]\n",
    },
    "circular import": {
        "toy/a.py": "import toy.b\nX = 1\ndef f():\n    return toy.b.g()\n",
        "toy/b.py": "def g():\n    from toy.a import X\n    return X + 1\n",
        "toy/main.py": "from toy.a import f\ndef work(argv):\n    return f()\n",
    },
    "optional import": {
        "toy/main.py": "try:\n    from toy.absent import thing\nexcept ImportError:\n    thing = None\ndef work(argv):\n    try:\n"
        "        import toy.gone\n    except ModuleNotFoundError as e:\n        return [thing, str(e)]\n",
    },
    "star import": {
        "toy/names.py": "__all__ = ['a']\na = 1\nb = 2\n",
        "toy/more.py": "c = 3\n_d = 4\n",
        "toy/main.py": "from toy.names import *\nfrom toy.more import *\ndef work(argv):\n    return [a, c, 'b' in globals() if False else 0]\n",
    },
    "raise in another file": {
        "toy/check.py": "def check(n):\n    if n > 1:\n        raise ValueError(f'{n} is too many')\n",
        "toy/main.py": "from toy.check import check\ndef work(argv):\n    check(len(argv))\n    return 0\n",
    },
}


@pytest.mark.parametrize("name", PACKAGES)
def test_imports_are_evaluated_as_python_runs_them(name: str, tmp_path: Path) -> None:
    files = {k: v + (TAIL if k == "toy/main.py" else "") for k, v in PACKAGES[name].items()}
    argv = ["a", "b"]
    same_story(told(make_evaluator(files).evaluate(argv)), really_package(files, tmp_path, argv))
