"""Signers that send a key or a token in one header (edge).

Each request is given the key that is there when it is sent. Above: opening. Below: renewed.
"""

from collections.abc import Awaitable, Mapping

from smg_core.credentials.renewal.renewed import Renewed
from smg_core.credentials.renewal.signing import SentFields

__all__ = ["KeySigner", "Unsigned"]

_REFUSALS = frozenset({401, 403})


class KeySigner:
    """`source` in the header `header`, behind `scheme` ("Bearer") where there is one; `further_fields` are sent with it."""

    def __init__(self, source: Renewed[str], header: str, scheme: str = "", further_fields: SentFields = ()) -> None:
        self._source = source
        self._header = header
        self._prefix = f"{scheme} " if scheme else ""
        self._further_fields = tuple(further_fields)

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
        return ((self._header, f"{self._prefix}{key}"), *self._further_fields)


class Unsigned:
    """No credential: the headers of the worker are all that is sent."""

    def authorise(self, method: str, url: str, headers: SentFields, body: bytes) -> SentFields:
        return ()

    def refused(self, sent: SentFields, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        return False

    async def close(self) -> None:
        """There is nothing to end."""
