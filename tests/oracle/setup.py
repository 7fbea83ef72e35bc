"""Installs real sglang releases for the oracle: python -m tests.oracle.setup [RELEASE ...] [--into DIR]

Each gets an environment of its own with its wheel and the transformers that it pins; torch, in its build for CPUs, and
what else validation imports are shared. What is complete is left as it is, and every release is tried with a plain launch.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.oracle.places import FACTS, HARNESS, ORACLE_HOME, RELEASES, run_harness

TORCH = "2.13.0"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
# Whose versions go with a release: they read a model's configuration.
READERS = ("transformers", "tokenizers", "huggingface-hub")
_PTH = "zz_oracle_base.pth"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.!+-]*")
_REQUIRES = re.compile(r"Requires-Dist: ([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^;()]*)\)?\s*(;.*)?")


class SetupError(Exception):
    """One line for the user."""


# ---------------------------------------------------------------- what is there
def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def site_folder(environment: Path) -> Path | None:
    return next(iter(sorted((environment / "lib").glob("python*/site-packages"))), None)


def installed(environment: Path) -> dict[str, tuple[str, Path]]:
    """{name: (version, its metadata)} of what is installed in an environment itself."""
    site = site_folder(environment)
    found = {}
    for folder in site.glob("*.dist-info") if site is not None else ():
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        if (folder / "METADATA").is_file():
            found[normalise(name)] = (version, folder / "METADATA")
    return found


def read_requirements(metadata: Path, names: Sequence[str]) -> dict[str, set[str]]:
    """{name: version specifiers} of these names in a wheel's METADATA; those of extras where nothing else asks for any."""
    plain: dict[str, set[str]] = {}
    extra: dict[str, set[str]] = {}
    for line in metadata.read_text(encoding="utf-8").splitlines():
        found = _REQUIRES.match(line)
        if found is not None and normalise(found[1]) in names:
            kind = extra if "extra" in (found[3] or "") else plain
            kind.setdefault(normalise(found[1]), set()).update(s.strip() for s in found[2].split(",") if s.strip())
    return plain or extra


def missing_base(base: Path) -> list[str]:
    """What the shared environment lacks."""
    wanted = [line for line in (HARNESS / "base.txt").read_text().splitlines() if line]
    there = installed(base)
    return [line for line in ["torch", *wanted] if normalise(re.split(r"[<>=]", line)[0]) not in there]


def is_complete(environment: Path, release: str) -> bool:
    site, there = site_folder(environment), installed(environment)
    if site is None or not (environment / "bin/python").exists() or not any(site.glob("*.pth")):
        return False
    if there.get("sglang", ("",))[0] != release or not all(name in there for name in READERS):
        return False
    pins = read_requirements(there["sglang"][1], READERS)
    return all(f"=={there[name][0]}" in specs for name, specs in pins.items() if any(s.startswith("==") for s in specs))


# ---------------------------------------------------------------- installing
def run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise SetupError(f"{what}: {lines[-1]}")


def pip(base: Path, environment: Path, words: Sequence[str], what: str) -> None:
    """pip of the shared environment, for another one."""
    command = [
        str(base / "bin/python"),
        "-m",
        "pip",
        "--python",
        str(environment / "bin/python"),
        "install",
        "-q",
        "--no-compile",
    ]
    run([*command, *words], what)


def make_environment(folder: Path, python: str, words: Sequence[str]) -> None:
    """An empty one. Raises SetupError where something else stands in its place."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        raise SetupError(f"{folder} is there, and is no environment")
    shutil.rmtree(folder, ignore_errors=True)
    run([python, "-m", "venv", *words, str(folder)], f"no environment in {folder}")


def ensure_base(home: Path, python: str) -> Path:
    base = home / "base"
    if missing_base(base):
        make_environment(base, python, [])
        install_torch(base)
        pip(base, base, ["-r", str(HARNESS / "base.txt")], "what all releases import could not be installed")
    return base


def install_torch(base: Path) -> None:
    """The build for CPUs: from the package index where that has it, else from PyTorch's own; at last whatever there is."""
    ways = ([f"torch=={TORCH}+cpu"], [f"torch=={TORCH}", "--index-url", TORCH_INDEX], [f"torch=={TORCH}"])
    for number, words in enumerate(ways):
        try:
            pip(base, base, words, "torch could not be installed")
            return
        except SetupError:
            if number == len(ways) - 1:
                raise


def ensure_release(home: Path, base: Path, release: str, python: str) -> bool:
    """Whether anything had to be installed."""
    folder = home / release
    if is_complete(folder, release):
        return False
    make_environment(folder, python, ["--without-pip"])
    site, shared = site_folder(folder), site_folder(base)
    if site is None or shared is None or site.parent.name != shared.parent.name:
        raise SetupError(f"{folder} and {base} are of different Pythons; remove {base}, or choose its Python by --python")
    (site / _PTH).write_text(f"{shared}\n")
    # without its dependencies: most need a GPU, and the harness has stand-ins for them; transformers brings its own
    pip(base, folder, ["--no-deps", f"sglang=={release}"], f"sglang {release} could not be installed")
    wanted = read_requirements(installed(folder)["sglang"][1], READERS)
    pip(base, folder, [specify(name, wanted) for name in READERS], "transformers could not be installed")
    return True


def specify(name: str, wanted: dict[str, set[str]]) -> str:
    return name + ",".join(sorted(wanted.get(name, ())))


# ---------------------------------------------------------------- the command
@contextmanager
def lock(home: Path) -> Iterator[None]:
    """One at a time; another one waits."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".setup.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def check_release(home: Path, release: str) -> None:
    """A plain launch passes. Raises SetupError where it does not."""
    words = ["--facts", str(FACTS / "h100x8.json"), "--omit", "settings,frames", "--", "--model-path", "models/llama"]
    try:
        answer = json.loads(run_harness(release, words, home=home))
    except (AssertionError, ValueError) as error:
        raise SetupError(f"sglang {release} is installed, but cannot be asked: {error}") from error
    if answer["outcome"] != "ok":
        raise SetupError(f"sglang {release} refuses a plain launch: {answer.get('exception')}: {answer.get('message')}")


def set_up(releases: Sequence[str], home: Path, python: str) -> None:
    """Install what is not there, and try it. Raises SetupError and OSError."""
    for release in releases:
        started = time.monotonic()
        with lock(home):
            base = ensure_base(home, python)
            new = ensure_release(home, base, release, python)
            check_release(home, release)
        print(f"sglang {release}: {'installed' if new else 'there'}, passes ({time.monotonic() - started:.0f} s)", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.setup", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(RELEASES), metavar="RELEASE")
    parser.add_argument("--into", type=Path, default=ORACLE_HOME, metavar="DIR", help=f"default: {ORACLE_HOME}")
    parser.add_argument("--python", default=sys.executable, help="for the environments; 3.10 or later, with wheels of torch")
    given = parser.parse_args()
    wrong = [r for r in given.releases if not _VERSION.fullmatch(r)]
    if wrong:
        parser.error(f"no version: {', '.join(wrong)}")
    home = given.into.absolute()
    try:
        set_up(given.releases, home, given.python)
    except (SetupError, OSError) as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    if home != ORACLE_HOME:
        print(f"the tests find them by: export ORACLE_HOME={home}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
