"""Pure functions and constants of the standard library, which run on plain values, and names that do nothing here.

Source: the Python documentation. Nothing here touches a file, a device, the network or a clock.
"""

from __future__ import annotations

import argparse
import ast
import errno
import ipaddress
import json
import logging
import math
import os.path
import re
import shlex
import string
import textwrap
import urllib.parse
import uuid
from collections.abc import Iterable
from types import ModuleType
from typing import Any

_RE = (
    "compile",
    "match",
    "search",
    "fullmatch",
    "sub",
    "split",
    "findall",
    "escape",
    "IGNORECASE",
    "I",
    "MULTILINE",
    "DOTALL",
    "VERBOSE",
)
_PATHS = ("join", "basename", "dirname", "splitext", "normpath", "isabs", "split", "sep", "commonpath")
_URLS = ("urlparse", "urlsplit", "quote", "unquote", "urlunparse", "urlencode", "parse_qs")
_NETWORKS = ("ip_address", "IPv4Address", "IPv6Address", "ip_network", "AddressValueError")
_PARSING = ("Namespace", "SUPPRESS", "REMAINDER", "OPTIONAL", "ZERO_OR_MORE", "ONE_OR_MORE", "ArgumentTypeError", "ArgumentError")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "WARN", "FATAL", "NOTSET")


def _take(module: ModuleType, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


PURE: dict[str, dict[str, Any]] = {
    "json": _take(json, ("loads", "dumps", "JSONDecodeError")),
    "math": _take(math, (n for n in dir(math) if not n.startswith("_") and n not in ("factorial", "comb", "perm"))),
    "re": _take(re, (*_RE, "Pattern", "Match", "error")),
    "os.path": _take(os.path, _PATHS),
    "textwrap": _take(textwrap, ("dedent", "indent")),
    "shlex": _take(shlex, ("split", "quote", "join")),
    "ipaddress": _take(ipaddress, _NETWORKS),
    "urllib.parse": _take(urllib.parse, _URLS),
    "regex": _take(re, _RE),
    "orjson": _take(json, ("loads", "JSONDecodeError")),
    "ast": _take(ast, ("literal_eval",)),
    "string": _take(
        string, ("ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "hexdigits", "punctuation", "whitespace")
    ),
    "argparse": _take(argparse, _PARSING),
    "logging": _take(logging, _LEVELS),
    "collections": {"OrderedDict": dict},
    "uuid": _take(uuid, ("uuid3", "uuid5", "UUID", "NAMESPACE_DNS", "NAMESPACE_URL", "NAMESPACE_OID")),
    "errno": {name: number for number, name in errno.errorcode.items()},
}

# Modules all of whose names are known: a name that is not there is an AttributeError on the host too.
_WHOLE = (json, math, re, string, argparse, logging, errno, os.path, textwrap, shlex, ipaddress, urllib.parse)
WHOLE: dict[str, frozenset[str]] = {**{m.__name__: frozenset(dir(m)) for m in _WHOLE}, "os.path": frozenset(dir(os.path))}

NO_EFFECT = frozenset(
    [
        "logging.basicConfig",
        "logging.captureWarnings",
        "logging.addLevelName",
        "warnings.filterwarnings",
        "warnings.simplefilter",
        "gc.collect",
        "gc.freeze",
        "signal.signal",
        "faulthandler.enable",
        "multiprocessing.set_start_method",
        "resource.setrlimit",
        "torch.cuda.set_device",
        "torch.set_num_threads",
        "torch.cuda.empty_cache",
        "setproctitle.setproctitle",
        "atexit.register",
    ]
)

# Decorators and the like that give back what they get.
IDENTITY = frozenset(
    [
        "contextlib.contextmanager",
        "functools.total_ordering",
        "torch.no_grad",
        "torch.inference_mode",
        "torch.compile",
        "abc.abstractmethod",
        "typing.final",
        "typing.overload",
        "typing_extensions.override",
        "typing.runtime_checkable",
        "enum.unique",
        "functools.singledispatch",
        "contextlib.asynccontextmanager",
        "enum.verify",
        "typing.override",
        "dataclasses_json.dataclass_json",
        "torch.library.register_fake",
        "triton.jit",
    ]
)
