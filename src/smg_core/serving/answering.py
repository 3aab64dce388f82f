"""Makes the `Answer` to one request from its API's encoders and its exchange (edge).

Decides which kind of answer it is (streamed or whole, one or in parts) and what stands in its head. Above: the handler in
`serving.inference`. Below: pipeline.answer.answer, pipeline.flow.together, the exchange.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from smg_core.hooks import FormatViolation, RequestStarted
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.pipeline.answer.answer import Answer, StreamedAnswer, WholeAnswer, Write
from smg_core.pipeline.answer.keep_alive import StreamKeepAlive
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.answer.transformed_answer import streamed_answer, whole_answer
from smg_core.pipeline.flow.together import ShowPart, StreamedParts, WholeParts
from smg_core.request import GenerationRequest
from smg_core.serving.api import Api, Memory
from smg_core.serving.explain import explanation
from smg_core.serving.services import Services
from smg_core.wire.base import Decoded
from smg_core.wire.explain import explanation_header

if TYPE_CHECKING:
    from smg_core.guardrails.guards import Guards

__all__ = ["answer_to", "names_of", "not_offered_header", "with_generations"]

D = TypeVar("D", bound=Decoded)

STREAM_HEADERS: Sequence[Header] = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
"""Headers that keep proxies from holding a stream back: the second is nginx's own."""
EXPLAIN = "x-smg-explain"
MIGRATED = b"x-smg-migrated"
"""How often a whole answer went on with another worker, and why it may differ from what one would have said."""
VIOLATION = b"x-smg-format-violation"
NOT_OFFERED = b"x-smg-not-offered"
"""The types of the request's tools that the model was not offered, since a server would have to run them and none here does."""
LOSSY = b"x-smg-lossy"
"""What of the request the provider that answers was not told, or was told otherwise: "name=what was done" of each."""
OBJECTIVE = b"x-smg-objective"
"""Whether the worker that was chosen was expected to meet the objectives of the request: "met" or "late"."""
LONGEST_VIOLATION = 200
_LONGEST_LOSSES = 1000


async def with_generations(decoded: D, transform: Callable[[GenerationRequest], Awaitable[GenerationRequest]]) -> D:
    """A decoded request with what `shown` leaves of each request for generation that it makes."""
    several: tuple[GenerationRequest, ...] | None = getattr(decoded, "generations", None)
    before = (decoded.generation,) if several is None else several
    left = tuple([await transform(each) for each in before])
    if all(one is other for one, other in zip(before, left, strict=True)):
        return decoded
    changes: dict[str, object] = {"generation": left[0]} if several is None else {"generations": left}
    changed: D = replace(decoded, **changes)  # type: ignore[type-var]  # every API's is a struct
    return changed


def answer_to(
    exchange: Exchange,
    decoded: D,
    trace: Trace,
    services: Services,
    api: Api[D],
    keep_alive: StreamKeepAlive,
    memory: Memory[D] | None = None,
) -> Answer:
    """The client's side of an admitted request: its encoder, and how its bytes leave. `memory` keeps the answer, None where
    nothing is to be kept. Tells that the request has started."""
    request = decoded.generation
    created = int(services.clock.time())
    admitted = services.clock.monotonic()
    trace.report(RequestStarted(request.id, api.name, request.model, request.stream, trace.started, admitted))
    head = names_of(exchange, services, api, getattr(decoded, "not_offered", ()))
    prompts = 1 if api.parts is None else api.parts.count(decoded)
    explained = services.live.explains and exchange.headers.get(EXPLAIN, "0") not in ("0", "false", "")

    if request.stream:

        async def write(data: bytes, last: bool) -> None:
            opening = None
            if not exchange.started:
                if explained:
                    head.extend(_explained(services, trace, prompts))
                opening = [(b"content-type", streamed.content_type.encode("ascii")), *STREAM_HEADERS, *head]
                opening += _of_worker(trace) if trace.losses or trace.awaited is not None else []
            if last and memory is not None:
                await memory.keep(decoded, streamed.encoder)
            if last and exchange.plugged:
                exchange.used(streamed.usage)
            await (exchange.write(data, last) if opening is None else exchange.begin(200, opening, data, last))

        streamed = _streamed(exchange, decoded, created, services, api, write, keep_alive, trace)
        return streamed

    async def write_whole(data: bytes, last: bool) -> None:
        if explained:
            head.extend(_explained(services, trace, prompts))
        if trace.attempts > 1 or trace.violations or trace.losses or trace.awaited is not None:
            head.extend(_unlike_others(trace))
        if memory is not None:
            await memory.keep(decoded, whole.encoder)
        exchange.unwatch()
        if exchange.plugged:
            exchange.used(whole.usage)
        await exchange.respond(200, data, [(b"content-type", whole.content_type.encode("ascii")), *head])

    whole = _whole(exchange, decoded, created, services, api, write_whole, trace)
    return whole


