"""Three-valued logic: what the evaluator says with facts unknown must hold for every value that the facts can have."""

# ruff: noqa: E501
from __future__ import annotations

import itertools
import random
import textwrap

import pytest

from tests.analysis.snippet_runs import FACTS, covers, evaluate, really, told
from triage.analysis.evaluate import Place
from triage.analysis.evaluate.values import Maybe, Unknown
from triage.model import Facts

HEAD = "import os\nimport torch\n"


def check(source: str, argv: list[str] | None = None) -> str:
    """The evaluator's verdict, after comparing it with what Python does for all eight worlds."""
    said = evaluate(source, argv or [])
    worlds = [(truths, really(source, argv or [], truths)) for truths in itertools.product((True, False), repeat=3)]
    for truths, real in worlds:
        where = f"{truths} of {FACTS}: {real}\n{source}"
        if said.verdict == "passes":
            assert real.exception is None, where
        if said.verdict == "fails":
            assert said.raised is not None
            assert (real.exception, real.line) == (said.raised.exception, told(said).line), where
        if real.exception is None and "out" in said.settings and said.raised is None:
            assert covers(said.settings["out"], real.value), f"{said.settings['out']!r} against {where}"
        if real.exception is not None and said.verdict == "unknown" and not said.why:
            sites = {p.site.line for p in (*said.possible, *([said.raised] if said.raised else [])) if p.site}
            assert real.line in sites, f"{sites} misses {where}"
    return said.verdict


