"""Answers how many tokens the prompt of a Messages request has, without asking an engine (edge).

The prompt is made as for an answer, by the same code, so the count is that of the request really sent; what is counted often is
in the tokenizer's cache. Above: server.generating puts the route into its table. Below: the decoder, the pipeline's preparing.
"""

from smg_core.errors import ClientGone, PromptTooLong, SmgError, UnsupportedParameter
from smg_core.hooks import SilentObserver
from smg_core.pipeline.trace import Trace
from smg_core.protocols.base import Incoming
from smg_core.protocols.errors import anthropic_error, anthropic_status, error_headers
from smg_core.protocols.json_text import encode_object
from smg_core.protocols.messages import MessagesRequest, decode_count
from smg_core.request import GenerationRequest
from smg_core.server.exchange import Exchange, Header
from smg_core.server.inference import DECODED_INLINE
from smg_core.server.runtime import Runtime

__all__ = ["TokenCount"]


class TokenCount:
    """`POST /v1/messages/count_tokens`."""

    def __init__(self, gateway: Runtime) -> None:
        self._gateway = gateway

    async def __call__(self, exchange: Exchange) -> None:
        gateway = self._gateway
        exchange.request_id = gateway.ids("req_")
        decoded: MessagesRequest | None = None
        try:
            gateway.admission.check_room()
            with gateway.admission.bodies.open() as held:
                body = await exchange.body(gateway.body_bytes, held)
                gateway.admission.check_open()
                decoded = await self._decoded(exchange, body)
            count, cleared = await self._count(decoded.generation)
        except ClientGone:
            raise
        except SmgError as error:
            if error.status == 503 and error.retry_after is None:
                error.retry_after = gateway.admission.retry_after
            told = anthropic_error(error, exchange.request_id, decoded.locate if decoded is not None else None)
            await exchange.respond(anthropic_status(error), told, [*error_headers(error), *self._names(exchange)])
            return
        found: dict[str, object] = {"input_tokens": count}
        if decoded.edited:
            found["context_management"] = {"original_input_tokens": count + cleared}
        head: Header = (b"content-type", b"application/json")
        await exchange.respond(200, encode_object(found), [head, *self._names(exchange)])

    async def _decoded(self, exchange: Exchange, body: bytes) -> MessagesRequest:
        gateway = self._gateway
        incoming = Incoming(
            body,
            exchange.request_id,
            headers=exchange.headers,
            caller=exchange.caller,
            limits=gateway.limits,
            messages=gateway.config.messages,
        )
        if len(body) <= DECODED_INLINE:
            return decode_count(incoming)
        return await gateway.executor.run(
            lambda _: decode_count(incoming), size=len(body), caller=exchange.caller.tenant
        )

    async def _count(self, request: GenerationRequest) -> tuple[int, int]:
        """The tokens of the prompt, and of what edits of the context have taken from it. A prompt that is too long for the model
        has a number too."""
        trace = Trace(self._gateway.clock.monotonic(), SilentObserver())
        try:
            prompted = await self._gateway.performers.preparing.prepare(request, trace)
        except PromptTooLong as error:
            if error.at_least:
                raise
            return error.prompt_tokens, 0
        if prompted.model.tokenizer is None:
            raise UnsupportedParameter(
                f"The engines of the model '{request.model}' encode prompts themselves, and do not say how many tokens one has.",
                param="model",
            )
        return len(prompted.ids), sum(edit.tokens for edit in prompted.edits)

    def _names(self, exchange: Exchange) -> list[Header]:
        return [self._gateway.id_header(exchange.name), (b"request-id", exchange.name.encode())]
