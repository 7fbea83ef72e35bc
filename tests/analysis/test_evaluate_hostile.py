"""Source made to run code of ours, to hang or to crash: it is only ever read, and ends in a verdict."""

# ruff: noqa: E501
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.analysis.snippet_runs import TAIL, evaluate, make_evaluator
from triage.analysis.evaluate.values import External, Unknown

ENDLESS = {
    "while true": "def work(argv):\n    n = 0\n    while True:\n        n += 1\n    return n\n",
    "huge range": "def work(argv):\n    return sum(x for x in range(10 ** 12))\n",
    "nested loops": "def work(argv):\n    return [1 for a in range(9999) for b in range(9999) for c in range(9999)]\n",
    "recursion": "def f(n):\n    return f(n + 1)\ndef work(argv):\n    return f(0)\n",
    "mutual recursion in properties": "class A:\n    @property\n    def x(self): return self.y\n    @property\n    def y(self): return self.x\ndef work(argv):\n    return A().x\n",
    "endless generator": "def g():\n    while True:\n        yield 1\ndef work(argv):\n    return next(iter(g()))\n",
    "doubling text": "def work(argv):\n    s = 'x'\n    for _ in range(90):\n        s = s + s\n    return len(s)\n",
    "huge text": "def work(argv):\n    return len('x' * 10 ** 11)\n",
    "huge list": "def work(argv):\n    return len([0] * 10 ** 11)\n",
    "huge power": "def work(argv):\n    return 10 ** 10 ** 10 > 1\n",
    "huge shift": "def work(argv):\n    return 1 << 10 ** 12\n",
    "huge padding": "def work(argv):\n    return f'{1:>99999999999}'\n",
    "huge percent": "def work(argv):\n    return '%099999999999d' % 1\n",
    "huge format": "def work(argv):\n    return '{:>99999999999}'.format(1)\n",
    "huge ljust": "def work(argv):\n    return 'x'.ljust(10 ** 11)\n",
    "huge replace": "def work(argv):\n    s = 'x' * 100000\n    return len(s.replace('x', s))\n",
    "huge join": "def work(argv):\n    s = 'y' * 100000\n    return len(s.join(s))\n",
    "huge bytes": "def work(argv):\n    return len(bytes(10 ** 11))\n",
    "digits": "def work(argv):\n    return int('9' * 500000) + 1\n",
    "catastrophic pattern": "import re\ndef work(argv):\n    return re.match(r'(a+)+$', 'a' * 40 + 'b')\n",
    "catastrophic compiled pattern": "import re\nP = re.compile(r'(x+x+)+y')\ndef work(argv):\n    return P.search('x' * 45)\n",
    "factorial": "import math\ndef work(argv):\n    return math.factorial(10 ** 8)\n",
    "list that holds itself": "def work(argv):\n    a = []\n    a.append(a)\n    d = {}\n    d['d'] = d\n    return [a == a, str(d), a]\n",
    "product": "import itertools\ndef work(argv):\n    return len(list(itertools.product(range(999), repeat=9)))\n",
}  # fmt: skip

