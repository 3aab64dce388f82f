"""`AwsSigner`: signs each request to a service of AWS (edge).

A clock that is off is learnt from the first refusal that says so: AWS compares the time of a signature with its own, which is in
the header Date of its answer. Above: opening. Below: renewed, sigv4.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from email.utils import parsedate_to_datetime

from smg_core.clock import Clock, SystemClock
from smg_core.credentials.aws.sigv4 import AwsKeys, AwsScope, amz_date, sign
from smg_core.credentials.renewal.renewed import Renewed
from smg_core.credentials.renewal.signing import SentFields

__all__ = ["AwsSigner", "clock_error"]

log = logging.getLogger(__name__)

_REFUSALS = frozenset({400, 401, 403})
_STALE = (b"Signature expired", b"Signature not yet current", b"RequestTimeTooSkewed", b"RequestExpired")
_CHANGED = (b"ExpiredToken", b"UnrecognizedClient", b"InvalidClientTokenId", b"InvalidSignature", b"security token")
_LARGE = 256 * 1024
"""Bytes of a body above which its digest is made in a thread."""
_LEAST_S = 60.0
"""Seconds that the clock has to be off by for a refusal to be its fault."""


def clock_error(headers: Mapping[str, str], now: float) -> float | None:
    """How many seconds the clock that says `now` is behind the one of the answer's header Date; None without such a header."""
    try:
        return parsedate_to_datetime(headers["date"]).timestamp() - now
    except (KeyError, ValueError, TypeError):
        return None


class AwsSigner:
    """Signs for one service in one region (`scope`) with the keys of `source`."""

    def __init__(self, source: Renewed[AwsKeys], scope: AwsScope, *, clock: Clock | None = None) -> None:
        self._source = source
        self._scope = scope
        self._clock = clock or SystemClock()
        self.skew_s = 0.0  # what is added to the clock

    def __repr__(self) -> str:
        return f"<signer for {self._scope.service} in {self._scope.region} with the {self._source!r}>"

    def authorise(self, method: str, url: str, headers: SentFields, body: bytes) -> SentFields | Awaitable[SentFields]:
        keys = self._source.held()
        if keys is None or len(body) > _LARGE:
            return self._awaited(method, url, headers, body)
        return self._signed(keys, method, url, headers, body)

    def refused(self, sent: SentFields, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        if status not in _REFUSALS:
            return False
        if any(each in body for each in _STALE):
            return self._corrected(headers)
        if status == 400 or not self._names_keys(headers, body):
            return False
        keys = self._source.held()
        proof = next((value for name, value in sent if name == "authorization"), "")
        if keys is None or f"Credential={keys.key_id}/" not in proof:
            return True  # they were renewed meanwhile
        return self._source.refuse(keys)

    async def close(self) -> None:
        await self._source.close()

    def _names_keys(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether a refusal is about the keys, and not about what they may do."""
        words = headers.get("x-amzn-errortype", "").encode("ascii", "replace") + body
        return any(each in words for each in _CHANGED)

    def _corrected(self, headers: Mapping[str, str]) -> bool:
        """Take the time of the answer for ours, once for each time that it differs."""
        error = clock_error(headers, self._clock.time())
        if error is None or abs(error - self.skew_s) < _LEAST_S:
            return False
        log.warning("the clock of this machine is %.0f s off; AWS's time is used for signatures", -error)
        self.skew_s = error
        return True

    async def _awaited(self, method: str, url: str, headers: SentFields, body: bytes) -> SentFields:
        keys = await self._source.current()
        if len(body) <= _LARGE:
            return self._signed(keys, method, url, headers, body)
        return await asyncio.to_thread(self._signed, keys, method, url, headers, body)

    def _signed(self, keys: AwsKeys, method: str, url: str, headers: SentFields, body: bytes) -> SentFields:
        return sign(keys, self._scope, amz_date(self._clock.time() + self.skew_s), method, url, headers, body)
