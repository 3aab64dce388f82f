"""Signers that send a key or a token in one header (edge).

Each request is given the key that is there when it is sent. Above: opening. Below: renewed.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from smg_core.credentials.renewal.renewed import Renewed

__all__ = ["RenewedKeySigner", "RenewingSigner", "SentFields"]

SentFields = Sequence[tuple[str, str]]
"""Header fields: names in lower case, each with its value."""
_REFUSALS = frozenset({401, 403})


class RenewingSigner(Protocol):
    """Gives each request the headers that prove who sends it, and learns from refusals."""

    def authorise(self, method: str, url: str, headers: SentFields, body: bytes) -> SentFields | Awaitable[SentFields]:
        """The headers to send beside `headers`, at once or when awaited. Raises CredentialFailed."""
        ...

    def refused(self, sent: SentFields, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """A provider has answered with an error to a request with the headers `sent`, which `authorise` gave. Returns whether it
        was the credential, and another one, or a signature by another clock, is sent when `authorise` is asked again."""
        ...

    async def close(self) -> None:
        """Ask for no more credentials."""
        ...


class RenewedKeySigner:
    """`source` in the header `header`, behind `scheme` ("Bearer") where there is one; `beside` are sent with it."""

    def __init__(self, source: Renewed[str], header: str, scheme: str = "", beside: SentFields = ()) -> None:
        self._source = source
        self._header = header
        self._prefix = f"{scheme} " if scheme else ""
        self._beside = tuple(beside)

    def __repr__(self) -> str:
        return f"<{self._header} with the {self._source!r}>"

    def authorise(self, method: str, url: str, headers: SentFields, body: bytes) -> SentFields | Awaitable[SentFields]:
        key = self._source.held()
        return self._awaited() if key is None else self._fields(key)

    def refused(self, sent: SentFields, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        if status not in _REFUSALS:
            return False
        value = next((value for name, value in sent if name == self._header), None)
        return value is not None and self._source.refuse(value.removeprefix(self._prefix))

    async def close(self) -> None:
        await self._source.close()

    async def _awaited(self) -> SentFields:
        return self._fields(await self._source.current())

    def _fields(self, key: str) -> SentFields:
        return ((self._header, f"{self._prefix}{key}"), *self._beside)
