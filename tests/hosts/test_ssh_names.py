"""Names, configs and known_hosts: pure, beside what OpenSSH's own tools say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from triage.errors import HostError, UsageError
from triage.hosts import open_host
from triage.hosts.known_hosts import fingerprint, judge_key, matches_host, parse_known_hosts
from triage.hosts.ssh_config import make_endpoint, parse_target, read_config_text

ODD = [
    "-oProxyCommand=x",
    "a b",
    "a;b",
    "$(id)",
    "a\nb",
    "`id`",
    "a%20b;",
    "é",
    "",
    "a|b",
    "a'b",
    "u;x@h",
    "-u@h",
    "a/b",
    "@h",
    "h@",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a host name") as caught:
        open_host(name, ssh_config=tmp_path / "c", known_hosts=tmp_path / "k")
    assert "\n" not in str(caught.value)


def test_targets() -> None:
    assert [parse_target(t).host for t in ("h", "u@h", "10.0.0.1", "fe80::1%eth0", "[::1]", "ssh://u@h:22")] == [
        "h", "h", "10.0.0.1", "fe80::1%eth0", "::1", "h",
    ]  # fmt: skip
    assert parse_target("u@h:2222", with_port=True) == parse_target("ssh://u@h:2222")


def test_include_ends_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "main").write_text("Include inc*\nHost z\n  Include sub\n  User later\n")
    (tmp_path / "inc1").write_text("Host a\n  User one\n")
    (tmp_path / "sub").write_text("Host other\n  Port 1\n")
    (tmp_path / "loop").write_text("Include loop\n")
    lines = read_config_text(tmp_path / "main", tmp_path).split("\n")
    assert lines == ["Host a", "  User one", "Host *", "Host z", "Host other", "  Port 1", "Host z", "  User later"]
    with pytest.raises(HostError, match="too deep"):
        read_config_text(tmp_path / "loop", tmp_path)
    assert read_config_text(tmp_path / "absent", tmp_path) == ""


def test_an_endpoint_from_options(tmp_path: Path) -> None:
    options: dict[str, str | list[str]] = {
        "hostname": "10.0.0.9", "port": "2200", "user": "u", "identityfile": ["~/k"], "proxyjump": "a,b@c:1",
        "connecttimeout": "7",
        "userknownhostsfile": "~/kh /x", "stricthostkeychecking": "no",
    }  # fmt: skip
    end = make_endpoint(parse_target("h"), options, tmp_path, "me", None, 15.0)
    assert (end.host, end.port, end.user, end.key_name, end.timeout) == ("10.0.0.9", 2200, "u", "[10.0.0.9]:2200", 7.0)
    assert end.identity_files == (f"{tmp_path}/k",) and end.known_hosts[:2] == (f"{tmp_path}/kh", "/x")
    assert [(j.host, j.user, j.port) for j in end.jumps] == [("a", None, None), ("c", "b", 1)]
    alias = make_endpoint(parse_target("x@h"), {"hostkeyalias": "al"}, tmp_path, "me", tmp_path / "k", 15.0)
    assert (alias.user, alias.key_name, alias.known_hosts) == ("x", "al", (str(tmp_path / "k"),))
    with pytest.raises(UsageError):
        make_endpoint(parse_target("h"), {"hostname": "$(id)"}, tmp_path, "me", None, 15.0)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_keys_as_ssh_keygen_sees_them(kind: str, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / "k"], check=True)
    key = " ".join((tmp_path / "k.pub").read_text().split()[:2])
    (tmp_path / "kh").write_text(
        f"# c\n\nh1,[h2]:2222 {key} x\n*.lab,!no.lab {key}\nbroken\nh9 ssh-x !!not64\n@cert-authority *.ca {key}"
    )
    plain = parse_known_hosts((tmp_path / "kh").read_text())
    shown = subprocess.run(["ssh-keygen", "-lf", tmp_path / "k.pub"], capture_output=True, text=True, check=True).stdout
    assert fingerprint(plain[0].blob) == shown.split()[1]
    for name, verdict in (
        ("h1", "ok"),
        ("H1", "ok"),
        ("[h2]:2222", "ok"),
        ("h2", "unknown"),
        ("a.lab", "ok"),
        ("no.lab", "unknown"),
        ("x.ca", "unknown"),
    ):
        assert judge_key(plain, name, plain[0].blob).verdict == verdict, name
    assert judge_key(plain, "h1", b"other").verdict == "changed"
    assert judge_key(plain, "x.ca", b"other").known
    (tmp_path / "hash").write_text(f"h1 {key}\n[h2]:2222 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", tmp_path / "hash"], check=True, capture_output=True)
    hashed = parse_known_hosts((tmp_path / "hash").read_text())
    assert [matches_host(k.hosts, n) for k, n in zip(hashed, ("h1", "[h2]:2222"), strict=True)] == [True, True]
    assert judge_key(hashed, "h3", plain[0].blob).verdict == "unknown"
