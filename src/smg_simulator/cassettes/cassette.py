"""One exchange as a line of a cassette: what was asked, when, and what came of it; never a key.

Headers are kept by a list of those that no secret is in; what names a key is left out of URLs and bodies, and a client's own
credential wherever it stands. Words of prompts can be replaced: each word by another of its length, always the same one in one
cassette, so that prompts which begin alike still do. The secret that chooses them is in no file. Pure. Above: recording,
replaying. Below: said, secret_names.
"""

import hmac
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from smg_simulator.cassettes.answer_summary import AnswerSummary
from smg_simulator.cassettes.secret_names import without_secrets, without_url_secrets

__all__ = [
    "CassetteExchange",
    "credentials_in",
    "kept_body",
    "kept_headers",
    "kept_path",
    "read_cassette",
    "redacted_body",
]

KEPT_HEADERS = frozenset({"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta"})
_CREDENTIALS = frozenset({"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"})
_SHORTEST_CREDENTIAL = 12
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
    return without_url_secrets(f"{path}?{query}") if query else path


def credentials_in(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The credentials that a client sends of itself, the longest first."""
    found = {
        part
        for name, value in headers
        if name.lower() in _CREDENTIALS
        for part in re.split(r"[\s=;,]+", value)
        if len(part) >= _SHORTEST_CREDENTIAL
    }
    return sorted(found, key=len, reverse=True)


def kept_body(text: str) -> str:
    """A body without what its fields name as keys; one that has none stays as it is, to the byte."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    kept = without_secrets(found)
    return text if kept == found else msgspec.json.encode(kept).decode()


def redacted_body(body: bytes, secret: bytes) -> str:
    """A body of JSON with other words in the place of those of people and models. What is no JSON is left out whole."""
    try:
        found = without_secrets(msgspec.json.decode(body))
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
    """The exchanges of a cassette. A last line without its end, as a recorder leaves that was killed, is none. Raises ValueError,
    which names the line."""
    decoder = msgspec.json.Decoder(CassetteExchange)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found = decoder.decode(line)
            except msgspec.DecodeError as error:
                if number > 1 and not line.endswith("\n"):
                    return
                raise ValueError(f"line {number}: {error}") from None
            if not (found.path.startswith("/") and found.method.isalpha()):  # a whole URL would be asked with the key
                raise ValueError(
                    f"line {number}: {found.method[:20]} {found.path[:60]} is no request of a recorded server"
                )
            yield found
