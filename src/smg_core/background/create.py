"""Stores a request for an answer in the background (edge).

What could only fail later is refused now: a model, a prompt, or a queue that is full. The answer, its request and what opens
its stream are one write. Above: `background`. Below: the history, the row of the API.
"""

from typing import TypeVar

import attrs

from smg_core.background.api import BackgroundApi
from smg_core.background.states import KeptRequest, marks, pending_until
from smg_core.background.store import kept_until
from smg_core.errors import InvalidRequest, Overloaded, PromptTooLong, RateLimited
from smg_core.history.store.base import AppendEvents, PutResponse, StoredEvent, StoreOperation
from smg_core.hooks import SilentObserver
from smg_core.http.exchange import Exchange
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.request import GenerationRequest
from smg_core.serving.services import Services
from smg_core.stored.expiry import continued_kept
from smg_core.wire.base import Decoded
from smg_core.wire.json_text import encode_body

__all__ = ["keep_request"]

D = TypeVar("D", bound=Decoded)

_HEADERS = ("session-id", "thread-id")
_OWN_HEADERS = "x-smg-"


async def keep_request(services: Services, api: BackgroundApi[D], exchange: Exchange, decoded: D) -> bytes:
    """Keep a request, for whichever process takes it. Returns the object that waits, as clients get it."""
    if decoded.generation.history.store is False:
        raise InvalidRequest(f"A background {api.words.noun} is stored, and nothing is kept here.", param="background")
    lease = services.admission.admit(exchange.caller, "background", decoded.generation.size)
    try:
        return await _kept(services, api, exchange, decoded)
    finally:
        lease.release()


async def _kept(services: Services, api: BackgroundApi[D], exchange: Exchange, decoded: D) -> bytes:
    generation, settings, words = decoded.generation, services.live.config.responses, api.words
    id = generation.id
    await _check_queue(services, exchange.caller.tenant)
    with naming_places_of(generation):
        await _check(services, api.prompt(decoded), may_shorten=generation.truncation == "auto")
    now = services.clock.time()
    encoder = api.stream(decoded, int(now))
    opening = words.events(encoder.queued())
    response = encoder.response()
    kept = api.stored(decoded, response, True)
    until = pending_until(now, settings.pending_s)
    kept = attrs.evolve(kept, expires_at=kept_until(services, until - now))
    headers = {**_kept_headers(exchange), **api.headers(decoded)}
    if exchange.traced is not None:  # what is done later belongs to the same trace
        headers |= exchange.traced.naming(exchange.traced.span_id)
    request = KeptRequest(api.body(decoded).decode(), headers, exchange.caller.principal, exchange.caller.grants)
    operations: list[StoreOperation] = [PutResponse(kept, if_version=0)]
    operations += marks(id, request, now, until)
    operations += continued_kept(services, kept.previous_id)
    if generation.stream:
        events = tuple(StoredEvent(number, data) for number, data in enumerate(opening))
        operations.append(AppendEvents(id, events, until))
    await services.running.history.write(exchange.caller.tenant, operations, principal=exchange.caller.principal)
    await api.memory.forget(decoded)
    return encode_body(api.rendered(decoded, response))


async def _check_queue(services: Services, tenant: str) -> None:
    """Refuse one more where as many wait as may: of this tenant, and of all."""
    settings, retry_after = services.live.config.responses, services.admission.retry_after
    waiting = await services.running.history.abandoned("response", settings.queue)
    if sum(each.tenant == tenant for each in waiting) >= settings.queue_tenant:
        raise RateLimited("As many of your answers wait in the background as may.", retry_after=retry_after)
    if len(waiting) >= settings.queue:
        raise Overloaded("As many answers wait in the background as may.", retry_after=retry_after)


async def _check(services: Services, asked: GenerationRequest, *, may_shorten: bool) -> None:
    """Refuse now what could only fail later: a model or a prompt that is not right."""
    trace = Trace(services.clock.monotonic(), SilentObserver())
    try:
        await services.running.performers.preparing.prepare(asked, trace)
    except PromptTooLong:
        if not may_shorten:
            raise


def _kept_headers(exchange: Exchange) -> dict[str, str]:
    """The headers by which a request is routed and timed; no other is kept, since some are secrets."""
    return {
        name: value for name, value in exchange.headers.items() if name in _HEADERS or name.startswith(_OWN_HEADERS)
    }
