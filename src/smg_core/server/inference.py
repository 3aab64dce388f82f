"""One handler shape for every generating API (edge).

Read the body, decode it, run the flow, and put errors into the API's envelope. What an API is stands in `server.apis`. Above:
the app's route table. Below: the gateway's driver.
"""

import asyncio
from typing import Generic, TypeVar

from smg_core.errors import ClientGone, Draining, InternalError, Overloaded, SmgError
from smg_core.hooks import FirstToken, RequestFinished, RequestStarted
from smg_core.pipeline.answer import Answer, StreamedAnswer, WholeAnswer
from smg_core.pipeline.driver import Trace
from smg_core.pipeline.flow import generate
from smg_core.protocols.base import Decoded, Incoming, Locate
from smg_core.protocols.errors import error_headers
from smg_core.protocols.explain import explanation_header
from smg_core.request import GenerationRequest
from smg_core.server.apis import Api
from smg_core.server.exchange import Exchange, Header
from smg_core.server.explain import explanation
from smg_core.server.runtime import Runtime

__all__ = ["Inference", "internal_error"]

D = TypeVar("D", bound=Decoded)

NO_CACHE: Header = (b"cache-control", b"no-cache")
EXPLAIN = "x-smg-explain"


class Inference(Generic[D]):
    """Answers one API's requests."""

    def __init__(self, gateway: Runtime, api: Api[D]) -> None:
        self._gateway = gateway
        self._api = api

    async def __call__(self, exchange: Exchange) -> None:
        gateway, api = self._gateway, self._api
        request_id = gateway.ids(api.id_prefix)
        trace = Trace(started=gateway.clock.monotonic())
        try:
            decoded = await self._admit(exchange, request_id)
        except SmgError as error:
            if not isinstance(error, ClientGone):
                await self.refuse(exchange, error, request_id)
            self._report_refused(request_id, trace, error)
            return
        except asyncio.CancelledError:
            if not gateway.draining:
                raise
            _forgive_cancellation()
            await self.refuse(exchange, _shut_down(gateway), request_id)
            return
        exchange.watch()
        gateway.in_flight += 1
        answer, outcome, status = None, "ok", 200
        try:
            answer = self._answer(exchange, decoded, trace)
            flow = generate(decoded.generation, answer, gateway.retry, gateway.rng, gateway.observer)
            await gateway.driver.drive(flow, answer, trace)
            if answer.failure is not None:
                outcome, status = type(answer.failure).__name__, answer.failure.status
        except SmgError as error:
            outcome, status = type(error).__name__, error.status
            exchange.unwatch()
            await self.refuse(exchange, error, request_id, decoded.locate)
        except asyncio.CancelledError:
            if exchange.gone:
                outcome, status = "client_gone", ClientGone.status
            elif gateway.draining:
                outcome, status = Draining.__name__, Draining.status
            else:
                raise
            _forgive_cancellation()
            exchange.unwatch()
            if not exchange.gone:
                await self._break_off(exchange, answer, request_id)
        finally:
            exchange.unwatch()
            gateway.in_flight -= 1
            self._report(decoded.generation, trace, answer, outcome, status)

    async def _admit(self, exchange: Exchange, request_id: str) -> D:
        gateway = self._gateway
        if gateway.in_flight >= gateway.max_in_flight:
            raise Overloaded("The gateway has as many requests as it takes.", retry_after=gateway.retry_after)
        body = await exchange.body(gateway.limits.body_bytes)
        if gateway.draining:  # looked at now: a connection closed over an unread body is reset, and its answer lost
            raise _shut_down(gateway)
        return self._api.decode(
            Incoming(
                body,
                path_values=exchange.path_values,
                query=exchange.query,
                headers=exchange.headers,
                caller=exchange.caller,
                request_id=request_id,
                limits=gateway.limits,
            )
        )

    def _answer(self, exchange: Exchange, decoded: D, trace: Trace) -> Answer:
        gateway, api = self._gateway, self._api
        request = decoded.generation
        created = int(gateway.clock.time())
        gateway.observer.report(RequestStarted(request.id, api.name, request.model, request.stream, trace.started))

        def on_first() -> None:
            trace.first = gateway.clock.monotonic()
            gateway.observer.report(FirstToken(request.id, trace.worker, trace.first - trace.started))

        head: list[Header] = [gateway.id_header(exchange.headers, request.id)]
        explained = gateway.explains and exchange.headers.get(EXPLAIN, "0") not in ("0", "false", "")

        if request.stream:

            async def write(data: bytes, last: bool) -> None:
                if not exchange.started:
                    if explained:
                        head.append(_explained(trace))
                    await exchange.start(200, [_content_type(streamed.content_type), NO_CACHE, *head])
                await exchange.write(data, last)

            streamed = StreamedAnswer(
                lambda: api.stream(decoded, created),
                write,
                high_water=gateway.response_buffer,
                on_first=on_first,
                write_now=exchange.write_now,
            )
            return streamed

        async def write_whole(data: bytes, last: bool) -> None:
            if explained:
                head.append(_explained(trace))
            exchange.unwatch()
            await exchange.respond(200, data, [_content_type(whole.content_type), *head])

        whole = WholeAnswer(lambda: api.whole(decoded, created), write_whole, on_first=on_first)
        return whole

    async def refuse(self, exchange: Exchange, error: SmgError, request_id: str, locate: Locate | None = None) -> None:
        """Answer with the API's error envelope. `locate` is for errors from behind the decoder."""
        if exchange.started:
            # The head is out and the flow failed all the same: the stream cannot be mended, only ended.
            await exchange.write(b"", True)
            return
        gateway = self._gateway
        if error.status == 503 and error.retry_after is None:
            error.retry_after = gateway.retry_after
        headers = [*error_headers(error), gateway.id_header(exchange.headers, request_id)]
        if gateway.draining:
            headers.append((b"connection", b"close"))
        await exchange.respond(error.status, self._api.error(error, request_id, locate), headers)

    async def _break_off(self, exchange: Exchange, answer: Answer | None, request_id: str) -> None:
        """End a request that the shutdown does not wait for any longer, in band where its answer has begun."""
        error = _shut_down(self._gateway)
        if not exchange.started:
            await self.refuse(exchange, error, request_id)
        elif isinstance(answer, StreamedAnswer):
            await answer.break_off(error)

    def _report_refused(self, request_id: str, trace: Trace, error: SmgError) -> None:
        """Tell of a request that was not admitted; its model is not known."""
        gateway, name = self._gateway, self._api.name
        outcome = "client_gone" if isinstance(error, ClientGone) else type(error).__name__
        seconds = gateway.clock.monotonic() - trace.started
        gateway.observer.report(RequestFinished(request_id, name, "", outcome, error.status, 0, 0, 0, seconds))

    def _report(
        self, request: GenerationRequest, trace: Trace, answer: Answer | None, outcome: str, status: int
    ) -> None:
        usage = answer.usage if answer is not None else None
        gateway = self._gateway
        trace.ended = gateway.clock.monotonic()
        gateway.observer.report(
            RequestFinished(
                request_id=request.id,
                api=self._api.name,
                model=request.model,
                outcome=outcome,
                status=status,
                prompt_tokens=usage.prompt_tokens if usage else 0,
                completion_tokens=usage.completion_tokens if usage else 0,
                cached_tokens=usage.cached_tokens if usage else 0,
                seconds=trace.ended - trace.started,
            )
        )


def _content_type(name: str) -> Header:
    return b"content-type", name.encode("ascii")


def _explained(trace: Trace) -> Header:
    return EXPLAIN.encode(), explanation_header(explanation(trace)).encode()


def _shut_down(gateway: Runtime) -> Draining:
    return Draining("The gateway is shutting down.", retry_after=gateway.retry_after)


def _forgive_cancellation() -> None:
    """Take back the cancellation that `Exchange` made, so that a task that goes on is not thought to be cancelled."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def internal_error() -> InternalError:
    """What a client is told of a fault of ours."""
    return InternalError("The gateway failed on this request.")
