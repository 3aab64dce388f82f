"""The meeting of a gateway's plugins with its exchanges (edge).

An app asks here for an exchange that plugins see, for its caller, and for the ASGI middleware around a step of it. Above:
app.app. Below: `plugged` and `wrapping`.
"""

from collections.abc import Awaitable, Callable

from smg_core.http.exchange import Exchange
from smg_core.http.scope import Receive, Scope, Send
from smg_core.middleware.base import Middleware
from smg_core.middleware.chain import When
from smg_core.plugins.asgi_exchange import OwnHeaders, Refuse, Wrapped
from smg_core.plugins.exchange import PluginExchange, permit_plugged
from smg_core.plugins.registry import Plugins

__all__ = ["Plugging", "StepOfExchange"]

StepOfExchange = Callable[[Exchange], Awaitable[str | None]]
"""What is left to do of an exchange; returns the outcome, None for a good one. Raises SmgError."""
_Report = Callable[[Exchange, StepOfExchange], Awaitable[str]]


class Plugging:
    """The plugins of one app. `told` takes a step and tells the client of its errors, `refuse` tells one error, `headers` are
    those of every answer."""

    def __init__(self, plugins: Plugins, report: _Report, refuse: Refuse, headers: OwnHeaders) -> None:
        self._plugins = plugins
        self._report, self._refuse, self._headers = report, refuse, headers

    @property
    def any(self) -> bool:
        """Whether there are plugins now, or may be in a moment."""
        return bool(self._plugins.plan.links or self._plugins.pending)

    @property
    def on_arrival(self) -> tuple[Middleware, ...]:
        """What a connection that is opened now will have met."""
        return self._plugins.plan.on_arrival()

    @property
    def has_asgi(self) -> bool:
        """Whether there is ASGI middleware now."""
        return self._plugins.plan.has_asgi

    async def served(
        self, scope: Scope, receive: Receive, send: Send, answer: Callable[[Exchange], Awaitable[object]]
    ) -> None:
        """Answer a request as an exchange that plugins see."""
        if self._plugins.pending:
            with self._plugins.asked():
                await self._plugins.changed()
        exchange = PluginExchange(scope, receive, send)
        try:
            await answer(exchange)
        finally:
            exchange.unplug()

    async def permit(
        self, exchange: Exchange, needed: str, identified: Callable[[Exchange, str], Awaitable[None]]
    ) -> None:
        """Find the caller of a request. Raises what `identified` does, and what plugins refuse it for."""
        await permit_plugged(exchange, self._plugins, needed, identified)

    async def around(self, exchange: Exchange, when: When, step: StepOfExchange) -> str:
        """Take a step of an exchange behind the ASGI middleware of this time; returns the outcome."""
        links = self._plugins.plan.around(exchange.about(), when)
        if not links:
            return await step(exchange) or "ok"
        wrapped = Wrapped(
            exchange,
            links,
            lambda: self._report(exchange, step),
            report=self._plugins.report,
            refuse=self._refuse,
            headers=self._headers,
        )
        return await wrapped.run()
