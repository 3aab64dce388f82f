"""Who sends a request (edge).

Asked once per request, before its handler: from the head of a request to the `Caller` that its records carry. It may wait,
since keys can be held elsewhere. The default knows nobody: all requests are of one anonymous caller. Above: server.app.
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
    """From a request's head to its caller. Raises AuthenticationFailed where the credentials are wrong."""

    async def __call__(self, head: Head) -> Caller: ...


async def anonymous(head: Head) -> Caller:
    """Everybody is the same caller, without a name."""
    return _ANONYMOUS
