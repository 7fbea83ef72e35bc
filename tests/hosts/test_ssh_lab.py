"""ssh against real lab hosts: nothing here is simulated."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.lab import LabHost, boot
from triage.errors import CommandTimeout, FileError, FileMissing, HostError, HostKeyError
from triage.hosts import files as host_files
from triage.hosts import open_host
from triage.model import Command, Secret
from triage.protocols import Host

pytestmark = pytest.mark.lab

NASTY = [
    "", " ", "a b", "'", '"', "\\", "\\\\", "\\n", "\n", "a\n\nb\n", "$HOME", "${x}", "`id`", "$(id)", "!!", "a!b", "%s", "~",
    "*", "?[a]", "-n", "--", ";", "&", "|", "<x", ">x", "#c", "é ü 日本", "\t", "\r", "\x01\x02\x7f", "{a,b}", "^x", "a=b",
    "'\"'\"'", "\udcff\udc81",
    '{"json": "va\'lue", "n": [1, -2]}', "\x81\x88ÁÈ", "(", ")", "\\'", "end\\",
]  # fmt: skip


def random_words(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    alphabet = "ab '\"\\$`!*?~#;&|<>(){}[]^%=\n\t-é日\udcfe\x1b"
    return ["".join(rng.choice(alphabet) for _ in range(rng.randrange(0, 12))) for _ in range(count)]


def echo(host: Host, words: list[str]) -> list[str]:
    result = host.run(Command(("printf", "%s\\0", *words)))
    assert result.status == 0, result
    return result.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


def test_any_words_arrive_as_they_are(lab_root: Host) -> None:
    words = NASTY + random_words(1, 300)
    assert echo(lab_root, words) == words


@pytest.mark.parametrize("shell", ["dash", "rbash", "tcsh", "fish"])
def test_login_shells_do_not_matter(lab: LabHost, shell: str) -> None:
    path = shutil.which(shell)
    if not path:
        pytest.skip(f"{shell} is not installed")
    lab.add_user(f"u-{shell}", path)
    host = lab.open(f"u-{shell}")
    words = NASTY + random_words(2, 100)
    assert echo(host, words) == words
    assert host.run(Command(("sh", "-c", "echo out; echo err >&2; exit 7"))).status == 7
    host.close()


def test_what_a_start_up_file_prints_is_not_data(lab: LabHost) -> None:
    lab.add_user("noisy")
    lab.write("/home/noisy/.bashrc", "echo WELCOME; echo triage-0000; printf 'no newline'; echo careful >&2\n")
    host = lab.open("noisy")
    raw = subprocess.run(
        ["ssh", "-F", lab.ssh_config, "-o", f"UserKnownHostsFile={lab.known_hosts}", "-l", "noisy", lab.name, "echo", "hi"],
        capture_output=True,
    )
    assert b"WELCOME" in raw.stdout and b"careful" in raw.stderr
    result = host.run(Command(("sh", "-c", "echo hi; echo oh >&2")))
    assert (result.stdout, result.stderr) == (b"hi\n", b"oh\n")
    host.write_file("/home/noisy/x", b"data", 0o600)
    assert host.read_file("/home/noisy/x") == b"data"
    host.close()


def test_a_login_that_runs_nothing_says_so(lab: LabHost) -> None:
    lab.add_user("nologin", "/usr/sbin/nologin")
    host = lab.open("nologin")
    with pytest.raises(HostError, match=r"runs no command.*not available"):
        host.run(Command(("true",)))
    host.close()


def test_large_output_on_both_streams_and_large_input(lab_root: Host) -> None:
    script = "head -c 9000000 /dev/zero | tr '\\0' o; head -c 9000000 /dev/zero | tr '\\0' e >&2; exit 3"
    result = lab_root.run(Command(("sh", "-c", script)))
    assert (result.status, result.stdout == b"o" * 9000000, result.stderr == b"e" * 9000000) == (3, True, True)
    data = bytes(range(256)) * 40000
    assert lab_root.run(Command(("cat",), stdin=data)).stdout == data
    bounded = lab_root.run(Command(("sh", "-c", script), max_output=1000))
    assert (bounded.status, len(bounded.stdout), len(bounded.stderr)) == (3, 1000, 1000)


def test_status_signal_missing_program_and_secret(lab_root: Host) -> None:
    assert lab_root.run(Command(("sh", "-c", "kill -9 $$"))).status == 137
    assert lab_root.run(Command(("no-such-program",))).status == 127
    assert lab_root.run(Command(("cd", "/"))).status == 127  # a program, never a builtin of the shell
    assert lab_root.run(Command(("printf", "%s", Secret("s3cret")))).stdout == b"s3cret"


def test_a_command_over_its_time_is_ended_there_too(lab: LabHost, lab_root: Host) -> None:
    with pytest.raises(CommandTimeout, match="sleep"):
        lab_root.run(Command(("sleep", "4321"), timeout=1.0))
    assert b"4321" not in lab.run("ps", "-eo", "args")
    assert lab_root.run(Command(("echo", "on"))).stdout == b"on\n"


def test_a_cut_link_ends_in_time_and_a_mended_one_works_again(lab: LabHost) -> None:
    host = lab.open(timeout=3.0)
    timer = threading.Timer(0.5, lab.cut)
    timer.start()
    try:
        with pytest.raises(HostError):
            host.run(Command(("sleep", "30"), timeout=2.0))
        with pytest.raises(HostError):
            host.run(Command(("true",), timeout=2.0))
    finally:
        timer.join()
        lab.mend()
    assert host.run(Command(("echo", "back"))).stdout == b"back\n"
    host.close()


def test_a_connection_that_ends_in_a_command(lab: LabHost) -> None:
    host = lab.open()
    with pytest.raises(HostError, match="lost while a command ran"):
        host.run(Command(("sh", "-c", "kill -9 $(ps -o ppid= -p $(ps -o sid= -p $$))"), timeout=10.0))
    assert host.run(Command(("echo", "again"))).stdout == b"again\n"
    host.close()


# ---------------------------------------------------------------- files
@pytest.mark.parametrize("name", ["plain", "-x", "a b", "new\nline", "é日", "$(id);`x`'\"", "%n"])
def test_files_of_any_name(lab: LabHost, lab_root: Host, name: str) -> None:
    path = f"/srv/t/{name}/f{name}"
    data = bytes(range(256)) * 100
    lab_root.write_file(path, b"old", 0o600)
    lab_root.write_file(path, data, 0o640)
    assert lab_root.read_file(path) == data == lab.run("cat", path)
    assert lab.run("stat", "-c", "%a", path) == b"640\n"
    assert lab.run("ls", "-A", path.rpartition("/")[0]).decode().rstrip("\n") == f"f{name}"  # no temporary file is left
    lab_root.remove_file(path)
    lab_root.remove_file(path)
    with pytest.raises(FileMissing):
        lab_root.read_file(path)


def test_what_is_no_plain_file_is_refused(lab: LabHost, lab_root: Host) -> None:
    lab.shell("mkdir -p /srv/odd/dir; mkfifo /srv/odd/fifo; ln -s /etc/hostname /srv/odd/link; ln -s /none /srv/odd/dangling")
    lab.shell("truncate -s 5G /srv/odd/huge")
    for name in ("dir", "fifo"):
        with pytest.raises(FileError, match="not a regular file"):
            lab_root.read_file(f"/srv/odd/{name}")
        with pytest.raises(FileError, match="not a regular file"):
            lab_root.write_file(f"/srv/odd/{name}", b"x", 0o600)
    with pytest.raises(FileError, match="not a regular file"):
        lab_root.read_file("/dev/zero")
    with pytest.raises(FileError, match="too large"):
        lab_root.read_file("/srv/odd/huge")
    with pytest.raises(FileMissing):
        lab_root.read_file("/srv/odd/dangling")
    before = lab.read("/etc/hostname")
    for name in ("link", "dangling"):
        with pytest.raises(FileError, match="a link stands"):
            lab_root.write_file(f"/srv/odd/{name}", b"x", 0o600)
    assert lab.read("/etc/hostname") == before
    assert lab_root.read_file("/proc/version", 10000) == lab.read("/proc/version")


def test_a_write_that_arrives_in_part_changes_nothing(lab: LabHost, lab_root: Host) -> None:
    lab.write("/srv/part/f", "whole")
    script = ("sh", "-c", host_files._WRITE, "sh", "/srv/part/f", "644", "1000")
    assert lab_root.run(Command(script, stdin=b"x" * 999)).status == host_files.PARTIAL
    assert lab.read("/srv/part/f") == b"whole"
    assert lab.run("ls", "-A", "/srv/part") == b"f\n"


def test_a_full_or_read_only_disk_changes_nothing(lab: LabHost, lab_root: Host) -> None:
    lab.shell("mkdir -p /srv/full /srv/ro; mount -t tmpfs -o size=64k tmpfs /srv/full; mount -t tmpfs -o ro tmpfs /srv/ro")
    lab.write("/srv/full/f", "old")
    with pytest.raises(FileError, match="No space left"):
        lab_root.write_file("/srv/full/f", b"x" * 200_000, 0o644)
    assert (lab.read("/srv/full/f"), lab.run("ls", "-A", "/srv/full")) == (b"old", b"f\n")
    with pytest.raises(FileError, match="Read-only"):
        lab_root.write_file("/srv/ro/f", b"x", 0o644)


def test_root_by_sudo(lab: LabHost) -> None:
    if not shutil.which("sudo"):
        pytest.skip("sudo is not installed")
    lab.add_user("withsudo")
    lab.add_user("without")
    lab.write("/etc/sudoers.d/t", "withsudo ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    lab.write("/srv/rootonly", "r", 0o600)
    host = lab.open("withsudo")
    assert host.run(Command(("id", "-u"))).stdout != b"0\n"
    assert host.run(Command(("id", "-u"), root=True)).stdout == b"0\n"
    with pytest.raises(FileError, match="cannot be read"):
        host.read_file("/srv/rootonly")
    assert host.read_file("/srv/rootonly", root=True) == b"r"
    host.write_file("/etc/by-sudo", b"y", 0o600, root=True)
    assert lab.run("stat", "-c", "%U %a", "/etc/by-sudo") == b"root 600\n"
    host.close()
    host = lab.open("without")
    with pytest.raises(HostError, match=r"without on .* needs root") as caught:
        host.run(Command(("id", "-u"), root=True))
    assert "NOPASSWD" in caught.value.hint
    host.close()


# ---------------------------------------------------------------- keys and login
def connect(lab: LabHost, tmp_path: Path, known: str, extra: str = "", name: str = "") -> Host:
    config, hosts = tmp_path / "config", tmp_path / "known"
    config.write_text(
        f"Host {lab.name}\n  HostName {lab.address}\n  User root\n  IdentityFile {lab.key}\n  IdentityAgent none\n{extra}"
    )
    hosts.write_text(known)
    return open_host(name or lab.name, ssh_config=config, known_hosts=hosts, timeout=5.0)


def other_key(tmp_path: Path, kind: str = "ed25519") -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / "other"], check=True)
    return " ".join((tmp_path / "other.pub").read_text().split()[:2])


def fingerprints_of(lab: LabHost) -> set[str]:
    lines = lab.shell("for f in /etc/ssh/ssh_host_*.pub; do ssh-keygen -lf $f; done").decode().splitlines()
    return {line.split()[1] for line in lines}


@pytest.mark.parametrize("weaker", ["", "  StrictHostKeyChecking no\n", "  StrictHostKeyChecking accept-new\n"])
def test_an_unknown_key_is_refused(lab: LabHost, tmp_path: Path, weaker: str) -> None:
    with pytest.raises(HostKeyError, match="unknown") as caught:
        connect(lab, tmp_path, "", weaker)
    assert str(caught.value).split()[-1] in fingerprints_of(lab)
    assert (tmp_path / "known").read_text() == ""


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_changed_key_is_refused(lab: LabHost, tmp_path: Path, kind: str) -> None:
    lab.shell("rm -f /etc/ssh/ssh_host_ecdsa_key*")
    with pytest.raises(HostKeyError, match="CHANGED") as caught:
        connect(lab, tmp_path, f"{lab.address} {other_key(tmp_path, kind)}\n")
    assert "ssh-keygen" in caught.value.hint and lab.address in caught.value.hint


def test_a_revoked_key_is_refused(lab: LabHost, tmp_path: Path) -> None:
    key = lab.host_key()
    with pytest.raises(HostKeyError, match="REVOKED"):
        connect(lab, tmp_path, f"{lab.address} {key}\n@revoked * {key}\n")


def test_hashed_names_and_patterns_are_known(lab: LabHost, tmp_path: Path) -> None:
    connect(lab, tmp_path, f"!10.77.0.1,10.77.0.* {lab.host_key()}\n").close()
    (tmp_path / "h").write_text(f"{lab.address} {lab.host_key()}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", tmp_path / "h"], check=True)
    hashed = (tmp_path / "h").read_text()
    assert hashed.startswith("|1|")
    connect(lab, tmp_path, hashed).close()
    with pytest.raises(HostKeyError, match="unknown"):
        connect(lab, tmp_path, f"!{lab.address},10.77.0.* {lab.host_key()}\n")


def test_a_refused_login_says_what_was_tried(lab: LabHost, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "pass", "-f", tmp_path / "locked"], check=True)
    config = tmp_path / "config"
    config.write_text(
        f"Host {lab.name}\n  HostName {lab.address}\n  User nobody\n  IdentityAgent none\n"
        f"  IdentityFile {tmp_path / 'locked'}\n  IdentityFile {tmp_path / 'absent'}\n  IdentityFile {lab.key}\n"
    )
    with pytest.raises(HostError) as caught:
        open_host(lab.name, ssh_config=config, known_hosts=lab.known_hosts)
    text = str(caught.value)
    assert "nobody" in text and "locked (needs a passphrase)" in text
    assert "absent (no such file)" in text and "id_ed25519 (refused)" in text


def test_a_key_of_the_agent(lab: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        for _ in range(100):
            added = subprocess.run(["ssh-add", lab.key], capture_output=True)
            if added.returncode == 0:
                break
        (tmp_path / "c").write_text(
            f"Host {lab.name}\n  HostName {lab.address}\n  User root\n  IdentityFile {tmp_path / 'none'}\n"
        )
        host = open_host(lab.name, ssh_config=tmp_path / "c", known_hosts=lab.known_hosts)
        assert host.run(Command(("whoami",))).stdout == b"root\n"
        host.close()
    finally:
        agent.terminate()
        agent.wait()


def test_proxy_jump_and_proxy_command(lab: LabHost, tmp_path: Path) -> None:
    with boot(tmp_path / "second") as second:
        known = f"{lab.address} {lab.host_key()}\n{second.address} {second.host_key()}\n"
        common = f"  User root\n  IdentityFile {lab.key}\n  IdentityAgent none\n"
        (tmp_path / "kh2").write_text(known)
        proxy = f"ssh -F none -i {lab.key} -o UserKnownHostsFile={tmp_path / 'kh2'} -W %h:%p root@{lab.address} 2>/dev/null"
        extra = (
            f"Host two\n  HostName {second.address}\n  ProxyJump {lab.name}\n{common}"
            f"Host round\n  HostName {lab.address}\n  ProxyJump {lab.name},root@{second.address}:22\n{common}"
            f"Host bycommand\n  HostName {second.address}\n  ProxyCommand {proxy}\n{common}"
            f"Host dead\n  HostName {second.address}\n  ProxyCommand false\n{common}"
            f"Host loop\n  HostName {second.address}\n  ProxyJump loop\n{common}"
            f"Host {second.address}\n{common}"
        )

        def came_from(name: str) -> str:
            host = connect(lab, tmp_path, known, extra, name)
            out = host.run(Command(("sh", "-c", "echo $SSH_CONNECTION"))).stdout.decode().split()
            host.close()
            return f"{out[0]} {out[2]}"

        assert came_from("two") == f"{lab.address} {second.address}"
        assert came_from("round") == f"{second.address} {lab.address}"
        assert came_from("bycommand") == f"{lab.address} {second.address}"
        for name, text in (("dead", "bad"), ("loop", "loop")):
            with pytest.raises(HostError) as caught:
                connect(lab, tmp_path, known, extra, name)
            assert name in str(caught.value) or text in str(caught.value)
        with pytest.raises(HostKeyError, match="unknown"):  # every hop's key counts
            connect(lab, tmp_path, f"{second.address} {second.host_key()}\n", extra, "two")


# ---------------------------------------------------------------- hosts that do not answer
def test_a_host_that_hangs_before_its_banner(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "c").write_text(f"Host hang\n  HostName 127.0.0.1\n  Port {server.getsockname()[1]}\n")
        with pytest.raises(HostError, match=r"hang .*(answer|ssh server)"):
            open_host("hang", ssh_config=tmp_path / "c", known_hosts=tmp_path / "k", timeout=1.0)


def test_a_closed_port_and_an_unknown_name(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "c").write_text(f"Host shut\n  HostName 127.0.0.1\n  Port {port}\nHost lost\n  HostName no-such.invalid\n")
    with pytest.raises(HostError, match="refused"):
        open_host("shut", ssh_config=tmp_path / "c", known_hosts=tmp_path / "k")
    with pytest.raises(HostError, match=r"no host no-such\.invalid"):
        open_host("lost", ssh_config=tmp_path / "c", known_hosts=tmp_path / "k")
