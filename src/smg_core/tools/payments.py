"""The payment for a call of a tool with a price: the record of a call under way, and the role that has it paid. Pure.

Above: `tools.hosted`. Below: nothing; the gateway's budgets and accounts fulfil the role.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs

from smg_core.request import Caller

__all__ = ["PaidCall", "PayForCall"]


@attrs.define(eq=False)
class PaidCall:
    """A call under way: `gave` is set once it has given a result, and only then it costs something."""

    gave: bool = False


PayForCall = Callable[[Caller, str, str, float], AbstractAsyncContextManager[PaidCall]]
"""Has a call paid while it is made: whose it is, the server, its tool, and how many dollars. Raises SmgError where it may not be
made, since no budget has so much left."""
