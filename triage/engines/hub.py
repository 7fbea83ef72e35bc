"""The config.json of a model that a launch names by its name on the hub, as the host's own cache holds it. Read-only, no network.

The cache's layout (`models--owner--name/refs/<revision>`, `snapshots/<commit>/`) and the variables that place it are those
of huggingface_hub: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

from __future__ import annotations

import posixpath
import re

from triage.model import Command, Launch
from triage.protocols import Host

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}")

# $1 folder in the cache, $2 revision, $3 bytes, $4 user or empty, then caches; ~ in front of one is the user's home. The
# files of a snapshot are links into the same folder: one that leads out of it is not followed.
_READ = """
name=$1 revision=$2 limit=$3 user=$4; shift 4
home=$HOME
[ -z "$user" ] || home=$(getent passwd "$user" | cut -d: -f6)
for root in "$@"; do
  case $root in "~/"*) root=$home/${root#"~/"} ;; esac
  folder=$(readlink -f -- "$root/$name") && [ -d "$folder" ] || continue
  commit=$revision
  [ ! -f "$folder/refs/$revision" ] || commit=$(head -c 200 -- "$folder/refs/$revision")
  case $commit in */*|.*|'') continue ;; esac
  file=$(readlink -f -- "$folder/snapshots/$commit/config.json") || continue
  case $file in "$folder"/*) [ -f "$file" ] && exec head -c "$limit" -- "$file" ;; esac
done
exit 1
"""


def read_cached_config(host: Host, launch: Launch, name: str, revision: str, limit: int) -> str | None:
    """The text, at most `limit` bytes; None where `name` is no hub name or the cache does not hold it. Raises HostError."""
    if not _NAME.fullmatch(name) or not _REVISION.fullmatch(revision) or ".." in revision:
        return None
    folder = "models--" + name.replace("/", "--")
    words = ("sh", "-c", _READ, "sh", folder, revision, str(limit + 1), launch.user or "", *_caches(launch))
    result = host.run(Command(words, max_output=limit + 1))
    if result.status != 0 or len(result.stdout) > limit:
        return None
    return result.stdout.decode("utf-8", "replace")


def _caches(launch: Launch) -> list[str]:
    """Where the launch's own variables place the cache, most specific first; the first one that is set decides."""
    env = launch.env
    for variable, below in (
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
    ):
        place = env.get(variable, "")
        if place:
            return [
                posixpath.join(launch.cwd or "/", place, below) if not place.startswith("~/") else posixpath.join(place, below)
            ]
    home = env.get("HOME")
    return [posixpath.join(home, ".cache/huggingface/hub")] if home else ["~/.cache/huggingface/hub"]
