"""The bodies of moderations: OpenAI's categories, and the answer that is made of the classes of a classifier.

Pure. Above: inference, routes. Below: the decoder of bodies, the request. Source: OpenAI's `ModerationCreateParams` and
`Moderation`.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from smg_core.apis.pooling.api import PoolApi
from smg_core.apis.pooling.vectors import FLOAT_BYTES, PooledVectors, as_floats
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.request import PoolRequest
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.errors import openai_error
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName

__all__ = ["ModerationAnswer", "ModerationBody", "ModerationDecoded", "moderations_api"]

_CATEGORIES = (
    *("harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent"),
    *("self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence"),
    "violence/graphic",
)
"""The categories that every answer has."""
_FLAGGED = 0.5


class _Url(Struct, forbid_unknown_fields=True):
    url: str


class _TextPart(Struct, tag="text", forbid_unknown_fields=True):
    text: str


class _PicturePart(Struct, tag="image_url", forbid_unknown_fields=True):
    image_url: _Url


class ModerationBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body. `input` is a text, several, or the parts of one input; without `model` the only one that can do this is meant."""

    model: ModelName = ""
    input: str | list[str | _TextPart | _PicturePart]


class ModerationResult(Struct, kw_only=True):
    """What was found in one input."""

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, float]
    category_applied_input_types: dict[str, list[str]]


class ModerationAnswer(Struct, kw_only=True):
    """The results, in the order of the inputs."""

    id: str
    model: str
    results: list[ModerationResult]


_BODY: WireDecoder[ModerationBody] = WireDecoder(ModerationBody, {})


class ModerationDecoded(Struct, frozen=True):
    """A decoded body. `given` is the `input` as a provider is sent it; `pictures`: it has some."""

    request: PoolRequest
    given: Any
    pictures: bool = False

    @property
    def number_bytes(self) -> int:
        """What a number takes in the answer."""
        return 3 * FLOAT_BYTES

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        return "input" + path.removeprefix("inputs") if path.startswith("inputs") else path

    def check_classifiable(self) -> None:
        """Raises UnsupportedParameter for what a classifier of texts cannot be shown."""
        if self.pictures:
            raise UnsupportedParameter("This model takes texts alone: 'input' may have no pictures.", param="input")


def _decoded(incoming: Incoming) -> ModerationDecoded:
    """Decode the body of `incoming`. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    given = [wire.input] if isinstance(wire.input, str) else wire.input
    parts = [each for each in given if not isinstance(each, str)]
    if not given or (parts and len(parts) < len(given)):
        raise InvalidRequest(
            "Invalid 'input': expected a text, texts, or parts with texts and pictures.",
            param="input",
            code="invalid_value",
        )
    texts = [each.text if isinstance(each, _TextPart) else each for each in given if not isinstance(each, _PicturePart)]
    inputs = ("\n".join(texts),) if parts else tuple(texts)
    request = PoolRequest(
        id=incoming.request_id,
        model=wire.model,
        kind="classify",
        inputs=inputs,
        truncate=-1,
        headers=incoming.headers,
        caller=incoming.caller,
    )
    return ModerationDecoded(request, wire.input, any(isinstance(each, _PicturePart) for each in parts))


def moderations_api(harmless: Collection[str]) -> PoolApi[ModerationDecoded]:
    """The row of the API, for which these classes are none of harm."""
    fine = frozenset(map(_plain, harmless))
    body: Callable[[ModerationDecoded, PooledVectors], bytes] = partial(_body, fine)
    return PoolApi("moderations", "modr-", _decoded, body, openai_error, guarded=False)


def _body(fine: Collection[str], decoded: ModerationDecoded, made: PooledVectors) -> bytes:
    """The answer that is made of the classes of each input."""
    results = [_result(fine, made, shares) for shares in map(as_floats, made.vectors)]
    return encode_body({"id": decoded.request.id, "model": made.model, "results": results})


def _result(fine: Collection[str], made: PooledVectors, shares: list[float]) -> dict[str, Any]:
    scores = dict.fromkeys(_CATEGORIES, 0.0)
    applied: dict[str, list[Literal["text"]]] = {name: [] for name in _CATEGORIES}
    known = {_plain(name): name for name in _CATEGORIES}
    for number, share in enumerate(shares):
        label = made.labels[number] if len(made.labels) == len(shares) else f"LABEL_{number}"
        if _plain(label) in fine:
            continue
        name = known.get(_plain(label), label)
        scores[name], applied[name] = share, ["text"]
    flags = {name: score >= _FLAGGED for name, score in scores.items()}
    return {
        "flagged": any(flags.values()),
        "categories": flags,
        "category_scores": scores,
        "category_applied_input_types": applied,
    }


def _plain(label: str) -> str:
    """A class without regard to how it is written."""
    return label.casefold().replace("-", "_").replace(" ", "_")
