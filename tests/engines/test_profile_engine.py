"""Engines on this machine: real interpreters, real installs, hostile launches."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from triage.engines import open_engine
from triage.errors import EngineError
from triage.hosts.local import LocalHost
from triage.model import Launch
from triage.protocols import EngineInstall

CHECKOUT = Path(__file__).resolve().parents[2]
TOYSERVER = CHECKOUT / "fixtures" / "toyserver"
ORACLE = Path(os.environ.get("ORACLE_HOME", "/opt/oracle"))
RELEASES = sorted(p.parent.parent for p in ORACLE.glob("*/bin/python") if list(p.parents[1].glob("lib/*/site-packages/sglang")))
SGLANG, TOY = open_engine("sglang"), open_engine("toyserver")

SPLITS = [
    (["/v/bin/python", "-m", "sglang.launch_server", "--tp", "2"], 3),
    (["/v/bin/python3.11", "-u", "-m", "sglang.launch_server"], 4),
    (["numactl", "-N", "0", "python", "-m", "sglang.launch_server", "--port", "1"], 6),
    (["/v/bin/sglang", "serve", "--model-path", "m"], 2),
    (["sglang", "serve", "m", "--tp", "2"], 2),
    (["python", "-m", "sglang.cli.main", "serve", "--tp", "1"], 4),
    (["python", "/src/python/sglang/launch_server.py", "--tp", "1"], 2),
    (["-m", "sglang.launch_server", "--tp", "1"], 2),
    (["--model-path", "m"], 0),
]
NO_SPLITS = [
    [],
    ["python", "-m", "vllm"],
    ["bash", "-c", "python -m sglang.launch_server"],
    ["sglang", "generate"],
    ["sglang"],
    ["x"],
]


@pytest.mark.parametrize(("argv", "at"), SPLITS, ids=lambda v: " ".join(v)[:40] if isinstance(v, list) else None)
def test_a_command_is_split_where_the_servers_own_arguments_begin(argv: list[str], at: int) -> None:
    assert SGLANG.split_command(argv) == (tuple(argv[:at]), tuple(argv[at:]))


@pytest.mark.parametrize("argv", NO_SPLITS, ids=" ".join)
def test_what_does_not_start_the_engine_is_not_split(argv: list[str]) -> None:
    assert SGLANG.split_command(argv) is None


def launch_of(argv: list[str], env: dict[str, str] | None = None, cwd: str | None = None, user: str | None = None) -> Launch:
    parts = (TOY if any("toyserver" in w for w in argv) else SGLANG).split_command(argv)
    assert parts is not None
    return Launch(*parts, env or {}, cwd, user)


@pytest.mark.skipif(not RELEASES, reason=f"no sglang release is installed below {ORACLE}")
@pytest.mark.parametrize("release", RELEASES, ids=lambda p: p.name)
def test_every_installed_release_is_found_without_running_it(release: Path) -> None:
    launch = launch_of([str(release / "bin" / "python"), "-m", "sglang.launch_server", "--tp", "2"])
    install = SGLANG.locate(LocalHost(), launch)
    assert install.version == release.name
    assert (Path(install.root) / "sglang" / "srt" / "server_args.py").is_file()
    assert install.packages["sglang"] == release.name and "torch" in install.packages
    assert install.python_version == "3.11.7" or install.python_version


@pytest.mark.skipif(not RELEASES, reason=f"no sglang release is installed below {ORACLE}")
def test_a_console_script_leads_to_its_interpreter() -> None:
    scripts = [r / "bin" / "sglang" for r in RELEASES if (r / "bin" / "sglang").is_file()]
    assert scripts
    for script in scripts:
        install = SGLANG.locate(LocalHost(), launch_of([str(script), "serve", "--tp", "2"]))
        assert install.version == script.parents[1].name
    named = launch_of(["sglang", "serve"], {"PATH": str(scripts[0].parent)})
    assert SGLANG.locate(LocalHost(), named).version == scripts[0].parents[1].name


def test_the_launchs_pythonpath_and_folder_decide(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "toyserver.launch", "--model-path", "toy"]
    by_path = TOY.locate(LocalHost(), launch_of(argv, {"PYTHONPATH": str(TOYSERVER)}, str(tmp_path)))
    by_folder = TOY.locate(LocalHost(), launch_of(argv, {}, str(TOYSERVER)))
    assert by_path.root == by_folder.root == str(TOYSERVER)
    with pytest.raises(EngineError, match="no package toyserver") as caught:
        TOY.locate(LocalHost(), launch_of(argv, {}, str(tmp_path)))
    assert sys.executable in str(caught.value)


def test_a_script_path_finds_the_package_beside_it(tmp_path: Path) -> None:
    argv = [sys.executable, str(TOYSERVER / "toyserver" / "launch.py"), "--model-path", "toy"]
    # `python file.py` searches the file's own folder, where there is no package of that name
    with pytest.raises(EngineError):
        TOY.locate(LocalHost(), launch_of(argv, {}, str(tmp_path)))


def test_nothing_of_the_target_runs(tmp_path: Path) -> None:
    package = tmp_path / "toyserver"
    package.mkdir()
    mark = tmp_path / "ran"
    trap = f"open({str(mark)!r}, 'a').write(__name__)\n"
    (package / "__init__.py").write_text(trap)
    (package / "launch.py").write_text(trap)
    (tmp_path / "sitecustomize.py").write_text(trap)
    (tmp_path / "usercustomize.py").write_text(trap)
    launch = launch_of([sys.executable, "-m", "toyserver.launch"], {"PYTHONPATH": str(tmp_path)})
    install = TOY.locate(LocalHost(), launch)
    TOY.read_facts(LocalHost(), launch, install)
    assert install.root == str(tmp_path)
    assert not mark.exists()


def test_an_editable_install_is_followed(tmp_path: Path) -> None:
    venv.create(tmp_path / "v", with_pip=False)
    site = next((tmp_path / "v" / "lib").glob("python3*/site-packages"))
    (site / "toy.pth").write_text(f"{TOYSERVER}\n")
    info = site / "toyserver-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Toyserver\nVersion: 1.0\n")
    install = TOY.locate(LocalHost(), launch_of([str(tmp_path / "v" / "bin" / "python"), "-m", "toyserver.launch"]))
    assert (install.root, install.version) == (str(TOYSERVER), "1.0")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/no/such/python", "-m", "toyserver.launch"], "/no/such/python does not exist"),
        (["/bin/true", "-m", "toyserver.launch"], "no Python interpreter"),
        (["uv", "run", "python", "-m", "toyserver.launch"], "started through uv"),
        (["docker", "run", "x", "python", "-m", "toyserver.launch"], "started through docker"),
    ],
)
def test_what_cannot_be_located_is_one_clear_line(argv: list[str], words: str) -> None:
    with pytest.raises(EngineError, match=words) as caught:
        TOY.locate(LocalHost(), launch_of(argv))
    assert "\n" not in str(caught.value)


def test_15_hostile_words_reach_no_shell(tmp_path: Path) -> None:
    odd = tmp_path / "a b;$(touch owned)\n'\"%"
    odd.mkdir()
    (odd / "toyserver").symlink_to(TOYSERVER / "toyserver")
    argv = [sys.executable, "-m", "toyserver.launch", "--model-path", f"{tmp_path}/$(touch {tmp_path}/owned)"]
    launch = launch_of(argv, {"PYTHONPATH": str(odd), "X": "$(id)"}, str(tmp_path), None)
    assert TOY.locate(LocalHost(), launch).root == str(odd)
    TOY.read_facts(LocalHost(), launch, TOY.locate(LocalHost(), launch))
    assert not (tmp_path / "owned").exists() and not Path("owned").exists()


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/usr/bin/python3"), reason="needs root and a system Python")
def test_code_that_belongs_to_the_units_user_does_not_run_as_root() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        script = f'#!/bin/sh\nid -un >> {folder}/who; echo "$HOME" >> {folder}/home; exec /usr/bin/python3 "$@"\n'
        write_program(folder / "bin", "python3", script)
        for path in (folder / "bin", folder / "bin" / "python3"):
            path.chmod(0o755)
        (folder / "toyserver").mkdir()
        (folder / "toyserver" / "__init__.py").write_text("")
        argv = [str(folder / "bin" / "python3"), "-m", "toyserver.launch"]
        install = TOY.locate(LocalHost(), launch_of(argv, {"PYTHONPATH": name}, name, "nobody"))
        assert install.root == name
        assert (folder / "who").read_text() == "nobody\n"
        assert "/root" not in (folder / "home").read_text()


def write_program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(stat.S_IRWXU)


SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*) for i in 0 1 2; do echo "$i, GPU-aaa$i, NVIDIA H100 80GB HBM3, 81559, 9.0"; done ;;
  *) echo '| NVIDIA-SMI 570.1   Driver Version: 570.1   CUDA Version: 12.8  |' ;;
esac
"""


