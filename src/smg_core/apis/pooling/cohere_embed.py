"""Cohere's Embed API, versions 1 and 2: bodies and answers.

Pure. Above: apis.pooling.api. Below: the decoder of bodies, request, vectors. Source: Cohere's API reference and its SDK. Types
of vectors that need a calibration of the model (int8, uint8) are refused, and so are pictures.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.apis.pooling.embeddings import Dimensions
from smg_core.apis.pooling.vectors import (
    BASE64_BYTES,
    FLOAT_BYTES,
    PooledVectors,
    as_base64,
    as_bits,
    as_floats,
    shortened_vector,
)
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.request import PoolRequest
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName

__all__ = [
    "CohereEmbedBody",
    "CohereEmbedRequest",
    "CohereEmbeddings",
    "CohereError",
    "cohere_embed_body",
    "decode_cohere_embed",
    "decode_cohere_embed_v1",
]

_BIT_BYTES = 1
"""What a number takes as a bit: eight are one number of at most four digits and a comma, so less than this."""

_TYPES: dict[str, tuple[Callable[[PooledVectors, int | None], list[Json]], int]] = {
    "float": (lambda made, most: [as_floats(shortened_vector(each, most)) for each in made.vectors], FLOAT_BYTES),
    "base64": (lambda made, most: [as_base64(shortened_vector(each, most)) for each in made.vectors], BASE64_BYTES),
    "binary": (
        lambda made, most: [as_bits(shortened_vector(each, most), signed=True) for each in made.vectors],
        _BIT_BYTES,
    ),
    "ubinary": (
        lambda made, most: [as_bits(shortened_vector(each, most), signed=False) for each in made.vectors],
        _BIT_BYTES,
    ),
}
"""Each type of vectors that is made here: how it is written, and what a number takes."""

_TASKS: dict[str, str] = {
    "search_document": "document",
    "search_query": "query",
    "classification": "classification",
    "clustering": "clustering",
}
_SIDES: dict[str, Literal["start", "end"]] = {"START": "start", "END": "end"}


class EmbedContent(Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """A part of an input."""

    text: str


class EmbedInput(Struct, forbid_unknown_fields=True):
    """An input made of parts."""

    content: Annotated[list[EmbedContent], Meta(min_length=1)]


class CohereEmbedBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body. Either `texts` or `inputs`; `truncate` is END if it is not given."""

    model: ModelName
    texts: list[str] | None = None
    inputs: list[EmbedInput] | None = None
    images: list[str] | None = None
    input_type: Literal["search_document", "search_query", "classification", "clustering", "image"] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    output_dimension: Dimensions | None = None
    embedding_types: list[Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]] | None = None
    truncate: Literal["NONE", "START", "END"] | None = None


class CohereError(Struct, kw_only=True):
    """The body of an error."""

    message: str
    id: str | None = None


class CohereVersion(Struct, kw_only=True):
    """The version of the API."""

    version: str


class CohereUnits(Struct, kw_only=True):
    """What the request has cost: tokens, as the engines counted them."""

    input_tokens: int


class CohereMeta(Struct, kw_only=True):
    """What is told of the answer."""

    api_version: CohereVersion
    billed_units: CohereUnits


class CohereEmbeddings(Struct, kw_only=True):
    """The vectors, in the order of the inputs: by type, or of version 1 a list where no types were asked for."""

    id: str
    embeddings: dict[str, list[list[float] | str]] | list[list[float]]
    texts: list[str]
    meta: CohereMeta
    response_type: Literal["embeddings_by_type", "embeddings_floats"]


_BODY: WireDecoder[CohereEmbedBody] = WireDecoder(
    CohereEmbedBody,
    {
        "input_type": ("search_document", "search_query", "classification", "clustering"),
        "embedding_types[]": tuple(_TYPES),
        "truncate": ("NONE", "START", "END"),
    },
)


