"""An ASGI middleware as a plugin: made once, called for each exchange that it applies to (edge).

An ASGI middleware is made with the app that it wraps. Here that app is a step of one exchange, another one each time, so the
middleware is made with a function that finds the step in the scope. Above: `python` makes it, plugins.asgi_exchange calls it.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from smg_core.middleware.base import About, HookName, MiddlewareFault, PieceMode, PluginSession

__all__ = ["STEP", "AsgiMiddleware", "AsgiStep"]

STEP = "smg.step"
"""Key of the scope under which the exchange is found that a middleware was called for."""
_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class AsgiStep(Protocol):
    """An exchange on its way through ASGI middleware."""

    async def onward(self, middleware: "AsgiMiddleware", scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Go on behind `middleware`, with what it passes on."""
        ...


class AsgiMiddleware:
    """One ASGI middleware. `make` is called with the app to wrap, and with `config` as keyword arguments. It has no hooks; its
    `call` is the ASGI app that stands around an exchange."""

    hooks: frozenset[HookName] = frozenset()
    pieces: PieceMode = "none"

    def __init__(self, name: str, make: Callable[..., Any], config: Mapping[str, object]) -> None:
        self.name = name
        self.call = make(self._onward, **config)

    async def _onward(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        step: AsgiStep | None = scope.get(STEP)
        if step is None:
            raise MiddlewareFault(f"passed on a scope without {STEP}")
        await step.onward(self, scope, receive, send)

    def begin(self, about: About) -> PluginSession:
        """Never called: an ASGI middleware has no hooks. Raises MiddlewareFault."""
        raise MiddlewareFault("is an ASGI middleware, which has no hooks")
