"""One handler shape for every API of pooled work (edge).

Reads the body, decodes it, has the gateway's `Pooling` make the vectors, writes the answer off the event loop, and tells how the
request ended, as `serving.inference` does for APIs that generate. Above: apis.pooling.routes. Below: pipeline.pooled.pooling,
the table in `apis.pooling.api`.
"""

import asyncio
from typing import Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from smg_core.apis.pooling.api import PoolApi, PoolDecoded
from smg_core.apis.pooling.vectors import PooledVectors
from smg_core.errors import ClientGone, DeadlineExceeded, SmgError
from smg_core.hooks import RequestStarted
from smg_core.http.exchange import Exchange
from smg_core.http.scope import Header
from smg_core.lease import RequestLease
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.pooled.gathering import Pooled, PoolTerms
from smg_core.request import GenerationRequest
from smg_core.serving.explain import pool_explained
from smg_core.serving.inference import DECODED_INLINE, incoming_of, refusal_headers, take_back_cancellation
from smg_core.serving.offload import worked
from smg_core.serving.prompt_count import only_model
from smg_core.serving.request_traces import account_of, how_it_ended, observer_of, traced
from smg_core.serving.services import Services
from smg_core.serving.timeouts import CurrentTimeouts

__all__ = ["PoolInference"]

D = TypeVar("D", bound=PoolDecoded)

JSON_TYPE: Header = (b"content-type", b"application/json")
EXPLAIN = "x-smg-explain"


