"""An engine that is described by a profile alone: finds it in a command, on a host, and reads what is true there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triage.engines.facts import build_facts
from triage.engines.hub import read_cached_config
from triage.engines.probes import FACTS, LOCATE, build_probe, read_answer
from triage.engines.rehearsal import Interpreter, build_rehearsal
from triage.errors import CommandTimeout, EngineError, FileError, PackageMissing
from triage.model import MASK, Command, Facts, JsonValue, Launch, ModelConfig
from triage.protocols import EngineInstall, EngineProfile, Host
from triage.redact import mask_args, mask_env

MAX_MODEL_CONFIG = 4_000_000  # bytes
MAX_PATHS = 200
MAX_LISTING = 1_000_000  # bytes of names in a model's folder
MAX_NAMES = 5_000

_PYTHON = re.compile(r"(python|pypy)[0-9.]*")
_ISOLATION = ("-I", "-E", "-s", "-S", "-P")
# These decide the interpreter themselves; the words after them cannot be read as a plain command.
_LAUNCHERS = {
    "conda",
    "mamba",
    "micromamba",
    "uv",
    "uvx",
    "pipx",
    "poetry",
    "docker",
    "podman",
    "srun",
    "apptainer",
    "singularity",
}
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RESOLVE = 'p=$(PATH=$1; command -v -- "$2") || exit 1; printf "%s\\n" "$p"; head -c 1000 -- "$p"'
_LIST = 'cd -- "$1" && find . ! -name . -prune -print0'


@dataclass(frozen=True)
class _Interpreter:
    python: str
    options: tuple[str, ...] = ()
    script_dir: str | None = None  # what the launch has in front of sys.path in place of its folder
    given: tuple[str, ...] = ()  # all options, as the launch has them


class ProfileEngine:
    """Implements `Engine` for the names of one profile."""

    def __init__(self, profile: EngineProfile) -> None:
        self._profile = profile

    @property
    def profile(self) -> EngineProfile:
        return self._profile

    def split_command(self, argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """(entry, args) where argv starts this engine, else None. `args` alone (first word begins with -) gives ((), args)."""
        end = self._find_entry(argv)
        if end is not None:
            return tuple(argv[: end[1]]), tuple(argv[end[1] :])
        if argv and argv[0].startswith("-") and not argv[0].startswith("-m"):
            return (), tuple(argv)
        return None

    def mask_launch(self, launch: Launch) -> Launch:
        """The launch with the values of secret flags and variables masked."""
        secret = self._profile.secret
        return replace(launch, args=mask_args(launch.args, secret), env=mask_env(launch.env, secret))

    def typed_values(self, launch: Launch, field: str) -> tuple[str, ...]:
        """Values given to the flag of `field` (`--some-field V`, `--some-field=V`) or to a prefix of it of four letters or more.

        Prefixes stand for what argparse accepts and for the short aliases that releases have (`--model`); a value that
        belongs to another flag only makes a probe look at one path more.
        """
        flag = "--" + field.replace("_", "-")
        values = []
        for i, word in enumerate(launch.args):
            name, equals, value = word.partition("=")
            if len(name) < 6 or not flag.startswith(name.replace("_", "-")):
                continue
            if equals:
                values.append(value)
            elif i + 1 < len(launch.args) and not launch.args[i + 1].startswith("--"):
                values.append(launch.args[i + 1])
        return tuple(values)

    def locate(self, host: Host, launch: Launch) -> EngineInstall:
        """Where the launch's own interpreter finds the package; runs no engine code. Raises EngineError."""
        found = self._find_interpreter(host, launch)
        data: dict[str, JsonValue] = {"package": self._profile.package, "extras": list(self._profile.extra_packages)}
        answer = self._probe(host, launch, LOCATE, data, found)
        places, folders = _strings(answer.get("places")), answer.get("folders")
        package = self._profile.package
        hint = f"{found.python} searched: {', '.join(_strings(answer.get('path'))) or 'nothing'}"
        if not places:
            problem = answer.get("problem")
            why = f" ({problem})" if isinstance(problem, str) else ""
            raise PackageMissing(f"no package {package} in the Python of this launch, {found.python}{why}", found.python, hint)
        usable = [p for p, is_dir in zip(places, folders if isinstance(folders, list) else (), strict=False) if is_dir]
        named = [p for p in usable if posixpath.basename(p) == package]
        if not named:
            text = f"{package} of {found.python} is at {places[0]}, which is not a folder of that name"
            raise PackageMissing(text, found.python, hint)
        versions = _texts(answer.get("packages"))
        wanted = _normalize(self._profile.distribution)
        return EngineInstall(
            root=posixpath.dirname(named[0]),
            version=next((v for k, v in versions.items() if _normalize(k) == wanted), None),
            python=found.python,
            python_version=_text(answer.get("version")),
            packages=versions,
            extra_roots=_texts(answer.get("extras")),
        )

    def read_facts(self, host: Host, launch: Launch, install: EngineInstall) -> Facts:
        """What is true of the host, by one exec. Raises EngineError when the interpreter gives no answer."""
        paths = sorted(self.named_paths(launch))[:MAX_PATHS]
        found = self._find_interpreter(host, launch)
        answer = self._probe(host, launch, FACTS, {"paths": list(paths)}, found)
        return build_facts(answer, install, launch.env.get("CUDA_VISIBLE_DEVICES"))

    def read_model_configs(self, host: Host, launch: Launch) -> tuple[ModelConfig, ...]:
        """The config.json of each model that a model flag names: of a local folder with the folder's names, of a name on the
        hub as the host's cache holds it; what cannot be read is left out."""
        revisions = self.typed_values(launch, "revision")
        found: list[ModelConfig] = []
        for path in self.model_paths(launch):
            folder = posixpath.join(launch.cwd or "/", path)
            try:
                data = host.read_file(posixpath.join(folder, "config.json"), max_bytes=MAX_MODEL_CONFIG)
            except FileError:
                wanted = revisions[-1] if revisions and path in self.typed_values(launch, self._profile.model_field) else "main"
                text = read_cached_config(host, launch, path, wanted, MAX_MODEL_CONFIG)
                if text is not None and self._list_folder(host, folder) is None:
                    found.append(ModelConfig(path, text))
                continue
            found.append(ModelConfig(path, data.decode("utf-8", "replace"), self._list_folder(host, folder)))
        return tuple(found)

    def build_rehearsal(self, host: Host, launch: Launch, order: Mapping[str, JsonValue], timeout: float) -> Command:
        """The command that judges the launches of `order`; both are described in engines/rehearsal. Raises EngineError."""
        found = self._find_interpreter(host, launch)
        place = self._find_entry(launch.argv)
        assert place is not None  # else there is no interpreter
        interpreter = Interpreter(found.python, found.given, found.script_dir)
        return build_rehearsal(order, self._profile, interpreter, launch, place[0], timeout)

    def _list_folder(self, host: Host, folder: str) -> tuple[str, ...] | None:
        """All names in it, sorted; None where it cannot be read or holds too many to be sure of all."""
        result = host.run(Command(("sh", "-c", _LIST, "sh", folder), max_output=MAX_LISTING))
        if result.status != 0 or len(result.stdout) >= MAX_LISTING:
            return None
        names = [n.removeprefix("./") for n in result.stdout.decode("utf-8", "replace").split("\0") if n]
        return tuple(sorted(names)) if len(names) <= MAX_NAMES else None

    def model_paths(self, launch: Launch) -> tuple[str, ...]:
        """The values of model flags as typed, in the order of the profile's fields; a leading positional word counts too."""
        values = [v for field in self._profile.model_path_fields for v in self.typed_values(launch, field)]
        if launch.args and not launch.args[0].startswith("-"):
            values.insert(0, launch.args[0])
        return tuple(dict.fromkeys(v for v in values if _is_path_text(v)))

    def named_paths(self, launch: Launch) -> set[str]:
        """Words of the arguments that may be a path on the host."""
        words = {word.partition("=")[2] if word.startswith("-") else word for word in launch.args}
        return {w for w in words if "/" in w and "://" not in w and _is_path_text(w)} | set(self.model_paths(launch))

    def _find_entry(self, argv: Sequence[str]) -> tuple[int, int] | None:
        """(start, end) of the first place where an entry of the profile stands."""
        for start in range(len(argv)):
            for entry in self._profile.entries:
                end = start + len(entry)
                if end <= len(argv) and all(_same_word(w, e) for w, e in zip(argv[start:end], entry, strict=True)):
                    return start, end
        return None

    def _find_interpreter(self, host: Host, launch: Launch) -> _Interpreter:
        words = launch.argv
        place = self._find_entry(words)
        if place is None:
            raise EngineError(f"the command does not start {self._profile.name}: {' '.join(words)[:200]}")
        start, _ = place
        outer = next((w for w in words[:start] if posixpath.basename(w) in _LAUNCHERS), None)
        if outer is not None:
            raise EngineError(
                f"the server is started through {posixpath.basename(outer)}: its Python cannot be told from the command"
            )
        if words[start].startswith("-") or words[start].endswith(".py"):
            return self._module_interpreter(host, launch, start)
        return self._script_interpreter(host, launch, words[start])

    def _module_interpreter(self, host: Host, launch: Launch, start: int) -> _Interpreter:
        """The Python before `-m package` or before a script file, with those of its options that decide what it finds."""
        words = launch.argv
        at = next((i for i in range(start - 1, -1, -1) if _PYTHON.fullmatch(posixpath.basename(words[i]))), None)
        if at is None:
            raise EngineError(f"no Python interpreter in the command: {' '.join(words[: start + 2])[:200]}")
        script_dir = None
        if words[start].endswith(".py"):
            script_dir = posixpath.dirname(posixpath.join(launch.cwd or "/", words[start]))
        path, _ = self._resolve(host, launch, words[at])
        options = tuple(w for w in words[at + 1 : start] if w in _ISOLATION)
        return _Interpreter(path, options, None if "-I" in options or "-P" in options else script_dir, words[at + 1 : start])

    def _script_interpreter(self, host: Host, launch: Launch, word: str) -> _Interpreter:
        """The Python that the first line of a console script names; also the `sh` trick that installers use for long paths."""
        path, head = self._resolve(host, launch, word)
        lines = head.decode("utf-8", "replace").splitlines() or [""]
        words = lines[0][2:].split() if lines[0].startswith("#!") else []
        if words and posixpath.basename(words[0]) in ("sh", "bash", "dash") and len(lines) > 1:
            trick = re.match(r"""'''exec' +("?)(.+?)\1 +"\$0" +"\$@\"""", lines[1])
            words = [trick.group(2)] if trick else []
        if words and posixpath.basename(words[0]) == "env":
            words = [w for w in words[1:] if w != "-S" and "=" not in w]
        if not words or not _PYTHON.fullmatch(posixpath.basename(words[0])):
            raise EngineError(
                f"{path} is not a Python script: its first line names no Python", hint="start the server with python -m"
            )
        python, _ = self._resolve(host, launch, words[0])
        options = tuple(w for w in words[1:] if w in _ISOLATION)
        script_dir = None if "-I" in options or "-P" in options else posixpath.dirname(path)
        return _Interpreter(python, options, script_dir, tuple(words[1:]))

    def _resolve(self, host: Host, launch: Launch, word: str) -> tuple[str, bytes]:
        """The program's absolute path (as the launch's PATH finds it) and the start of its bytes."""
        if "/" in word:
            word = posixpath.join(launch.cwd or "/", word)
        result = host.run(Command(("sh", "-c", _RESOLVE, "sh", launch.env.get("PATH") or _SYSTEM_PATH, word), max_output=10_000))
        path, _, head = result.stdout.partition(b"\n")
        if result.status != 0 or not path.startswith(b"/"):
            raise EngineError(f"{word} does not exist on {host.name}, or is not a program")
        return path.decode("utf-8", "surrogateescape"), head

    def _probe(
        self, host: Host, launch: Launch, program: str, data: dict[str, JsonValue], found: _Interpreter
    ) -> dict[str, JsonValue]:
        command = build_probe(program, data, found.python, found.options, launch, found.script_dir)
        try:
            result = host.run(command)
        except CommandTimeout as error:
            raise EngineError(f"{found.python} on {host.name} did not answer within {command.timeout:.0f} s") from error
        try:
            return read_answer(result.stdout, f"{found.python} on {host.name}")
        except EngineError as error:
            lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
            last = "".join(c if c.isprintable() else "?" for c in lines[-1])[:200] if lines else ""
            raise EngineError(f"{error} (status {result.status})", hint=last) from error


def _same_word(word: str, entry_word: str) -> bool:
    return word == entry_word or (not entry_word.startswith("-") and word.endswith("/" + entry_word))


def _is_path_text(value: str) -> bool:
    return 0 < len(value) < 4000 and value.isprintable() and MASK not in value


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: JsonValue) -> dict[str, str]:
    return {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}


def _strings(value: JsonValue) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []
