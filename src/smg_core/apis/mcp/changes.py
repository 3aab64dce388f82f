"""Tells clients of the MCP server what has changed: streams that stay open until the client leaves or the gateway ends (edge).

The lists of tools are compared from time to time; the servers are asked only where they have said that theirs changed, or where
these are old. Of resources and prompts it is told that a server has said so. Above: `routes`. Below: `answers`, `wire`.
"""

import asyncio
from collections.abc import Collection

from smg_core.apis.mcp.answers import McpAnswers
from smg_core.apis.mcp.wire import notification
from smg_core.errors import Overloaded
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.json_types import Json, JsonObject
from smg_core.serving.services import Services
from smg_core.tools.offered import ToolAsker
from smg_core.wire.json_text import encode_object

__all__ = ["LISTS", "ChangeStreams", "event_of"]

LISTS = ("tools", "resources", "prompts")
"""The kinds of lists of whose changes clients are told."""


def event_of(message: Json) -> bytes:
    """A message as one server-sent event."""
    return b"event: message\ndata: " + encode_object(message) + b"\n\n"


class ChangeStreams:
    """The streams of one process, of which there are at most as many as the settings say."""

    def __init__(self, services: Services, answers: McpAnswers) -> None:
        self._services, self._answers = services, answers
        self._open = 0

    async def follow(
        self,
        exchange: Exchange,
        asker: ToolAsker,
        headers: list[Header],
        kinds: Collection[str] = LISTS,
        first: Json = None,
        meta: Json = None,
    ) -> None:
        """Answer with a stream that tells of changes of lists of these `kinds`; it begins with the message `first`, and what it
        tells has `meta` with it. Raises Overloaded."""
        settings = self._services.live.config.mcp
        if self._open >= settings.serve_streams:
            raise Overloaded("As many clients as this gateway tells of changes are connected.", retry_after=10.0)
        self._open += 1
        exchange.watch()
        try:
            before = await self._answers.state(kinds, asker)
            await exchange.begin(200, headers, event_of(first) if first is not None else b": open\n\n", last=False)
            params: JsonObject = {} if meta is None else {"_meta": meta}
            while not self._services.admission.draining:
                await self._pause(settings.serve_watch_s)
                now = await self._answers.state(kinds, asker)
                changed = [kind for kind in kinds if now.get(kind) != before.get(kind)]
                notices = [event_of(notification(f"notifications/{kind}/list_changed", params)) for kind in changed]
                await exchange.write(b"".join(notices) or b": \n\n", last=False)
                before = now
            await exchange.write(b"", last=True)
        finally:
            exchange.unwatch()
            self._open -= 1

    async def _pause(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self._services.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
