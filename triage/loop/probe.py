"""One question to a running server, asked on its own host: does it answer, and is it the run that we started?

The program runs with `-I -S` (only the standard library: no package, no sitecustomize of the unit) and looks into
/proc for the owner of the listening socket, so that an older server's 200 does not count.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from triage.model import Command, JsonValue
from triage.protocols import Host

Owner = Literal["ours", "other", "unknown", "nobody"]

_MARK = "triage-probe:"

# $1 is the launch's interpreter, for hosts whose only Python is in a venv.
_FIND_PYTHON = """
for p in /usr/bin/python3 /usr/local/bin/python3 "$1" python3; do
  if command -v -- "$p" >/dev/null 2>&1; then exec "$p" -I -S -; fi
done
exit 127
"""

_PROGRAM = r"""
import http.client, json, os, socket, ssl, struct, sys
out = {"statuses": {}, "owner": "unknown", "ports": []}

def family(root):
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, "rb") as stream:
                parents.setdefault(int(stream.read().rpartition(b")")[2].split()[1]), []).append(int(pid))
        except (OSError, IndexError, ValueError):
            pass
    found, stack = set(), [root]
    while stack:
        pid = stack.pop()
        if pid not in found:
            found.add(pid)
            stack.extend(parents.get(pid, ()))
    return found

def sockets_of(pids):
    inodes, refused = set(), False
    for pid in pids:
        try:
            for number in os.listdir("/proc/%d/fd" % pid):
                link = os.readlink("/proc/%d/fd/%s" % (pid, number))
                if link.startswith("socket:["):
                    inodes.add(link[8:-1])
        except PermissionError:
            refused = True
        except OSError:
            pass
    return inodes, refused

def listening():
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + name) as stream:
                for line in list(stream)[1:]:
                    words = line.split()
                    if words[3] == "0A":
                        found.append((int(words[1].rpartition(":")[2], 16), words[9]))
        except (OSError, IndexError, ValueError):
            pass
    return found

def ask(port, path, timeout):
    for secure in (False, True):
        try:
            if secure:
                context = ssl._create_unverified_context()
                connection = http.client.HTTPSConnection(DATA["host"], port, timeout=timeout, context=context)
            else:
                connection = http.client.HTTPConnection(DATA["host"], port, timeout=timeout)
            connection.request("GET", path)
            return connection.getresponse().status
        except (http.client.BadStatusLine, ConnectionResetError):
            continue
        except (OSError, http.client.HTTPException):
            return None
    return None

ports = listening()
ours, refused = (set(), True)
if DATA["pid"] and os.path.isdir("/proc/%d" % DATA["pid"]):
    inodes, refused = sockets_of(family(DATA["pid"]))
    ours = {port for port, inode in ports if inode in inodes}
wanted = [DATA["port"]] if DATA["port"] else sorted(ours)[:8]
port = wanted[0] if wanted else None
for candidate in wanted:
    for path in DATA["paths"]:
        status = ask(candidate, path, DATA["timeout"])
        if status is not None:
            out["statuses"][path] = status
            port = candidate
    if out["statuses"]:
        break
out["port"] = port
if port is not None:
    if port in ours:
        out["owner"] = "ours"
    elif port not in {p for p, _ in ports}:
        out["owner"] = "nobody"
    else:
        out["owner"] = "unknown" if refused else "other"
sys.stdout.write("\n" + MARK + json.dumps(out) + "\n")
"""


@dataclass(frozen=True)
class Answer:
    """What the host said: HTTP status by path, the port asked, and who listens there."""

    statuses: dict[str, int]
    port: int | None
    owner: Owner

    def is_ok(self, paths: Sequence[str]) -> bool:
        return any(self.statuses.get(path) == 200 for path in paths)


NO_ANSWER = Answer({}, None, "unknown")


def ask_server(
    host: Host, python: str, address: str, port: int | None, pid: int | None, paths: Sequence[str], timeout: float = 5.0
) -> Answer:
    """Ask `http(s)://address:port` for the paths, from the host itself.

    With `port` None the ports that the process tree of `pid` listens on are tried. Raises HostError; a host without any
    Python 3 gives NO_ANSWER.
    """
    data: dict[str, JsonValue] = {"host": address, "port": port, "pid": pid, "paths": list(paths), "timeout": timeout}
    program = f"DATA = __import__('json').loads({json.dumps(data)!r})\nMARK = {_MARK!r}\n{_PROGRAM}"
    limit = 15.0 + timeout * 2 * max(len(paths), 1) * (1 if port else 8)
    result = host.run(
        Command(("sh", "-c", _FIND_PYTHON, "sh", python), stdin=program.encode(), timeout=limit, max_output=100_000)
    )
    for line in reversed(result.stdout.decode("utf-8", "replace").splitlines()):
        if line.startswith(_MARK):
            return _read_answer(line[len(_MARK) :])
    return NO_ANSWER


def local_address(typed: str | None) -> str:
    """Where a server that was told to listen on `typed` is reached from its own host."""
    if typed is None or typed in ("", "0.0.0.0", "localhost"):
        return "127.0.0.1"
    return "::1" if typed in ("::", "[::]") else typed.strip("[]")


def _read_answer(text: str) -> Answer:
    try:
        value = json.loads(text)
    except ValueError:
        return NO_ANSWER
    owners: tuple[Owner, ...] = ("ours", "other", "unknown", "nobody")
    owner: Owner = next((o for o in owners if o == value.get("owner")), "unknown")
    statuses = {str(k): v for k, v in value.get("statuses", {}).items() if isinstance(v, int)}
    port = value.get("port")
    return Answer(statuses, port if isinstance(port, int) else None, owner)
