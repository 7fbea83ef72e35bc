"""The labelled logs under fixtures/logs: labels are whole and fit their texts, and nothing private is in any."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
FAILURES = sorted((LOGS / "failures").glob("*.txt"))
HEALTHY = sorted((LOGS / "healthy").glob("*.txt"))
CATEGORIES = {
    *("argument", "usage", "memory", "host_memory", "host", "network", "driver", "kernel"),
    *("package", "model", "access", "environment", "runtime", "timeout", "warmup", "other"),
}
REMEDIES = {"flag", "environment", "advice", "none"}
_FAILURE_KEYS = {
    *("source", "text", "complete", "found", "release", "launch", "category", "cause", "exception"),
    *("file", "function", "log_line", "not_cause", "remedy"),
}
_CAPTURE_KEYS = {"how", "rc", "facts"}
_HEALTHY_KEYS = {"source", "text", "note", "release"}
_ADDRESS = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?![\w.]*\d)")
_PRIVATE = {
    "an e-mail address": re.compile(r"[\w.+-]+@[\w-]+\.[a-z]{2,}", re.IGNORECASE),
    "a token": re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{16,}|sk-[A-Za-z0-9]{16,}|eyJ[\w-]{16,}|AKIA[A-Z0-9]{12,})"),
    "a home folder": re.compile(r"(?:/home/\w|/Users/\w|/root/)"),
}


@cache
def read_label(log: Path) -> dict[str, Any]:
    return tomllib.loads(log.with_suffix(".toml").read_text(encoding="utf-8"))


def read_text(log: Path) -> str:
    return log.read_bytes().decode("utf-8", "replace")


def name(log: Path) -> str:
    return f"{log.parent.name}/{log.stem}"


def test_logs_and_labels_go_together() -> None:
    for folder in (LOGS / "failures", LOGS / "healthy"):
        texts, labels = ({p.stem for p in folder.glob(f"*.{ending}")} for ending in ("txt", "toml"))
        assert texts == labels, folder.name
        assert {p.suffix for p in folder.iterdir()} == {".txt", ".toml"}


def test_there_are_enough_of_each() -> None:
    assert len(FAILURES) >= 80
    assert len(HEALTHY) >= 60
    missing = CATEGORIES - {read_label(log)["category"] for log in FAILURES}
    assert not missing


@pytest.mark.parametrize("log", FAILURES, ids=name)
def test_the_label_of_a_failure_fits_its_text(log: Path) -> None:
    label, text = read_label(log), read_text(log)
    captured = label["text"] == "captured"
    assert set(label) - _CAPTURE_KEYS - {"signature"} == _FAILURE_KEYS
    assert (("how" in label) or ("rc" in label)) == captured
    assert label["text"] in ("captured", "rewritten")
    assert captured or label["source"].startswith("https://github.com/")
    assert label["category"] in CATEGORIES
    assert set(label["remedy"]) == {"kind", "text"} and label["remedy"]["kind"] in REMEDIES and label["remedy"]["text"]
    assert len(label["cause"]) > 20 and label["cause"].endswith(".")
    lines = text.split("\n")
    assert 0 <= label["log_line"] <= len(lines)
    assert not label["log_line"] or lines[label["log_line"] - 1].strip()
    assert label["exception"].rpartition(".")[2] in text
    assert all(said in text for said in label["not_cause"])
    if label["log_line"]:
        assert not any(said in lines[label["log_line"] - 1] for said in label["not_cause"])


@pytest.mark.parametrize("log", HEALTHY, ids=name)
def test_the_label_of_a_healthy_log_is_whole(log: Path) -> None:
    label = read_label(log)
    assert set(label) - _CAPTURE_KEYS - {"last"} == _HEALTHY_KEYS
    assert label["text"] in ("captured", "rewritten") and label["note"]
    assert label["text"] == "captured" or label["source"].startswith("https://")
    assert 1 <= label.get("last", 1) <= read_text(log).count("\n") + 1


@pytest.mark.parametrize("log", [*FAILURES, *HEALTHY], ids=name)
def test_nothing_private_is_in_a_text(log: Path) -> None:
    text = read_text(log) + log.with_suffix(".toml").read_text(encoding="utf-8")
    found = {what: pattern.findall(text)[:3] for what, pattern in _PRIVATE.items() if pattern.search(text)}
    assert not found
    addresses = {a for a in _ADDRESS.findall(text) if all(int(part) < 256 for part in a.split("."))}
    assert not {a for a in addresses if ipaddress.ip_address(a).is_global}
