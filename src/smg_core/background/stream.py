"""The stream of a background response, sent to a client from its events in the history (edge).

Only stored events are sent, each once, in their order, whoever makes the response: what this process keeps is heard of at once,
what another keeps is found by looking at intervals. When the client leaves, only this stream ends. Above: `background`, `stored`.
Below: the history.
"""

import asyncio

from smg_core.background.api import StoredWords
from smg_core.background.states import RUNNING
from smg_core.errors import NotFound
from smg_core.http.exchange import Exchange
from smg_core.serving.answering import STREAM_HEADERS
from smg_core.serving.inference import take_back_cancellation
from smg_core.serving.services import Services
from smg_core.sse import COMMENT
from smg_core.stored.bells import Key, News, rung

__all__ = ["follow"]

_PAGE = 500


async def follow(services: Services, news: News, words: StoredWords, exchange: Exchange, key: Key, after: int) -> None:
    """Send the events of a response behind the number `after`, to its end."""
    head = [(b"content-type", b"text/event-stream; charset=utf-8"), *STREAM_HEADERS]
    exchange.watch(services.live.config.timeouts.write_s)
    try:
        await exchange.start(200, [*head, services.request_ids.header(exchange.name)])
        if not await _send(services, news, words, exchange, key, after) and exchange.keeper is not None:
            exchange.keeper.cut_off()
        await exchange.write(b"", True)
    except asyncio.CancelledError:
        if not exchange.gone:
            raise
        take_back_cancellation()
    finally:
        exchange.unwatch()


async def _send(services: Services, news: News, words: StoredWords, exchange: Exchange, key: Key, after: int) -> bool:
    """Send the events as they are kept; False where their end is not among them."""
    (tenant, id), clock = key, services.clock
    poll, silence = services.live.config.responses.poll_s, services.live.config.timeouts.silence_s
    spoke, over = clock.monotonic(), False
    while True:
        bell = news.bell(key)
        events = await services.running.history.events(tenant, id, after=after, limit=_PAGE)
        if events:
            ends = words.is_terminal(events[-1].data)
            frames = [words.frame(event.data) for event in events]
            await exchange.write(b"".join([*frames, words.closing] if ends else frames), False)
            if ends:
                return True
            after, spoke = events[-1].number, clock.monotonic()
            continue
        if over:
            if await _is_gone(services, words, key, after):
                error = NotFound(f"This {words.noun} is not there any more: it was deleted meanwhile, or has expired.")
                await exchange.write(words.frame(words.gone(error, id, after + 1)) + words.closing, False)
            return False
        over = await services.running.history.record(tenant, RUNNING, id) is None
        if over:
            continue  # what was kept before that may have come since the last look
        if services.admission.draining or not services.life.started:
            return False  # the client goes on from the same number at another process
        if silence and clock.monotonic() - spoke > silence:
            await exchange.write(COMMENT, False)
            spoke = clock.monotonic()
        await rung(bell, poll)


async def _is_gone(services: Services, words: StoredWords, key: Key, after: int) -> bool:
    """Whether an answer that nobody works on has no end behind which `after` is."""
    last = await services.running.history.last_event(*key)
    events = await services.running.history.events(*key, after=last - 1, limit=1) if 0 <= last <= after else ()
    return not events or not words.is_terminal(events[-1].data)
