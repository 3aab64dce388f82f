"""A plugin in one exchange: its session, and whether it still takes part (edge).

Above: `chain`. Below: `asking`, `event_order`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import attrs

from smg_core.errors import SmgError
from smg_core.middleware.asking import hook_verdict
from smg_core.middleware.base import HookName, PluginSession
from smg_core.middleware.entries import Link
from smg_core.middleware.event_order import EventOrder

__all__ = ["Active", "AnswerWatcher", "Identified"]

T = TypeVar("T")
P = ParamSpec("P")


@attrs.frozen
class Identified:
    """Whose a request is, by a plugin that may say so; None where it says nothing."""

    tenant: str | None = None
    principal: str | None = None


@attrs.define
class Active:
    """A plugin in this exchange. `refusal` is what it has refused the exchange for, or the failure of one that is "closed": from
    then on it passes nothing, until the client is told an error. `turn` is held while a hook waits; None for a component, whose
    session sees to that itself."""

    at: int
    link: Link
    session: PluginSession
    hooks: frozenset[HookName]
    turn: asyncio.Lock | None
    failed: bool = False
    refusal: SmgError | None = None

    async def asked(self, hook: Callable[P, Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        """What a hook answers, when the call before is over. Raises as `hook_verdict`."""
        if self.turn is None:
            return await hook_verdict(hook, None, *args, **named)
        async with self.turn:
            return await hook_verdict(hook, self.link.within, *args, **named)

    @property
    def is_in_call(self) -> bool:
        """Whether a hook of it waits, so that no other one may be called."""
        return self.turn is not None and self.turn.locked()

    def is_out(self) -> bool:
        """Whether it is left out of the rest of the exchange: it has failed and is "open", or what follows is an error. Raises
        its refusal again, whatever it is to be shown."""
        if self.refusal is not None:
            raise self.refusal
        return self.failed

    async def passed(self) -> str:
        """Wait until the hook that waits is over."""
        if self.turn is not None:
            async with self.turn:
                pass
        return ""


@attrs.frozen
class AnswerWatcher:
    """A plugin of an exchange that looks at what the model says: at its `events`, or at its texts. `seen` is the order of the
    events that it was shown, `left` that of those that it has left."""

    active: Active
    events: bool
    seen: EventOrder = attrs.field(factory=EventOrder)
    left: EventOrder = attrs.field(factory=EventOrder)
