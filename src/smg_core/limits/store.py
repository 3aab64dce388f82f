"""Counts limits in a Valkey or Redis that several gateways share, all that waits in one call (edge).

One call is under way at a time; what is asked meanwhile goes with the next. What is put right need not be waited for: it is sent
until the server has it, and counted once however often it is sent. A server that does not answer in time is lost: requests are
then decided as `on_loss` says, and no more calls are made for a second after three losses. What was charged meanwhile is
counted when the server is back. A call that the server reads too late changes nothing. Above: `serving.limiting`. Below: the
function, redis-py.
"""

import asyncio
import logging
import math
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal

import attrs
import msgspec
import redis.asyncio as client
from redis.exceptions import RedisError, ResponseError

from smg_core.clock import Clock
from smg_core.errors import Overloaded
from smg_core.hooks import Observer, SettlementsDropped, SilentObserver
from smg_core.limits.counters import Counter, Instant
from smg_core.limits.decision import LimitClaim, LimitRefusal, claimed
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import LimitRule
from smg_core.limits.store_script import (
    FUNCTION,
    LIBRARY,
    SCRIPT,
    claim_parts,
    put_right_parts,
    refusal_in,
)

__all__ = ["OnLoss", "StoreCounters", "StoreTerms"]

OnLoss = Literal["share", "closed", "open"]
_log = logging.getLogger("smg.limits")

_TOGETHER = 64
"""How many claims, and how many of what is put right, go with one call."""
_LOSSES, _PAUSE_S = 3, 1.0
"""After how many losses in a row no call is made, and for how long."""
_HEARTBEAT_S, _ALIVE_S = 5.0, 15.0
"""How often a gateway says that it is there, and how long it counts as one that is."""
_CONNECT_S = 1.0
_WAITING = 65_536
"""Most that waits to be put right while the server is lost; beyond that the oldest is dropped."""
_SEEN = 4096
"""Counters of which is known how they were last seen."""
_EXPECTED = (RedisError, OSError, asyncio.TimeoutError, msgspec.DecodeError)
_MEMBERS = "smg:{limits}:members"


@attrs.frozen
class StoreTerms:
    """How the server is used: what its loss means, how long one call may take, after how long what a gateway that has died had
    reserved is free again, and the time zone of the calendar's windows."""

    on_loss: OnLoss = "share"
    timeout_s: float = 0.05
    reservation_s: float = 900.0
    zone: str = "UTC"


@attrs.frozen(eq=False)
class _Asked:
    claims: Sequence[LimitClaim]
    at: Instant
    answer: "asyncio.Future[LimitRefusal | None]"


@attrs.frozen(eq=False)
class _Right:
    claims: Sequence[LimitClaim]
    costs: Sequence[int]
    taken_at: Instant
    ends: bool


