"""Rerank: the bodies of Jina, vLLM, Cohere and SGLang, and one answer that has the fields of all.

How a document is judged is decided by the pipeline. Pure. Above: apis.pooling.api. Below: the decoder of bodies, request,
vectors. Source: the API references of Jina and Cohere; vLLM's RerankRequest; SGLang's V1RerankReqInput.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from smg_core.apis.pooling.fields import SIDES, PoolFields, check_pool_fields, named_field
from smg_core.apis.pooling.vectors import PooledVectors, pair_scores
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import PoolRequest
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName

__all__ = [
    "RerankAnswer",
    "RerankBody",
    "RerankDecoded",
    "bare_rerank_body",
    "decode_rerank",
    "decode_rerank_v2",
    "rerank_body",
]

HELD_BYTES = 4
"""What a number takes while the vectors are compared."""
_DOCUMENT_TOKENS = 4096
"""Cohere's own bound of a document where none is asked for; what is over it is cut off."""


class DocumentText(Struct, forbid_unknown_fields=True):
    """A document that is an object."""

    text: str


class RerankBody(PoolFields, forbid_unknown_fields=True, kw_only=True):
    """The body. `top_n` 0: all. `instruct` is what the documents are sought for, in words, for models that read such. Without
    `model` the only one is meant."""

    model: ModelName = ""
    query: str
    documents: Annotated[list[str | DocumentText], Meta(min_length=1)]
    top_n: Annotated[int, Meta(ge=0)] | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: Annotated[int, Meta(ge=1)] | None = None
    instruct: str | None = None


class RankedDocument(Struct, kw_only=True):
    """A document's place in the request, and how well it fits the query: 0 to 1, of a model that makes vectors -1 to 1."""

    index: int
    relevance_score: float
    document: DocumentText | UnsetType = UNSET


class RerankAnswer(Struct, kw_only=True):
    """The documents, the one that fits best first."""

    id: str
    object: str
    model: str
    results: list[RankedDocument]
    usage: JsonObject
    meta: JsonObject


_BODY: WireDecoder[RerankBody] = WireDecoder(RerankBody, SIDES)


class RerankDecoded(Struct, frozen=True):
    """A decoded body. `most`: how many documents the answer has (0: all)."""

    request: PoolRequest
    documents: Sequence[str]
    most: int
    returns: bool
    version: str

    @property
    def number_bytes(self) -> int:
        """What a number takes."""
        return HELD_BYTES

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if path == "inputs[0]":
            return "query"
        if path.startswith("inputs["):
            return f"documents[{int(path[7:].partition(']')[0]) - 1}]"
        known = {"inputs": "documents", "document_tokens": "max_tokens_per_doc", "instruction": "instruct"}
        return known.get(path) or named_field(path)


def decode_rerank(incoming: Incoming) -> RerankDecoded:
    """Decode the body as Jina and vLLM have it; the answer has the documents unless the client says no. Raises `PayloadTooLarge`,
    `InvalidJson` or `InvalidRequest`."""
    return _decoded(incoming, "1", returns=True, most_tokens=None)


def decode_rerank_v2(incoming: Incoming) -> RerankDecoded:
    """Decode the body of Cohere's version 2, whose answer has no documents unless they are asked for."""
    return _decoded(incoming, "2", returns=False, most_tokens=_DOCUMENT_TOKENS)


def _decoded(incoming: Incoming, version: str, *, returns: bool, most_tokens: int | None) -> RerankDecoded:
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    documents = [each if isinstance(each, str) else each.text for each in wire.documents]
    for place, text in enumerate([wire.query, *documents]):
        if not text.strip():
            param = f"documents[{place - 1}]" if place else "query"
            raise InvalidRequest(f"Invalid '{param}': the text is empty.", param=param, code="empty_string")
    check_pool_fields(wire)
    request = PoolRequest(
        id=incoming.request_id,
        model=wire.model,
        kind="score",
        inputs=(wire.query, *documents),
        pairs=tuple([(0, at) for at in range(1, len(documents) + 1)]),
        truncate=wire.truncate_prompt_tokens,
        truncate_side="start" if wire.truncation_side == "left" else "end",
        document_tokens=wire.max_tokens_per_doc or (None if wire.truncate_prompt_tokens else most_tokens),
        instruction=wire.instruct or "",
        activation=wire.use_activation,
        headers=incoming.headers,
        caller=incoming.caller,
        user=wire.user or "",
    )
    asked = wire.return_documents
    return RerankDecoded(request, documents, wire.top_n or 0, returns if asked is None else asked, version)


def rerank_body(decoded: RerankDecoded, made: PooledVectors) -> bytes:
    """The answer: the best first, of equal ones the first."""
    scores, order = _ranked(decoded, made)
    results: list[JsonObject] = [
        {
            "index": at,
            "relevance_score": scores[at],
            **({"document": {"text": decoded.documents[at]}} if decoded.returns else {}),
        }
        for at in order
    ]
    tokens = made.prompt_tokens
    return encode_body(
        {
            "id": decoded.request.id,
            "object": "list",
            "model": made.model,
            "results": results,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "meta": {"api_version": {"version": decoded.version}, "billed_units": {"search_units": 1}},
        }
    )


def bare_rerank_body(decoded: RerankDecoded, made: PooledVectors) -> bytes:
    """The answer as SGLang has it: the bare list."""
    scores, order = _ranked(decoded, made)
    return encode_body(
        [
            {
                "score": scores[at],
                **({"document": decoded.documents[at]} if decoded.returns else {}),
                "index": at,
                "meta_info": {"id": decoded.request.id},
            }
            for at in order
        ]
    )


def _ranked(decoded: RerankDecoded, made: PooledVectors) -> tuple[list[float], list[int]]:
    """The score of each document, and those that the answer has, the best first."""
    request = decoded.request
    scores = pair_scores(made, request.pairs, raw=request.activation is False)
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    return scores, order[: decoded.most or len(order)]
