"""Pooled work at providers: vectors of texts, and scores of documents, as each of them is asked for these.

Decides by the name of a model whether it makes vectors or scores; what a provider has no word for is refused. Pure. Above: the
engine, the formats. Below: the bodies of OpenAI's API for such work, the records of pooled work.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from smg_core.engines.openai.embeddings import read_embeddings, write_embeddings
from smg_core.engines.openai.pooled_routes import PooledRoutes
from smg_core.engines.openai.scoring import read_scores, write_scores
from smg_core.engines.pooling import PoolCall, Vector, vector_of
from smg_core.engines.vendors.losses import not_for
from smg_core.errors import EngineGarbled
from smg_core.request import PoolKind
from smg_core.tokens import reported_count

__all__ = ["BedrockVectors", "GeminiVectors", "OpenAiVectors", "PooledQuestion", "VectorsFormat", "VertexVectors"]

T = TypeVar("T")
_EMBEDS, _SCORES = re.compile(r"embed|(^|[/.-])(bge|e5|gte)-", re.IGNORECASE), re.compile("rerank", re.IGNORECASE)
_MODERATES = re.compile("moderation", re.IGNORECASE)
_NONE: frozenset[PoolKind] = frozenset()
_TITAN, _COHERE = "amazon.titan-embed", "cohere.embed"


class PooledQuestion(Struct, frozen=True):
    """One request: its path below the API's, its body, and what reads the vectors out of its answer. Raises EngineGarbled."""

    path: str
    body: bytes
    read: Callable[[bytes], Sequence[Vector]]


def _pools_of(model: str, *, scores: bool = False) -> frozenset[PoolKind]:
    """The pooled work of a model, by its name; none of one that writes text."""
    if _SCORES.search(model):
        return frozenset({"score"}) if scores else _NONE
    return frozenset({"embed"}) if _EMBEDS.search(model) else _NONE


class VectorsFormat:
    """What a provider without pooled work has: nothing. `inputs` is how many inputs one request may have."""

    inputs = 1

    def pools(self, model: str) -> frozenset[PoolKind]:
        """What the model does, where it writes no text."""
        return _NONE

    def moderations(self, model: str) -> str:
        """The path of OpenAI's route of moderations, where the model is one for that; "" where there is none."""
        return ""

    def ask(self, call: PoolCall, model: str) -> list[PooledQuestion]:
        """The requests of `call`, whose vectors are in order. Raises UnsupportedParameter."""
        raise not_for("input", "of this model")


class OpenAiVectors(VectorsFormat):
    """OpenAI's `/embeddings`, and `/rerank` as some providers have it beside that. With `api_version` it lies below Azure's
    deployments."""

    inputs = 96

    def __init__(self, provider: str, *, scores: bool = False, api_version: str = "") -> None:
        self._provider = provider
        self._scores = scores
        self._api_version = api_version

    def pools(self, model: str) -> frozenset[PoolKind]:
        if self.moderations(model):
            return frozenset({"classify"})
        return _pools_of(model, scores=self._scores)

    def moderations(self, model: str) -> str:
        return "/moderations" if self._provider == "openai" and _MODERATES.search(model) else ""

    def ask(self, call: PoolCall, model: str) -> list[PooledQuestion]:
        if call.kind == "score":
            asked = write_scores(call, PooledRoutes(rerank="/rerank"), model=model, extras=False)
            return [
                PooledQuestion(each.path, each.body, partial(read_scores, headers={}, count=each.count))
                for each in asked
            ]
        if call.kind != "embed":
            raise not_for("input", self._provider)
        path = "/embeddings"
        if self._api_version:
            query = urlencode({"api-version": self._api_version})
            path = f"/openai/deployments/{quote(model, safe='')}/embeddings?{query}"
        body = write_embeddings(call, model=model, extras=False)
        return [PooledQuestion(path, body, partial(read_embeddings, count=len(call.given)))]


