"""Score: how well texts fit each other, as vLLM has it, and how likely tokens are to come next, as SGLang has it.

vLLM's form has two sides, one to one, one to many, or many to many. SGLang's, which has a `query` and `items`, asks of each of
the texts that they make together how likely each of `label_token_ids` is as the next token. Pure. Above: apis.pooling.api.
Below: the decoder of bodies, request, vectors. Sources: vLLM's ScoreRequest, SGLang's ScoringRequest.
"""

from collections.abc import Iterable
from math import exp
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from smg_core.apis.pooling.embeddings import EmbeddingsUsage
from smg_core.apis.pooling.fields import SIDES, PoolFields, check_pool_fields, named_field
from smg_core.apis.pooling.rerank import HELD_BYTES
from smg_core.apis.pooling.vectors import PooledVectors, pair_scores
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import PoolInput, PoolRequest
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.json_text import encode_body
from smg_core.wire.scalars import ModelName, TokenId

__all__ = ["ScoreAnswer", "ScoreBody", "ScoreDecoded", "decode_score", "score_body"]

Texts = str | list[str]
_SIDES = (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2"))
"""The names that the two sides may have."""


class ScoreBody(PoolFields, forbid_unknown_fields=True, kw_only=True):
    """The body; the two sides are `text_1` and `text_2`, `queries` and `documents` or `items`, or `data_1` and `data_2`.
    SGLang's form has `query`, `items` and `label_token_ids`; `item_first` puts the item before the query, `apply_softmax` makes
    the numbers shares of the labels alone. Without `model` the only one is meant."""

    model: ModelName = ""
    text_1: Texts | None = None
    text_2: Texts | None = None
    queries: Texts | None = None
    documents: Texts | None = None
    data_1: Texts | None = None
    data_2: Texts | None = None
    query: str | list[TokenId] | None = None
    items: str | list[str | list[TokenId]] | None = None
    label_token_ids: Annotated[list[TokenId], Meta(min_length=1, max_length=1024)] | None = None
    apply_softmax: bool | None = None
    item_first: bool | None = None


class ScoreObject(Struct, kw_only=True):
    """The score of one pair, -1 to 1."""

    index: int
    object: Literal["score"]
    score: float


class ScoreAnswer(Struct, kw_only=True):
    """The scores: in `data` in the order of the pairs, or in SGLang's form in `scores`, a list for each item in the order of the
    labels."""

    id: str
    object: Literal["list", "scoring"]
    created: int
    model: str
    data: list[ScoreObject] | UnsetType = UNSET
    scores: list[list[float]] | UnsetType = UNSET
    usage: EmbeddingsUsage


_BODY: WireDecoder[ScoreBody] = WireDecoder(ScoreBody, SIDES)


class ScoreDecoded(Struct, frozen=True):
    """A decoded body: the first `left` inputs are one side, the others the other. `names` are those of the sides, `several`
    whether each was a list. `softmax` is of SGLang's form, in which all inputs are of the second side."""

    request: PoolRequest
    left: int
    names: tuple[str, str]
    several: tuple[bool, bool]
    softmax: bool = False

    @property
    def number_bytes(self) -> int:
        """What a number takes."""
        return HELD_BYTES

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if not path.startswith("inputs["):
            return {"inputs": self.names[1], "label_ids": "label_token_ids"}.get(path) or named_field(path)
        place = int(path[7:].partition("]")[0])
        side = int(place >= self.left)
        at = place - self.left if side else place
        return f"{self.names[side]}[{at}]" if self.several[side] else self.names[side]


def decode_score(incoming: Incoming) -> ScoreDecoded:
    """Decode the body of `incoming`. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    check_pool_fields(wire)
    if wire.query is not None or wire.label_token_ids is not None:
        return _next_tokens(wire, incoming)
    for name in ("apply_softmax", "item_first"):
        if getattr(wire, name) is not None:
            raise InvalidRequest(f"'{name}' goes with 'query', 'items' and 'label_token_ids'.", param=name)
    names, (left, right) = _two_sides(wire)
    if not left or not right or len(left) not in (1, len(right)):
        raise InvalidRequest(
            f"Invalid '{names[1]}': the sides have {len(left)} and {len(right)} texts; one may stand against one or "
            "several, or as many against as many.",
            param=names[1],
        )
    request = PoolRequest(
        id=incoming.request_id,
        model=wire.model,
        kind="score",
        inputs=(*left, *right),
        pairs=tuple([(at if len(left) > 1 else 0, len(left) + at) for at in range(len(right))]),
        truncate=wire.truncate_prompt_tokens,
        truncate_side="start" if wire.truncation_side == "left" else "end",
        activation=wire.use_activation,
        headers=incoming.headers,
        caller=incoming.caller,
        user=wire.user or "",
    )
    several = isinstance(getattr(wire, names[0]), list), isinstance(getattr(wire, names[1]), list)
    return ScoreDecoded(request, len(left), names, several)


def _two_sides(wire: ScoreBody) -> tuple[tuple[str, str], list[list[str]]]:
    """The names of the two sides and their texts. Raises InvalidRequest where not exactly two that go together are there."""
    there = [
        name for name in dict.fromkeys(each for pair in _SIDES for each in pair) if getattr(wire, name) is not None
    ]
    names = next((pair for pair in _SIDES if set(pair) == set(there)), None)
    if names is None:
        first = next((pair for pair in _SIDES if there and there[0] in pair), _SIDES[0])
        extra = [each for each in there if each not in first]
        raise InvalidRequest(
            "The two sides are 'text_1' and 'text_2', 'queries' and 'documents' or 'items', or 'data_1' and 'data_2'.",
            param=extra[0] if extra else next(each for each in first if each not in there),
        )
    sides: list[list[str]] = []
    for name in names:
        found = getattr(wire, name)
        texts = [found] if isinstance(found, str) else found
        for at, each in enumerate(texts):
            if not isinstance(each, str):
                raise InvalidRequest(f"Invalid '{name}[{at}]': expected a string.", param=f"{name}[{at}]")
        sides.append(texts)
    return names, sides


def _next_tokens(wire: ScoreBody, incoming: Incoming) -> ScoreDecoded:
    """SGLang's form."""
    for name in ("query", "items", "label_token_ids"):
        if getattr(wire, name) is None:
            raise InvalidRequest(
                f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter"
            )
    for pair in _SIDES:
        for name in pair:
            if name != "items" and getattr(wire, name) is not None:
                raise InvalidRequest(f"'{name}' does not go with 'query'.", param=name)
    query, labels = wire.query or "", wire.label_token_ids or []
    given = [wire.items] if isinstance(wire.items, str) else wire.items or []
    if not given:
        raise InvalidRequest("Invalid 'items': empty array.", param="items", code="empty_array")
    inputs: list[PoolInput] = []
    for at, each in enumerate(given):
        if isinstance(each, str) and isinstance(query, str):
            inputs.append(each + query if wire.item_first else query + each)
        elif isinstance(each, list) and isinstance(query, list):
            inputs.append([*each, *query] if wire.item_first else [*query, *each])
        else:
            raise InvalidRequest(
                f"Invalid 'items[{at}]': the query and the items are texts, or all of them are token ids.",
                param=f"items[{at}]",
            )
    request = PoolRequest(
        id=incoming.request_id,
        model=wire.model,
        kind="next_token",
        inputs=tuple(inputs),
        label_ids=tuple(labels),
        truncate=wire.truncate_prompt_tokens,
        truncate_side="start" if wire.truncation_side == "left" else "end",
        headers=incoming.headers,
        caller=incoming.caller,
        user=wire.user or "",
    )
    return ScoreDecoded(request, 0, ("query", "items"), (False, isinstance(wire.items, list)), bool(wire.apply_softmax))


def score_body(decoded: ScoreDecoded, made: PooledVectors) -> bytes:
    """The answer."""
    request = decoded.request
    answer: JsonObject = {"id": request.id, "object": "list", "created": made.created, "model": made.model}
    if request.kind == "next_token":
        answer["object"] = "scoring"
        answer["scores"] = [_shares(each, softmax=decoded.softmax) for each in made.vectors]
    else:
        scores = pair_scores(made, request.pairs, raw=request.activation is False)
        answer["data"] = [{"index": at, "object": "score", "score": score} for at, score in enumerate(scores)]
    answer["usage"] = {"prompt_tokens": made.prompt_tokens, "total_tokens": made.prompt_tokens}
    return encode_body(answer)


def _shares(logprobs: Iterable[float], *, softmax: bool) -> list[float]:
    """The probabilities of tokens among all, or with `softmax` among themselves."""
    found = [exp(each) for each in logprobs]
    whole = sum(found) if softmax else 1.0
    return [each / whole if whole else 1 / len(found) for each in found]
