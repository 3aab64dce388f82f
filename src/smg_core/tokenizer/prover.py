"""Proves, in a process of its own, that fastokens may stand in for a tokenizer.json (edge).

The proof compares fastokens with the reference implementation, and the reference for a large vocabulary takes tens of MiB
that the C library would not return. So it happens in a child that reads the file from its standard input, prints one line and
goes. Where no child can be started the loader proves in its own process. Above: loader. Below: huggingface.
"""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from smg_core.tokenizer.huggingface import HuggingFaceTokenizer
from smg_core.tokenizer.settings import TokenizerConfig

__all__ = ["prove"]


class _Asked(msgspec.Struct):
    text: str
    config: dict[str, Any]


def prove(text: str, config: Mapping[str, Any], *, timeout: float = TokenizerConfig().proof_timeout_s) -> int | None:
    """The vocabulary's size if fastokens alone gives what the reference gives for this tokenizer.json, else None. Takes
    about as long as loading it twice; `timeout` in seconds."""
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
    asked = msgspec.json.decode(data, type=_Asked)
    tokenizer = HuggingFaceTokenizer(asked.text, tokenizer_config=asked.config)
    return msgspec.json.encode(tokenizer.vocab_size if tokenizer.alone else None)


if __name__ == "__main__":
    sys.stdout.buffer.write(_answer(sys.stdin.buffer.read()))
