"""The models API: the list of served models, and a single one.

Decides the shape of a model object: OpenAI's fields, and `max_model_len` and `root` as vLLM adds them where they are known.
Pure. Above: the server. Below: json_text.
"""

from collections.abc import Iterable

import attrs

from smg_core.json_types import JsonObject
from smg_core.protocols.json_text import encode_object

__all__ = ["ModelCard", "model_body", "models_body"]


@attrs.frozen
class ModelCard:
    """One model. `created` is seconds since the epoch; `max_model_len` the context in tokens; `root` the base model
    of an alias or adapter."""

    id: str
    created: int
    owned_by: str = "smg"
    max_model_len: int | None = None
    root: str | None = None


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
    if card.max_model_len is not None:
        found["max_model_len"] = card.max_model_len
    return found