CASES: dict[str, tuple[str, str]] = {
    "both sides joined": ("if A:\n    x = 1\nelse:\n    x = 2\nreturn x", "passes"),
    "the same fact twice": ("x = 1 if A else 2\nif A:\n    assert x == 1\nelse:\n    assert x == 2\nreturn x", "passes"),
    "one side raises": ("if A:\n    raise ValueError('a')\nreturn 1", "unknown"),
    "both sides raise at one line": ("for i in [1]:\n    if A:\n        i = 2\n    raise ValueError('x')", "fails"),
    "early return": ("if A:\n    return 1\nif B:\n    return 2\nreturn 3", "passes"),
    "early return hides a raise": ("if A:\n    return 1\nif not A:\n    return 2\nraise ValueError('never')", "passes"),
    "continue and break": ("o = []\nfor i in range(4):\n    if A and i == 1:\n        continue\n    if B and i == 2:\n        break\n    o.append(i)\nreturn o", "passes"),
    "options narrow": ("x = 'a' if A else 'b'\nif x == 'a':\n    return 1\nassert x == 'b'\nreturn 2", "passes"),
    "options in a list": ("x = 1 if A else 5\nassert x in (1, 5)\nif x > 3:\n    return 'big'\nreturn 'small'", "passes"),
    "maybe elements": ("o = ['s']\nif A:\n    o.append('t')\nif 't' in o and not A:\n    raise ValueError('no')\nreturn o", "unknown"),
    "maybe keys": ("d = {'k': 1}\nif A:\n    d['m'] = 2\nreturn d", "passes"),
    "missing key on one side": ("d = {}\nif A:\n    d['m'] = 2\nreturn d['m']", "unknown"),
    "exception in one branch inside try": ("try:\n    if A:\n        raise KeyError('x')\n    r = 1\nexcept KeyError:\n    r = 2\nreturn r", "passes"),
    "handler of another kind": ("try:\n    if A:\n        raise KeyError('x')\nexcept ValueError:\n    return 2\nreturn 1", "unknown"),
    "try in a loop": ("o = []\nfor i in range(3):\n    try:\n        if A and i == 1:\n            raise KeyError('x')\n        o.append(i)\n    except KeyError:\n        o.append('h')\nreturn o", "passes"),
    "and, or, not": ("x = (A and B) or not C\nreturn bool(x)", "passes"),
    "default by or": ("x = (5 if A else None) or 7\nreturn x + 1", "passes"),
    "none on one side": ("x = 5 if A else None\nreturn x > 3", "unknown"),
    "none is asked first": ("x = 5 if A else None\nif x is not None and x > 3:\n    return 1\nreturn 0", "passes"),
    "a helper": ("def h(v):\n    if A:\n        return v\n    return None\nx = h(3)\nif x is None:\n    x = 9\nreturn x + 1", "passes"),
    "objects": ("class T: pass\nt = T()\nt.v = 1\nif A:\n    t.v = 2\n    t.w = 3\nreturn [t.v, getattr(t, 'w', 0)]", "passes"),
    "any and all": ("return [any([A, False]), all([A, True]), any([A, True]), all([B, False])]", "passes"),
    "finally": ("o = []\ntry:\n    if A:\n        return o\n    o.append(1)\nfinally:\n    o.append(2)\nreturn o", "passes"),
    "while": ("n = 0\nwhile n < 3:\n    n += 2 if A else 1\nreturn n", "passes"),
    "walrus": ("if (x := (3 if A else 0)) and x > 2:\n    return x\nreturn -1", "passes"),
    "match": ("match (1 if A else 2):\n    case 1: return 'one'\n    case 2: return 'two'\nreturn 'other'", "passes"),
    "one of two lists changes": ("d, e = [1], [2]\nx = d if A else e\nx.append(3)\nreturn [d, e, x]", "passes"),
    "one of two lists grows": ("d, e = [1], [2]\nx = d if A else e\nx += [3]\nassert len(d) + len(e) == 3\nreturn [d, e]", "passes"),
    "one of two dicts changes": ("d, e = {'k': 0}, {}\nx = d if A else e\nx['k'] = 1\nx.update(m=2)\nreturn [d, e]", "passes"),
    "one of two keys goes": ("d, e = {'k': 0}, {'k': 1}\nx = d if A else e\ndel x['k']\nreturn [d, e]", "passes"),
    "one of two objects changes": ("class T: pass\nclass U:\n    def put(self, v): self.v = v\na, b = U(), U()\na.v = b.v = 0\n(a if A else b).put(1)\nassert a.v == 1 or b.v == 1\nreturn [a.v, b.v]", "unknown"),
    "one of two functions": ("o = []\ndef g(): o.append('g')\ndef h(): o.append('h')\n(g if A else h)()\nreturn o", "passes"),
    "an unknown key is set": ("d = {'a': 1, 'b': 2}\nd['a' if A else 'b'] = 3\nreturn [d['a'], d['b']]", "passes"),
    "an unknown index is set": ("o = [1, 2]\no[0 if A else 1] = 3\nreturn o", "passes"),
    "an unknown key is deleted": ("d = {'a': 1, 'b': 2}\ndel d['a' if A else 'b']\nreturn d.get('a')", "passes"),
    "an unknown key is popped": ("d = {'a': 1, 'b': 2}\nx = d.pop('a' if A else 'b')\nreturn [x, d.get('a')]", "passes"),
    "an unknown item is removed": ("o = [1, 2]\no.remove(1 if A else 2)\nreturn o", "unknown"),
    "removed from items that may be": ("o = []\nif A:\n    o.append(1)\no.remove(1)\nreturn o", "unknown"),
    "popped from items that may be": ("o = []\nif A:\n    o.append(1)\nreturn o.pop()", "unknown"),
    "popped where one is sure": ("o = [5]\nif A:\n    o.append(1)\nreturn o.pop()", "passes"),
    "sorted in place": ("o = [2, 1 if A else 3]\no.sort()\nreturn o", "passes"),
    "counted": ("o = [1 if A else 2, 1]\nreturn o.count(1)", "passes"),
    "inserted among items that may be": ("o = [1]\nif A:\n    o.insert(0, 0)\no.insert(1, 7)\nreturn o", "passes"),
    "keys that may be over keys that are": ("d = {}\nif A:\n    d['k'] = 2\ne = {'k': 1, **d}\nassert e['k'] in (1, 2)\nreturn e", "passes"),
    "a copy of one of two dicts": ("x = {'k': 1} if A else {}\ny = dict(x, m=2)\nreturn [x, y, y['k']]", "unknown"),
    "one of two dicts is read": ("x = {'k': 1} if A else {'k': 2}\nassert x['k'] > 0 and 'k' in x and 'm' not in x\nreturn sorted(x)", "passes"),
    "replaced among items that may be": ("o = [1]\nif A:\n    o.insert(0, 0)\no[0] = 7\nreturn o", "passes"),
    "items that may be, or none": ("o = []\nif A:\n    o.append(('s', {'k': 2}))\nd = {'k': 1}\nfor name, more in o or ():\n    d.update(more)\nreturn d['k'] + 1", "passes"),
    "one of two lists is walked": ("n = []\nfor x in ([1, 2] if A else [1, 3, 4]):\n    n.append(x)\nreturn n", "passes"),
    "with": ("import contextlib\nwith contextlib.suppress(KeyError):\n    if A:\n        raise KeyError('x')\nreturn 1", "passes"),
}  # fmt: skip
# Sound, but less sure than it could be.
LOOSE = {
    "an unknown key is popped",
    "one of two lists grows",
    "the same fact twice",
    "options in a list",
    "maybe elements",
    "while",
    "finally",
    "with",
    "continue and break",
    "try in a loop",
}


