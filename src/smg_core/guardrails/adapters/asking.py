"""Asks a service over HTTP in JSON, with its credential (edge).

Above: the adapters. Below: engines.http, the signers of credentials.
"""

from collections.abc import Awaitable
from typing import TypeVar

import attrs
import msgspec

from smg_core.credentials.opening import ProviderWants, open_signer
from smg_core.credentials.renewal.signing import SentFields, Signer
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.engines.http.address import HttpAddress
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.http.client import HttpClient
from smg_core.engines.settings import EnginesConfig
from smg_core.errors import SmgError
from smg_core.guardrails.records import GuardFault

__all__ = ["GuardService", "ServicePlace"]

T = TypeVar("T")
_MOST_BYTES = 4 << 20
"""Most bytes of an answer."""
_FIELDS: SentFields = (("content-type", "application/json"), ("accept", "application/json"))


@attrs.frozen
class ServicePlace:
    """Where a service is and how it is reached: its `url`, which may have a path, the authorities (`ca`) that are trusted beside
    the system's, what proves who asks (`credential`, as it `wants` that), the seconds of a question, and the bounds of
    connections."""

    url: str
    timeout_s: float
    ca: str = ""
    credential: CredentialSpec | None = None
    wants: ProviderWants = attrs.field(factory=ProviderWants)
    limits: EnginesConfig = attrs.field(factory=EnginesConfig)


class GuardService:
    """One service. Raises ValueError for a place that cannot be."""

    def __init__(self, place: ServicePlace) -> None:
        self._address = HttpAddress.parse(place.url)
        has_path = place.url.partition("://")[2].partition("/")[2].strip("/")
        self._root = self._address.api if has_path and not self._address.socket else ""
        self._timeout_s = place.timeout_s
        tls = Tls(ca=place.ca) if place.ca else None
        self._http = HttpClient(self._address, tls=tls, limits=place.limits, connect_timeout=place.timeout_s)
        credential, wants, limits = place.credential, place.wants, place.limits
        self._signer: Signer | None = None if credential is None else open_signer(credential, wants, limits=limits)

    async def ask(self, path: str, value: object, kind: type[T]) -> T:
        """The answer to a value, posted to `path`. Raises GuardFault where there is none."""
        body = msgspec.json.encode(value)
        try:
            reply = await self._reply(f"{self._root}{path}", body)
        except SmgError as error:
            raise GuardFault(f"{type(error).__name__}: {error.detail or error.message}") from None
        if reply.status != 200:
            raise GuardFault(f"answered with the status {reply.status}")
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise GuardFault(f"answered what is none of its answers: {type(error).__name__}") from None

    async def _reply(self, path: str, body: bytes) -> HttpReply:
        tried = False
        while True:
            signed = await self._signed(path, body)
            reply = await self._http.ask(
                "POST", path, body, timeout=self._timeout_s, headers=(*_FIELDS, *signed), most=_MOST_BYTES
            )
            signer = self._signer
            if tried or signer is None or reply.status < 400:
                return reply
            if not signer.refused(signed, reply.status, reply.headers, reply.body):
                return reply
            tried = True

    async def _signed(self, path: str, body: bytes) -> SentFields:
        if self._signer is None:
            return ()
        found = self._signer.authorise("POST", f"{self._address.origin}{path}", _FIELDS, body)
        return await found if isinstance(found, Awaitable) else found

    async def close(self) -> None:
        """Let go of its connections and its credential."""
        await self._http.close()
        if self._signer is not None:
            await self._signer.close()
