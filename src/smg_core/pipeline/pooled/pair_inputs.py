"""Makes of the pairs of a pooled request the ids that engines are sent: both texts in the frame of the tokenizer, or a question
to a model that writes text.

A document that is too long is cut only where the request allows it; the query never is. Pure; encoding takes long for long
texts, so `pooling` calls it in a thread then. Below: the tokenizer, the templates.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from smg_core.errors import InputTooLong, InvalidRequest, UnsupportedParameter
from smg_core.pipeline.pooled.scoring import question_about
from smg_core.pipeline.prompt.prepare import encode, render
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import PoolingConfig
from smg_core.request import PoolInput, PoolRequest
from smg_core.tokenizer.base import GivenUp, Tokenizer, left_before_encoded
from smg_core.tokens import TokenIds

__all__ = ["PairIds", "pair_ids", "question_ids"]


class PairIds(Struct, frozen=True):
    """The ids of one pair, and to which of its texts each belongs (() where the model was not trained with that)."""

    ids: TokenIds
    types: Sequence[int] = ()


def pair_ids(
    request: PoolRequest, model: ServedModel, settings: PoolingConfig, given_up: GivenUp | None = None
) -> tuple[PairIds, ...]:
    """The ids of each pair for a cross-encoder, in order. Raises InvalidRequest that names the input, and ClientGone when
    `given_up` says that nobody waits any more."""
    tokenizer, frame = _tokenizer(model), model.pair
    if frame is None:
        raise UnsupportedParameter(
            f"The tokenizer of the model '{model.name}' has no usable rule for pairs of texts.", param="model"
        )
    encoded: dict[int, TokenIds] = {}
    found: list[PairIds] = []
    total = 0
    for query, document in request.pairs:
        _go_on(given_up)
        for place in (query, document):
            if place not in encoded:
                encoded[place] = _ids(request.inputs[place], model, tokenizer, place)
        first, second = encoded[query], encoded[document]
        second = _cut(second, request.document_tokens, request.truncate_side)
        most = _most(request, model)
        room = None if most is None else most - frame.size - len(first)
        if room is not None and room < 1 and len(second) > 0:
            raise InputTooLong(len(first) + frame.size, most or 0, param=f"inputs[{query}]")
        ids, types = frame.joined(first, _cut(second, room, request.truncate_side))
        _check(len(ids), model, document)
        total += len(ids)
        _check_total(total, settings)
        found.append(PairIds(ids, types))
    return tuple(found)


def question_ids(
    request: PoolRequest, model: ServedModel, settings: PoolingConfig, given_up: GivenUp | None = None
) -> tuple[PairIds, ...]:
    """The ids of the question about each pair, in order, for a model that writes text. Raises as `pair_ids`, and
    TemplateFailed."""
    tokenizer = _tokenizer(model)
    salt = request.caller.tenant
    found: list[PairIds] = []
    total = 0

    def asked(query: str, document: str) -> TokenIds:
        prompt = render(question_about(request, query, document, settings), model)
        return encode(prompt, model, salt, given_up).ids

    for at, place in request.pairs:
        _go_on(given_up)
        query, document = _text(request.inputs[at], at), _text(request.inputs[place], place)
        if request.document_tokens is not None:
            document = _shortened(document, request.document_tokens, tokenizer, request.truncate_side)
        ids = _fitting(asked, query, document, request, model, tokenizer)
        _check(len(ids) + 1, model, place)  # one token is written
        total += len(ids)
        _check_total(total, settings)
        found.append(PairIds(ids))
    return tuple(found)


def _fitting(
    asked: Callable[[str, str], TokenIds],
    query: str,
    document: str,
    request: PoolRequest,
    model: ServedModel,
    tokenizer: Tokenizer,
) -> TokenIds:
    """The ids of the question, with as much of the document as fits where the request allows that it is cut."""
    ids, most = asked(query, document), _most(request, model)
    if most is None or len(ids) < most:
        return ids
    left = len(tokenizer.encode(document)) - (len(ids) - most + 1)
    return asked(query, _shortened(document, max(1, left), tokenizer, request.truncate_side))


def _tokenizer(model: ServedModel) -> Tokenizer:
    if model.tokenizer is None:
        raise AssertionError("the engines of a model without a tokenizer are sent what the client gave")
    return model.tokenizer


def _go_on(given_up: GivenUp | None) -> None:
    if given_up is not None and given_up():
        raise left_before_encoded()


def _most(request: PoolRequest, model: ServedModel) -> int | None:
    """The tokens that a pair may have where its document may be cut; None where it may not."""
    context, asked = model.context_length, request.truncate
    if asked is None and request.document_tokens is None:
        return None
    if asked in (None, -1):
        return context or None
    return min(asked or 0, context) if context else asked


def _text(given: PoolInput, place: int) -> str:
    if not isinstance(given, str):
        param = f"inputs[{place}]"
        raise InvalidRequest(f"Invalid '{param}': this model is asked in words, so it takes no token ids.", param=param)
    return given


def _ids(given: PoolInput, model: ServedModel, tokenizer: Tokenizer, place: int) -> TokenIds:
    param = f"inputs[{place}]"
    if not given:
        raise InvalidRequest(f"Invalid '{param}': it is empty.", param=param, code="empty_string")
    if isinstance(given, str):
        return tokenizer.encode(given, allow_control=not model.protect_control)
    if min(given) < 0 or max(given) >= model.vocab_size:
        raise InvalidRequest(f"Invalid '{param}': token ids must be between 0 and {model.vocab_size - 1}.", param=param)
    return TokenIds(given)


def _cut(ids: TokenIds, most: int | None, side: str) -> TokenIds:
    if most is None or len(ids) <= most:
        return ids
    return ids[:most] if side == "end" else ids[len(ids) - most :]


def _shortened(text: str, most: int, tokenizer: Tokenizer, side: str) -> str:
    ids = tokenizer.encode(text)
    return text if len(ids) <= most else tokenizer.decode(_cut(ids, most, side), skip_special_tokens=False)


def _check(length: int, model: ServedModel, place: int) -> None:
    if model.context_length and length > model.context_length:
        raise InputTooLong(length, model.context_length, param=f"inputs[{place}]")


def _check_total(total: int, settings: PoolingConfig) -> None:
    if total > settings.tokens:
        raise InvalidRequest(
            f"Invalid 'inputs': the pairs have more than {settings.tokens} tokens together, which is the most that one "
            "request may have.",
            param="inputs",
            code="max_tokens_per_request",
        )
