"""One handler shape for every generating API (edge).

Reads the body, decodes it, runs the flow, and puts errors into the API's envelope. `serving.api` has the table of APIs. Above:
the app's route table. Below: the gateway's driver.
"""

import asyncio
import copy
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

import attrs
from msgspec.structs import replace

from smg_core.errors import ClientGone, Draining, GuardrailBlocked, InternalError, SmgError
from smg_core.events import NO_USAGE
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.lease import ModelPlace, RequestLease
from smg_core.pipeline.answer.answer import Answer
from smg_core.pipeline.answer.keep_alive import StreamKeepAlive
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.flow import Terms
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.serving.answering import answer_to, names_of, with_generations
from smg_core.serving.api import Api, Memory
from smg_core.serving.request_traces import account_of, how_it_ended, observer_of, traced
from smg_core.serving.services import Services
from smg_core.serving.shadowing import Shadow, Shadows
from smg_core.serving.timeouts import CurrentTimeouts
from smg_core.tools.opening import BUILT_IN_APIS
from smg_core.wire.base import Decoded, Incoming, Locate
from smg_core.wire.errors import error_headers

if TYPE_CHECKING:
    from smg_core.response_cache.caching import SharedAnswer

__all__ = ["DECODED_INLINE", "Inference", "incoming_of", "internal_error", "refusal_headers", "take_back_cancellation"]

D = TypeVar("D", bound=Decoded)

DECODED_INLINE = 32 * 1024
"""Bodies up to this size, in bytes, are decoded on the event loop: that takes about a millisecond at most, whatever they hold."""


