"""Classify, as vLLM has it: how likely each of the model's classes is for each input.

Pure. Above: apis.pooling.api. Below: the decoder of bodies, request, vectors. Source: vLLM's ClassificationRequest.
"""

from typing import Literal

from msgspec import Struct

from smg_core.apis.pooling.embeddings import EmbeddingsUsage, pool_inputs
from smg_core.apis.pooling.fields import SIDES, PoolFields, check_pool_fields, named_field
from smg_core.apis.pooling.vectors import FLOAT_BYTES, PooledVectors, as_floats
from smg_core.request import PoolRequest
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName, TokenId

__all__ = ["ClassifyAnswer", "ClassifyBody", "ClassifyDecoded", "classify_body", "decode_classify"]


class ClassifyBody(PoolFields, forbid_unknown_fields=True, kw_only=True):
    """The body. `input` is a text or several, or the token ids of one or of several. Without `model` the only one is meant."""

    model: ModelName = ""
    input: str | list[str | TokenId | list[TokenId]]
    add_special_tokens: bool | None = None


class ClassifiedObject(Struct, kw_only=True):
    """One input: the name of its likeliest class, and the share of each class in the model's order."""

    index: int
    label: str
    probs: list[float]
    num_classes: int


class ClassifyAnswer(Struct, kw_only=True):
    """The classes, in the order of the inputs."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[ClassifiedObject]
    usage: EmbeddingsUsage


_BODY: WireDecoder[ClassifyBody] = WireDecoder(ClassifyBody, SIDES)


class ClassifyDecoded(Struct, frozen=True):
    """A decoded body. `several`: its `input` was a list of inputs."""

    request: PoolRequest
    several: bool

    @property
    def number_bytes(self) -> int:
        """What a number takes in the answer."""
        return FLOAT_BYTES

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if not path.startswith("inputs"):
            return named_field(path)
        return "input" + path.removeprefix("inputs") if self.several else "input"


def decode_classify(incoming: Incoming) -> ClassifyDecoded:
    """Decode the body of `incoming`. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    check_pool_fields(wire)
    inputs, several = pool_inputs(wire.input)
    request = PoolRequest(
        id=incoming.request_id,
        model=wire.model,
        kind="classify",
        inputs=inputs,
        truncate=wire.truncate_prompt_tokens,
        truncate_side="start" if wire.truncation_side == "left" else "end",
        add_special_tokens=wire.add_special_tokens is not False,
        activation=wire.use_activation,
        headers=incoming.headers,
        caller=incoming.caller,
        user=wire.user or "",
    )
    return ClassifyDecoded(request, several)


def classify_body(decoded: ClassifyDecoded, made: PooledVectors) -> bytes:
    """The answer."""
    data = []
    for index, (shares, label) in enumerate(zip(made.vectors, made.likeliest, strict=True)):
        best = max(range(len(shares)), key=shares.__getitem__)
        known = made.labels[best] if len(made.labels) == len(shares) else f"LABEL_{best}"
        data.append({"index": index, "label": label or known, "probs": as_floats(shares), "num_classes": len(shares)})
    return encode_body(
        {
            "id": decoded.request.id,
            "object": "list",
            "created": made.created,
            "model": made.model,
            "data": data,
            "usage": {"prompt_tokens": made.prompt_tokens, "total_tokens": made.prompt_tokens},
        }
    )
