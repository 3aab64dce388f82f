"""The stream of a response that is made in the background, sent to a client from what is kept of it (edge).

Only stored events are sent, each once, in their order, whoever makes the response: what this process keeps is heard of at once,
what another keeps is found by looking at intervals. A client that leaves ends nothing but this. Above: `background`, `stored`.
Below: the history.
"""

import asyncio

from smg_core.errors import InvalidRequest
from smg_core.protocols.responses_resume import frame_of, is_terminal
from smg_core.server.background_states import RUNNING
from smg_core.server.exchange import Exchange
from smg_core.server.inference import take_back_cancellation
from smg_core.server.news import Key, News, rung
from smg_core.server.runtime import Runtime
from smg_core.sse import COMMENT

__all__ = ["follow", "starting_after"]

_PAGE = 500


def starting_after(values: tuple[str, ...]) -> int:
    """The number behind which a stream is resumed; without one it is sent from its beginning. Raises InvalidRequest."""
    if not values:
        return -1
    text = values[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise InvalidRequest(
            f"Invalid 'starting_after': expected the number of an event, but got {text[:40]!r}.", param="starting_after"
        )
    return int(text)


async def follow(gateway: Runtime, news: News, exchange: Exchange, key: Key, after: int) -> None:
    """Send the events of a response behind the number `after`, to its end."""
    head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    exchange.watch(gateway.config.timeouts.write_s)
    try:
        await exchange.start(200, [*head, gateway.id_header(exchange.name)])
        await _send(gateway, news, exchange, key, after)
        await exchange.write(b"", True)
    except asyncio.CancelledError:
        if not exchange.gone:
            raise
        take_back_cancellation()
    finally:
        exchange.unwatch()


async def _send(gateway: Runtime, news: News, exchange: Exchange, key: Key, after: int) -> None:
    (tenant, id), clock = key, gateway.clock
    poll, silence = gateway.config.responses.poll_s, gateway.config.timeouts.silence_s
    spoke, over = clock.monotonic(), False
    while True:
        bell = news.bell(key)
        events = await gateway.history.events(tenant, id, after=after, limit=_PAGE)
        if events:
            await exchange.write(b"".join([frame_of(event.data) for event in events]), False)
            if is_terminal(events[-1].data):
                return
            after, spoke = events[-1].number, clock.monotonic()
            continue
        if over:
            return  # it has ended, and all is sent
        over = await gateway.history.record(tenant, RUNNING, id) is None
        if over:
            continue  # what was kept before that may have come since the last look
        if gateway.draining or not gateway.started:
            return  # the client goes on from the same number at another process
        if silence and clock.monotonic() - spoke > silence:
            await exchange.write(COMMENT, False)
            spoke = clock.monotonic()
        await rung(bell, poll)
