"""Host + Service + Engine -> Capture: everything that a diagnosis needs, read-only, masked."""

from __future__ import annotations

import io
import posixpath
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from triage.analysis.trees import MAX_FILE, FolderTree, JoinedTree, MemoryTree, is_safe_name
from triage.codec import clean
from triage.errors import EngineError, TriageError
from triage.loop.capture_files import MAX_SOURCE, MAX_SOURCE_FILES, load_capture, save_capture
from triage.model import CaptureMeta, Command, Facts, Launch, ModelConfig, ServiceState
from triage.protocols import Capture, Engine, EngineInstall, Host, Observer, Service, SourceTree
from triage.redact import mask_args, mask_env, mask_text

__all__ = ["capture_launch", "capture_run", "fetch_source", "load_capture", "read_launch", "save_capture"]

T = TypeVar("T")

# $1 root, $2 package, $3 how many of the others, then pairs of a folder and a pattern of files below it. `-H`: the package
# itself may be a link (editable installs), links inside it are not followed. An empty IFS: patterns are expanded, not
# split. Of files that a store keeps once (hard links) tar would send the first only.
_TAR = """
cd -- "$1" || exit 3
root=$1 package=$2 left=$3; shift 3
pairs=$(($# / 2))
IFS=
while [ "$pairs" -gt 0 ]; do
  pairs=$((pairs - 1)) folder=$1 pattern=$2; shift 2
  cd -- "$folder" 2>/dev/null || continue
  set -- "$@" -C "$folder"
  for file in ./$pattern; do
    [ "$left" -gt 0 ] && [ -f "$file" ] && [ ! -h "$file" ] || continue
    left=$((left - 1))
    set -- "$@" "$file"
  done
done
cd -- "$root" || exit 3
find -H "./$package" -type f -name '*.py' -size -50000000c -print0 |
  tar -cf - --hard-dereference --no-recursion --null -T - "$@" | gzip -1
"""
MAX_EXTRAS = 3_000  # files beside the package


def capture_run(host: Host, service: Service, engine: Engine, observer: Observer, run: str | None = None) -> Capture:
    """Capture one run of the service (default: the current or last one); nothing on the host changes.

    Raises ServiceError (no such service, no access to its log), EngineError (it does not start this engine, or its
    Python has no such package), HostError. What is merely missing (facts, a model's config) becomes a note.
    """
    return _capture(host, service, engine, observer, run, reads_log=True)


def capture_launch(host: Host, service: Service, engine: Engine, observer: Observer) -> Capture:
    """As capture_run, of what the service would start next: its log stays unread and empty, it need not have run yet."""
    return _capture(host, service, engine, observer, None, reads_log=False)


def _capture(host: Host, service: Service, engine: Engine, observer: Observer, run: str | None, *, reads_log: bool) -> Capture:
    begun = time.monotonic()
    notes: list[str] = []

    def step(text: str) -> None:
        observer.phase(text, time.monotonic() - begun)

    def attempt(what: str, action: Callable[[], T], instead: T) -> T:
        try:
            return action()
        except TriageError as error:
            notes.append(f"{what}: {error}")
            return instead

    step("reading the service")
    state = service.read_state()
    launch = read_launch(service, engine)
    log = b""
    if reads_log:
        step("reading the log")
        chunk = service.read_log(run=run or state.run)
        log = chunk.data
        if chunk.cut:
            notes.append("earlier messages of this run were left out (size limit)")
    step("looking for the engine")
    install = engine.locate(host, launch)
    step("reading facts")
    facts = attempt("facts", lambda: engine.read_facts(host, launch, install), _bare_facts(install))
    no_models: tuple[ModelConfig, ...] = ()
    models = attempt("model configs", lambda: engine.read_model_configs(host, launch), no_models)
    step("reading the source")
    source = fetch_source(host, install, engine.profile.package, engine.profile.source_extras)
    secrets = service.read_secrets()
    meta = _describe(host, service, engine, install, replace(state, run=run or state.run), tuple(notes))
    masked = tuple(replace(m, path=clean(m.path), text=mask_text(m.text, secrets)) for m in models)
    return Capture(meta, _mask_launch(launch, engine), facts, mask_text(log, secrets), source, masked)


