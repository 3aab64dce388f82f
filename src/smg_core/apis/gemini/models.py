"""The models list of Google's API, and a single model. Pure. Above: apis.gemini.routes. Below: models."""

from collections.abc import Sequence

from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object
from smg_core.wire.model_list import ModelCard

__all__ = ["gemini_model_body", "gemini_models_body"]

_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_USUAL_PAGE, _LARGEST_PAGE = 50, 1000


def gemini_model_body(card: ModelCard) -> bytes:
    """The body of `GET /v1beta/models/{model}`."""
    return encode_object(_model(card))


def gemini_models_body(cards: Sequence[ModelCard], size: str, token: str) -> bytes:
    """A page of the models. `size` and `token` are as the query has them, "" where it has none; the token is the name of the
    first model of the page. Raises InvalidRequest for a size that is no
    whole number within the bounds, and for a token of no page."""
    if size and not (size.isascii() and size.isdecimal() and len(size) < len(str(_LARGEST_PAGE)) + 1):
        raise InvalidRequest(
            f"Invalid value at 'page_size': it must be a whole number from 0 to {_LARGEST_PAGE}.", param="pageSize"
        )
    if token and all(card.id != token for card in cards):
        raise InvalidRequest("Invalid value at 'page_token': no page begins there.", param="pageToken")
    count = min(int(size or 0) or _USUAL_PAGE, _LARGEST_PAGE)
    left = [card for card in cards if card.id >= token]
    body: JsonObject = {"models": [_model(card) for card in left[:count]]}
    if len(left) > count:
        body["nextPageToken"] = left[count].id
    return encode_object(body)


def _model(card: ModelCard) -> JsonObject:
    found: JsonObject = {
        "name": f"models/{card.id}",
        "version": "1",
        "displayName": card.id,
        "supportedGenerationMethods": list(_METHODS),
    }
    if card.parent is not None:
        found["baseModelId"] = card.parent
    if card.max_model_len is not None:
        found |= {"inputTokenLimit": card.max_model_len, "outputTokenLimit": card.max_model_len}
    return found
