"""How a request for a response in the background is kept (edge).

What could only fail later is refused now: a model, a prompt, or a queue that is full. The response, its request and what opens
its stream are one write. Above: `background`. Below: the history, the encoder.
"""

import attrs
import msgspec

from smg_core.errors import InvalidRequest, Overloaded, PromptTooLong
from smg_core.history.base import AppendEvents, PutResponse, StoredEvent, StoreOperation
from smg_core.hooks import SilentObserver
from smg_core.pipeline.trace import Trace
from smg_core.protocols.json_text import encode_body
from smg_core.protocols.responses import ResponsesRequest
from smg_core.protocols.responses_encode import ResponsesStreamEncoder
from smg_core.protocols.responses_resume import split_frames
from smg_core.server.background_states import KeptRequest, marks
from smg_core.server.background_store import kept_until
from smg_core.server.exchange import Exchange
from smg_core.server.remembering import ResponseMemory, stored_response
from smg_core.server.responses_flow import prompted_as
from smg_core.server.runtime import Runtime

__all__ = ["keep_request"]

_HEADERS = ("session-id", "thread-id")
_OWN_HEADERS = "x-smg-"


async def keep_request(
    gateway: Runtime, memory: ResponseMemory, exchange: Exchange, decoded: ResponsesRequest
) -> bytes:
    """Keep a request, for whichever process takes it. Returns the response that waits, as clients get it."""
    id, settings = decoded.generation.id, gateway.config.responses
    if not decoded.store:
        raise InvalidRequest("A response in the background is stored, and nothing is kept here.", param="background")
    gateway.admission.check_open()
    if len(await gateway.history.abandoned("response", settings.queue)) >= settings.queue:
        retry_after = gateway.admission.retry_after
        raise Overloaded("As many responses wait in the background as may.", retry_after=retry_after)
    await _check(gateway, decoded)
    now = gateway.clock.time()
    encoder = ResponsesStreamEncoder(decoded, int(now), gateway.clock.time, memory.seal)
    opening = split_frames(encoder.queued())
    response = encoder.response()
    kept = stored_response(decoded, response, pending=True)
    kept = attrs.evolve(kept, expires_at=kept_until(gateway, settings.pending_s))
    body = msgspec.json.encode(decoded.body).decode()
    request = KeptRequest(body, _kept_headers(exchange), exchange.caller.principal)
    operations: list[StoreOperation] = [PutResponse(kept, if_version=0)]
    operations += marks(id, request, now, settings.pending_s * 2)
    if decoded.generation.stream:
        events = tuple(StoredEvent(number, data) for number, data in enumerate(opening))
        operations.append(AppendEvents(id, events, now + settings.pending_s))
    await gateway.history.write(exchange.caller.tenant, operations, principal=exchange.caller.principal)
    await memory.forget(decoded)
    return encode_body(response)


async def _check(gateway: Runtime, decoded: ResponsesRequest) -> None:
    """Refuse now what could only fail later: a model or a prompt that is not right."""
    asked = prompted_as(decoded)
    trace = Trace(gateway.clock.monotonic(), SilentObserver())
    try:
        await gateway.performers.preparing.prepare(asked, trace)
    except PromptTooLong:
        if decoded.generation.truncation != "auto":
            raise


def _kept_headers(exchange: Exchange) -> dict[str, str]:
    """The headers by which a request is routed and timed; no other is kept, since some are secrets."""
    return {
        name: value for name, value in exchange.headers.items() if name in _HEADERS or name.startswith(_OWN_HEADERS)
    }