class Inference(Generic[D]):
    """Answers one API's requests."""

    def __init__(
        self, services: Services, api: Api[D], detach: Callable[[Exchange, D], Awaitable[None]] | None = None
    ) -> None:
        """`detach` answers requests that are to run in the background, where the API has that."""
        self._services = services
        self._api = api
        self._detach = detach
        self._hosted = services.hosted(api.name)
        self._has_built_ins = api.name in BUILT_IN_APIS
        timeouts = services.live.config.timeouts
        self._rules = CurrentTimeouts(services.live, services.models)
        self._keep_alive = StreamKeepAlive(services.call_later, timeouts.silence_s, timeouts.commit_s)
        self._observer = observer_of(services)
        self._shadows = services.side_tasks.one_of(Shadows, lambda: Shadows(services))

    @property
    def id_prefix(self) -> str:
        """How the ids of its requests begin."""
        return self._api.id_prefix

    def with_memory(self, memory: Memory[D]) -> Self:
        """The same handler with another memory: a connection's own."""
        return self.with_api(attrs.evolve(self._api, memory=memory))

    def with_api(self, api: Api[D]) -> Self:
        """The same handler with another row of its API: one that decodes and encodes for one connection, or one response."""
        other = copy.copy(self)
        other._api = api
        return other

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        if self._services.tracing is None or exchange.traced is not None:
            return self._handle(exchange)
        return self._traced(exchange)

    async def _traced(self, exchange: Exchange) -> None:
        async with traced(exchange, self._services):
            await self._handle(exchange)

    async def _handle(self, exchange: Exchange) -> None:
        """Handle a request, which is counted from when it is admitted until it has been answered, or refused after all."""
        try:
            admitted = await self._admitted(exchange)
            if admitted is None:
                return
            decoded, trace, timeouts = admitted
            if self._detach is not None and decoded.generation.background:
                if exchange.lease is not None:
                    exchange.lease.release()  # who follows it can do that elsewhere too: no drain waits for it
                await self._detached(self._detach, exchange, decoded)
            else:
                await self._answer(exchange, decoded, trace, timeouts)
        finally:
            if exchange.lease is not None:
                exchange.lease.release()

    async def _admitted(self, exchange: Exchange) -> tuple[D, Trace, Timeouts] | None:
        """The request once it is admitted, its account and its time-outs; None where it was refused, which its client has been
        told, or its client has left."""
        services = self._services
        request_id = exchange.take_id(services.ids, self._api.id_prefix)
        trace = account_of(exchange, services, self._observer)
        try:
            decoded = await self._admit(exchange)
            live = services.live
            if exchange.plugged or live.limiting is not None or live.accounting is not None or live.caching is not None:
                decoded = await self._transformed_and_charged(exchange, decoded, trace)
            timeouts = self._rules.of(decoded.generation, exchange.headers)
            if live.queueing is not None:
                await self._its_turn(exchange, decoded, trace, timeouts)
            if (memory := self._api.memory) is not None and memory.concerns(decoded):
                exchange.watch()
                try:
                    decoded = await memory.recall(decoded)
                finally:
                    exchange.unwatch()
        except SmgError as error:
            if services.live.limiting is not None and exchange.lease is not None:
                error = services.live.limiting.refusal_of(error, exchange.lease)
            try:
                if not isinstance(error, ClientGone):
                    await self.refuse(exchange, error, request_id)
            finally:  # its client may leave while plugins are shown the refusal
                self._report(exchange, "", trace, None, error)
                _forget_frames(error)
            return None
        except asyncio.CancelledError:
            if exchange.gone:
                take_back_cancellation()
                gone = ClientGone("The client left before its request was read.")
                self._report(exchange, "", trace, None, gone)
                return None
            if not services.admission.draining:
                raise
            take_back_cancellation()
            refusal = services.admission.shut_down()
            await self.refuse(exchange, refusal, request_id)
            self._report(exchange, "", trace, None, refusal)
            return None
        except Exception:
            self._report(exchange, "", trace, None, None)  # nobody has foreseen it; the app's last line answers
            raise
        return decoded, trace, timeouts

    async def _answer(self, exchange: Exchange, decoded: D, trace: Trace, timeouts: Timeouts) -> None:
        """Answer an admitted request, and tell how it ended. What it holds is given back, whatever is raised on the way."""
        answer: Answer | None = None
        ended: Answer | None = None  # stays so where something unforeseen is raised
        failure: SmgError | None = None
        shadow: Shadow | None = None
        services, memory = self._services, self._api.memory
        if memory is not None and not memory.concerns(decoded):
            memory = None
        exchange.watch(timeouts.write)
        if exchange.traced is not None:
            exchange.traced.asks(decoded.generation)
        try:
            answer = answer_to(exchange, decoded, trace, services, self._api, self._keep_alive, memory)
            if exchange.lease is not None and exchange.lease.charge is not None:
                exchange.lease.charge.follow(answer)
            run = Run(answer, trace, timeouts, lambda: self._why_cancelled(exchange))
            if services.live.choice.has_shadows and self._is_shadowed(exchange, decoded):
                shadow = self._shadows.begin(decoded.generation, timeouts)
            failure = await self._drive(exchange, decoded, run)
            ended = answer
        finally:
            exchange.unwatch()
            try:
                if memory is not None:
                    await self._remember(memory, exchange, decoded, answer, failure)
            finally:
                # The answer itself says so where it was cancelled while its client was being told why it ends.
                final = answer if answer is not None and answer.failure is not None else ended
                self._report(exchange, decoded.generation.model, trace, final, failure)
                if shadow is not None and exchange.finished is not None:
                    shadow.answered(exchange.finished)
                if answer is not None:
                    answer.release()
                if failure is not None:
                    _forget_frames(failure)

    def _is_shadowed(self, exchange: Exchange, decoded: D) -> bool:
        """Whether a copy of the request may be sent to another model: it is one request, and an engine answers it."""
        alone = self._api.parts is None or self._api.parts.count(decoded) == 1
        return alone and (exchange.lease is None or not exchange.lease.free)

    async def _transformed_and_charged(self, exchange: Exchange, decoded: D, trace: Trace) -> D:
        """What plugins leave of the request, for which is reserved what it may take of its limits. Raises what plugins refuse it
        for, RateLimited and QuotaExceeded."""
        if exchange.plugged:
            detached = self._detach is not None and decoded.generation.background  # those are shown where they are run
            decoded = await with_generations(
                decoded, exchange.detach_request if detached else exchange.transform_request
            )
        api, lease, live = self._api, exchange.lease, self._services.live
        limiting, generation = live.limiting, decoded.generation
        if live.caching is not None and lease is not None and (api.parts is None or api.parts.count(decoded) == 1):
            with exchange.watched():
                unattended = lease.kind == "batch"
                lease.shared = await live.caching.find(
                    generation, exchange.headers, exchange.always, trace, unattended=unattended
                )
        if (
            lease is not None
            and live.accounting is not None
            and not (self._detach is not None and generation.background)
        ):
            model, user = generation.model, generation.user or ""
            lease.entry = live.accounting.entry(lease, trace, api.name, model, lease.caller, user)
        if lease is not None and limiting is not None:
            prompts = 1 if api.parts is None else api.parts.count(decoded)
            kind = api.limit_headers
            waiting = limiting.begin_generation(generation, prompts, lease, trace, kind, exchange.always)
            if waiting is not None:
                await waiting
        return decoded

    async def _its_turn(self, exchange: Exchange, decoded: D, trace: Trace, timeouts: Timeouts) -> None:
        """Wait before the model of the request until it is its turn; one that is answered in the background waits there. Raises
        what it is refused for."""
        queueing, lease, generation = self._services.live.queueing, exchange.lease, decoded.generation
        if queueing is None or lease is None or (self._detach is not None and generation.background):
            return
        if lease.shared is not None and lease.shared.free:
            return
        waiting = queueing.begin_generation(
            generation,
            1 if self._api.parts is None else self._api.parts.count(decoded),
            lease,
            trace,
            headers=exchange.headers,
            always=exchange.always,
            deadline=math.inf if timeouts.request is None else trace.started + timeouts.request,
            started=lambda: exchange.started,
        )
        if waiting is not None:
            with exchange.watched():
                await waiting

    async def _remember(
        self, memory: Memory[D], exchange: Exchange, decoded: D, answer: Answer | None, failure: SmgError | None
    ) -> None:
        """Keep what was said of an answer that was cut off, and let go of what `recall` has taken."""
        try:
            if answer is not None and (exchange.gone or isinstance(failure, Draining)):
                await memory.keep(decoded, answer.encoder, cut=True)
        finally:
            await memory.forget(decoded)

    async def _detached(self, detach: Callable[[Exchange, D], Awaitable[None]], exchange: Exchange, decoded: D) -> None:
        """Answer a request that is made elsewhere, with the object that it is now or the stream of what is kept of it."""
        try:
            await detach(exchange, decoded)
        except SmgError as error:
            await self.refuse(exchange, error, decoded.generation.id, decoded.locate)
        finally:
            if (memory := self._api.memory) is not None:
                await memory.forget(decoded)

    async def _drive(self, exchange: Exchange, decoded: D, run: Run) -> SmgError | None:
        """Run the request's flow to its end, and answer with what it raises; that is returned. A task that is cancelled
        because the client has left, or the gateway shuts down, raises that into the flow."""
        services, lease = self._services, exchange.lease
        try:
            try:
                if lease is None or lease.shared is None or not await self._shared(exchange, decoded, run, lease):
                    await self._generate(decoded, run, None if lease is None else lease.place)
            except SmgError as error:
                if error.status == 503 and error.retry_after is None:
                    error.retry_after = services.admission.retry_after
                if not exchange.gone:
                    await self._tell(exchange, decoded, run.answer, error)
                return run.answer.failure if isinstance(error, GuardrailBlocked) and run.answer.committed else error
        except asyncio.CancelledError:
            if not exchange.gone:
                raise
            take_back_cancellation()
            return self._why_cancelled(exchange)
        return None

    def _generate(self, decoded: D, run: Run, place: ModelPlace | None) -> Awaitable[object]:
        """Make the answer of a run, of a request that has this place before its model."""
        services = self._services
        terms = Terms(
            run.answer,
            services.live.config.routing,
            services.rng,
            run.trace,
            services.live.config.mcp,
            services.live.config.workers,
            services.admission.retry_budgets,
            services.live.choice if place is None else services.live.choice.after(place.refused),
            notes=services.live.config.media.note_earlier,
        )
        driver = services.running.driver
        if place is None:
            return driver.drive(self._api.flow(decoded, terms), run)
        return place.driven(lambda: driver.drive(self._api.flow(decoded, terms), run))

    async def _shared(self, exchange: Exchange, decoded: D, run: Run, lease: RequestLease) -> bool:
        """Answer a request from what is kept, or made, for several equal ones; False where it is to be answered alone."""
        services, generation = self._services, decoded.generation

        async def pay() -> None:
            if lease.charge is not None:
                lease.charge.pay()
            await self._its_turn(exchange, decoded, run.trace, run.timeouts)

        return await cast("SharedAnswer", lease.shared).answered(
            driver=services.running.driver,
            run=run,
            request=generation,
            lease=lease,
            always=exchange.always,
            timeouts=self._rules.of(replace(generation, deadline_s=None), {}),
            generate=lambda own, place: self._generate(decoded, own, place),
            pay=pay,
            draining=lambda: services.admission.shut_down() if services.admission.draining else None,
        )

    async def _tell(self, exchange: Exchange, decoded: D, answer: Answer, error: SmgError) -> None:
        """Tell the client of an error: in the stream that it gets, else in place of an answer. An answer of which nothing has
        left, since plugins have refused it, may be over; its client must be told all the same."""
        in_stream, blocked = self._api.refusals_in_stream, isinstance(error, GuardrailBlocked)
        in_band = decoded.generation.stream and (error.status in in_stream or (blocked and self._api.answers_blocked))
        try:
            written = await answer.fail(error, in_band=in_band)
        except SmgError:
            written = False  # plugins have refused the end, too
        if written and exchange.started:
            return
        exchange.unwatch()
        await self.refuse(exchange, error, decoded.generation.id, decoded.locate)

    def _why_cancelled(self, exchange: Exchange) -> SmgError | None:
        if exchange.gone:
            return ClientGone("The client left before its answer was complete.")
        if self._services.admission.draining:
            return self._services.admission.shut_down()
        place = None if exchange.lease is None else exchange.lease.place
        return None if place is None else place.stopped

    async def _admit(self, exchange: Exchange) -> D:
        services = self._services
        services.admission.check_room()
        held = services.admission.bodies.open()
        try:
            limits, declared = services.live.limits, exchange.headers.get("content-length", "")
            most = limits.media_body_bytes if self._api.takes_media else limits.body_bytes
            if "content-encoding" in exchange.headers or not (declared.isdecimal() and int(declared) <= most):
                most = max(most, services.lookup.body_bytes)
            body = await exchange.body(most, held)
            if len(body) > DECODED_INLINE and not held.size:
                held.grow(len(body))  # it came in one piece, as from a WebSocket, and may wait to be decoded
                held.arrived()
            exchange.lease = services.admission.admit(exchange.caller, exchange.kind or "generation", len(body))
            hosted = self._hosted
            if self._has_built_ins:
                for_all = services.running.tools.for_all
                if for_all is not None and not exchange.caller.grants.tools:
                    hosted = for_all
                else:
                    hosted = services.hosted(self._api.name, exchange.caller)
            incoming = incoming_of(services, exchange, body, hosted=hosted)
            if len(body) <= DECODED_INLINE:
                return self._api.decode(incoming)
            return await self._decode_elsewhere(exchange, incoming)
        finally:
            if held.size:
                held.release()

    async def _decode_elsewhere(self, exchange: Exchange, incoming: Incoming) -> D:
        """Decode a large body off the event loop. It may have to wait for that, so a client that leaves gives it up."""
        services, decode = self._services, self._api.decode
        exchange.watch()
        try:
            return await services.running.executor.run(
                lambda _: decode(incoming), size=len(incoming.body), caller=exchange.caller.tenant
            )
        finally:
            exchange.unwatch()

    async def refuse(self, exchange: Exchange, error: SmgError, request_id: str, locate: Locate | None = None) -> None:
        """Answer with the API's error envelope. `locate` is for errors from behind the decoder."""
        if exchange.started:
            # The head is out and the flow failed all the same: the stream cannot be mended, only ended.
            await exchange.write(b"", True)
            return
        error = await exchange.replaced_error(error)
        headers = [*refusal_headers(self._services, error), *names_of(exchange, self._services, self._api)]
        await exchange.respond(self._api.status(error), self._api.error(error, request_id, locate), headers)

    def _report(
        self, exchange: Exchange, model: str, trace: Trace, answer: Answer | None, failure: SmgError | None
    ) -> None:
        """Tell how the request ended; `model` is "" for one that was not admitted, `answer` None where there is none
        or it ended in a way that nobody had foreseen."""
        if failure is None and answer is not None:
            failure = answer.failure  # cancelled while the client was told of it
        called = trace.ended is not None and trace.ended.model  # then the model of the engine counts
        traced = exchange.traced
        usage = answer.usage if answer is not None else None
        if exchange.lease is not None:
            if usage is not None and exchange.lease.shared is not None and exchange.lease.shared.free:
                usage = NO_USAGE
            exchange.lease.settle(usage, failure)
        exchange.finished = how_it_ended(
            exchange.request_id,
            self._api.name,
            model,
            trace,
            seconds=self._services.clock.monotonic() - trace.started,
            usage=usage,
            over=answer is not None and answer.state == "over",
            failure=failure,
            client_id=exchange.client_id,
            served="" if called else self._services.lookup.served_name(model, exchange.caller),
            tenant=exchange.caller.tenant,
            trace_id=exchange.trace_id if traced is not None or "traceparent" in exchange.headers else "",
            sampled=traced is None or traced.sampled,
        )
        trace.report(exchange.finished)


