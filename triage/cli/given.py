"""What was given on the command line, beside a log or a capture, -> the Capture that analysis reads. Touches no host."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from triage.analysis.excerpt import WHOLE_BYTES, Excerpt, cut_log
from triage.errors import UsageError
from triage.knowledge import load_profile, profile_names
from triage.model import CaptureMeta, Facts, Launch, ModelConfig
from triage.protocols import Capture, EngineProfile
from triage.redact import collect_secrets, mask_args, mask_env, mask_text

MAX_PIPED = 16 * 1024 * 1024 * 1024  # bytes of standard input that are taken
MAX_MODEL_CONFIG = 4 * 1024 * 1024  # bytes
DEFAULT_ENGINE = "sglang"
INTEGER_FACTS = ("gpu_count", "gpu_memory_mib")
TEXT_FACTS = tuple(f.name for f in fields(Facts) if f.name not in (*INTEGER_FACTS, "packages", "paths"))

_BEFORE_SHELL = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?!(?<!\S)\d?[<>])[^\\'"<>|;&])*""", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


def split_words(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """A command line as pasted from a shell -> (variables set in front of it, argv). Redirections and what follows are left out.

    Raises UsageError where the quoting has no end or nothing is left.
    """
    try:
        words = shlex.split(_cut_shell(text.replace("\\\n", " ")))
    except ValueError as error:
        raise UsageError(f"the command line cannot be read: {error}") from error
    while words and words[0] in ("nohup", "exec", "env", "sudo"):
        words = words[1:]
    env: dict[str, str] = {}
    while words and _ASSIGNMENT.fullmatch(words[0]):
        name, _, value = words[0].partition("=")
        env[name] = value
        words = words[1:]
    if not words:
        raise UsageError("the command line is empty")
    return env, tuple(words)


def _cut_shell(text: str) -> str:
    """The text up to the first redirection, pipe, `;` or `&` that no quotes hold; all of it where the quotes do not end."""
    match = _BEFORE_SHELL.match(text)
    end = match.end() if match else 0
    return text[:end] if end < len(text) and text[end] not in "'\"\\" else text


def find_engine(argv: Sequence[str], prefer: str = DEFAULT_ENGINE) -> tuple[EngineProfile, tuple[str, ...], tuple[str, ...]]:
    """The engine that this argv starts: (profile, entry words, the server's own arguments). Raises UsageError for none."""
    from triage.engines.profile import ProfileEngine

    for name in (prefer, *(n for n in profile_names() if n != prefer)):
        profile = load_profile(name)
        parts = ProfileEngine(profile).split_command(argv)
        if parts is not None:
            return profile, *parts
    raise UsageError(
        f"this command line starts no engine that triage knows: {' '.join(mask_args(argv))[:200]}",
        hint=f"known engines: {', '.join(profile_names())}; the arguments alone will do, beginning with a flag",
    )


def parse_launch(text: str, env: Mapping[str, str], prefer: str = DEFAULT_ENGINE) -> tuple[EngineProfile, Launch]:
    """`--launch` and `--env` -> the engine and the launch, with its secrets still in it. Raises UsageError."""
    typed, argv = split_words(text)
    profile, entry, args = find_engine(argv, prefer)
    return profile, Launch(entry, args, {**typed, **env})


def mask_launch(launch: Launch, profile: EngineProfile) -> Launch:
    """The launch with the values of secret flags and variables masked."""
    words, env = mask_args(launch.argv, profile.secret), mask_env(launch.env, profile.secret)
    return replace(launch, entry=words[: len(launch.entry)], args=words[len(launch.entry) :], env=env)


def parse_facts(pairs: Sequence[tuple[str, str]], base: Facts) -> Facts:
    """`--fact NAME=VALUE` laid over `base`. Raises UsageError for a name or a number that is none."""
    changes: dict[str, Any] = {}
    for name, value in pairs:
        if name in INTEGER_FACTS:
            if not re.fullmatch(r"\d{1,12}", value):
                raise UsageError(f"the fact {name} is a whole number, not {value!r}")
            changes[name] = int(value)
        elif name in TEXT_FACTS:
            changes[name] = value
        else:
            raise UsageError(f"there is no fact named {name}", hint=f"facts: {', '.join((*TEXT_FACTS, *INTEGER_FACTS))}")
    return replace(base, **changes)


def open_regular(path: Path) -> tuple[BufferedReader, int]:
    """(the open file, its size in bytes). Raises UsageError where it cannot be opened or is no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    stream = os.fdopen(handle, "rb")
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        stream.close()
        raise UsageError(f"{path} is not a regular file")
    return stream, status.st_size


def read_regular(path: Path, limit: int) -> bytes:
    """The file's bytes, at most `limit`. Raises UsageError."""
    stream, size = open_regular(path)
    with stream:
        if size > limit:
            raise UsageError(f"{path} is larger than {limit} bytes")
        return stream.read(limit)


def read_log(what: str) -> tuple[Excerpt, tuple[str, ...]]:
    """What is kept of a log file, or of standard input for `-`, and notes on what was not looked at. Raises UsageError.

    Standard input of more than some megabytes is put into a file for the time of reading.
    """
    try:
        if what != "-":
            stream, size = open_regular(Path(what))
            with stream:
                return cut_log(stream, size), ()
        with tempfile.SpooledTemporaryFile(max_size=WHOLE_BYTES) as spool:
            size = 0
            while size < MAX_PIPED and (chunk := sys.stdin.buffer.read(1024 * 1024)):
                spool.write(chunk)
                size += len(chunk)
            notes = (f"only the first {size} bytes of the log were read",) if size >= MAX_PIPED else ()
            return cut_log(spool, size), notes
    except OSError as error:
        raise UsageError(f"the log cannot be read: {error.strerror or error}") from error


def build_capture(args: Namespace) -> tuple[Capture, EngineProfile]:
    """What `replay` reads: a directory or a log, with what was given beside it laid over. Raises UsageError, CaptureError."""
    from triage.loop.capture import load_capture

    path = Path(args.what)
    if args.what != "-" and path.is_dir():
        capture = load_capture(path)
        profile = load_profile(capture.meta.engine)
    else:
        log, notes = read_log(args.what)
        meta = CaptureMeta("", args.what, "log", DEFAULT_ENGINE, None, None, None, None, notes=notes)
        capture = Capture(meta, None, Facts(), mask_text(log.data, ()), None, gaps=log.gaps)
        profile = load_profile(DEFAULT_ENGINE)
    return lay_over(capture, profile, args)


def start_given() -> tuple[Capture, EngineProfile]:
    """A capture of no host, over which is laid what is given."""
    profile = load_profile(DEFAULT_ENGINE)
    return Capture(CaptureMeta("", "", "given", profile.name, None, None, None, None), None, Facts(), b"", None), profile


def lay_over(capture: Capture, profile: EngineProfile, args: Namespace) -> tuple[Capture, EngineProfile]:
    """The capture with --launch, --env, --fact, --model-config and --source in place of its own. Raises UsageError."""
    from triage.analysis.trees import open_tree

    env = dict(args.env)
    if args.launch is not None:
        profile, launch = parse_launch(args.launch, env, profile.name)
        log = mask_text(capture.log, collect_secrets(launch.argv, launch.env, profile.secret))
        meta = replace(capture.meta, engine=profile.name)
        capture = replace(capture, launch=mask_launch(launch, profile), log=log, meta=meta)
    elif env and capture.launch is not None:
        launch = replace(capture.launch, env={**capture.launch.env, **env})
        capture = replace(capture, launch=mask_launch(launch, profile))
    elif env:
        raise UsageError("--env belongs to a launch", hint="give the command line too, with --launch")
    capture = replace(capture, facts=parse_facts(args.fact, capture.facts))
    if args.model_config is not None:
        typed = _name_model(capture.launch, profile) or args.model_config
        text = mask_text(read_regular(Path(args.model_config), MAX_MODEL_CONFIG).decode("utf-8", "replace"), ())
        others = tuple(m for m in capture.models if m.path != typed)
        capture = replace(capture, models=(ModelConfig(typed, text), *others))
    if args.source is not None:
        capture = replace(capture, source=open_tree(Path(args.source), profile.package))
    return capture, profile


def _name_model(launch: Launch | None, profile: EngineProfile) -> str | None:
    """The model as the launch names it, None where it names none."""
    from triage.engines.profile import ProfileEngine

    return next(iter(ProfileEngine(profile).model_paths(launch)), None) if launch else None
