"""The models list of Google's API and of Vertex AI, and a single model. Pure. Above: apis.gemini.routes. Below: models."""

from collections.abc import Mapping, Sequence

from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object
from smg_core.wire.model_list import ModelCard

__all__ = ["gemini_model_body", "gemini_models_body", "model_of_path", "vertex_model_body", "vertex_models_body"]

_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_GOOGLE = "google"
_USUAL_PAGE, _LARGEST_PAGE = 50, 1000


def gemini_model_body(card: ModelCard) -> bytes:
    """The body of `GET /v1beta/models/{model}`."""
    return encode_object(_model(card))


def model_of_path(values: Mapping[str, str]) -> str:
    """The model that a path names. At the paths of Vertex AI the SDK splits a name with a slash, and makes what stands before
    it the publisher; a name without one is Google's."""
    publisher = values.get("publisher", _GOOGLE)
    return values["model"] if publisher == _GOOGLE else f"{publisher}/{values['model']}"


def vertex_model_body(card: ModelCard, parent: str | None) -> bytes:
    """The body of a model's path at Vertex AI; `parent` is the part of the path before a project's models, None for those of
    publishers."""
    return encode_object(_vertex_model(card, parent))


def gemini_models_body(cards: Sequence[ModelCard], size: str, token: str) -> bytes:
    """A page of the models. `size` and `token` are as the query has them, "" where it has none; the token is the name of the
    first model of the page. Raises InvalidRequest for a size that is no
    whole number within the bounds, and for a token of no page."""
    listed, following = _page(cards, size, token)
    return encode_object({"models": [_model(card) for card in listed], **following})


def vertex_models_body(cards: Sequence[ModelCard], size: str, token: str, parent: str | None) -> bytes:
    """The same at Vertex AI: a page of models of publishers, or of those of a project. `parent` as of `vertex_model_body`."""
    listed, following = _page(cards, size, token)
    name = "publisherModels" if parent is None else "models"
    return encode_object({name: [_vertex_model(card, parent) for card in listed], **following})


def _page(cards: Sequence[ModelCard], size: str, token: str) -> tuple[Sequence[ModelCard], JsonObject]:
    """The models of a page, and the field that names the next one, if there is one."""
    if size and not (size.isascii() and size.isdecimal() and len(size) < len(str(_LARGEST_PAGE)) + 1):
        raise InvalidRequest(
            f"Invalid value at 'page_size': it must be a whole number from 0 to {_LARGEST_PAGE}.", param="pageSize"
        )
    if token and all(card.id != token for card in cards):
        raise InvalidRequest("Invalid value at 'page_token': no page begins there.", param="pageToken")
    count = min(int(size or 0) or _USUAL_PAGE, _LARGEST_PAGE)
    left = [card for card in cards if card.id >= token]
    return left[:count], {"nextPageToken": left[count].id} if len(left) > count else {}


def _vertex_model(card: ModelCard, parent: str | None) -> JsonObject:
    name = card.id
    if parent is None:
        publisher, slash, rest = name.partition("/")
        parent, name = (f"publishers/{publisher}/", rest) if slash else (f"publishers/{_GOOGLE}/", name)
    return {"name": f"{parent}models/{name}", "versionId": "1", "displayName": card.id}


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
