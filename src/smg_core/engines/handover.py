"""The hand-over of a prompt's cache from prefill to decode engine, by their dialects and connector.

Decides which two engines can work on one request, what each of them is asked, and whether they are asked at the same time. Pure:
ids are derived from the request's own. Above: pipeline.pairs.pairing makes the two calls, models.onboarding refuses what
cannot be. Below: engines.base. It knows no socket and no public API.

    dialect, connector       the prefill engine is sent                       the decode engine is sent             asked
    vllm, Mooncake           do_remote_decode, a transfer id                  the transfer id, and where it lies    together
    vllm, NIXL and others    do_remote_decode                                 what the prefill engine answered      in turn
    sglang                   host and port of its bootstrap server, a room    the same                              together
    tokenspeed               the same, with longer numbers of rooms           the same                              together

A prefill engine of TokenSpeed may get the embeddings of media from encode workers: each item has a room of its own, which both
are told, and whose place is at the encode worker. Engines of SGLang find their encoders themselves. TensorRT-LLM has the two
parts of a request too, but its answers do not say where the cache lies, so no pair can be made of it.
"""

from collections.abc import Container, Mapping, Sequence
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from smg_core.engines.base import Bootstrap, Encoded, EngineOutput, EngineRequest, KvFacts
from smg_core.errors import EngineGarbled

__all__ = [
    "HandOver",
    "KvEnd",
    "can_encode",
    "can_pair",
    "decode_request",
    "encoded_by",
    "encoded_items",
    "hand_over_of",
    "hands_to",
    "not_handed_over",
    "prefill_request",
    "reads_alone",
    "role_of",
    "room_of",
    "stays",
]

_MOONCAKE, _NIXL = "mooncake", "nixl"
_JSON = frozenset({"vllm", "neutral"})
"""Dialects that tell a hand-over as JSON."""
_ROOM_BITS = {"sglang": 31, "tokenspeed": 63}
"""Dialects that name a place, and the length of a room's number there."""
_ENCODING = frozenset({"tokenspeed"})
"""Dialects in which an engine is told where the embeddings of its media come from."""
_ROLES: Mapping[str, Literal["prefill", "decode", "encode"]] = {
    "kv_producer": "prefill",
    "kv_consumer": "decode",
    "prefill": "prefill",
    "decode": "decode",
    "encode": "encode",
}
"""What engines call one that does one part only; vLLM's "kv_both" may do either."""


class KvEnd(Struct, frozen=True):
    """One of the two engines. `host` and `port` are where the other one finds its cache; `rank` its data-parallel rank of
    `ranks`."""

    dialect: str
    kv: KvFacts
    host: str = ""
    port: int = 0
    rank: int | None = None
    ranks: int = 1


class HandOver(Struct, frozen=True):
    """What the two engines of one request are told: changed fields of its `EngineRequest`. `decode` None: decode is told what the
    prefill engine answers. `needed`: the decode engine must be told something, or it would compute the prompt again and
    say nothing. `samples`: the prefill engine chooses the first token, so it is sent the settings of sampling. `room`: the number
    that no other request under way may have, None where there are no rooms."""

    prefill: Mapping[str, object]
    decode: Mapping[str, object] | None
    needed: bool
    samples: bool = False
    room: int | None = None

    @property
    def together(self) -> bool:
        """Whether both are asked at once; else decode is asked once prefill has answered."""
        return self.decode is not None


def _kind(kv: KvFacts) -> str:
    name = kv.connector.lower()
    return next((kind for kind in (_MOONCAKE, _NIXL) if kind in name), name)


def role_of(kv: KvFacts) -> Literal["prefill", "decode", "encode"] | None:
    """The one part that an engine does by its own account; None where it says nothing, or that it does any."""
    return _ROLES.get(kv.role)


def can_pair(dialect: str) -> bool:
    """Whether engines of this dialect can hand a cache over."""
    return dialect in _JSON or dialect in _ROOM_BITS


def stays(unread: int, local_tokens: int, queue_tokens: int, at_prefill: float, at_decode: float) -> bool:
    """Whether a prompt of which the decode engine's cache lacks `unread` tokens is read there, and not by a prefill engine: where
    these are at most `local_tokens`, and as many more each time that `queue_tokens` tokens more wait at the least busy prefill
    engine than at the decode engine. None is where `local_tokens` is 0."""
    longer = max(0.0, at_prefill - at_decode) / queue_tokens if queue_tokens else 0.0
    return bool(local_tokens) and unread <= local_tokens * (1.0 + longer)


def reads_alone(dialect: str) -> bool:
    """Whether a decode engine of this dialect can also read a prompt itself; others wait for a cache."""
    return dialect in _JSON


def can_encode(dialect: str) -> bool:
    """Whether engines of this dialect can be told that others encode their media."""
    return dialect in _ENCODING


def encoded_by(prefill: str, encoder: str) -> bool:
    """Whether an engine of the dialect `prefill` takes embeddings from an encode worker of the dialect `encoder`."""
    return prefill == encoder and can_encode(encoder)


def hands_to(prefill: KvEnd, decode: KvEnd) -> bool:
    """Whether `decode` understands what `prefill` hands over."""
    return prefill.dialect == decode.dialect and can_pair(decode.dialect) and _kind(prefill.kv) == _kind(decode.kv)


