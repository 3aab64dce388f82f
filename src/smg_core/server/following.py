"""The stream of a response that is made in the background, sent to a client from what is kept of it (edge).

Only stored events are sent, each once, in their order, whoever makes the response: what this process keeps is heard of at once,
what another keeps is found by looking at intervals. When the client leaves, only this stream ends. Above: `background`, `stored`.
Below: the history.
"""

import asyncio

from smg_core.errors import NotFound
from smg_core.server.answering import STREAM_HEADERS
from smg_core.server.background_api import StoredWords
from smg_core.server.background_states import RUNNING
from smg_core.server.exchange import Exchange
from smg_core.server.inference import take_back_cancellation
from smg_core.server.news import Key, News, rung
from smg_core.server.runtime import Runtime
from smg_core.sse import COMMENT

__all__ = ["follow"]

_PAGE = 500


async def follow(gateway: Runtime, news: News, words: StoredWords, exchange: Exchange, key: Key, after: int) -> None:
    """Send the events of a response behind the number `after`, to its end."""
    head = [(b"content-type", b"text/event-stream; charset=utf-8"), *STREAM_HEADERS]
    exchange.watch(gateway.config.timeouts.write_s)
    try:
        await exchange.start(200, [*head, gateway.id_header(exchange.name)])
        await _send(gateway, news, words, exchange, key, after)
        await exchange.write(b"", True)
    except asyncio.CancelledError:
        if not exchange.gone:
            raise
        take_back_cancellation()
    finally:
        exchange.unwatch()


async def _send(gateway: Runtime, news: News, words: StoredWords, exchange: Exchange, key: Key, after: int) -> None:
    (tenant, id), clock = key, gateway.clock
    poll, silence = gateway.config.responses.poll_s, gateway.config.timeouts.silence_s
    spoke, over = clock.monotonic(), False
    while True:
        bell = news.bell(key)
        events = await gateway.history.events(tenant, id, after=after, limit=_PAGE)
        if events:
            ends = words.is_terminal(events[-1].data)
            frames = [words.frame(event.data) for event in events]
            await exchange.write(b"".join([*frames, words.closing] if ends else frames), False)
            if ends:
                return
            after, spoke = events[-1].number, clock.monotonic()
            continue
        if over:
            if await _is_gone(gateway, words, key, after):
                error = NotFound(f"This {words.noun} is not there any more: it was deleted meanwhile, or has expired.")
                await exchange.write(words.frame(words.gone(error, id, after + 1)) + words.closing, False)
            return
        over = await gateway.history.record(tenant, RUNNING, id) is None
        if over:
            continue  # what was kept before that may have come since the last look
        if gateway.draining or not gateway.started:
            return  # the client goes on from the same number at another process
        if silence and clock.monotonic() - spoke > silence:
            await exchange.write(COMMENT, False)
            spoke = clock.monotonic()
        await rung(bell, poll)


async def _is_gone(gateway: Runtime, words: StoredWords, key: Key, after: int) -> bool:
    """Whether an answer that nobody works on has no end behind which `after` is."""
    last = await gateway.history.last_event(*key)
    events = await gateway.history.events(*key, after=last - 1, limit=1) if 0 <= last <= after else ()
    return not events or not words.is_terminal(events[-1].data)
