"""The programs that an engine runs on a host: stdlib only, Python 3.8 and later, read-only, one exec each.

Each program gets its input as `DATA` (a dict) and prints one line `MARK + JSON`, so that nothing else that the
interpreter or a login shell prints is taken for the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from triage.errors import EngineError
from triage.model import Command, JsonValue, Launch

MARK = "triage-answer:"

# Variables of the launch that decide which interpreter and packages are found. Nothing else of the unit's
# environment is passed: the probe must not act like a server, and needs none of its secrets.
_PASSED = frozenset(
    {
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONNOUSERSITE",
        "PYTHONUSERBASE",
        "PYTHONSAFEPATH",
        "PYTHONPLATLIBDIR",
        "LD_LIBRARY_PATH",
        "PATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "HOME",
        "CUDA_VISIBLE_DEVICES",
    }
)

# $1: user or empty, $2: folder or empty, then `env` arguments. A unit's user owns the code that runs here, so root
# steps down to that user first, and never runs that code itself.
_WRAPPER = """
user=$1 cwd=$2; shift 2
if [ -n "$cwd" ]; then cd -- "$cwd" 2>/dev/null || cd /; fi
if [ -n "$user" ] && [ "$(id -u)" = 0 ] && [ "$(id -u -- "$user" 2>/dev/null)" != 0 ]; then
  home=$(getent passwd "$user" | cut -d: -f6)
  exec runuser -u "$user" -- env HOME="$home" "$@"
fi
exec env "$@"
"""

# `-S` with site.main() called by hand: `.pth` files (editable installs) are read as in the operator's own launch, but
# sitecustomize and usercustomize do not run: they may take seconds, touch the GPU, or replace what is looked for.
_PRELUDE = """
import sys
if not DATA["no_site"]:
    import site
    site.execsitecustomize = site.execusercustomize = lambda: None
    site.main()
if DATA["script_dir"]:
    sys.path[0:1] = [DATA["script_dir"]]
import json, os
def answer(value):
    sys.stdout.write("\\n" + MARK + json.dumps(value) + "\\n")
    sys.stdout.flush()
    os._exit(0)
"""

LOCATE = """
import importlib.metadata, importlib.util
out = {"version": "%d.%d.%d" % sys.version_info[:3], "path": [p for p in sys.path if isinstance(p, str)][:50]}
try:
    spec = importlib.util.find_spec(DATA["package"])
except (ImportError, ValueError, AttributeError) as error:
    spec, out["problem"] = None, str(error)[:300]
places = list(spec.submodule_search_locations or []) if spec else []
out["places"] = [os.path.abspath(p) for p in places if isinstance(p, str)][:20]
out["folders"] = [os.path.isdir(p) for p in out["places"]]
out["extras"] = {}
for name in DATA["extras"]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        continue
    for place in list(spec.submodule_search_locations or []) if spec else []:
        if isinstance(place, str) and os.path.basename(place) == name and os.path.isdir(place):
            out["extras"].setdefault(name, os.path.dirname(os.path.abspath(place)))
packages = {}
for distribution in importlib.metadata.distributions():
    name = distribution.metadata["Name"] if distribution.metadata else None
    if name and name not in packages and len(packages) < 3000:
        packages[name] = str(distribution.version)
out["packages"] = packages
answer(out)
"""

FACTS = """
import importlib.util, re, shutil, subprocess
def run(*argv):
    program = shutil.which(argv[0])
    if not program:
        return None
    null = subprocess.DEVNULL
    try:
        done = subprocess.run((program,) + argv[1:], stdin=null, stdout=subprocess.PIPE, stderr=null, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout[:200000].decode("utf-8", "replace") if done.returncode == 0 else None
def kind(path):
    path = os.path.expanduser(path)
    return "dir" if os.path.isdir(path) else "file" if os.path.exists(path) else "absent"
out = {"paths": {}, "machine": os.uname().machine}
for path in DATA["paths"]:
    try:
        out["paths"][path] = kind(path)
    except (OSError, ValueError):
        pass
out["gpus"] = run("nvidia-smi", "--query-gpu=index,uuid,name,memory.total,compute_cap", "--format=csv,noheader,nounits")
out["smi"] = run("nvidia-smi") if out["gpus"] else None
out["devices"] = [d for d in ("/dev/kfd", "/dev/davinci0", "/dev/dri/renderD128", "/dev/accel/accel0") if os.path.exists(d)]
out["rocm"] = run("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json") if "/dev/kfd" in out["devices"] else None
out["torch"] = None
try:
    spec = importlib.util.find_spec("torch")
    for place in (spec.submodule_search_locations or []) if spec else []:
        with open(os.path.join(place, "version.py"), encoding="utf-8") as stream:
            out["torch"] = stream.read(4000)
            break
except (ImportError, ValueError, AttributeError, OSError):
    pass
answer(out)
"""


def build_probe(
    program: str, data: Mapping[str, JsonValue], python: str, options: Sequence[str], launch: Launch, script_dir: str | None
) -> Command:
    """The command that runs `program` with the launch's interpreter in the launch's folder, user and package environment."""
    full = {**data, "no_site": "-S" in options, "script_dir": script_dir}
    source = f"DATA = __import__('json').loads({json.dumps(full)!r})\nMARK = {MARK!r}\n{_PRELUDE}\n{program}"
    passed = [f"{name}={value}" for name, value in launch.env.items() if name in _PASSED and "\0" not in value]
    safe = "PYTHONDONTWRITEBYTECODE=1"
    argv = ("sh", "-c", _WRAPPER, "sh", launch.user or "", launch.cwd or "", *passed, safe, python, *options)
    return Command((*argv, *(() if "-S" in options else ("-S",)), "-"), stdin=source.encode(), timeout=60.0, max_output=8_000_000)


def read_answer(stdout: bytes, what: str) -> dict[str, JsonValue]:
    """The last answer line of a probe. Raises EngineError when there is none."""
    for line in reversed(stdout.decode("utf-8", "replace").splitlines()):
        if line.startswith(MARK):
            try:
                answer = json.loads(line[len(MARK) :])
            except ValueError:
                break
            if isinstance(answer, dict):
                return answer
    raise EngineError(f"{what} gave no answer")