def room_of(request_id: str, bits: int, end: KvEnd, taken: Container[int], process: tuple[int, int] = (0, 1)) -> int:
    """A number for a room, of at most `bits` bits, that is none of `taken`. It is even over all ids, and says the rank of the
    prefill engine where that is chosen: the rest of dividing it by the number of ranks. `process` is the number of the process
    that asks, and how many there are: each has a range of its own, so that they need not tell each other what is taken."""
    number, processes = process
    span = (1 << bits) // processes
    first, salt = number * span, 0
    while True:
        digest = blake2b(f"{request_id}/{salt}".encode(), digest_size=8).digest()
        room = first + (int.from_bytes(digest, "big") * span >> 64)
        if end.rank is not None and end.ranks > 1:
            room += (end.rank - room) % end.ranks
            if room >= first + span:
                room -= end.ranks
        if room not in taken:
            return room
        salt += 1


def hand_over_of(
    prefill: KvEnd,
    decode: KvEnd,
    request_id: str,
    taken: Container[int] = frozenset(),
    process: tuple[int, int] = (0, 1),
) -> HandOver:
    """What the two are told for the request of this id, which no other has; `taken` are the rooms of others, `process` as for
    `room_of`. The first `hands_to` the second."""
    if (bits := _ROOM_BITS.get(prefill.dialect)) is not None:
        room = room_of(request_id, bits, prefill, taken, process)
        fields: Mapping[str, object] = {"bootstrap": Bootstrap(prefill.host, prefill.port, room)}
        return HandOver(fields, fields, needed=True, samples=True, room=room)
    return _by_json(prefill, request_id)


def _by_json(prefill: KvEnd, request_id: str) -> HandOver:
    kind = _kind(prefill.kv)
    asked: dict[str, object] = {"do_remote_decode": True, "do_remote_prefill": False}
    if kind != _MOONCAKE or not prefill.kv.engine_id:
        return HandOver(_json(asked), None, needed=kind in (_MOONCAKE, _NIXL))
    transfer = {"transfer_id": f"xfer-{request_id}"}
    engine = prefill.kv.engine_id if prefill.rank is None else f"{prefill.kv.engine_id}_dp{prefill.rank}"
    fields = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        **transfer,
        "remote_engine_id": engine,
        "remote_bootstrap_addr": f"http://{prefill.host}:{prefill.port}",
    }
    return HandOver(_json({**asked, **transfer}), _json(fields), needed=True)


def encoded_items(
    ends: Sequence[KvEnd], items: int, request_id: str, taken: Container[int], process: tuple[int, int] = (0, 1)
) -> tuple[tuple[Encoded, ...], frozenset[int]]:
    """Where the embeddings of each of `items` media are kept for the request of this id, and the rooms that these take, none of
    them in `taken`. `ends` are the encode workers, which take the items in turn; `process` as for `room_of`."""
    mine: set[int] = set()
    found = []
    for item in range(items):
        end = ends[item % len(ends)]
        busy = _Either(taken, mine)
        room = room_of(f"{request_id}/media/{item}", _ROOM_BITS[end.dialect], end, busy, process)
        mine.add(room)
        found.append(Encoded(item, Bootstrap(end.host, end.port, room)))
    return tuple(found), frozenset(mine)


class _Either:
    """What is in one of two containers."""

    def __init__(self, *containers: Container[int]) -> None:
        self._containers = containers

    def __contains__(self, value: object) -> bool:
        return any(value in each for each in self._containers)


def _json(params: Mapping[str, object]) -> Mapping[str, object]:
    return {"kv_transfer": msgspec.json.encode(params).decode()}


def prefill_request(
    request: EngineRequest,
    plan: HandOver,
    rank: int | None,
    multimodal: object,
    encoded: tuple[Encoded, ...] = (),
) -> EngineRequest:
    """The request for the prefill engine: one token, which nobody sees, of what is asked of the decode engine. `multimodal` are
    the media as this engine takes them; of those that `encoded` names it gets the embeddings from other engines."""
    asked = request.sampling
    changes: dict[str, object] = {"max_tokens": 1, "min_tokens": None, "n": 1, "stop": (), "stop_token_ids": ()}
    if not plan.samples:
        changes |= {"ignore_eos": True, "logprobs": None, "logit_bias": None, "seed": None}
    return replace(
        request,
        sampling=replace(asked, **changes),
        stream=False,
        constraint=request.constraint if plan.samples else None,
        after_reasoning=request.after_reasoning and plan.samples,
        data_parallel_rank=rank,
        multimodal=multimodal,
        encoded=encoded,
        **plan.prefill,
    )


def not_handed_over(plan: HandOver, answered: EngineOutput | None) -> EngineGarbled | None:
    """The error of a prefill engine that should have handed the cache over with its last output and has not; else None."""
    if plan.decode is not None or not plan.needed or (answered is not None and answered.kv_transfer is not None):
        return None
    detail = "the prefill engine did not say where the cache of the prompt lies"
    return EngineGarbled("The engine broke its own protocol.", detail=detail)


def decode_request(request: EngineRequest, plan: HandOver, answered: EngineOutput | None) -> EngineRequest:
    """The request for the decode engine; `answered` is the last output of the prefill engine, where that is awaited. Raises
    EngineGarbled if the prefill engine handed nothing over and should have."""
    if (error := not_handed_over(plan, answered)) is not None:
        raise error
    fields = plan.decode
    if fields is None and answered is not None and answered.kv_transfer is not None:
        fields = {"kv_transfer": answered.kv_transfer}
    # What the prompt's own tokens are worth is known to the engine that has read them.
    sampling = request.sampling
    if sampling.prompt_logprobs is not None:
        sampling = replace(sampling, prompt_logprobs=None)
    return replace(request, sampling=sampling, **(fields or {}))
