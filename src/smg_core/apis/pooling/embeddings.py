"""OpenAI's Embeddings API: its body and its answer, with the fields that vLLM adds.

Pure. Above: apis.pooling.api. Below: the decoder of bodies, request, vectors. Source: OpenAI's API reference; vLLM's
EmbeddingCompletionRequest.
"""

from functools import partial
from sys import byteorder
from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.apis.pooling.fields import SIDES, PoolFields, check_pool_fields, named_field
from smg_core.apis.pooling.vectors import (
    BASE64_BYTES,
    FLOAT_BYTES,
    PooledVectors,
    as_base64,
    as_floats,
    shortened_vector,
)
from smg_core.errors import InvalidRequest
from smg_core.request import PoolInput, PoolRequest
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName, TokenId

__all__ = [
    "Dimensions",
    "EmbeddingsAnswer",
    "EmbeddingsBody",
    "EmbeddingsRequest",
    "decode_embeddings",
    "embeddings_body",
    "pool_inputs",
]

Dimensions = Annotated[int, Meta(ge=1, le=1 << 20)]
NumberType = Literal["float32", "float16", "bfloat16"]


class EmbeddingsBody(PoolFields, forbid_unknown_fields=True, kw_only=True):
    """The body. `input` is a text or several, or the token ids of one or of several. `embed_dtype` and `endianness` are how
    numbers are written in base64 (float32 in the order of the machine, which is little)."""

    model: ModelName
    input: str | list[str | TokenId | list[TokenId]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Dimensions | None = None
    add_special_tokens: bool | None = None
    embed_dtype: NumberType | None = None
    endianness: Literal["native", "big", "little"] | None = None


class EmbeddingObject(Struct, kw_only=True):
    """One vector: numbers, or base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(Struct, kw_only=True):
    """Tokens of all inputs together, as the engines counted them."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(Struct, kw_only=True):
    """The vectors, in the order of the inputs."""

    object: Literal["list"]
    data: list[EmbeddingObject]
    model: str
    usage: EmbeddingsUsage


_BODY: WireDecoder[EmbeddingsBody] = WireDecoder(
    EmbeddingsBody,
    {
        "encoding_format": ("float", "base64"),
        "embed_dtype": ("float32", "float16", "bfloat16"),
        "endianness": ("native", "big", "little"),
        **SIDES,
    },
)


class EmbeddingsRequest(Struct, frozen=True):
    """A decoded body. `several`: its `input` was a list of inputs."""

    request: PoolRequest
    several: bool
    base64: bool
    number_type: NumberType = "float32"
    big: bool = False

    @property
    def number_bytes(self) -> int:
        """What a number takes in the answer."""
        return BASE64_BYTES if self.base64 else FLOAT_BYTES

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if not path.startswith("inputs"):
            return named_field(path)
        return "input" + path.removeprefix("inputs") if self.several else "input"


def decode_embeddings(incoming: Incoming) -> EmbeddingsRequest:
    """Decode the body of `incoming`. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    if not wire.model:
        raise InvalidRequest("Missing required parameter: 'model'.", param="model", code="missing_required_parameter")
    check_pool_fields(wire)
    inputs, several = pool_inputs(wire.input)
    return EmbeddingsRequest(
        PoolRequest(
            id=incoming.request_id,
            model=wire.model,
            kind="embed",
            inputs=inputs,
            dimensions=wire.dimensions,
            truncate=wire.truncate_prompt_tokens,
            truncate_side="start" if wire.truncation_side == "left" else "end",
            add_special_tokens=wire.add_special_tokens is not False,
            activation=wire.use_activation,
            headers=incoming.headers,
            caller=incoming.caller,
            user=wire.user or "",
        ),
        several,
        wire.encoding_format == "base64",
        wire.embed_dtype or "float32",
        wire.endianness == "big" or (wire.endianness == "native" and byteorder == "big"),
    )


def pool_inputs(given: str | list[str | int | list[int]]) -> tuple[tuple[PoolInput, ...], bool]:
    """The inputs, and whether they were a list. Raises InvalidRequest for a list of several kinds, and for an empty one."""
    if isinstance(given, str):
        return (given,), False
    if not given:
        raise InvalidRequest("Invalid 'input': empty array.", param="input", code="empty_array")
    ids = [each for each in given if isinstance(each, int)]
    if len(ids) == len(given):
        return (ids,), False
    if ids:
        raise InvalidRequest(
            "Invalid 'input': expected texts and lists of token ids, or token ids only.",
            param="input",
            code="invalid_type",
        )
    return tuple([each for each in given if not isinstance(each, int)]), True


def embeddings_body(decoded: EmbeddingsRequest, made: PooledVectors) -> bytes:
    """The answer."""
    write = partial(as_base64, kind=decoded.number_type, big=decoded.big) if decoded.base64 else as_floats
    dimensions = decoded.request.dimensions
    return encode_body(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": write(shortened_vector(vector, dimensions))}
                for index, vector in enumerate(made.vectors)
            ],
            "model": made.model,
            "usage": {"prompt_tokens": made.prompt_tokens, "total_tokens": made.prompt_tokens},
        }
    )
