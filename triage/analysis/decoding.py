"""The text of Python files."""

from __future__ import annotations

import io
import tokenize


def decode_source(data: bytes) -> str:
    """The text of a Python file, newlines as "\\n", without byte order mark; undecodable bytes are replaced."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data[:8192]).readline)
    except (SyntaxError, UnicodeDecodeError):
        encoding = "utf-8"
    try:
        text = data.decode(encoding, "replace")
    except (LookupError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