ESCAPES = {
    "mro": "def work(argv):\n    return [c.__name__ for c in ().__class__.__mro__[1].__subclasses__()]\n",
    "class of a constant": "def work(argv):\n    return (1).__class__.__base__.__subclasses__()\n",
    "format attribute": "def work(argv):\n    return '{0.__class__.__mro__}'.format(1)\n",
    "format of a function": "def f(): pass\ndef work(argv):\n    return '{0.__globals__}'.format(f)\n",
    "globals": "def f(): pass\ndef work(argv):\n    return f.__globals__['__builtins__']\n",
    "builtins": "def work(argv):\n    return __builtins__['eval']('1')\n",
    "eval": "def work(argv):\n    return eval('__import__(\"os\").system(\"touch MARK\")')\n",
    "exec": "def work(argv):\n    exec('open(\"MARK\", \"w\")')\n",
    "import": "def work(argv):\n    return __import__('os').system('touch MARK')\n",
    "system": "import os\ndef work(argv):\n    return os.system('touch MARK')\n",
    "popen": "import subprocess\ndef work(argv):\n    return subprocess.run(['touch', 'MARK'], check=True)\n",
    "open": "def work(argv):\n    with open('MARK', 'w') as f:\n        f.write('x')\n",
    "path": "import pathlib\ndef work(argv):\n    pathlib.Path('MARK').write_text('x')\n",
    "pickle": "import pickle\ndef work(argv):\n    return pickle.loads(b\"cos\\nsystem\\n(S'touch MARK'\\ntR.\")\n",
    "getattr of a module": "import json\ndef work(argv):\n    return getattr(getattr(json, 'codecs'), 'builtins')\n",
    "frames": "import sys\ndef work(argv):\n    return sys._getframe(0).f_back.f_globals\n",
    "traceback": "def work(argv):\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        return e.__traceback__.tb_frame.f_globals\n",
    "ctypes": "import ctypes\ndef work(argv):\n    return ctypes.CDLL(None).system(b'touch MARK')\n",
    "type": "def work(argv):\n    return type('X', (object,), {'__del__': lambda s: open('MARK', 'w')})()\n",
    "argparse file": "import argparse\ndef work(argv):\n    p = argparse.ArgumentParser(fromfile_prefix_chars='@')\n    p.add_argument('x', type=argparse.FileType('w'))\n    return p.parse_args(['MARK'])\n",
    "module level": "import os\nos.system('touch MARK')\nopen('MARK', 'w')\ndef work(argv):\n    return 1\n",
    "class decorator": "import os\n@os.system\nclass A: pass\ndef work(argv):\n    return 1\n",
    "string module": "import string\ndef work(argv):\n    return string.Formatter().format('{0.__class__}', 1)\n",
    "reduce": "class R:\n    def __reduce__(self): return (print, ('MARK',))\nimport copy\ndef work(argv):\n    return copy.deepcopy(R())\n",
}  # fmt: skip


def run_apart(source: str, folder: Path) -> str:
    """The verdict, from a process of its own, so that a hang or a crash of ours is seen as such."""
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from tests.analysis.snippet_runs import evaluate\n"
        "print(evaluate(sys.stdin.read()).verdict)\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=source,
        cwd=folder,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout.strip()


@pytest.mark.parametrize("name", ENDLESS)
def test_work_is_bounded(name: str, tmp_path: Path) -> None:
    assert run_apart(ENDLESS[name], tmp_path) in ("passes", "unknown", "fails")


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_of_the_source_is_run(name: str, tmp_path: Path) -> None:
    verdict = run_apart(ESCAPES[name], tmp_path)
    assert verdict in ("passes", "unknown", "fails")
    assert not list(tmp_path.iterdir())


def test_our_own_objects_are_out_of_reach() -> None:
    for name in (
        "mro",
        "class of a constant",
        "globals",
        "frames",
        "traceback",
        "format attribute",
        "format of a function",
        "getattr of a module",
        "string module",
    ):
        out = evaluate(ESCAPES[name]).settings.get("out")
        assert out is None or isinstance(out, (Unknown, External)), (name, out)  # an External is a name, never the thing


def test_a_budget_that_ends_is_an_unknown_with_a_reason() -> None:
    result = make_evaluator({"toy/main.py": ENDLESS["nested loops"] + TAIL}, budget=5000).evaluate([])
    assert result.verdict == "unknown"
    assert "5000" in result.why


@pytest.mark.parametrize("text", ["def work(argv:\n", "\x00", "return 1\n", "def work(argv):\n" + "(" * 3000 + ")" * 3000, "work = " + "-" * 50000 + "1\n", "\ufeffdef work(argv): return 1\n"])  # fmt: skip
def test_source_that_cannot_be_parsed_is_an_unknown_with_a_reason(text: str) -> None:
    result = make_evaluator({"toy/main.py": text}).evaluate([])
    assert result.verdict == "unknown"
    assert result.why