def read_launch(service: Service, engine: Engine) -> Launch:
    """The effective launch, split where the server's own arguments begin. Raises ServiceError, EngineError."""
    launch = service.read_launch()
    parts = engine.split_command(launch.argv)
    if parts is None or not parts[0]:
        shown = " ".join(mask_args(launch.argv, engine.profile.secret))[:200]
        hint = "a command inside a script or `sh -c` cannot be read yet"
        raise EngineError(f"{service.name} does not start {engine.profile.name}: {shown}", hint=hint)
    return replace(launch, entry=parts[0], args=parts[1])


def fetch_source(host: Host, install: EngineInstall, package: str, extras: Sequence[str] = ()) -> SourceTree:
    """The source: here the folders themselves, elsewhere the package's `.py` files and the `extras` by one exec.

    `extras` are patterns below other packages; each is served under its own name, wherever `install` says that package
    is, and is simply absent where it is not. Raises EngineError, HostError.
    """
    roots = {name: root for name, root in install.extra_roots.items() if name != package}
    if host.name == "local":
        main = FolderTree(Path(install.root))
        others = {name: FolderTree(Path(root)) for name, root in roots.items() if root != install.root}
        return JoinedTree(main, others) if others else main
    pairs = [(roots[name], pattern) for pattern in extras if (name := pattern.partition("/")[0]) in roots]
    words = ("sh", "-c", _TAR, "sh", install.root, package, str(MAX_EXTRAS), *(word for pair in pairs for word in pair))
    result = host.run(Command(words, timeout=180.0, max_output=256_000_000))
    if result.status != 0:
        raise EngineError(f"the source of {package} in {install.root} on {host.name} cannot be read (status {result.status})")
    files = unpack_source(result.stdout, package, extras)
    if not any(name.startswith(package + "/") for name in files):
        raise EngineError(f"{posixpath.join(install.root, package)} on {host.name} holds no Python source")
    return MemoryTree(files)


def unpack_source(archive: bytes, package: str, extras: Sequence[str] = ()) -> dict[str, bytes]:
    """The plain files of a tar.gz that are below `package` or match one of `extras`; other members are left out.

    Raises EngineError for damage and bombs.
    """
    patterns = [pattern.split("/") for pattern in extras]
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r|gz") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                total += member.size
                if total > MAX_SOURCE or len(files) > MAX_SOURCE_FILES:
                    raise EngineError(f"the source of {package} is too large to be fetched")
                if not member.isreg() or member.size > MAX_FILE or not is_safe_name(name) or name in files:
                    continue
                if not name.startswith(package + "/") and not any(_fits(name, pattern) for pattern in patterns):
                    continue
                stream = tar.extractfile(member)
                if stream is not None:
                    files[name] = stream.read()
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise EngineError(f"the source of {package} came damaged: {error}") from error
    return files


def _fits(name: str, pattern: list[str]) -> bool:
    """As a shell matches a path: no wildcard goes over a slash."""
    parts = name.split("/")
    return len(parts) == len(pattern) and all(fnmatchcase(part, p) for part, p in zip(parts, pattern, strict=True))


def _describe(
    host: Host, service: Service, engine: Engine, install: EngineInstall, state: ServiceState, notes: tuple[str, ...]
) -> CaptureMeta:
    return CaptureMeta(
        host=host.name,
        service=service.name,
        service_kind=service.kind,
        engine=engine.profile.name,
        engine_version=install.version,
        source_root=install.root,
        run=state.run,
        when=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        exit=state.exit,
        active=state.active,
        notes=notes,
    )


def _mask_launch(launch: Launch, engine: Engine) -> Launch:
    """Masked, and free of bytes that a capture's text files cannot hold."""
    secret = engine.profile.secret
    return Launch(
        entry=tuple(clean(w) for w in mask_args(launch.entry, secret)),
        args=tuple(clean(w) for w in mask_args(launch.args, secret)),
        env={clean(k): clean(v) for k, v in mask_env(launch.env, secret).items()},
        cwd=None if launch.cwd is None else clean(launch.cwd),
        user=launch.user,
    )


def _bare_facts(install: EngineInstall) -> Facts:
    return Facts(python_version=install.python_version, packages=install.packages)
