"""Decides how pairs of a request to rerank or score are judged, and the prompt for a pair.

There are three methods. A cross-encoder reads both texts at once and gives a number. Of a model that makes vectors, the cosine
of the two vectors is the score. A model that writes text is asked whether the document fits, and the score is the share of its
first answer ("yes") among two. Which one it is follows from what the engines of the model can do, unless the operator has said
it.

Pure. Above: pooling, which has it done, and the models API, which tells it. Below: the facts of engines, the settings.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from smg_core.engines.base import EngineFacts
from smg_core.errors import UnsupportedParameter
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import PoolingConfig
from smg_core.request import GenerationRequest, Message, PoolRequest, ReasoningSettings, Text
from smg_core.tokenizer.base import Tokenizer

__all__ = ["Method", "as_vectors", "can_do", "judged", "label_ids_of", "method_of", "no_such_work", "question_about"]

Method = Literal["", "cosine", "cross_encoder", "generative"]
"""How pairs are judged; "" where the request has none, or where the model cannot judge any."""

_NAMED = "rerank"
"""A model that writes text and has this in its name was trained to judge documents; others are asked only if the operator says
so."""


def method_of(model: ServedModel, kinds: Iterable[EngineFacts], settings: PoolingConfig) -> Method:
    """How the pairs of a request for this model are judged by engines of these kinds; "" where none of them can."""
    named = settings.method(model.name) or settings.method(model.primary)
    if named:
        return named  # type: ignore[return-value]  # `PoolingConfig.check` has seen it
    known = list(kinds)
    for kind, method in _OF_KIND:
        if any(kind in each.pools for each in known):
            return method
    by_name = _NAMED in model.root.lower() or _NAMED in model.name.lower()
    return "generative" if by_name and any(gives_next_tokens(each) for each in known) else ""


_OF_KIND: tuple[tuple[Literal["score", "embed"], Method], ...] = (("score", "cross_encoder"), ("embed", "cosine"))


def can_do(facts: EngineFacts, request: PoolRequest, *, has_ids: bool) -> bool:
    """Whether an engine of these facts can do this pooled work. `has_ids`: the gateway has made the ids of the inputs."""
    if request.kind == "next_token":
        return has_ids and gives_next_tokens(facts)
    return request.kind in facts.pools and (has_ids or not facts.takes_ids)


def gives_next_tokens(facts: EngineFacts) -> bool:
    """Whether an engine can be asked how likely tokens are to come next."""
    return facts.generates and facts.takes_ids and facts.logprobs


def judged(
    request: PoolRequest, model: ServedModel, kinds: Sequence[EngineFacts], settings: PoolingConfig
) -> tuple[PoolRequest, Method]:
    """What engines of these kinds are asked for, and how pairs are judged by it; a request without pairs as it is. Raises
    UnsupportedParameter where no engine can."""
    if request.kind != "score":
        return request, ""
    method = method_of(model, kinds, settings)
    if not method or (method == "generative" and model.tokenizer is None):
        raise no_such_work(model.name, request, kinds)
    if method == "cosine":
        return as_vectors(request), method
    if method == "generative" and model.tokenizer is not None:
        labels = label_ids_of(model.tokenizer, settings)
        return replace(request, kind="next_token", label_ids=labels), method
    return request, method


_LACKS = {
    "embed": "make no embeddings of it",
    "classify": "do not classify with it",
    "score": "do not score pairs of texts with it",
    "next_token": "do not tell how likely tokens are",
}
"""What the engines of a model cannot do, by the kind of work."""


def no_such_work(model: str, request: PoolRequest, kinds: Iterable[EngineFacts]) -> UnsupportedParameter:
    """The refusal of work that no engine of a model does."""
    engines = ", ".join(sorted({each.dialect for each in kinds}))
    return UnsupportedParameter(
        f"The engines of the model '{model}' ({engines}) {_LACKS[request.kind]}.",
        param="model",
        code="unsupported_model",
    )


def as_vectors(request: PoolRequest) -> PoolRequest:
    """What is asked for where pairs are judged by the vectors of their texts."""
    tasks = ["document"] * len(request.inputs)
    for query, _ in request.pairs:
        tasks[query] = "query"
    most = request.document_tokens or request.truncate
    return replace(request, kind="embed", tasks=tuple(tasks), truncate=most, activation=None)


def label_ids_of(tokenizer: Tokenizer, settings: PoolingConfig) -> tuple[int, int]:
    """The tokens of the two answers. Raises UnsupportedParameter where one of them is no single token of the model."""
    found = [tokenizer.encode(each) for each in settings.rerank_labels]
    if any(len(each) != 1 for each in found):
        raise UnsupportedParameter(
            "The answers that a generative reranker is to give are no single tokens of this model.", param="model"
        )
    first, second = found
    return first[0], second[0]


def question_about(request: PoolRequest, query: str, document: str, settings: PoolingConfig) -> GenerationRequest:
    """The request that asks a model which writes text whether `document` fits `query`."""
    words = {
        "{instruction}": request.instruction or settings.rerank_instruction,
        "{query}": query,
        "{document}": document,
    }
    parts = (Text(_filled(settings.rerank_question.replace("\\n", "\n"), words)),)
    system = Message("system", (Text(settings.rerank_task),), content_is_text=True)
    return GenerationRequest(
        id=request.id,
        model=request.model,
        messages=(system, Message("user", parts, content_is_text=True)),
        reasoning=ReasoningSettings(enabled=False),
        caller=request.caller,
    )


def _filled(pattern: str, words: dict[str, str]) -> str:
    """The pattern with each name replaced once, so that a document which has a name in it stays as it is."""
    found, rest = [], pattern
    while rest:
        at, name = min(((rest.find(each), each) for each in words if each in rest), default=(len(rest), ""))
        found += [rest[:at], words.get(name, "")]
        rest = rest[at + len(name) :]
    return "".join(found)