class CohereEmbedRequest(Struct, frozen=True):
    """A decoded body. `types` are those that were asked for, `plain`: the answer has a list of vectors and not one for each
    type."""

    request: PoolRequest
    texts: Sequence[str]
    field: str
    types: tuple[str, ...]
    version: str
    plain: bool = False

    @property
    def number_bytes(self) -> int:
        """What a number takes in the answer."""
        return sum(_TYPES[each][1] for each in self.types)

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if path == "dimensions":
            return "output_dimension"
        return self.field + path.removeprefix("inputs") if path.startswith("inputs") else path


def decode_cohere_embed(incoming: Incoming) -> CohereEmbedRequest:
    """Decode the body of version 2. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    if wire.input_type is None:
        raise InvalidRequest(
            "Missing required parameter: 'input_type'.", param="input_type", code="missing_required_parameter"
        )
    return _decoded(wire, incoming, tuple(dict.fromkeys(wire.embedding_types or ("float",))), "2")


def decode_cohere_embed_v1(incoming: Incoming) -> CohereEmbedRequest:
    """Decode the body of version 1, whose answer has a plain list of vectors unless types are asked for."""
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    for name in ("inputs", "max_tokens", "output_dimension"):
        if getattr(wire, name) is not None:
            raise UnsupportedParameter(f"'{name}' is a parameter of version 2.", param=name)
    plain = not wire.embedding_types
    types = tuple(dict.fromkeys(wire.embedding_types or ("float",)))
    return _decoded(wire, incoming, types, "1", plain=plain)


def _decoded(
    wire: CohereEmbedBody, incoming: Incoming, types: tuple[str, ...], version: str, *, plain: bool = False
) -> CohereEmbedRequest:
    if wire.images is not None or wire.input_type == "image":
        param = "images" if wire.images is not None else "input_type"
        raise UnsupportedParameter(f"Invalid '{param}': no engine here makes embeddings of pictures.", param=param)
    for each in types:
        if each not in _TYPES:
            raise UnsupportedParameter(
                f"Invalid 'embedding_types': {each} needs a calibration of the model, which engines do not have. "
                f"Supported values are: {', '.join(map(repr, _TYPES))}.",
                param="embedding_types",
            )
    texts, field = _texts(wire)
    side = wire.truncate or "END"
    return CohereEmbedRequest(
        PoolRequest(
            id=incoming.request_id,
            model=wire.model,
            kind="embed",
            inputs=tuple(texts),
            dimensions=wire.output_dimension,
            truncate=None if side == "NONE" else wire.max_tokens or -1,
            truncate_side=_SIDES.get(side, "end"),
            tasks=(_TASKS.get(wire.input_type or "", ""),),
            headers=incoming.headers,
            caller=incoming.caller,
        ),
        texts,
        field,
        types,
        version,
        plain,
    )


def _texts(wire: CohereEmbedBody) -> tuple[list[str], str]:
    """The texts, and the field that they were read from."""
    if wire.texts is not None and wire.inputs is not None:
        raise InvalidRequest("Only one of 'texts' and 'inputs' can be given.", param="inputs")
    field = "texts" if wire.inputs is None else "inputs"
    texts = (
        wire.texts if wire.inputs is None else ["\n".join([part.text for part in each.content]) for each in wire.inputs]
    )
    if not texts:
        raise InvalidRequest(f"Invalid '{field}': at least one is needed.", param=field, code="empty_array")
    return texts, field


def cohere_embed_body(decoded: CohereEmbedRequest, made: PooledVectors) -> bytes:
    """The answer."""
    most = decoded.request.dimensions
    found: JsonObject = {name: _TYPES[name][0](made, most) for name in decoded.types}
    return encode_body(
        {
            "id": decoded.request.id,
            "embeddings": found["float"] if decoded.plain else found,
            "texts": list(decoded.texts),
            "meta": {
                "api_version": {"version": decoded.version},
                "billed_units": {"input_tokens": made.prompt_tokens},
            },
            "response_type": "embeddings_floats" if decoded.plain else "embeddings_by_type",
        }
    )
