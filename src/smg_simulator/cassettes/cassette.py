"""One exchange as a line of a cassette: what was asked, when, and what came of it; never a key.

Headers are kept by a list of those that no secret is in, and of a URL's query those that name no key. Words of prompts can be
replaced: each word by another of its length, always the same one in one cassette, so that prompts which begin alike still do. The
secret that chooses them is in no file. Pure. Above: recording, replaying. Below: said.
"""

import hmac
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from smg_simulator.cassettes.answer_summary import AnswerSummary

__all__ = ["CassetteExchange", "kept_headers", "kept_path", "read_cassette", "redacted_body"]

KEPT_HEADERS = frozenset({"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta"})
_KEYS = frozenset({"key", "api_key", "api-key", "apikey", "access_token", "token", "sig", "signature"})
_PROMPT_FIELDS = frozenset(
    {"content", "text", "prompt", "input", "instructions", "system", "query", "arguments", "output"}
)
"""The fields of bodies, of every API, whose texts are words of people or models."""
_WORD = re.compile(r"\w+")
_DATA = "data:"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class CassetteExchange(msgspec.Struct, omit_defaults=True):
    """One exchange. `at` is when it was asked, `times` when each piece of its answer came and `seconds` when that ended, all in
    seconds: `at` from the cassette's begin, the others from `at`."""

    at: float
    method: str
    path: str
    body: str
    status: int
    summary: AnswerSummary
    headers: dict[str, str] = {}
    times: list[float] = []
    seconds: float = 0.0
    redacted: bool = False


def kept_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers that may be in a cassette."""
    return {name.lower(): value for name, value in headers if name.lower() in KEPT_HEADERS}


def kept_path(path: str, query: str) -> str:
    """A path with what of its query names no key."""
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name.lower() not in _KEYS]
    return f"{path}?{urlencode(kept)}" if kept else path


def redacted_body(body: bytes, secret: bytes) -> str:
    """A body of JSON with other words in the place of those of people and models. What is no JSON is left out whole."""
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    return msgspec.json.encode(_redacted(found, secret, words=False)).decode()


def _redacted(value: Any, secret: bytes, *, words: bool) -> Any:
    if isinstance(value, dict):
        return {
            name: each
            if name in ("role", "type", "model")
            else _redacted(each, secret, words=words or name in _PROMPT_FIELDS)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_redacted(each, secret, words=words) for each in value]
    if not isinstance(value, str):
        return value
    if value.startswith(_DATA) or "://" in value:
        return ""  # a picture, or where one lies
    return _WORD.sub(lambda found: _other(found[0], secret), value) if words else value


def _other(word: str, secret: bytes) -> str:
    """Another word of the same length."""
    digest = hmac.digest(secret, word.encode(), sha256)
    return "".join(_LETTERS[digest[at % len(digest)] % len(_LETTERS)] for at in range(len(word)))


def read_cassette(lines: Iterable[str]) -> Iterator[CassetteExchange]:
    """The exchanges of a cassette. Raises ValueError, which names the line."""
    decoder = msgspec.json.Decoder(CassetteExchange)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise ValueError(f"line {number}: {error}") from None
