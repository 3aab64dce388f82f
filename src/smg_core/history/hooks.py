"""Hooks: Python code of a deployment that is called before and after every call of the store.

A hook runs in the task of the request that calls, so context variables are that request's own. It sees unencrypted contents,
also where they are stored encrypted. Pure. Above: `guard`, which calls hooks; `server`, which is given them. Below: `errors`.
"""

from collections.abc import Mapping
from typing import Protocol

import attrs

from smg_core.errors import PermissionDenied

__all__ = ["Hook", "Rejected", "StoreCall"]


@attrs.frozen
class StoreCall:
    """One call of a method of `base.Store`: its name, whose data it is about, who called where that is known (`write`), and its
    other arguments by name."""

    method: str
    tenant: str
    principal: str
    arguments: Mapping[str, object]


class Rejected(PermissionDenied):
    """A hook does not let the call happen; `message` goes to the client."""


class Hook(Protocol):
    """Called around every call of the store, in the order in which hooks were given."""

    async def before(self, call: StoreCall) -> Mapping[str, object] | None:
        """None lets the call happen as it is; a mapping has other values for some of its arguments (the tenant is none of them).
        Raises Rejected, or another SmgError, to prevent it."""
        ...

    async def after(self, call: StoreCall, result: object) -> None:
        """The call has happened: with which arguments, and what it returned. Not called for one that failed. Must not raise."""
        ...
