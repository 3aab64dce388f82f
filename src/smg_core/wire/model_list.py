"""The models API: the list of served models, and a single one.

Decides the shape of a model object: OpenAI's fields, and `max_model_len` and `root` as vLLM adds them where they are known; or
Anthropic's, whose list comes in pages, for callers of that API.
Pure. Above: the server. Below: json_text.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import attrs

from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object

__all__ = ["ModelCard", "anthropic_model_body", "anthropic_models_body", "model_body", "models_body"]

_PAGE, _LONGEST_PAGE = 20, 1000
"""Models on a page of Anthropic's list: as many as its documentation says."""


@attrs.frozen
class ModelCard:
    """One model. `created` is seconds since the epoch; `max_model_len` the context in tokens; `root` the base model of an
    alias, `parent` the model that an adapter belongs to. `pools` are the kinds of pooled work that its engines do, `scores_by`
    how it judges pairs of texts ("cosine", "cross_encoder", "generative"; "": it does not). `media` is what it takes beside text,
    None where that is not known, and `gives` what it makes beside text; `output` the most tokens of an answer, where that is
    known; `kinds` the work that it does ("chat", "embeddings", "rerank", "images"), () where that is not known; `prices` are in
    USD for a million tokens, by their kind, as decimals."""

    id: str
    created: int
    owned_by: str = "smg"
    max_model_len: int | None = None
    root: str | None = None
    parent: str | None = None
    pools: Sequence[str] = ()
    scores_by: str = ""
    media: Sequence[str] | None = None
    prices: Mapping[str, str] = attrs.field(factory=dict)
    gives: Sequence[str] | None = None
    output: int | None = None
    kinds: Sequence[str] = ()


def model_body(card: ModelCard) -> bytes:
    """The body of `GET /v1/models/{id}`."""
    return encode_object(_model_object(card))


def models_body(cards: Iterable[ModelCard]) -> bytes:
    """The body of `GET /v1/models`, in the order given."""
    return encode_object({"object": "list", "data": [_model_object(card) for card in cards]})


def _model_object(card: ModelCard) -> JsonObject:
    found: JsonObject = {
        "id": card.id,
        "object": "model",
        "created": card.created,
        "owned_by": card.owned_by,
    }
    if card.root is not None:
        found["root"] = card.root
    if card.parent is not None:
        found["parent"] = card.parent
    if card.max_model_len is not None:
        found["max_model_len"] = card.max_model_len
    found["pools"] = list(card.pools)
    if card.scores_by:
        found["scores_by"] = card.scores_by
    if card.media is not None:
        found["input_modalities"] = ["text", *card.media]
    if card.gives is not None:
        found["output_modalities"] = ["text", *card.gives]
    if card.output is not None:
        found["max_output_tokens"] = card.output
    if card.kinds:
        found["kinds"] = list(card.kinds)
    if card.prices:
        found["pricing"] = {"currency": "USD", "tokens": 1_000_000, **card.prices}
    return found


def anthropic_model_body(card: ModelCard) -> bytes:
    """One model in Anthropic's shape."""
    return encode_object(_anthropic_object(card))


def anthropic_models_body(
    cards: Sequence[ModelCard], *, limit: str | None = None, after: str | None = None, before: str | None = None
) -> bytes:
    """A page of models in Anthropic's shape: at most `limit` of those behind the one called `after`, or before the one called
    `before`, as the query has them."""
    most = _PAGE if limit is None else int(limit) if limit.isdecimal() and len(limit) < 6 else 0
    if not 1 <= most <= _LONGEST_PAGE:
        raise InvalidRequest(f"'limit' is a number from 1 to {_LONGEST_PAGE}.", param="limit")
    ids = [card.id for card in cards]
    rest = list(cards)
    if after is not None:
        rest = rest[ids.index(after) + 1 :] if after in ids else []
        page = rest[:most]
    elif before is not None:
        rest = rest[: ids.index(before)] if before in ids else []
        page = rest[-most:]
    else:
        page = rest[:most]
    return encode_object(
        {
            "data": [_anthropic_object(card) for card in page],
            "has_more": len(rest) > len(page),
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
    )


def _anthropic_object(card: ModelCard) -> JsonObject:
    created = datetime.fromtimestamp(card.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "model",
        "id": card.id,
        "display_name": card.id,
        "created_at": created,
        "max_input_tokens": card.max_model_len,
        "max_tokens": card.output or card.max_model_len,
        "capabilities": None,
        "lifecycle": "active",
    }
