"""Masking: what must go, what must stay. The values are made up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.model import MASK
from triage.redact import clean_text, collect_secrets, mask_args, mask_env, mask_text

SHAPES = [
    "hf_" + "aB3" * 11, "sk-" + "proj-abcDEF123456_-x", "ghp_" + "a1" * 18, "AKIA" + "ABCDEFGHIJKLMNOP",
    "xoxb-" + "123456789012-abc", "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxIn0.abc-_123", "glpat-" + "abcdefghij0123456789",
]  # fmt: skip


@pytest.mark.parametrize("secret", SHAPES)
@pytest.mark.parametrize("frame", ["{}", "x={} y", 'say "{}"', "a\n{}\nb", "url?t={}&x=1"])
def test_shapes_are_masked_wherever_they_stand(secret: str, frame: str) -> None:
    text = frame.format(secret)
    assert mask_text(text, ()) == frame.format(MASK)
    assert mask_text(text.encode(), ()) == frame.format(MASK).encode()
    assert secret in collect_secrets([text], {})


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abcdefgh.ij", f"Authorization: Bearer {MASK}"),
        ("http://user:pa55@host:80/x", f"http://{MASK}@host:80/x"),
        (
            "ServerArgs(api_key='zzz9', port=30000, admin_api_key=None)",
            f"ServerArgs(api_key='{MASK}', port=30000, admin_api_key=None)",
        ),
        ('{"api_key": "abc", "a": 1}', f'{{"api_key": "{MASK}", "a": 1}}'),
        ("password: hunter2", f"password: {MASK}"),
    ],
)
def test_named_values_in_text(text: str, masked: str) -> None:
    assert mask_text(text, ()) == masked
    assert mask_text(text.encode(), ()) == masked.encode()


def test_what_a_log_is_full_of_stays() -> None:
    log = (
        "#new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00\nmax_total_num_tokens=1000, speculative_token_map=None\n"
        "  File \"/x/http_server.py\", line 1234, in f\nssl_keyfile='/etc/k.pem', tokenizer_path='/m', key=lambda x: x\n"
        "http://127.0.0.1:30000/health eos_token='</s>' sk-1 task-based\n"
    )
    assert mask_text(log, ()) == log
    assert mask_text(log.encode(), ()) == log.encode()


def test_a_key_block_keeps_its_lines() -> None:
    text = "a\n-----BEGIN RSA PRIVATE KEY-----\n" + "QUJD\n" * 9 + "-----END RSA PRIVATE KEY-----\nb\n"
    masked = mask_text(text, ())
    assert "QUJD" not in masked and masked.count("\n") == text.count("\n") and masked.endswith("\nb\n")


def test_launches() -> None:
    args = (
        "--api-key",
        "k3y",
        "--port",
        "1",
        "--api-key=k3y",
        "--x-secret",
        "a",
        "b",
        "--num-draft-tokens",
        "3",
        "--custom",
        "v",
    )
    assert mask_args(args, ("--custom",)) == (
        "--api-key", MASK, "--port", "1", f"--api-key={MASK}",
        "--x-secret", MASK, MASK, "--num-draft-tokens", "3", "--custom", MASK,
    )  # fmt: skip
    env = {
        "HF_TOKEN": "abcd",
        "MAX_TOKENS": "5",
        "MY_KEY": "q",
        "KEY_FILE": "/x",
        "TOKENIZERS_PARALLELISM": "false",
        "U": "ftp://a:b@c",
    }
    assert mask_env(env) == env | {"HF_TOKEN": MASK, "MY_KEY": MASK, "U": f"ftp://{MASK}@c"}
    assert collect_secrets(args, env, ("--custom",)) >= {"abcd"}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=4), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_collected_secret_is_nowhere_in_any_spelling(secret: str, around: str) -> None:
    if secret in MASK:
        return
    for text in (f"{around}{secret}{around}", json.dumps({"k": secret}), repr(secret)):
        masked = mask_text(text, [secret])
        assert secret not in masked.replace(MASK, "") or secret in MASK + around
        assert mask_text(text.encode(), [secret]).decode().count("\n") == text.count("\n")


def test_hostile_length_is_linear() -> None:
    """Each of these made a naive pattern quadratic or worse; the run's own time-out is the limit."""
    for text in (
        "a://" * 200_000,
        "password" * 200_000,
        "eyJ" * 300_000,
        "Bearer " * 200_000,
        "-----BEGIN PRIVATE KEY-----" * 20_000,
        "\x1b]" * 300_000,
    ):
        mask_text(text, ("sekrit",))
        clean_text(text)


def test_nothing_acts_on_a_terminal() -> None:
    assert clean_text("a\x1b[31mb\x1b[0m\tc\r\nd") == "ab\tc\nd"
    assert clean_text("\x1b]0;title\x07x\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\") == "xlink"
    assert clean_text("p\rq\x9b1mr\x00\x7f\u202etxet\u200b\udc9b") == "p\\x0dqr\\x00\\x7f\\u202etxet\\u200b\\x9b"


@given(st.text())
def test_clean_text_leaves_no_control_character(text: str) -> None:
    shown = clean_text(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c in "\u202a\u202e\u2066\u200f"]
    assert clean_text(shown) == shown
