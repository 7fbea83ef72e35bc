"""Code outside the package that the server loads of its own accord, before or during validation: named, never read.

Two things tell of it: entry points of other distributions in groups of the package's name, where the source tree is the
folder in which they are installed, and variables of the launch that name plugins.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from fnmatch import fnmatchcase

from triage.analysis.decoding import decode_source
from triage.model import Unknown
from triage.protocols import EngineProfile, SourceTree

MAX_DISTRIBUTIONS = 3000
MAX_FILE = 100_000  # bytes of one list of entry points
MAX_SHOWN = 5
_SETTLE = "start once without it, or read its code"


def find_plugins(tree: SourceTree, profile: EngineProfile, env: Mapping[str, str]) -> tuple[Unknown, ...]:
    """An Unknown for each plugin, in the order of their distributions, at most MAX_SHOWN; then one for each variable that
    names plugins. Reads the lists of entry points of the tree only."""
    out = []
    for name in tree.list_dir("")[:MAX_DISTRIBUTIONS]:
        folder = name.removesuffix(".dist-info").removesuffix(".egg-info")
        if folder == name or folder.rpartition("-")[0].lower() == profile.distribution:
            continue
        data = tree.read(f"{name}/entry_points.txt")
        if data is None or len(data) > MAX_FILE or profile.package.encode() not in data:
            continue
        for group, plugin, where in _read_entries(decode_source(data), profile.package):
            why = f"{folder} registers it for {group} ({where}): the server loads its code, which was not read"
            out.append(Unknown(f"what the plugin {plugin} does", why, _SETTLE))
    named = [k for k in sorted(env) if env[k] and any(fnmatchcase(k, p) for p in profile.plugin_variables)]
    return (
        *out[:MAX_SHOWN],
        *(Unknown(f"what {k} loads", "it names code outside the package, which was not read", _SETTLE) for k in named),
    )


def _read_entries(text: str, package: str) -> list[tuple[str, str, str]]:
    """(group, name, where its code stands) of the entry points in groups of the package's name."""
    parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    groups = [g for g in parser.sections() if g == package or g.startswith((package + ".", package + "_"))]
    return [(g[:100], name[:100], where[:200]) for g in groups for name, where in parser.items(g)]


__all__ = ["find_plugins"]