def body_of(lines: str) -> str:
    """A function work(argv) of these lines; A, B and C are the three unknown facts."""
    text = lines
    for name, fact in zip("ABC", FACTS, strict=True):
        text = "".join(f" ({fact}) " if w == name else w for w in _words(text))
    return HEAD + "def work(argv):\n" + textwrap.indent(text, "    ") + "\n"


def _words(text: str) -> list[str]:
    out: list[str] = []
    word = ""
    for c in text:
        if c.isalnum() or c == "_":
            word += c
            continue
        out += [word, c]
        word = ""
    return [*out, word]


@pytest.mark.parametrize("name", CASES)
def test_unknown_facts(name: str) -> None:
    lines, verdict = CASES[name]
    got = check(body_of(lines))
    assert got == verdict or (name in LOOSE and got == "unknown")


def test_elements_that_are_there_on_some_paths_are_marked() -> None:
    result = evaluate(body_of("o = [1]\nif A:\n    o.append(2)\nreturn o"))
    assert result.settings["out"][0] == 1
    assert isinstance(result.settings["out"][1], Maybe)
    joined = evaluate(body_of("return 1 if A else 2")).settings["out"]
    assert isinstance(joined, Unknown)
    assert set(joined.options or ()) == {1, 2}


def test_known_facts_leave_nothing_open() -> None:
    source = body_of("if A:\n    raise ValueError('there is a GPU')\nreturn 1")
    assert told(evaluate(source, facts=Facts(device="cuda"))).exception == "ValueError"
    assert told(evaluate(source, facts=Facts(device="cpu"))).value == 1