VISIBLE = [(None, 3), ("0,1", 2), ("2", 1), ("", 0), ("-1", 0), ("0,7,1", 1), ("GPU-aaa1", 1), ("GPU-", 0), ("1,1", 0)]


@pytest.mark.parametrize(("visible", "count"), VISIBLE)
def test_gpus_are_counted_as_the_launch_sees_them(tmp_path: Path, visible: str | None, count: int) -> None:
    write_program(tmp_path / "bin", "nvidia-smi", SMI)
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(TOYSERVER)}
    if visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible
    argv = [sys.executable, "-m", "toyserver.launch", "--model-path", "./m", "--cache", "/etc/hosts", "--url=http://x/y"]
    (tmp_path / "m").mkdir()
    launch = launch_of(argv, env, str(tmp_path))
    facts = TOY.read_facts(LocalHost(), launch, EngineInstall("/x", None, sys.executable, "3.11.7"))
    assert (facts.device, facts.gpu_count) == (("cuda", count) if count else ("cpu", 0))
    assert facts.paths == {"./m": "dir", "/etc/hosts": "file"}
    assert facts.machine == os.uname().machine
    if count:
        assert (facts.gpu_name, facts.gpu_memory_mib, facts.compute_capability) == ("NVIDIA H100 80GB HBM3", 81559, "9.0")
        assert facts.cuda_version == "12.8"


