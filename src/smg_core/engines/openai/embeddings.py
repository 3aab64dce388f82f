"""Requests to a server of OpenAI's Embeddings API, and its answers.

Decides how a `PoolCall` is written: as texts, or as ids where the client sent ids; vectors are asked for as base64, which is a
quarter of the bytes, and read in either form, since some servers send numbers all the same. Such a server counts the tokens of
all inputs together, so the first vector has them all. Pure. Above: engine. Source: OpenAI's API reference; vLLM's
`truncate_prompt_tokens`.
"""

import binascii
from array import array
from base64 import b64decode
from collections.abc import Sequence
from sys import byteorder

import msgspec
from msgspec import Struct

from smg_core.engines.pooling import PoolCall, Vector, vector_of
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.tokens import reported_count

__all__ = ["read_embeddings", "write_embeddings"]


class EmbeddingWire(Struct):
    """One vector."""

    embedding: list[float] | str
    index: int


class VectorUsage(Struct):
    """The tokens of all inputs."""

    prompt_tokens: int = 0


class EmbeddingsWire(Struct):
    """The answer."""

    data: list[EmbeddingWire]
    usage: VectorUsage | None = None


_ANSWER = msgspec.json.Decoder(EmbeddingsWire)


def write_embeddings(call: PoolCall, *, model: str, extras: bool) -> bytes:
    """The body. Raises UnsupportedParameter for inputs that the server would have to cut, where it has no word for that."""
    body: dict[str, object] = {"model": model, "input": list(call.given), "encoding_format": "base64"}
    if call.truncate is not None and extras:
        body["truncate_prompt_tokens"] = call.truncate
        if call.truncate_side == "start":
            body["truncation_side"] = "left"
    elif call.truncate not in (None, -1):
        raise UnsupportedParameter("This engine cannot cut an input.", param="truncate")
    if call.activation is not None:
        if not extras:
            raise UnsupportedParameter("This engine cannot be asked for raw vectors.", param="activation")
        body["use_activation"] = call.activation
    return msgspec.json.encode(body)


def read_embeddings(body: bytes, count: int) -> Sequence[Vector]:
    """The vectors of `count` inputs, in their order. Raises EngineGarbled."""
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled("The engine sent no vectors.", detail=str(error), outside_text=str(error)) from None
    if sorted(each.index for each in answer.data) != list(range(count)):
        raise EngineGarbled("The engine sent another number of vectors than it was asked for.")
    tokens = answer.usage.prompt_tokens if answer.usage is not None else 0
    found = [_numbers(each.embedding) for each in sorted(answer.data, key=lambda each: each.index)]
    return [vector_of(each, 0 if place else reported_count(tokens)) for place, each in enumerate(found)]


def _numbers(given: list[float] | str) -> "array[float]":
    found: array[float] = array("f")
    try:
        if not isinstance(given, str):
            return array("f", given)
        found.frombytes(b64decode(given, validate=True))
    except (binascii.Error, ValueError, OverflowError) as error:
        raise EngineGarbled(
            "The engine sent a vector that is no list of numbers.", detail=str(error), outside_text=str(error)
        ) from None
    if byteorder == "big":
        found.byteswap()
    return found
