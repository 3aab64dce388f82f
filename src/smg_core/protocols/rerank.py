"""Rerank: the bodies of Jina, vLLM and Cohere, and one answer that has the fields of all.

The score of a document is the cosine of its vector and the query's: what vLLM does too where a model makes vectors. Pure. Above:
server.pooled_apis. Below: the decoder of bodies, request, vectors. Source: the API references of Jina and Cohere; vLLM's
RerankRequest.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.protocols.base import Incoming
from smg_core.protocols.decoding import WireDecoder
from smg_core.protocols.json_text import encode_body
from smg_core.protocols.vectors import PooledVectors, likeness
from smg_core.request import PoolRequest

__all__ = ["RerankAnswer", "RerankBody", "RerankDecoded", "decode_rerank", "decode_rerank_v2", "rerank_body"]

HELD_BYTES = 4
"""What a number takes while the vectors are compared."""
_DOCUMENT_TOKENS = 4096
"""Cohere's own bound of a document where none is asked for; what is over it is cut off."""


class DocumentText(Struct, forbid_unknown_fields=True):
    """A document that is an object."""

    text: str


class RerankBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body. `top_n` 0: all."""

    model: str
    query: str
    documents: Annotated[list[str | DocumentText], Meta(min_length=1)]
    top_n: Annotated[int, Meta(ge=0)] | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: Annotated[int, Meta(ge=1)] | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1)] | None = None


class RankedDocument(Struct, kw_only=True):
    """A document's place in the request, and how well it fits the query: -1 to 1."""

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


_BODY: WireDecoder[RerankBody] = WireDecoder(RerankBody, {})


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
        return {"inputs": "documents", "truncate": "max_tokens_per_doc"}.get(path, path)


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
    if wire.truncate_prompt_tokens == 0:
        param = "truncate_prompt_tokens"
        raise InvalidRequest(f"Invalid '{param}': expected -1, or 1 or more.", param=param)
    request = PoolRequest(
        id=incoming.request_id,
        model=wire.model,
        kind="embed",
        inputs=(wire.query, *documents),
        truncate=wire.max_tokens_per_doc or wire.truncate_prompt_tokens or most_tokens,
        tasks=("query", *["document"] * len(documents)),
        headers=incoming.headers,
        caller=incoming.caller,
    )
    asked = wire.return_documents
    return RerankDecoded(request, documents, wire.top_n or 0, returns if asked is None else asked, version)


def rerank_body(decoded: RerankDecoded, made: PooledVectors) -> bytes:
    """The answer: the best first, of equal ones the first."""
    query, *others = made.vectors
    scores = [likeness(query, each) for each in others]
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    results: list[JsonObject] = [
        {
            "index": at,
            "relevance_score": scores[at],
            **({"document": {"text": decoded.documents[at]}} if decoded.returns else {}),
        }
        for at in order[: decoded.most or len(order)]
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