def test_a_broken_nvidia_smi_is_no_gpu(tmp_path: Path) -> None:
    write_program(tmp_path / "bin", "nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    launch = launch_of([sys.executable, "-m", "toyserver.launch"], env, str(tmp_path))
    assert TOY.read_facts(LocalHost(), launch, EngineInstall("/x", None, sys.executable, None)).device == "cpu"


def test_model_configs_are_read_by_every_spelling_and_bounded(tmp_path: Path) -> None:
    for name in ("main", "draft", "huge"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(f'{{"name": "{name}"}}')
    with open(tmp_path / "huge" / "config.json", "wb") as stream:
        stream.truncate(50_000_000)
    os.makedirs(tmp_path / "fifo")
    os.mkfifo(tmp_path / "fifo" / "config.json")
    args = ["--model=main", "--speculative-draft-model", str(tmp_path / "draft"), "--tokenizer-path", "huge"]
    launch = launch_of(["python", "-m", "sglang.launch_server", *args], {}, str(tmp_path))
    found = SGLANG.read_model_configs(LocalHost(), launch)
    assert [(m.path, m.text) for m in found] == [("main", '{"name": "main"}'), (str(tmp_path / "draft"), '{"name": "draft"}')]
    positional = launch_of(["sglang", "serve", "fifo", "--tp", "2"], {}, str(tmp_path))
    assert SGLANG.model_paths(positional) == ("fifo",)
    assert SGLANG.read_model_configs(LocalHost(), positional) == ()


def test_secrets_of_a_launch_are_masked() -> None:
    argv = ["python", "-m", "sglang.launch_server", "--api-key", "hunter2hunter2", "--tp", "2"]
    masked = SGLANG.mask_launch(launch_of(argv, {"HF_TOKEN": "abcdefgh", "SGLANG_X": "1"}))
    assert "hunter2hunter2" not in masked.args and "abcdefgh" not in masked.env.values()
    assert masked.args[-2:] == ("--tp", "2") and masked.env["SGLANG_X"] == "1"
