"""Requests to servers that judge pairs of texts or classify, and their answers.

Decides how a `PoolCall` for pairs or classes is written for vLLM's score, for the rerank of vLLM, SGLang, Jina and Cohere, for
TEI's own routes, and how the answers of all of them are read. Such a server counts the tokens of all inputs together, so the
first result has them all; one that counts none gives 0. Pure. Above: engine.
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec
from msgspec import Struct

from smg_core.engines.openai.pooled_routes import PooledRoutes
from smg_core.engines.pooling import PoolCall, Vector, vector_of
from smg_core.errors import EngineGarbled, UnsupportedParameter
from smg_core.request import PoolInput
from smg_core.tokens import reported_count

__all__ = ["PooledBody", "read_classes", "read_scores", "write_classes", "write_scores"]


class PooledBody(Struct, frozen=True):
    """One request: its path below the server's root, its body, and how many results its answer has."""

    path: str
    body: bytes
    count: int


def write_scores(call: PoolCall, routes: PooledRoutes, *, model: str, extras: bool) -> list[PooledBody]:
    """The requests for the pairs of `call`, in order: one, or at a route that takes one query only one for each query. Raises
    UnsupportedParameter for what the server has no word for."""
    groups = [
        (query, [document for _, document in pairs]) for query, pairs in groupby(call.pairs, lambda pair: pair[0])
    ]
    if routes.tei:
        return [PooledBody(routes.rerank, _encoded(_tei_pairs(call, *each)), len(each[1])) for each in groups]
    more = _options(call, extras=extras)
    if routes.score:
        left: PoolInput | list[PoolInput] = groups[0][0] if len(groups) == 1 else [query for query, _ in call.pairs]
        body = {"model": model, "text_1": left, "text_2": [document for _, document in call.pairs], **more}
        return [PooledBody(routes.score, _encoded(body), len(call.pairs))]
    return [
        PooledBody(
            routes.rerank,
            _encoded({"model": model, "query": query, "documents": found, "top_n": len(found), **more, **_BARE}),
            len(found),
        )
        for query, found in groups
    ]


_BARE = {"return_documents": False}


def _encoded(body: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(body)


def _tei_pairs(call: PoolCall, query: PoolInput, documents: list[PoolInput]) -> Mapping[str, object]:
    return {"query": query, "texts": documents, **_tei_options(call)}


def _tei_options(call: PoolCall) -> dict[str, object]:
    if call.truncate not in (None, -1):
        raise UnsupportedParameter("This engine cuts an input only where it has no more room.", param="truncate")
    return {
        "raw_scores": call.activation is False,
        "truncate": call.truncate is not None,
        "truncation_direction": "Left" if call.truncate_side == "start" else "Right",
    }


def _options(call: PoolCall, *, extras: bool) -> dict[str, object]:
    """The fields of vLLM, where the server takes such."""
    found: dict[str, object] = {}
    if not extras:
        if call.truncate not in (None, -1):
            raise UnsupportedParameter("This engine cannot cut an input.", param="truncate")
        if call.activation is not None:
            raise UnsupportedParameter("This engine cannot be asked for raw numbers.", param="activation")
        return found
    if call.truncate is not None:
        found["truncate_prompt_tokens"] = call.truncate
        if call.truncate_side == "start":
            found["truncation_side"] = "left"
    if call.activation is not None:
        found["use_activation"] = call.activation
    return found


class _Row(Struct):
    index: int
    score: float | None = None
    relevance_score: float | None = None
    meta_info: dict[str, msgspec.Raw] | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    total_tokens: int | None = None


class _Rows(Struct):
    data: list[_Row] | None = None
    results: list[_Row] | None = None
    usage: _Usage | None = None


_SCORES = msgspec.json.Decoder(_Rows | list[_Row])


def read_scores(body: bytes, headers: Mapping[str, str], count: int) -> list[Vector]:
    """The scores of `count` documents, in the order in which they were sent. Raises EngineGarbled."""
    try:
        answer = _SCORES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled("The engine sent no scores.", detail=str(error), outside_text=str(error)) from None
    rows = answer if isinstance(answer, list) else answer.data or answer.results or []
    if sorted(each.index for each in rows) != list(range(count)):
        raise EngineGarbled("The engine sent another number of scores than it was asked for.")
    tokens = _tokens(None if isinstance(answer, list) else answer.usage, headers)
    found = []
    for row in sorted(rows, key=lambda each: each.index):
        score = row.score if row.relevance_score is None else row.relevance_score
        if score is None:
            raise EngineGarbled("The engine sent a document without a score.")
        found.append(vector_of([score], 0 if row.index else tokens))
    return found


def _tokens(usage: _Usage | None, headers: Mapping[str, str]) -> int:
    """The tokens that a server counted, in its answer or in the header of TEI; 0 where it counts none."""
    if usage is not None:
        return reported_count(usage.prompt_tokens or usage.total_tokens)
    header = headers.get("x-compute-tokens", "")
    return int(header) if header.isascii() and header.isdigit() and len(header) < 12 else 0


def write_classes(call: PoolCall, routes: PooledRoutes, *, model: str, extras: bool) -> PooledBody:
    """The request for the classes of the inputs of `call`. Raises UnsupportedParameter."""
    if not routes.tei:
        body = {"model": model, "input": list(call.given), **_options(call, extras=extras)}
        return PooledBody(routes.classify, _encoded(body), len(call.given))
    if not all(isinstance(each, str) for each in call.given):
        raise UnsupportedParameter("This engine takes texts, and no token ids.", param="inputs")
    return PooledBody(
        routes.classify, _encoded({"inputs": [[each] for each in call.given], **_tei_options(call)}), len(call.given)
    )


class _Classified(Struct):
    index: int
    probs: list[float]
    label: str | None = None


class _ClassifiedRows(Struct):
    data: list[_Classified]
    usage: _Usage | None = None


class _Prediction(Struct):
    score: float
    label: str


_CLASSES = msgspec.json.Decoder(_ClassifiedRows | list[list[_Prediction]])


def read_classes(body: bytes, headers: Mapping[str, str], count: int, labels: Sequence[str]) -> list[Vector]:
    """The shares of the classes of `count` inputs, in order. TEI sends them by name, the likeliest first; `labels` is the
    model's own order. Raises EngineGarbled."""
    try:
        answer = _CLASSES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled("The engine sent no classes.", detail=str(error), outside_text=str(error)) from None
    if isinstance(answer, list):
        if len(answer) != count:
            raise EngineGarbled("The engine sent the classes of another number of inputs than it was asked for.")
        tokens = _tokens(None, headers)
        return [_by_name(row, labels, 0 if at else tokens) for at, row in enumerate(answer)]
    if sorted(each.index for each in answer.data) != list(range(count)):
        raise EngineGarbled("The engine sent the classes of another number of inputs than it was asked for.")
    tokens = _tokens(answer.usage, headers)
    found = []
    for row in sorted(answer.data, key=lambda each: each.index):
        made = vector_of(row.probs, 0 if row.index else tokens)
        found.append(Vector(made.values, made.tokens, row.label or ""))
    return found


def _by_name(row: list[_Prediction], labels: Sequence[str], tokens: int) -> Vector:
    shares = {each.label: each.score for each in row}
    if sorted(shares) != sorted(labels) and labels:
        raise EngineGarbled("The engine sent other classes than those that it named.")
    order = labels or [each.label for each in row]
    made = vector_of(array("f", [shares[each] for each in order]), tokens)
    return Vector(made.values, made.tokens, max(row, key=lambda each: each.score).label)
