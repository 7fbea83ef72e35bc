"""YAML as plain values; the only user of PyYAML."""

from __future__ import annotations

from typing import Any

MAX_TEXT = 200_000
MAX_DEPTH = 200


def is_affordable(text: str) -> bool:
    """Whether the text can be read without work or memory out of proportion: small, flat enough, nothing referred to twice."""
    deep = max(text.count(c) for c in "[{-") > MAX_DEPTH and any(c * MAX_DEPTH in text.replace(" ", "") for c in "[{-")
    return len(text) <= MAX_TEXT and "*" not in text and not deep


def read_yaml(text: str) -> Any:
    """What `yaml.safe_load` makes of the text. Raises yaml.YAMLError and ValueError as it does."""
    import yaml  # type: ignore[import-untyped]

    return yaml.safe_load(text)