def refusal_headers(services: Services, error: SmgError) -> list[Header]:
    """The headers of an error's answer. One of status 503 says when to come again."""
    if error.status == 503 and error.retry_after is None:
        error.retry_after = services.admission.retry_after
    closing: list[Header] = [(b"connection", b"close")] if services.admission.draining else []
    return [*error_headers(error), *closing]


def incoming_of(
    services: Services, exchange: Exchange, body: bytes, *, hosted: frozenset[str] = frozenset()
) -> Incoming:
    """The `Incoming` for a request whose body was read, which its decoder is given. `hosted` are the kinds of tools that run
    here for it; those that are only counted have none."""
    return Incoming(
        body,
        path_values=exchange.path_values,
        query=exchange.query,
        headers=exchange.headers,
        caller=exchange.caller,
        request_id=exchange.request_id,
        limits=services.live.limits,
        compat=services.compat,
        messages=services.live.config.messages,
        hosted=hosted,
        keeps_body=services.registry.any_chat,
    )


def _forget_frames(error: BaseException | None) -> None:
    """Clear the frames of an error's traceback: they hold the request, and so its memory would live as long as the error."""
    seen = set[int]()
    while error is not None and id(error) not in seen:  # code of a plugin may have made a ring of causes
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def take_back_cancellation() -> None:
    """Take back the cancellation that `Exchange` made, so that a task that goes on is not thought to be cancelled."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def internal_error() -> InternalError:
    """The error that a client gets for an unforeseen exception."""
    return InternalError("The gateway failed on this request.")
