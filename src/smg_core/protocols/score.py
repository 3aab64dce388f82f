"""Score, as vLLM has it: how alike texts are, one to one, one to many, or many to many.

The score is the cosine of the two vectors. Pure. Above: server.pooled_apis. Below: the decoder of bodies, request, vectors.
Source: vLLM's ScoreRequest.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest
from smg_core.protocols.base import Incoming
from smg_core.protocols.decoding import WireDecoder
from smg_core.protocols.embeddings import EmbeddingsUsage
from smg_core.protocols.json_text import encode_body
from smg_core.protocols.rerank import HELD_BYTES
from smg_core.protocols.vectors import PooledVectors, likeness
from smg_core.request import PoolRequest

__all__ = ["ScoreAnswer", "ScoreBody", "ScoreDecoded", "decode_score", "score_body"]

Texts = str | list[str]


class ScoreBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body; the two sides are `text_1` and `text_2`, or `queries` and `documents`."""

    model: str
    text_1: Texts | None = None
    text_2: Texts | None = None
    queries: Texts | None = None
    documents: Texts | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1)] | None = None


class ScoreObject(Struct, kw_only=True):
    """The score of one pair, -1 to 1."""

    index: int
    object: Literal["score"]
    score: float


class ScoreAnswer(Struct, kw_only=True):
    """The scores, in the order of the pairs."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[ScoreObject]
    usage: EmbeddingsUsage


_BODY: WireDecoder[ScoreBody] = WireDecoder(ScoreBody, {})


class ScoreDecoded(Struct, frozen=True):
    """A decoded body: the first `left` inputs are one side, the others the other. `names` are those of the sides, `several`
    whether each was a list."""

    request: PoolRequest
    left: int
    names: tuple[str, str]
    several: tuple[bool, bool]

    @property
    def number_bytes(self) -> int:
        """What a number takes."""
        return HELD_BYTES

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from."""
        if not path.startswith("inputs["):
            return {"inputs": self.names[1], "truncate": "truncate_prompt_tokens"}.get(path, path)
        place = int(path[7:].partition("]")[0])
        side = int(place >= self.left)
        at = place - self.left if side else place
        return f"{self.names[side]}[{at}]" if self.several[side] else self.names[side]


def decode_score(incoming: Incoming) -> ScoreDecoded:
    """Decode the body of `incoming`. Raises `PayloadTooLarge`, `InvalidJson` or `InvalidRequest`."""
    wire = _BODY.decode(incoming.body, incoming.limits, incoming.compat)
    names = ("text_1", "text_2") if wire.queries is None and wire.documents is None else ("queries", "documents")
    sides: list[list[str]] = []
    for name in names:
        found: Texts | None = getattr(wire, name)
        if found is None or (names[0] == "queries" and not (wire.text_1 is None and wire.text_2 is None)):
            param = name if found is None else "text_1"
            raise InvalidRequest("The two sides are 'text_1' and 'text_2', or 'queries' and 'documents'.", param=param)
        sides.append([found] if isinstance(found, str) else found)
    left, right = sides
    if not left or not right or len(left) not in (1, len(right)):
        raise InvalidRequest(
            f"Invalid '{names[1]}': the sides have {len(left)} and {len(right)} texts; one may stand against one or "
            "several, or as many against as many.",
            param=names[1],
        )
    if wire.truncate_prompt_tokens == 0:
        param = "truncate_prompt_tokens"
        raise InvalidRequest(f"Invalid '{param}': expected -1, or 1 or more.", param=param)
    request = PoolRequest(
        id=incoming.request_id,
        model=wire.model,
        kind="embed",
        inputs=(*left, *right),
        truncate=wire.truncate_prompt_tokens,
        tasks=(*["query"] * len(left), *["document"] * len(right)),
        headers=incoming.headers,
        caller=incoming.caller,
    )
    several = isinstance(getattr(wire, names[0]), list), isinstance(getattr(wire, names[1]), list)
    return ScoreDecoded(request, len(left), (names[0], names[1]), several)


def score_body(decoded: ScoreDecoded, made: PooledVectors) -> bytes:
    """The answer."""
    left, right = made.vectors[: decoded.left], made.vectors[decoded.left :]
    if len(left) == 1:
        left = [left[0]] * len(right)
    scores = [likeness(one, other) for one, other in zip(left, right, strict=True)]
    return encode_body(
        {
            "id": decoded.request.id,
            "object": "list",
            "created": made.created,
            "model": made.model,
            "data": [{"index": at, "object": "score", "score": score} for at, score in enumerate(scores)],
            "usage": {"prompt_tokens": made.prompt_tokens, "total_tokens": made.prompt_tokens},
        }
    )
