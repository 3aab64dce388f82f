"""The table of APIs of pooled work: how each decodes a request and encodes its answer.

An API is a value of `PoolApi` here and a route in `apis.pooling.routes`. Above: the handler in `apis.pooling.inference`.
Below: the protocols.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import attrs

from smg_core.apis.pooling.classify import classify_body, decode_classify
from smg_core.apis.pooling.cohere_embed import cohere_embed_body, decode_cohere_embed, decode_cohere_embed_v1
from smg_core.apis.pooling.embeddings import decode_embeddings, embeddings_body
from smg_core.apis.pooling.gemini_embed import decode_batch_embed, decode_embed_content, gemini_embed_body
from smg_core.apis.pooling.rerank import bare_rerank_body, decode_rerank, decode_rerank_v2, rerank_body
from smg_core.apis.pooling.score import decode_score, score_body
from smg_core.apis.pooling.vectors import PooledVectors
from smg_core.errors import SmgError
from smg_core.request import PoolRequest
from smg_core.serving.api import usual_status
from smg_core.wire.base import ErrorEncoder, Incoming
from smg_core.wire.errors import cohere_error, gemini_error, openai_error

__all__ = [
    "BARE_RERANK",
    "BATCH_EMBED",
    "CLASSIFY",
    "COHERE_EMBED",
    "COHERE_EMBED_V1",
    "EMBEDDINGS",
    "EMBED_CONTENT",
    "RERANK",
    "RERANK_V2",
    "SCORE",
    "PoolApi",
    "PoolDecoded",
]


class PoolDecoded(Protocol):
    """The result of the decoder of every such API."""

    @property
    def request(self) -> PoolRequest: ...

    @property
    def number_bytes(self) -> int:
        """What a number of a vector takes in the answer, in bytes."""
        ...

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `request` was read from."""
        ...


D = TypeVar("D", bound=PoolDecoded)


@attrs.frozen
class PoolApi(Generic[D]):
    """One API. `name` is what logs and metrics call it, `prefix` begins the ids of its requests; `body` makes the answer's.
    `guarded`: guardrails are shown its inputs."""

    name: str
    prefix: str
    decode: Callable[[Incoming], D]
    body: Callable[[D, PooledVectors], bytes]
    error: ErrorEncoder
    status: Callable[[SmgError], int] = usual_status
    guarded: bool = True


EMBEDDINGS = PoolApi("embeddings", "embd-", decode_embeddings, embeddings_body, openai_error)
COHERE_EMBED = PoolApi("embed", "embd-", decode_cohere_embed, cohere_embed_body, cohere_error)
COHERE_EMBED_V1 = PoolApi("embed", "embd-", decode_cohere_embed_v1, cohere_embed_body, cohere_error)
EMBED_CONTENT = PoolApi("embed_content", "", decode_embed_content, gemini_embed_body, gemini_error)
BATCH_EMBED = PoolApi("embed_content", "", decode_batch_embed, gemini_embed_body, gemini_error)
RERANK = PoolApi("rerank", "rerank-", decode_rerank, rerank_body, openai_error)
BARE_RERANK = PoolApi("rerank", "rerank-", decode_rerank, bare_rerank_body, openai_error)
RERANK_V2 = PoolApi("rerank", "rerank-", decode_rerank_v2, rerank_body, cohere_error)
SCORE = PoolApi("score", "score-", decode_score, score_body, openai_error)
CLASSIFY = PoolApi("classify", "classify-", decode_classify, classify_body, openai_error)