class StoreCounters:
    """The counters of the server at `url`. `clock` is used until the server has told its own time."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        terms: StoreTerms | None = None,
        *,
        now_us: Callable[[], int] | None = None,
        observer: Observer | None = None,
    ) -> None:
        """`now_us` is the time by which the server counts, in tests; else it is its own. `observer` is told what is dropped."""
        self.terms = terms or StoreTerms()
        self._observer = observer or SilentObserver()
        self._redis = client.Redis.from_url(
            url.replace("valkey", "redis", 1) if url.startswith("valkey") else url,
            socket_connect_timeout=_CONNECT_S,
            socket_timeout=None,
            max_connections=2,
            retry=None,
        )
        self._script = self._redis.register_script(SCRIPT)
        self._clock, self._now_us = clock, now_us
        self._member = os.urandom(8).hex()
        self._ahead_us: int | None = None
        self._function, self._loaded = True, False
        self._asked: deque[_Asked] = deque()
        self._rights: deque[_Right] = deque()
        self._sent: list[_Right] = []
        self._number = 0
        self._wake = asyncio.Event()
        self._losses, self._closed_until = 0, 0.0
        self._members, self._beat_at = 1, 0.0
        self._share: MemoryCounters | None = None
        self._seen: OrderedDict[str, Counter] = OrderedDict()
        self.calls = self.dropped = 0

    # ---------------------------------------------------------------------------------------------------- what is asked

    @property
    def now(self) -> Instant:
        """The server's time, as far as it is known."""
        if self._now_us is not None:
            us = self._now_us()
            return Instant(us, us / 1_000_000)
        us = int(self._clock.time() * 1_000_000) + (self._ahead_us or 0)
        return Instant(us, us / 1_000_000)

    @property
    def lost(self) -> bool:
        """Whether the server has not answered the last call."""
        return self._losses > 0

    async def ask(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not. Raises Overloaded where the server is lost and that closes the gateway."""
        if not claims:
            return None
        if self._clock.monotonic() < self._closed_until:
            return self._decided_alone(claims, at)
        asked = _Asked(claims, at, asyncio.get_running_loop().create_future())
        self._asked.append(asked)
        self._wake.set()
        try:
            return await asked.answer
        except asyncio.CancelledError:
            if asked.answer.done() and not asked.answer.cancelled() and asked.answer.result() is None:
                self.settle(claims, [0] * len(claims), at, at)
            raise
        except _EXPECTED:
            return self._decided_alone(claims, at)

    async def reserve(
        self, claims: Sequence[LimitClaim], at: Instant, decided: Callable[[LimitRefusal | None], None]
    ) -> None:
        """Charge all claims, or none, and tell `decided` why not."""
        decided(await self.ask(claims, at))

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge where nobody can wait for the server: what was seen of the counters last decides."""
        refusal = claimed(claims, self.look(claims), at, self.terms.zone)[1]
        if refusal is None:
            self._charge(claims, at)
        return refusal

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of, as they were seen last."""
        return [self._seen.get(claim.scope, Counter()) for claim in claims]

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`; they stay reserved."""
        self._put_right(claims, costs, taken_at, at, ends=False)

    def settle(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """The same, once the request has ended: `costs` are what it used."""
        self._put_right(claims, costs, taken_at, at, ends=True)

    def _put_right(
        self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant, *, ends: bool
    ) -> None:
        if self._share is not None and self._losses:
            self._share.put_right(self._shared(claims), costs, taken_at, at)
        self._rights.append(_Right(claims, costs, taken_at, ends))
        if len(self._rights) > _WAITING:
            self._rights.popleft()
            if not self.dropped:
                _log.warning("more waits for limits.store than is kept (%d): the oldest is not counted", _WAITING)
            self.dropped += 1
            self._observer.report(SettlementsDropped(1))
        self._wake.set()

    def _charge(self, claims: Sequence[LimitClaim], at: Instant) -> None:
        """Have what was decided here counted by the server."""
        nothing = [LimitClaim(each.rule, each.scope, 0) for each in claims]
        self._rights.append(_Right(nothing, [each.cost for each in claims], at, ends=False))
        self._wake.set()

    # ------------------------------------------------------------------------------------------------- without the server

    def _decided_alone(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """What a claim gets while the server is lost."""
        if self.terms.on_loss == "closed":
            raise Overloaded("The gateway cannot count its limits now.", retry_after=_PAUSE_S)
        if self.terms.on_loss == "share":
            if self._share is None:
                self._share = MemoryCounters(_WAITING, self.terms.zone)
            refusal = self._share.claim(self._shared(claims), at)
            if refusal is not None:
                return refusal
        self._charge(claims, at)
        return None

    def _shared(self, claims: Sequence[LimitClaim]) -> list[LimitClaim]:
        """The claims of this gateway's share of each limit: one of as many as were there last."""
        found = []
        for claim in claims:
            rule = _part(claim.rule, self._members)
            found.append(LimitClaim(rule, claim.scope, min(claim.cost, rule.capacity)))
        return found

    # ----------------------------------------------------------------------------------------------------------- the calls

    async def run(self) -> None:
        """Work until it is cancelled; then all that has to be put right is sent once more."""
        self._closed_until = 0.0
        try:
            while True:
                if not self._asked and (not self._pending or self._waits_s > 0):
                    await self._idle()
                if self._asked or self._pending:
                    await self._once()
        finally:
            self._closed_until = math.inf
            for each in self._asked:
                each.answer.cancel()
            self._asked.clear()
            while self._pending and not self._losses:
                await self._once()
            await self._redis.aclose()

    @property
    def _pending(self) -> bool:
        return bool(self._rights or self._sent)

    @property
    def _waits_s(self) -> float:
        return self._closed_until - self._clock.monotonic()

    async def _idle(self) -> None:
        self._wake.clear()
        timeout = max(0.0, self._waits_s) if self._pending else _HEARTBEAT_S
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return
        if self._losses and not self._asked and self._waits_s > 0:
            await asyncio.sleep(self._waits_s)

    async def _once(self) -> None:
        """One call with what waits."""
        asked = [self._asked.popleft() for _ in range(min(_TOGETHER, len(self._asked)))]
        if not self._sent and self._rights:
            self._sent = list(islice(self._rights, _TOGETHER))
            for _ in self._sent:
                self._rights.popleft()
            self._number += 1
        answer: list[int] | None = None
        try:
            async with asyncio.timeout(self._limit_s):
                answer = await self._called(asked)
        except _EXPECTED as error:
            self._note_loss(error)
            for each in asked:
                if not each.answer.done():
                    each.answer.set_exception(error)
            return
        finally:
            for each in asked:
                if not each.answer.done() and answer is None:
                    each.answer.cancel()  # nobody works here any more
        if self._losses:
            _log.warning("limits.store answers again")
        self._losses, self._share, self._sent = 0, None, []
        self._tell(asked, answer)

    @property
    def _limit_s(self) -> float:
        return self.terms.timeout_s if self._loaded else _CONNECT_S

    def _note_loss(self, error: BaseException) -> None:
        if not self._losses:
            _log.warning(
                "limits.store does not answer (%s): limits.on_loss is %s", type(error).__name__, self.terms.on_loss
            )
        self._losses += 1
        if self._losses >= _LOSSES or isinstance(error, OSError | client.ConnectionError):
            self._closed_until = self._clock.monotonic() + _PAUSE_S

    def _tell(self, asked: Sequence[_Asked], answer: Sequence[int]) -> None:
        place, seen = 2, self._seen
        for each in asked:
            size = 1 + 3 * len(each.claims)
            counters, refusal = refusal_in(each.claims, answer[place : place + size], each.at, self.terms.zone)
            place += size
            for claim, counter in zip(each.claims, counters, strict=True):
                seen[claim.scope] = counter
                seen.move_to_end(claim.scope)
            if not each.answer.done():
                each.answer.set_result(refusal)
            elif refusal is None:  # who asked has left meanwhile
                self.settle(each.claims, [0] * len(each.claims), each.at, each.at)
        while len(seen) > _SEEN:
            seen.popitem(last=False)

    async def _called(self, asked: Sequence[_Asked]) -> list[int]:
        if self._ahead_us is None or not self._loaded:
            await self._prepare()
        await self._beat()
        at, zone, keys = self.now, self.terms.zone, {f"smg:{{limits}}:sent:{self._member}": 1}
        rights = [
            put_right_parts(each.claims, each.costs, keys, each.taken_at, at, zone, ends=each.ends)
            for each in self._sent
        ]
        claims = [claim_parts(each.claims, keys, each.at, zone) for each in asked]
        fixed = 0 if self._now_us is None else self._now_us()
        deadline = 0 if fixed else at.monotonic_us + int(self.terms.timeout_s * 1_000_000)
        ttl = int(self.terms.reservation_s * 1_000_000)
        sent = msgspec.msgpack.encode(
            [fixed, deadline, self._member, ttl, self._number if self._sent else 0, rights, claims]
        )
        answer: list[int] = msgspec.msgpack.decode(await self._command(list(keys), sent), type=list[int])
        self.calls += 1
        if not fixed:
            self._ahead_us = answer[0] - int(self._clock.time() * 1_000_000)
        if not answer[1]:
            raise TimeoutError("the call was read too late")
        return answer

    async def _command(self, keys: list[str], sent: bytes) -> bytes:
        try:
            return await self._sent_once(keys, sent)
        except ResponseError as error:
            if "not found" not in str(error).lower():
                raise
        await self._prepare()  # the server was started again, and is empty
        return await self._sent_once(keys, sent)

    async def _sent_once(self, keys: list[str], sent: bytes) -> bytes:
        if self._function:
            answer: bytes = await self._redis.fcall(FUNCTION, len(keys), *keys, sent)
        else:
            answer = await self._script(keys=keys, args=[sent])
        return answer

    async def _prepare(self) -> None:
        """Load the function, and ask for the server's time."""
        try:
            await self._redis.function_load(LIBRARY, replace=True)
        except ResponseError as error:
            if "unknown command" not in str(error).lower():
                raise
            self._function = False  # older than functions
        seconds, micros = await self._redis.time()
        self._ahead_us = int(seconds) * 1_000_000 + int(micros) - int(self._clock.time() * 1_000_000)
        self._loaded = True

    async def _beat(self) -> None:
        """Say that this gateway is there, and learn how many are."""
        now = self._clock.monotonic()
        if now < self._beat_at:
            return
        us = self.now.monotonic_us
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(_MEMBERS, {self._member: us})
            pipe.zremrangebyscore(_MEMBERS, 0, us - int(_ALIVE_S * 1_000_000))
            pipe.zcard(_MEMBERS)
            self._members = max(1, (await pipe.execute())[2])
        self._beat_at = now + _HEARTBEAT_S


def _part(rule: LimitRule, members: int) -> LimitRule:
    """One gateway's part of a limit."""
    return attrs.evolve(
        rule, amount=max(1, rule.amount // members), burst=max(1, rule.burst // members) if rule.burst else 0
    )
