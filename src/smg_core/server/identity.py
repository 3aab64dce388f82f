"""Identifies the caller of a request (edge).

Called once per request, before its handler: makes the `Caller` from the head of the request. It may wait, since keys can be
held elsewhere. The default gives all requests the same anonymous caller. Above: server.app.
"""

from collections.abc import Mapping
from typing import Protocol

from smg_core.request import Caller

__all__ = ["Head", "Identify", "anonymous"]

_ANONYMOUS = Caller()


class Head(Protocol):
    """What is known of a request before its body is read. Header names are lower-cased; a name in the query has its values
    in order."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def query(self) -> Mapping[str, tuple[str, ...]]: ...


class Identify(Protocol):
    """Returns the caller of a request, by its head. Raises AuthenticationFailed for wrong credentials."""

    async def __call__(self, head: Head) -> Caller: ...


async def anonymous(head: Head) -> Caller:
    """The default `Identify`: the same caller without a name for every request."""
    return _ANONYMOUS