class PoolInference(Generic[D]):
    """Answers one API's requests."""

    def __init__(self, services: Services, api: PoolApi[D]) -> None:
        self._services = services
        self._api = api
        self._rules = CurrentTimeouts(services.live, services.models)
        self._observer = observer_of(services)

    async def __call__(self, exchange: Exchange) -> None:
        async with traced(exchange, self._services):
            await self._handle(exchange)

    async def _handle(self, exchange: Exchange) -> None:
        services = self._services
        exchange.take_id(services.ids, self.id_prefix)
        trace = account_of(exchange, services, self._observer)
        decoded: D | None = None
        pooled: Pooled | None = None
        failure: SmgError | None = None
        over = False
        try:
            decoded = self._with_model(await self._admit(exchange), exchange)
            if services.live.accounting is not None and exchange.lease is not None:
                lease, asked, name = exchange.lease, decoded.request, self._api.name
                lease.entry = services.live.accounting.entry(lease, trace, name, asked.model, lease.caller, asked.user)
            if exchange.lease is not None:
                await self._charge(exchange, exchange.lease, decoded, trace)
            pooled, failure = await self._answer(exchange, decoded, trace)
            over = failure is None
        except SmgError as error:
            if services.live.limiting is not None and exchange.lease is not None:
                error = services.live.limiting.refusal_of(error, exchange.lease)
            failure = error
            if not isinstance(error, ClientGone):
                await self._refuse(exchange, error, decoded)
        except asyncio.CancelledError:
            failure = self._why_cancelled(exchange)
            if failure is None:
                raise
            take_back_cancellation()
            if not exchange.gone and not exchange.started:
                await self._refuse(exchange, failure, decoded)
        finally:
            try:
                exchange.unwatch()
                self._report(exchange, decoded, trace, pooled, failure, over=over)
            finally:
                if exchange.lease is not None:
                    exchange.lease.release()

    @property
    def id_prefix(self) -> str:
        """How the ids of its requests begin."""
        return self._api.prefix

    async def _charge(self, exchange: Exchange, lease: RequestLease, decoded: D, trace: Trace) -> None:
        """Reserve what the request may take of its limits, and wait before its model until it is its turn. Raises what it is
        refused for."""
        live, asked, always = self._services.live, decoded.request, exchange.always
        if live.limiting is not None:
            waiting = live.limiting.begin_pooled(asked, lease, trace, always)
            if waiting is not None:
                await waiting
        if live.queueing is not None:
            waiting = live.queueing.begin_pooled(asked, lease, trace, exchange.headers, always)
            if waiting is not None:
                with exchange.watched():
                    await waiting

    async def _admit(self, exchange: Exchange) -> D:
        services = self._services
        services.admission.check_room()
        with services.admission.bodies.open() as held:
            body = await exchange.body(services.lookup.body_bytes, held)
            exchange.lease = services.admission.admit(exchange.caller, exchange.kind or "pooled", len(body))
            incoming = incoming_of(services, exchange, body)
            if len(body) <= DECODED_INLINE:
                return self._api.decode(incoming)
            exchange.watch()
            try:
                return await worked(services, exchange.caller.tenant, len(body), lambda: self._api.decode(incoming))
            finally:
                exchange.unwatch()

    def _with_model(self, decoded: D, exchange: Exchange) -> D:
        """The request with the model that is meant where its body names none. Raises InvalidRequest where there are several."""
        if decoded.request.model:
            return decoded
        name = only_model(self._services, "", exchange.caller)
        found = replace(cast("Struct", decoded), request=replace(decoded.request, model=name))
        return cast("D", found)  # what decoders return is a Struct each

    async def _answer(self, exchange: Exchange, decoded: D, trace: Trace) -> tuple[Pooled | None, SmgError | None]:
        """Answer an admitted request: what was made of it, or the error that its client was told."""
        services, request = self._services, decoded.request
        timeouts = self._timeouts(exchange, decoded)
        now = services.clock.monotonic()
        trace.report(RequestStarted(request.id, self._api.name, request.model, False, trace.started, now))
        exchange.watch(timeouts.write)
        pooled = await self._pooled(exchange, decoded, timeouts, trace)
        body = await self._written(decoded, pooled)
        exchange.unwatch()
        head = [JSON_TYPE, services.request_ids.header(exchange.name)]
        if services.live.explains and exchange.headers.get(EXPLAIN, "0") not in ("0", "false", ""):
            head.append((EXPLAIN.encode(), pool_explained(services, trace, request, pooled).encode()))
        await exchange.respond(200, body, head)
        return pooled, None

    async def _pooled(self, exchange: Exchange, decoded: D, timeouts: Timeouts, trace: Trace) -> Pooled:
        services, request = self._services, decoded.request
        model = services.lookup.served_or_refused(request.model, request.caller)
        terms = PoolTerms(
            settings=services.live.config.pooling,
            timeouts=timeouts,
            retries=services.live.config.routing.retries,
            budgets=services.admission.retry_budgets,
            number_bytes=decoded.number_bytes,
            answer_bytes=services.live.config.limits.answer_bytes,
            api=self._api.name,
            of_guardrail=not self._api.guarded,
        )
        left = None
        if timeouts.request is not None:
            left = max(0.0, trace.started + timeouts.request - services.clock.monotonic())
        try:
            async with asyncio.timeout(left):
                return await services.running.performers.pooling(request, model, terms, trace)
        except TimeoutError:
            raise DeadlineExceeded(f"The request was not complete within {timeouts.request or 0:g} seconds.") from None

    async def _written(self, decoded: D, pooled: Pooled) -> bytes:
        """The answer's body, made off the event loop where it is large."""
        vectors = [each.values for each in pooled.vectors]
        made = PooledVectors(
            decoded.request.model,
            vectors,
            pooled.prompt_tokens,
            int(self._services.clock.time()),
            pooled.method,
            pooled.model.labels,
            [each.label for each in pooled.vectors],
        )
        size = sum(map(len, made.vectors)) * decoded.number_bytes
        return await worked(self._services, decoded.request.caller.tenant, size, lambda: self._api.body(decoded, made))

    def _timeouts(self, exchange: Exchange, decoded: D) -> Timeouts:
        request = decoded.request
        return self._rules.of(
            GenerationRequest(id=request.id, model=request.model, caller=request.caller), exchange.headers
        )

    def _why_cancelled(self, exchange: Exchange) -> SmgError | None:
        if exchange.gone:
            return ClientGone("The client left before its answer was complete.")
        return self._services.admission.shut_down() if self._services.admission.draining else None

    async def _refuse(self, exchange: Exchange, error: SmgError, decoded: D | None) -> None:
        """Answer with the API's error envelope."""
        exchange.unwatch()
        services = self._services
        error = await exchange.replaced_error(error)
        headers = [*refusal_headers(services, error), services.request_ids.header(exchange.name)]
        locate = None if decoded is None else decoded.locate
        await exchange.respond(self._api.status(error), self._api.error(error, exchange.request_id, locate), headers)

    def _report(
        self,
        exchange: Exchange,
        decoded: D | None,
        trace: Trace,
        pooled: Pooled | None,
        failure: SmgError | None,
        *,
        over: bool,
    ) -> None:
        """Tell how the request ended."""
        model = "" if decoded is None else decoded.request.model
        usage = None if pooled is None else pooled.usage
        if exchange.lease is not None:
            exchange.lease.settle(usage, failure)
        exchange.finished = how_it_ended(
            exchange.request_id,
            self._api.name,
            model,
            trace,
            seconds=self._services.clock.monotonic() - trace.started,
            usage=usage,
            over=over,
            failure=failure,
            client_id=exchange.client_id,
            served=self._services.lookup.served_name(model, exchange.caller),
            tenant=exchange.caller.tenant,
            trace_id=exchange.trace_id,
            sampled=exchange.sampled,
        )
        trace.report(exchange.finished)