def _unlike_others(trace: Trace) -> Iterator[Header]:
    """The headers of a whole answer that moved to another worker, violates its format, or answers less than was asked."""
    yield from _of_worker(trace)
    if moved := trace.migrations:
        reasons = dict.fromkeys(reason for each in moved for reason in each.inexact)
        yield MIGRATED, ", ".join([str(len(moved)), *reasons]).encode("ascii")
    if (broken := trace.last(FormatViolation)) is not None:
        header = f"{'mended: ' if broken.mended else ''}{broken.violation}"
        yield VIOLATION, _in_a_header(f"choice {broken.index}: {header}")


def _of_worker(trace: Trace) -> Iterator[Header]:
    """The headers of any answer that say something of the worker that makes it."""
    if trace.losses:
        yield _lossy(trace.losses)
    if trace.awaited is not None and trace.awaited.objective_words:
        yield OBJECTIVE, trace.awaited.objective_words.encode("ascii")


def _lossy(losses: Mapping[str, str]) -> Header:
    """The header that names what a provider was told otherwise."""
    header = "; ".join(f"{name}={what}" for name, what in losses.items())
    return LOSSY, header[:_LONGEST_LOSSES].encode("ascii", "replace")


def not_offered_header(kinds: Sequence[str]) -> Header:
    """The header that names the types of tools that the model is not offered."""
    return NOT_OFFERED, _in_a_header(", ".join(kinds))


def names_of(exchange: Exchange, services: Services, api: Api[D], not_offered: Sequence[str] = ()) -> list[Header]:
    """The headers of an answer that are known before it begins: those that name the request, and one with the types of the tools
    that the model is not offered, if there are any."""
    head = [services.request_ids.header(exchange.name)]
    if api.id_header is not None:
        head.append((api.id_header, exchange.request_id.encode()))
    if not_offered:
        head.append(not_offered_header(not_offered))
    return head


def _streamed(
    exchange: Exchange,
    decoded: D,
    created: int,
    services: Services,
    api: Api[D],
    write: Write,
    keep_alive: StreamKeepAlive,
    trace: Trace,
) -> StreamedAnswer | StreamedParts:
    parts, request = api.parts, decoded.generation
    show: ShowPart | None = exchange.shows(request.sampling.n) if exchange.plugged else None
    if services.live.guarding is not None:
        show = _guarded(services.live.guarding, request, trace, show)
    high_water = services.live.config.limits.response_buffer_bytes
    if parts is None or parts.count(decoded) == 1:
        return streamed_answer(
            lambda: api.stream(decoded, created),
            write,
            model=request.model,
            high_water=high_water,
            show=None if show is None else show(0),
            write_now=exchange.write_now,
            keep_alive=keep_alive,
        )
    return StreamedParts(
        parts.count(decoded),
        lambda place: parts.stream(decoded, created, place),
        lambda: api.stream(decoded, created),
        write,
        model=request.model,
        high_water=high_water,
        keep_alive=keep_alive,
        show=show,
    )


def _guarded(guarding: "Guards", request: GenerationRequest, trace: Trace, before: ShowPart | None) -> ShowPart:
    """Who is shown the events of each part of an answer: plugins, then guardrails."""
    return lambda place: guarding.answer(request, trace.report, None if before is None else before(place))


def _whole(
    exchange: Exchange,
    decoded: D,
    created: int,
    services: Services,
    api: Api[D],
    write: Write,
    trace: Trace,
) -> WholeAnswer | WholeParts:
    parts, model = api.parts, decoded.generation.model
    show: ShowPart | None = exchange.shows(decoded.generation.sampling.n) if exchange.plugged else None
    if services.live.guarding is not None:
        show = _guarded(services.live.guarding, decoded.generation, trace, show)
    if parts is None or parts.count(decoded) == 1:
        watchers = None if show is None else show(0)
        return whole_answer(lambda: api.whole(decoded, created), write, model=model, show=watchers)
    return WholeParts(
        parts.count(decoded),
        lambda place: parts.whole(decoded, created, place),
        lambda bodies, usage: parts.merge(decoded, created, bodies, usage),
        write,
        model=model,
        show=show,
    )


def _in_a_header(text: str) -> bytes:
    """Text that quotes a model, as one line of visible ASCII."""
    return json.dumps(text)[1:-1][:LONGEST_VIOLATION].encode("ascii")


def _explained(services: Services, trace: Trace, prompts: int) -> Iterator[Header]:
    """The header that explains an answer; none where it was there, so that nothing was done for it."""
    if trace.prompted is None:
        return
    limit = services.live.config.observability.explain_characters
    yield EXPLAIN.encode(), explanation_header(explanation(services, trace, prompts), limit).encode()
