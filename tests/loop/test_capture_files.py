"""Captures as directories: exact both ways, and refused when damaged or tricked (abuse 21)."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.analysis.trees import FolderTree, MemoryTree, RecordingTree
from triage.errors import CaptureError, EngineError
from triage.loop.capture import unpack_source
from triage.loop.capture_files import load_capture, save_capture
from triage.loop.toml import write_toml
from triage.model import CaptureMeta, ExitStatus, Facts, Launch, ModelConfig
from triage.protocols import Capture

META = CaptureMeta(
    host="gpu 1",
    service="sglang@a.service",
    service_kind="systemd",
    engine="toyserver",
    engine_version=None,
    source_root='/opt/"odd"/\\path',
    run="abc",
    when="2026-11-30T09:45:12Z",
    exit=ExitStatus(code=1),
    active="failed",
    notes=("one", "two\nlines"),
)
LAUNCH = Launch(
    ("/v/bin/python", "-m", "toyserver.launch"),
    ("--a", "", '{"x": "y"}', "--b=\x1b[2J\u202e", "emoji 🙂", "-1"),
    {"A.B": "c", "EMPTY": "", "Q'\"": "\t"},
    "/w dir",
    "svc",
)
FACTS = Facts(
    device="cuda",
    gpu_name="NVIDIA H100",
    gpu_count=8,
    compute_capability="9.0",
    packages={"torch": "2.9", "a.b-c": "1"},
    paths={"/m": "dir"},
)
LOG = b"\xff\x00 raw\r\n\x1b[31mred\n" + bytes(range(256))
SOURCE = MemoryTree(
    {"toyserver/args.py": b"\xef\xbb\xbfa = 1\r\n", "toyserver/sub/x.py": b""}, {"toyserver": ("args.py", "sub", "z.py")}
)


def make_capture(**changes: object) -> Capture:
    models = (
        ModelConfig("/m one", '{"a": 1}', ("config.json", "x y\n.py")),
        ModelConfig("/m 0", "{}", ()),
        ModelConfig("rel/two", "not json \u2028"),
    )
    parts: dict[str, object] = {"meta": META, "launch": LAUNCH, "facts": FACTS, "log": LOG, "source": SOURCE, "models": models}
    return Capture(**{**parts, **changes})  # type: ignore[arg-type]


def test_a_capture_comes_back_exactly(tmp_path: Path) -> None:
    capture = make_capture()
    save_capture(capture, tmp_path / "c")
    again = load_capture(tmp_path / "c")
    for part in ("meta", "launch", "facts", "log", "models"):
        assert getattr(again, part) == getattr(capture, part), part
    assert isinstance(again.source, MemoryTree)
    assert (again.source.files, again.source.listings) == (SOURCE.files, SOURCE.listings)


def test_the_directory_is_as_the_contract_says(tmp_path: Path) -> None:
    save_capture(make_capture(), tmp_path / "c")
    names = {p.relative_to(tmp_path / "c").as_posix() for p in (tmp_path / "c").rglob("*") if p.is_file()}
    assert names == {
        "capture.toml",
        "log.txt",
        "source/toyserver/args.py",
        "source/toyserver/sub/x.py",
        "model/config.json",
        "model/1/config.json",
        "model/2/config.json",
    }
    assert (tmp_path / "c" / "log.txt").read_bytes() == LOG
    text = (tmp_path / "c" / "capture.toml").read_text()
    assert "\x1b" not in text and "\u202e" not in text
    table = tomllib.loads(text)
    assert table["schema"] == 1 and table["launch"]["cwd"] == "/w dir" and table["facts"]["gpu_count"] == 8


def test_nothing_known_is_a_capture_too(tmp_path: Path) -> None:
    meta = CaptureMeta("", "x.log", "log", "sglang", None, None, None, None)
    capture = make_capture(meta=meta, launch=None, facts=Facts(), log=b"", source=None, models=())
    save_capture(capture, tmp_path / "c")
    assert load_capture(tmp_path / "c") == capture


def test_only_what_was_read_is_saved(tmp_path: Path) -> None:
    tree = RecordingTree(SOURCE)
    tree.read("toyserver/args.py")
    save_capture(make_capture(source=tree), tmp_path / "c")
    again = load_capture(tmp_path / "c")
    assert isinstance(again.source, MemoryTree) and list(again.source.files) == ["toyserver/args.py"]


def test_a_folder_is_saved_as_its_python_files(tmp_path: Path) -> None:
    package = tmp_path / "root" / "toyserver"
    package.mkdir(parents=True)
    (package / "a.py").write_bytes(b"1")
    (package / "weights.bin").write_bytes(b"2")
    save_capture(make_capture(source=FolderTree(tmp_path / "root")), tmp_path / "c")
    again = load_capture(tmp_path / "c")
    assert isinstance(again.source, MemoryTree) and list(again.source.files) == ["toyserver/a.py"]


def test_a_directory_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(CaptureError):
        save_capture(make_capture(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def damage_toml(old: str, new: str) -> object:
    def damage(root: Path) -> None:
        text = (root / "capture.toml").read_text()
        assert old in text
        (root / "capture.toml").write_text(text.replace(old, new, 1))

    return damage


def replace_by_link(name: str, target: str) -> object:
    def damage(root: Path) -> None:
        path = root / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return damage


def add_fifo(name: str) -> object:
    def damage(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        os.mkfifo(root / name)

    return damage


DAMAGE = {
    "no toml": lambda root: (root / "capture.toml").unlink(),
    "no log": lambda root: (root / "log.txt").unlink(),
    "log is a folder": lambda root: ((root / "log.txt").unlink(), (root / "log.txt").mkdir()),
    "toml cut": lambda root: (root / "capture.toml").write_bytes((root / "capture.toml").read_bytes()[:45]),
    "toml binary": lambda root: (root / "capture.toml").write_bytes(b"\xff\xfe\x00"),
    "schema": damage_toml("schema = 1", "schema = 99"),
    "wrong type": damage_toml("gpu_count = 8", 'gpu_count = "eight"'),
    "host missing": damage_toml('host = "gpu 1"', ""),
    "args not text": damage_toml('"--a"', "7"),
    "model outside": damage_toml('"model/config.json"', '"model/../../secret"'),
    "model absolute": damage_toml('"model/config.json"', '"/etc/passwd"'),
    "log is a link": replace_by_link("log.txt", "/etc/passwd"),
    "model is a link": replace_by_link("model/config.json", "/etc/passwd"),
    "source file is a link out": replace_by_link("source/toyserver/evil.py", "/etc/passwd"),
    "toml is a fifo": add_fifo("capture.toml"),
    "log is a fifo": add_fifo("log.txt"),
    "source fifo": add_fifo("source/toyserver/fifo.py"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_21_damage_and_tricks_are_refused(tmp_path: Path, name: str) -> None:
    save_capture(make_capture(), tmp_path / "c")
    DAMAGE[name](tmp_path / "c")  # type: ignore[operator]
    with pytest.raises(CaptureError) as caught:
        load_capture(tmp_path / "c")
    assert str(tmp_path / "c") in str(caught.value) or "CaptureMeta" in str(caught.value) or "_Index" in str(caught.value)


def test_21_only_plain_files_below_the_package_leave_an_archive(tmp_path: Path) -> None:
    import io
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:

        def add(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data) if kind == tarfile.REGTYPE else 0, kind, link
            tar.addfile(info, io.BytesIO(data))

        add("./pkg/a.py", b"good")
        add("pkg/../../evil.py")
        add("/abs/pkg/x.py")
        add("other/x.py")
        add("pkg/link.py", kind=tarfile.SYMTYPE, link="/etc/passwd")
        add("pkg/hard.py", kind=tarfile.LNKTYPE, link="/etc/passwd")
        add("pkg/dev.py", kind=tarfile.CHRTYPE)
        add("pkg/fifo.py", kind=tarfile.FIFOTYPE)
    assert unpack_source(buffer.getvalue(), "pkg") == {"pkg/a.py": b"good"}
    for broken in (b"", b"not a tar", buffer.getvalue()[:60]):
        with pytest.raises(EngineError):
            unpack_source(broken, "pkg")


scalars = st.booleans() | st.integers(-(2**62), 2**62) | st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    scalars | st.lists(scalars, max_size=4),
    lambda inner: st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values, max_size=5))
def test_toml_reads_back_as_it_was_written(table: dict[str, object]) -> None:
    assert tomllib.loads(write_toml(table)) == table  # type: ignore[arg-type]


def test_tables_in_lists_read_back() -> None:
    table = {"a": [{"x": 1, "y": {"z": ["q"]}}, {"x": 2}], "b": {"c": [{"d": "e"}]}}
    assert tomllib.loads(write_toml(table)) == table  # type: ignore[arg-type]