class Programs:
    """Small random programs over the three facts; each ends, and raises by itself only."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def make(self) -> str:
        self.lines = ["x, y, o, d = 0, None, [], {}"]
        self.block(0, 5, loop=False)
        self.lines.append("return [x, y, o, d]")
        return body_of("\n".join(self.lines))

    def test(self) -> str:
        a, b = self.rng.choice("ABC"), self.rng.choice("ABC")
        known = ["x > 1", "y is None", "'k' in d", "len(o) > 2", "x == y", "True", "x in (0, 2)"]
        return self.rng.choice([a, f"not {a}", f"{a} and {b}", f"{a} or not {b}", *known, f"{a} and {self.rng.choice(known)}"])

    def block(self, depth: int, size: int, loop: bool) -> None:
        for _ in range(self.rng.randint(1, size)):
            self.statement(depth, loop)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int, loop: bool) -> None:
        kinds = ["x", "y", "o", "d", "if", "if", "leave"] + (["for", "try", "with"] if depth < 3 else [])
        kind = self.rng.choice(kinds)
        self.count += 1
        if kind == "x":
            self.put(depth, self.rng.choice(["x += 1", "x = 2", f"x = 1 if {self.test()} else 2", "x = x * 2"]))
        elif kind == "y":
            self.put(depth, self.rng.choice(["y = x", "y = None", f"y = 3 if {self.test()} else None", "y = y or 1"]))
        elif kind == "o":
            self.put(depth, self.rng.choice([f"o = o + [{self.count}]", "o = []", "o = [*o, x]", "o = o + [1]"]))
        elif kind == "d":
            self.put(depth, self.rng.choice(["d = {**d, 'k': x}", "d = {}", "d = {'k': 1}", "d = dict(d, m=2)"]))
        elif kind == "leave":
            raising = [f"raise ValueError('{self.count}')", f"assert {self.test()}", "x = x + y", "x = d['k']", "return [x]"]
            leave = self.rng.choice(raising + (["break", "continue"] if loop else []))
            self.put(depth, f"if {self.test()}:")
            self.put(depth + 1, leave)
        elif depth >= 4:
            self.put(depth, "pass")
        elif kind == "if":
            self.put(depth, f"if {self.test()}:")
            self.block(depth + 1, 2, loop)
            if self.rng.random() < 0.6:
                self.put(depth, "else:")
                self.block(depth + 1, 2, loop)
        elif kind == "for":
            self.put(depth, f"for i{depth} in range({self.rng.randint(0, 3)}):")
            self.block(depth + 1, 2, True)
        elif kind == "with":
            self.put(depth, "for _ in [0]:")
            self.block(depth + 1, 2, True)
        else:
            self.put(depth, "try:")
            self.block(depth + 1, 2, loop)
            self.put(depth, f"except {self.rng.choice(['ValueError', 'KeyError', '(KeyError, TypeError)', 'Exception'])}:")
            self.block(depth + 1, 1, loop)
            if self.rng.random() < 0.3:
                self.put(depth, "finally:")
                self.put(depth + 1, "o = o + ['f']")


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_programs_are_never_told_wrong(first: int) -> None:
    sure = 0
    for seed in range(first, first + 50):
        sure += check(Programs(seed).make()) != "unknown"
    assert sure >= 10


@pytest.mark.parametrize(
    "text",
    [
        "x = []\nif A:\n    x.append(1)\no = [y for y in x or ()]\nreturn len(o)",
        "x = None\nif A:\n    x = [1, 2]\nn = 0\nfor y in x or ():\n    n = n + y\nreturn n",
        "x = [1]\nif A:\n    x = [1, 2]\nelse:\n    x = [1, 3, 4]\nn = []\nfor y in x:\n    n = n + [y]\nreturn n",
        "x = {}\nif A:\n    x['a'] = 1\ny = x or {}\nreturn ('a' in y, y.get('a', 5), 'b' in y)",
        "x = {}\nif A:\n    x['a'] = 1\ny = x or {'b': 2}\nreturn ('a' in y, 'b' in y)",
        "x = {}\nif A:\n    x['a'] = 1\nfor k, v in (x or {}).items():\n    if v != 1:\n        raise ValueError(k)\nreturn 0",
    ],
)
def test_what_may_be_empty_or_something_else(text: str) -> None:
    check(body_of(text))


LEAVING = (
    "x = 0\nif A:\n    return [x]\nfor i0 in range(2):\n    pass\nraise ValueError('9')",
    "x = 0\nif A:\n    return [x]\nfor i0 in [0]:\n    if x == 0:\n        raise ValueError('9')\nreturn 1",
    "x = 0\nif A:\n    return [x]\nfor i0 in [0]:\n    raise ValueError('9')\nreturn 1",
    "x = 0\nif A:\n    return [x]\nraise ValueError('9')",
    "x, d = 0, {}\nif A:\n    return [x]\nfor i0 in [0]:\n    d = dict(d, m=2)\n    raise ValueError('9')\nreturn 1",
    "x, d = 0, {}\nif A:\n    return [x]\nd = {'k': 1}\nfor i0 in range(2):\n    d = {'k': 1}\nfor i0 in [0]:\n    raise ValueError('9')\nreturn 1",
    "n = 0\nfor i0 in [0, 1]:\n    if A:\n        continue\n    raise ValueError('9')\nreturn n",
    "n = 0\nfor i0 in [0, 1]:\n    if A:\n        break\n    raise ValueError('9')\nreturn n",
    "n = 0\nfor i0 in [0, 1]:\n    if A:\n        continue\n    n = n + 1\n    if n > 1:\n        raise ValueError('9')\nreturn n",
    "n = 0\nwhile n < 3:\n    n = n + 1\n    if A:\n        continue\n    raise ValueError('9')\nreturn n",
    "n = 0\nif B:\n    return 7\nwhile n < 3:\n    n = n + 1\n    if A:\n        break\n    raise ValueError('9')\nreturn n",
    "for i0 in [0, 1]:\n    if A:\n        continue\n    return 5\nreturn 6",
    "n = 0\nfor i0 in [0, 1]:\n    if A:\n        break\n    return 5\nreturn 6",
    "n = 0\nfor i0 in [0, 1]:\n    if A:\n        continue\n    if B:\n        return 7\n    raise ValueError('9')\nreturn n",
    "n = 0\nfor i0 in [0, 1]:\n    if A:\n        return 3\n    if B:\n        continue\n    raise ValueError('9')\nreturn n",
    "n = 0\nfor i0 in [0, 1, 2]:\n    if A:\n        if B:\n            continue\n        n = 5\n        break\n    raise ValueError('9')\nreturn n",
    "n = 0\nfor i0 in [0, 1]:\n    for i1 in [0, 1]:\n        if A:\n            break\n    else:\n        if B:\n            break\n        continue\n    n = n + 1\nreturn n",
    "n = 0\nfor i0 in [0, 1]:\n    for i1 in [0, 1]:\n        if A:\n            break\n        n = n + 1\n    else:\n        if C:\n            return 8\n        raise ValueError('e')\n    n = n + 10\nreturn n",
    "n = 0\nwhile n < 3:\n    n = n + 1\n    if B:\n        break\n    if A:\n        continue\n    n = n + 1\nelse:\n    if C:\n        return 4\n    n = 9\nreturn n",
    "n = 0\ntry:\n    for i0 in [0, 1]:\n        if A:\n            continue\n        if B:\n            return n\n        raise ValueError('x')\nexcept ValueError:\n    n = n + 5\nreturn n",
    "n = 0\nfor i0 in [0, 1, 2]:\n    try:\n        if A:\n            continue\n        n = n + 1\n        if B:\n            raise ValueError('x')\n    except ValueError:\n        if C:\n            break\n    finally:\n        n = n + 100\nreturn n",
)


@pytest.mark.parametrize("text", LEAVING)
def test_a_loop_that_some_paths_leave_goes_on_for_the_others(text: str) -> None:
    check(body_of(text))


def test_an_empty_alternative_leaves_nothing_open() -> None:
    text = "x = []\nif A:\n    x.append(('a', {'k': 1}))\ny = {}\nfor n, d in x or ():\n    y.update(d)\n"
    text += "if 'other' in (y or {}):\n    raise ValueError('never')\nreturn 0"
    assert evaluate(body_of(text)).verdict == "passes"


# ---------------------------------------------------------------- the log's frames
TRAIL = body_of(
    "x = 0\nif A:\n    x = 1\nif B:\n    if x == 1:\n        raise ValueError('one')\n    raise ValueError('zero')\nreturn x"
)


def frames(line: int, entry: str = "run") -> list[Place]:
    call = (
        TRAIL
        + "\n\nimport dataclasses as _dc\n\n@_dc.dataclass\nclass Args:\n    out: object = None\n\ndef run(argv):\n    made = Args()\n"
    ).count("\n") + 1
    return [Place("toy/main.py", call, entry), Place("toy/main.py", line, "work")]


def test_a_trail_decides_what_the_host_alone_would_know() -> None:
    line = next(i for i, text in enumerate(TRAIL.splitlines(), 1) if "one" in text)
    assert evaluate(TRAIL).verdict == "unknown"
    result = evaluate(TRAIL, trail=frames(line))
    assert result.raised is not None
    assert result.raised.message == "one"
    assert result.raised.site is not None
    assert result.raised.site.line == line
    assert result.observed[FACTS[1]] is True
    other = next(i for i, text in enumerate(TRAIL.splitlines(), 1) if "zero" in text)
    assert told(evaluate(TRAIL, trail=frames(other))).message == "zero"


AGAIN = body_of(
    "import outside\ntry:\n    x = outside.load(argv)\nexcept ValueError as e:\n    if 'none' not in str(e):\n        raise e\n    x = 1\nreturn x"
)


def test_what_a_handler_raises_again_was_raised_where_the_trail_ends() -> None:
    """As Python prints it: the function stands twice, with the line of `raise e` and with the line that raised first."""
    lines = AGAIN.splitlines()
    first, again = (next(i for i, text in enumerate(lines, 1) if part in text) for part in ("outside.load", "raise e"))
    call = frames(0)[0].line - TRAIL.count("\n") + AGAIN.count("\n")
    trail = [Place("toy/main.py", call, "run"), *(Place("toy/main.py", line, "work") for line in (again, first))]
    result = evaluate(AGAIN, trail=trail)
    assert result.raised is not None and result.raised.site is not None
    assert (result.raised.exception, result.raised.site.line) == ("ValueError", first)


def test_a_trail_that_cannot_be_is_a_contradiction() -> None:
    source = body_of("if len(argv) > 5:\n    raise ValueError('many')\nreturn 0")
    line = next(i for i, text in enumerate(source.splitlines(), 1) if "many" in text)
    call = (
        source
        + "\n\nimport dataclasses as _dc\n\n@_dc.dataclass\nclass Args:\n    out: object = None\n\ndef run(argv):\n    made = Args()\n"
    ).count("\n") + 1
    result = evaluate(source, trail=[Place("toy/main.py", call, "run"), Place("toy/main.py", line, "work")])
    assert result.contradictions
