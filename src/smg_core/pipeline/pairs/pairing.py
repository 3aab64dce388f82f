"""Asks several engines for one request: one reads the prompt, another writes the answer, others encode its media (edge).

Makes the calls, sets the timer between them, and gives back what they hold. What follows from what is decided by `legs`, what
each engine is told by `engines.handover`. Each choice of several has calls of its own: a cache is handed over once, and so is an
embedding. Above: streaming, for which all legs are one call. Below: `encoding`, which has the calls of the encode workers.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec.structs import replace

from smg_core.clock import CallLater, Clock, Handle
from smg_core.engines.base import Encoded, Engine, EngineOutput, EngineRequest, EngineSink, IdsEngine, ItemizedMedia
from smg_core.engines.calls import AnswerCall
from smg_core.engines.handover import (
    KvEnd,
    decode_request,
    encoded_items,
    hand_over_of,
    not_handed_over,
    prefill_request,
)
from smg_core.engines.token_ids.fan_out import FanOut
from smg_core.errors import (
    ClientGone,
    DeadlineExceeded,
    Draining,
    EngineStalled,
    InternalError,
    ReadingFailed,
    SmgError,
    WorkerGone,
)
from smg_core.hooks import AttemptEnded
from smg_core.observability.trace_context import Outgoing
from smg_core.pipeline.answer.attempt import AnyAttempt
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.steps import Chosen, Stream
from smg_core.pipeline.pairs.encoding import Encoding, OnPart
from smg_core.pipeline.pairs.legs import Leg, Legs
from smg_core.pipeline.settings import DisaggregationConfig
from smg_core.workers.worker import WorkerPlace

__all__ = ["OnHandover", "Pairing", "Pairs", "lora_at", "says_something", "untold"]

OnHandover = Callable[[Chosen, Chosen, SmgError | None, float], None]
"""Called when it is known whether one worker got the cache of another one: with the one that made it, the other one, the error of
the call, and when that began, in monotonic seconds."""

_Tell = Callable[[Engine, str], None]

_DEFAULTS = DisaggregationConfig()

_BOOTSTRAP_PORT = 8998
"""Where engines that have not said otherwise tell of their cache."""


def untold(start: Chosen, end: Chosen, error: SmgError | None, began: float) -> None:
    """The `OnHandover` where nobody is told."""


class Pairs:
    """Makes a `Pairing` for each step of several engines. `on_outcome` is called after each prefill and encode call, as
    `streaming` calls it after each call of its own: for a prefill call that went well, once its cache is handed over.
    `on_handover` is told of each of these."""

    def __init__(
        self,
        *,
        clock: Clock,
        on_outcome: Callable[[Chosen, SmgError | None, float, bool], None],
        call_later: CallLater,
        settings: DisaggregationConfig = _DEFAULTS,
        on_handover: OnHandover = untold,
    ) -> None:
        self._clock = clock
        self._on_outcome = on_outcome
        self._on_handover = on_handover
        self._call_later = call_later
        self._settings = settings
        self._rooms: set[int] = set()  # of the pairs under way: two requests in one room would get each other's cache

    def of(self, step: Stream, prefill: Chosen, run: Run, attempt: AnyAttempt, tell: _Tell) -> "Pairing":
        """The engines of `step`, for `attempt`. `tell` sends an engine an Abort."""

        def ended(part: Chosen, error: SmgError | None, seconds: float, given_up: bool, span_id: str) -> None:
            fault = None if run.timeouts.impatient(error) else error
            self._on_outcome(part, fault, seconds, says_something(fault) or (error is None and not given_up))
            traced(part, error, seconds, given_up, span_id)

        def traced(part: Chosen, error: SmgError | None, seconds: float, given_up: bool, span_id: str) -> None:
            outcome = run.given_up if given_up else "ok" if error is None else type(error).__name__
            if isinstance(error, ReadingFailed):
                error.read_by(attempt.reader.family)
            run.trace.report(
                AttemptEnded(
                    request_id=step.prompted.request.id,
                    worker=part.worker.name,
                    attempt=step.attempt,
                    outcome=outcome,
                    completion_tokens=0,
                    finish=(),
                    first_seconds=None,
                    seconds=seconds,
                    at=self._clock.monotonic(),
                    detail="" if error is None else error.detail or error.message,
                    outside_text="" if error is None else error.outside_text,
                    client_id=run.trace.client_id,
                    trace_id=run.trace.trace_id,
                    role=part.role,
                    model=step.prompted.model.primary or step.prompted.request.model,
                    transport=part.worker.facts.transport,
                    dialect=part.worker.facts.dialect,
                    span_id=span_id,
                )
            )

        return Pairing(
            prefill,
            step.chosen,
            step.encoders,
            self._settings,
            clock=self._clock,
            call_later=self._call_later,
            tell=tell,
            on_part=ended,
            traced=traced,
            on_outcome=self._on_outcome,
            on_handover=self._on_handover,
            outgoing=run.trace.outgoing,
            attempt=attempt,
            rooms=self._rooms,
            adapter=step.prompted.model.adapter,
        )


class Pairing:
    """The engines of one call of `streaming`, whose outputs `attempt` takes; to be closed. `encoders` are those of the request's
    media, in order; `tell` sends an engine an Abort, `on_part` is called when a call is over, and `traced` in its place where
    the outcome is told later, by `on_outcome`; `on_handover` when a cache is handed over; `outgoing` says what each call is sent
    of the request's trace, `rooms` are those taken, `adapter` is the LoRA adapter that is asked for ("": none)."""

    def __init__(
        self,
        prefill: Chosen,
        decode: Chosen,
        encoders: tuple[Chosen, ...],
        settings: DisaggregationConfig,
        *,
        clock: Clock,
        call_later: CallLater,
        tell: _Tell,
        attempt: AnyAttempt,
        on_part: OnPart,
        traced: OnPart,
        on_outcome: Callable[[Chosen, SmgError | None, float, bool], None],
        on_handover: OnHandover,
        outgoing: Callable[[], Outgoing],
        rooms: set[int],
        adapter: str,
    ) -> None:
        self.adapter = adapter
        self.rooms = rooms
        self.chosen: dict[Leg, Chosen] = {"prefill": prefill, "decode": decode}
        self.encoders = encoders
        self.ends = _end_of(prefill), _end_of(decode)
        self.process = prefill.worker.board.process
        self.settings = settings
        self.clock = clock
        self.call_later = call_later
        self.tell = tell
        self.on_part = on_part
        self.traced = traced
        self.on_outcome = on_outcome
        self.on_handover = on_handover
        self.outgoing = outgoing
        self.metadata: Sequence[tuple[str, str]] = ()
        self._pairs: list[_Pair] = []
        self._attempt = attempt

    @property
    def failed(self) -> str | None:
        """The name of the worker whose leg failed first, None while none has. The choices that were given up since another one
        has failed blame nobody."""
        if self._attempt.blames:
            return self._attempt.blames
        failed = [pair for pair in self._pairs if pair.legs.failed is not None]
        pair = next((pair for pair in failed if pair.legs.error is not None), failed[0] if failed else None)
        if pair is None or pair.legs.failed is None:
            return None
        chosen = pair.encoding.to_blame if pair.legs.failed == "encode" else self.chosen[pair.legs.failed]
        return chosen.worker.name

    @property
    def handed_nothing(self) -> bool:
        """Whether the call failed at the engine that answers, for want of the cache that the other one had made."""
        attempt = self._attempt
        silent = isinstance(attempt.error, EngineStalled) and not attempt.blames and not attempt.pushes
        return any(pair.legs.handed_nothing or (silent and pair.legs.waited) for pair in self._pairs)

    def needs(self, worker: str) -> bool:
        """Whether the answer cannot be made, or not be made on, without the worker of that name."""
        legs = [leg for leg, chosen in self.chosen.items() if chosen.worker.name == worker] or ["encode"]
        return not self._pairs or any(pair.legs.needs(leg) for pair in self._pairs for leg in legs)

    def error_of(self, leg: Leg, slow: Leg | None) -> SmgError | None:
        """What the worker of a leg whose call is given up is charged with, where its silence is the reason. `slow` is the leg
        that is to blame for the state of its pair."""
        error, blamed = self._attempt.error, self._attempt.blames
        if error is None or any(pair.legs.error is not None for pair in self._pairs):
            return None
        to_blame = blamed == self.chosen[leg].worker.name if blamed else slow == leg
        return error if to_blame else None

    def close(self) -> None:
        """Give back what the legs held of the gateway, once they are over."""
        for pair in self._pairs:
            pair.close()

    def engine(self, leg: Leg) -> IdsEngine:
        """The client of a leg's engine. Raises WorkerGone."""
        return self.chosen[leg].worker.engine  # type: ignore[return-value]  # engines in these roles take ids

    async def generate(
        self,
        requests: Mapping[int, EngineRequest],
        sink: EngineSink[EngineOutput],
        *,
        prefill_media: object,
        connect_timeout: float | None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> AnswerCall:
        """Start the legs of every choice, for which `requests` has one each by its index; what the decode engines say is pushed
        into `sink`. `prefill_media` are the request's media as the prefill engine takes them, `metadata` is sent to
        the decode engines."""
        self.metadata = metadata
        fan = FanOut(requests, sink, lambda: None) if [*requests] != [0] else None
        self._pairs = [
            _Pair(self, each, sink if fan is None else fan.branch(at), prefill_media, connect_timeout)
            for at, each in requests.items()
        ]
        for pair in self._pairs:
            if fan is not None:
                fan.attach(pair.legs)
        try:
            for pair in self._pairs:
                await pair.start()
        except BaseException:
            for pair in self._pairs:
                pair.legs.cancel()
            raise
        return self._pairs[0].legs if fan is None else fan


class _Pair:
    """The legs of one choice. The `Doing` of its `Legs`."""

    def __init__(
        self,
        owner: Pairing,
        request: EngineRequest,
        sink: EngineSink[EngineOutput],
        prefill_media: object,
        connect_timeout: float | None,
    ) -> None:
        self._owner = owner
        self._request = request
        self._media = prefill_media
        self._encoded, self._rooms = self._places(prefill_media)
        self._connect_timeout = connect_timeout
        self._plan = hand_over_of(*owner.ends, request.id, owner.rooms, owner.process)
        if self._plan.room is not None:
            self._rooms |= {self._plan.room}
        owner.rooms.update(self._rooms)
        self.legs = Legs(sink, self, together=self._plan.together, encodes=bool(self._encoded))
        self.encoding = Encoding(
            owner.encoders,
            on_done=self.legs.encoded,
            on_failed=self.legs.encode_failed,
            on_part=owner.on_part,
            outgoing=owner.outgoing,
            clock=owner.clock,
        )
        self._prefilling = Outgoing()
        self._asking: asyncio.Task[None] | None = None
        self._timer: Handle | None = None
        self._reading_since: float | None = None  # while the prefill engine works
        self._read_in: float | None = None  # the seconds that took, until it is known whether its cache was taken
        self._place: WorkerPlace | None = None

    def close(self) -> None:
        self._owner.rooms.difference_update(self._rooms)
        self._tell_read(counts=False)

    def _places(self, media: object) -> tuple[tuple[Encoded, ...], frozenset[int]]:
        """Where the prefill engine gets the embeddings of each medium, and the rooms that these take."""
        encoders = self._owner.encoders
        if not encoders:
            return (), frozenset()
        itemized: ItemizedMedia = media  # type: ignore[assignment]  # dialects with encode workers send each item by itself
        ends = [_end_of(each) for each in encoders]
        return encoded_items(ends, len(itemized.items), self._request.id, self._owner.rooms, self._owner.process)

    async def start(self) -> None:
        """Ask the prefill engine, the encode workers, and the decode engine too where all are asked at once."""
        if self.legs.over:  # another choice has failed meanwhile
            return
        owner, chosen = self._owner, self._owner.chosen["prefill"]
        self.encoding.start(self._request.id, self._media, self._encoded, owner.settings.encode_s)
        asked = self._request
        if owner.adapter:
            asked = replace(asked, lora=lora_at(chosen, owner.adapter))
        request = prefill_request(asked, self._plan, chosen.rank, self._media, self._encoded)
        self._place = WorkerPlace(chosen.worker, chosen.reads)
        self._reading_since = owner.clock.monotonic()
        self._prefilling = owner.outgoing()
        try:
            call = await owner.engine("prefill").generate(
                request,
                self.legs.prefill,
                metadata=self._prefilling.metadata,
                connect_timeout=self._connect_timeout,
            )
        except SmgError as error:
            self.legs.prefill_closed(error)
            return
        self._take("prefill", call)
        if self._plan.together and not self.legs.over:
            await self._ask_decode(decode_request(self._request, self._plan, None))

    async def _ask_decode(self, request: EngineRequest) -> None:
        try:
            call = await self._owner.engine("decode").generate(
                request, self.legs.decode, metadata=self._owner.metadata, connect_timeout=self._connect_timeout
            )
        except SmgError as error:
            self.legs.decode_closed(error)
        else:
            self._take("decode", call)

    def _take(self, leg: Leg, call: AnswerCall) -> None:
        if not self.legs.attach(leg, call):
            call.cancel()
            self._owner.tell(self._owner.engine(leg), self._request.id)

    # ------------------------------------------------------------------------------------------------- asked by the legs

    def not_handed_over(self, answered: EngineOutput) -> SmgError | None:
        return not_handed_over(self._plan, answered)

    def ask_decode(self, answered: EngineOutput) -> None:
        request = decode_request(self._request, self._plan, answered)
        self._asking = asyncio.ensure_future(self._ask_decode(request))

    def drop(self, leg: Leg) -> None:
        if leg == "encode":
            self.encoding.cancel()
            return
        if leg == "prefill":
            error = self._owner.error_of("prefill", self.legs.failed)
            self._prefill_over(error, given_up=error is None)
        elif self._asking is not None:
            self._asking.cancel()
        call = self.legs.detach(leg)
        if call is not None:
            call.cancel()
            worker = self._owner.chosen[leg].worker
            if worker.reached is not None:
                self._owner.tell(worker.reached, self._request.id)

    def set_timer(self, kind: Literal["transfer", "end"]) -> None:
        settings = self._owner.settings
        seconds = settings.transfer_s if kind == "transfer" else settings.end_s
        self._timer = self._owner.call_later(seconds, self.legs.overdue)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def handed_over(self) -> None:
        chosen = self._owner.chosen
        self._tell_read(counts=True)
        self._owner.on_handover(chosen["prefill"], chosen["decode"], None, self._owner.clock.monotonic())

    def ended(self, leg: Leg, error: SmgError | None) -> None:
        if leg == "prefill":
            self._prefill_over(error, given_up=False)
        elif leg == "decode" and not self.legs.handed_nothing:  # whatever it was, it was not the cache
            self._tell_read(counts=True)

    def _prefill_over(self, error: SmgError | None, *, given_up: bool) -> None:
        """Give back the place of the prefill call, once."""
        since, self._reading_since = self._reading_since, None
        if since is not None:
            if self._place is not None:
                self._place.leave()
            part = self._owner.chosen["prefill"]
            seconds, span_id = self._owner.clock.monotonic() - since, self._prefilling.span_id
            if error is None and not given_up:
                self._read_in = seconds
                self._owner.traced(part, None, seconds, False, span_id)
                return
            self._owner.on_part(part, error, seconds, given_up, span_id)

    def _tell_read(self, *, counts: bool) -> None:
        """Tell, once, how the prefill call went that had come to its end. `counts` False: its cache was not taken."""
        seconds, self._read_in = self._read_in, None
        if seconds is not None:
            self._owner.on_outcome(self._owner.chosen["prefill"], None, seconds, counts)


def says_something(error: SmgError | None) -> bool:
    """Whether an error says something of the worker whose call ended with it. None, of a call that is not complete, and what the
    gateway decides by itself, do not."""
    return error is not None and not isinstance(error, ClientGone | DeadlineExceeded | Draining | InternalError)


def lora_at(chosen: Chosen, adapter: str) -> str | None:
    """The id by which the chosen worker's engine knows an adapter; None for "". Raises WorkerGone where it has let go of it since
    it was chosen."""
    if not adapter:
        return None
    found = chosen.worker.adapters.get(adapter)
    if found is None:
        raise WorkerGone("The engine no longer holds the adapter.", detail=f"{chosen.worker.name}: {adapter!r}")
    return found


def _end_of(chosen: Chosen) -> KvEnd:
    spec, kv, facts = chosen.worker.spec, chosen.worker.kv, chosen.worker.facts
    host = spec.bootstrap_host or urlsplit(spec.url).hostname or "localhost"
    port = spec.bootstrap_port or kv.port or _BOOTSTRAP_PORT
    return KvEnd(facts.dialect, kv, f"[{host}]" if ":" in host else host, port, chosen.rank, facts.ranks)
