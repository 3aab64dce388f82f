"""Checks, in a child process, that fastokens may replace the reference for a tokenizer.json (edge).

The check compares fastokens with the reference implementation (`tokenizers`). For a large vocabulary the reference takes
tens of MiB that the C library does not return to the system, so a child process does it: it reads the file from its standard
input, prints one line and ends. If no child can be started, the loader checks in its own process. Above: loader. Below:
huggingface.
"""

import subprocess
import sys
from collections.abc import Mapping

import msgspec

from smg_core.tokenizer.huggingface import HuggingFaceTokenizer
from smg_core.tokenizer.settings import TokenizerConfig

__all__ = ["prove"]


class _Asked(msgspec.Struct):
    """What the child reads: the texts of tokenizer.json, and the object of tokenizer_config.json."""

    text: str
    config: dict[str, object]


def prove(text: str, config: Mapping[str, object], *, timeout: float = TokenizerConfig().proof_timeout_s) -> int | None:
    """The vocabulary's size if fastokens alone gives the reference's ids for this tokenizer.json, else None; None also if
    the child fails or takes longer than `timeout` seconds. Takes about as long as loading the file twice."""
    asked = msgspec.json.encode(_Asked(text, dict(config)))
    try:
        child = subprocess.run(  # noqa: S603 - our own interpreter, our own module
            [sys.executable, "-m", __name__], input=asked, capture_output=True, timeout=timeout, check=True
        )
        size: int | None = msgspec.json.decode(child.stdout, type=int | None)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return None
    return size


def _answer(data: bytes) -> bytes:
    """What the child prints: the vocabulary's size or null."""
    asked = msgspec.json.decode(data, type=_Asked)
    tokenizer = HuggingFaceTokenizer(asked.text, tokenizer_config=asked.config)
    return msgspec.json.encode(tokenizer.vocab_size if tokenizer.alone else None)


if __name__ == "__main__":
    sys.stdout.buffer.write(_answer(sys.stdin.buffer.read()))