class GeminiVectors(VectorsFormat):
    """The Gemini API's `batchEmbedContents`, which counts no tokens."""

    inputs = 100

    def pools(self, model: str) -> frozenset[PoolKind]:
        return _pools_of(model)

    def ask(self, call: PoolCall, model: str) -> list[PooledQuestion]:
        named = f"models/{model}"
        asked = [{"model": named, "content": {"parts": [{"text": text}]}} for text in _texts(call, "gemini")]
        path = f"/models/{quote(model, safe='')}:batchEmbedContents"
        return [PooledQuestion(path, msgspec.json.encode({"requests": asked}), partial(_gemini, len(asked)))]


class VertexVectors(VectorsFormat):
    """Vertex's `predict`, of one text: newer models take no more."""

    def pools(self, model: str) -> frozenset[PoolKind]:
        return _pools_of(model)

    def ask(self, call: PoolCall, model: str) -> list[PooledQuestion]:
        (text,) = _texts(call, "vertex")
        body = {"instances": [{"content": text}], "parameters": {"autoTruncate": call.truncate is not None}}
        path = f"/publishers/google/models/{quote(model, safe='')}:predict"
        return [PooledQuestion(path, msgspec.json.encode(body), _vertex)]


class BedrockVectors(VectorsFormat):
    """InvokeModel of Titan's and Cohere's models of vectors, of one text each."""

    def pools(self, model: str) -> frozenset[PoolKind]:
        return frozenset({"embed"}) if _TITAN in model or _COHERE in model else _NONE

    def ask(self, call: PoolCall, model: str) -> list[PooledQuestion]:
        (text,) = _texts(call, "bedrock")
        path = f"/model/{quote(model, safe='')}/invoke"
        if _TITAN in model:
            return [PooledQuestion(path, msgspec.json.encode({"inputText": text}), _titan)]
        body = {
            "texts": [text],
            "input_type": "search_document",
            "truncate": "NONE" if call.truncate is None else "END",
        }
        return [PooledQuestion(path, msgspec.json.encode(body), _cohere)]


def _texts(call: PoolCall, provider: str) -> list[str]:
    """The texts of a call. Raises UnsupportedParameter for tokens, and for what is to be cut to a length."""
    if call.kind != "embed" or not all(isinstance(each, str) for each in call.given):
        raise not_for("input", provider, "it takes texts")
    if call.truncate not in (None, -1):
        raise not_for("truncate", provider)
    if call.activation is not None:
        raise not_for("activation", provider)
    return [each for each in call.given if isinstance(each, str)]


# ------------------------------------------------------------------------------------------------------------- answers


class _Values(Struct):
    values: list[float]


class _GeminiAnswer(Struct):
    embeddings: list[_Values]


class _Statistics(Struct, frozen=True):
    token_count: float = 0


class _VertexValues(Struct):
    values: list[float]
    statistics: _Statistics = _Statistics()


class _Prediction(Struct):
    embeddings: _VertexValues


class _VertexAnswer(Struct):
    predictions: list[_Prediction]


class _TitanAnswer(Struct, rename="camel"):
    embedding: list[float]
    input_text_token_count: int = 0


class _CohereAnswer(Struct):
    embeddings: list[list[float]]


def _gemini(count: int, body: bytes) -> list[Vector]:
    found = _decoded(body, _GeminiAnswer).embeddings
    if len(found) != count:
        raise EngineGarbled("The provider sent another number of vectors than it was asked for.")
    return [vector_of(each.values, 0) for each in found]


def _vertex(body: bytes) -> list[Vector]:
    found = _decoded(body, _VertexAnswer).predictions
    if len(found) != 1:
        raise EngineGarbled("The provider sent another number of vectors than it was asked for.")
    made = found[0].embeddings
    return [vector_of(made.values, reported_count(int(made.statistics.token_count)))]


def _titan(body: bytes) -> list[Vector]:
    found = _decoded(body, _TitanAnswer)
    return [vector_of(found.embedding, reported_count(found.input_text_token_count))]


def _cohere(body: bytes) -> list[Vector]:
    found = _decoded(body, _CohereAnswer).embeddings
    if len(found) != 1:
        raise EngineGarbled("The provider sent another number of vectors than it was asked for.")
    return [vector_of(found[0], 0)]


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled("The provider sent no vectors.", detail=str(error), outside_text=str(error)) from None
