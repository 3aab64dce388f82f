"""Routes that prepare a prompt and ask no engine: tokenize, detokenize, and what counts tokens (edge).

The prompt is made as for an answer, by the same code, so its ids are those that an engine would be sent. Above:
app.generating_routes puts the routes into its table. Below: the decoders, the pipeline's preparing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

import attrs
from msgspec.structs import replace

from smg_core.apis.tokenize.wire import (
    TokenizeRequest,
    decode_detokenize,
    decode_tokenize,
    detokenized_body,
    tokenized_body,
)
from smg_core.errors import InvalidRequest, PromptTooLong, SmgError, UnsupportedParameter
from smg_core.http.endpoint import Handler
from smg_core.http.exchange import Exchange, Header
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import Caller, GenerationRequest, Message
from smg_core.serving.api import usual_status
from smg_core.serving.fallback_model import answering_model, prompted_as_answered
from smg_core.serving.inference import incoming_of, refusal_headers, take_back_cancellation
from smg_core.serving.offload import worked
from smg_core.serving.runtime import Runtime
from smg_core.tokenizer.base import Tokenizer
from smg_core.wire.base import ErrorEncoder, Incoming, Locate
from smg_core.wire.errors import openai_error

__all__ = ["PromptCount", "Tokenizing", "json_handler", "only_model", "prompt_count"]

JSON_TYPE: Header = (b"content-type", b"application/json")
_DECODED_INLINE = 4_000
"""Token ids that are decoded on the event loop."""

T = TypeVar("T")


def json_handler(
    gateway: Runtime,
    prefix: str,
    error: ErrorEncoder,
    answer: "Answerer",
    *,
    status: Callable[[SmgError], int] = usual_status,
    id_header: bytes | None = None,
) -> Handler:
    """A handler that reads a body, has `answer` make the answer's body of it, and puts errors into the API's envelope. A client
    that leaves gives the work up, and so does a gateway that shuts down. `prefix`, `status` and `id_header` as of `Api`."""

    async def handle(exchange: Exchange) -> None:
        exchange.request_id = exchange.request_id or gateway.ids(prefix)
        named_by = [gateway.id_header(exchange.name)]
        if id_header is not None:
            named_by.append((id_header, exchange.name.encode()))
        located: list[Locate] = []
        try:
            made = await _made(gateway, exchange, answer, located)
        except SmgError as failure:
            exchange.unwatch()
            if exchange.gone:
                raise
            failure = await exchange.told(failure)
            headers = [*refusal_headers(gateway, failure), *named_by]
            told = error(failure, exchange.request_id, located[0] if located else None)
            await exchange.respond(status(failure), told, headers)
            return
        exchange.unwatch()
        if made is not None:
            await exchange.respond(200, made, [JSON_TYPE, *named_by])

    return handle


async def _made(gateway: Runtime, exchange: Exchange, answer: "Answerer", located: list[Locate]) -> bytes | None:
    """The answer's body, None where the client has left meanwhile. The request counts as in flight once its body is read."""
    place = gateway.admission.place()
    try:
        gateway.admission.check_room()
        with gateway.admission.bodies.open() as held:
            body = await exchange.body(gateway.body_bytes, held)
            place.take()
            exchange.watch()
            return await answer(incoming_of(gateway, exchange, body), located)
    except asyncio.CancelledError:
        if not exchange.gone and not gateway.admission.draining:
            raise
        take_back_cancellation()
        if exchange.gone:
            return None
        raise gateway.admission.shut_down() from None
    finally:
        place.give_back()


Answerer = Callable[[Incoming, list[Locate]], Awaitable[bytes]]
"""`await answer(incoming, located)` makes the body of the answer; what it appends to `located` says where fields of the request
were read from, for errors that come later."""


async def _prompted(gateway: Runtime, request: GenerationRequest) -> Prompted:
    prompted = await prompted_as_answered(gateway, request)
    tokenizer_of(prompted.model)
    return prompted


@attrs.frozen
class PromptCount:
    """The tokens of a prompt, and those that edits of its context have taken from it."""

    tokens: int
    cleared: int = 0


async def prompt_count(gateway: Runtime, request: GenerationRequest, shorten: "Shorten | None" = None) -> PromptCount:
    """How many tokens the prompt of a request has, also where they are too many for the model. With `shorten` such a prompt is
    shortened as for an answer, as far as it can be."""
    while True:
        try:
            prompted = await _prompted(gateway, request)
        except PromptTooLong as error:
            shorter = None if shorten is None else shorten(request.messages, error)
            if shorter is not None:
                request = replace(request, messages=shorter)
                continue
            if error.at_least:
                raise
            return PromptCount(error.prompt_tokens)
        return PromptCount(len(prompted.ids), sum(edit.tokens for edit in prompted.edits))


Shorten: TypeAlias = Callable[[tuple[Message, ...], PromptTooLong], tuple[Message, ...] | None]
"""The messages without the oldest of them, where the prompt of all is too long as the error says; None where none can go."""


def tokenizer_of(model: ServedModel) -> Tokenizer:
    """The model's tokenizer. Raises UnsupportedParameter where its engines encode prompts themselves."""
    if model.tokenizer is None:
        raise UnsupportedParameter(
            f"The engines of the model '{model.name}' encode prompts themselves, and do not say how. Where the gateway has the "
            "folder of the model's tokenizer (tokenizer.path, --tokenizer), it encodes and counts prompts itself.",
            param="model",
        )
    return model.tokenizer


async def decoded_body(gateway: Runtime, incoming: Incoming, decode: Callable[[Incoming], T]) -> T:
    """The body, decoded off the event loop where that takes long."""
    return await made_of(gateway, incoming.caller, len(incoming.body), lambda: decode(incoming))


async def made_of(gateway: Runtime, caller: Caller, size: int, make: Callable[[], T]) -> T:
    """What `make` makes of JSON texts of that many bytes, off the event loop where they are many."""
    return await worked(gateway, caller.tenant, size, make)


def named(request: GenerationRequest, gateway: Runtime) -> GenerationRequest:
    """The request with the name of its model."""
    return request if request.model else replace(request, model=only_model(gateway, "", request.caller))


def only_model(gateway: Runtime, name: str, caller: Caller) -> str:
    """`name`, or the model that is meant where a body names none: the only one that this caller may use."""
    if name:
        return name
    served = {gateway.models[each].primary or gateway.models[each].name for each in gateway.names(caller)}
    if len(served) != 1:
        raise InvalidRequest("Missing required parameter: 'model'.", param="model", code="missing_required_parameter")
    return served.pop()


class Tokenizing:
    """tokenize and detokenize."""

    def __init__(self, gateway: Runtime) -> None:
        self._gateway = gateway
        self.tokenize = json_handler(gateway, "tok-", openai_error, self._tokenize)
        self.detokenize = json_handler(gateway, "tok-", openai_error, self._detokenize)

    async def _tokenize(self, incoming: Incoming, located: list[Locate]) -> bytes:
        gateway = self._gateway
        decoded: TokenizeRequest = await decoded_body(gateway, incoming, decode_tokenize)
        located.append(decoded.locate)
        prompts = [await _prompted(gateway, named(request, gateway)) for request in decoded.generations]
        ids = [each.ids for each in prompts]

        def written() -> bytes:
            strings = [_strings(each.ids, each.model) for each in prompts] if decoded.strings else []
            return tokenized_body(decoded, ids, prompts[0].model.context_length, strings)

        return await self._long(written, sum(map(len, ids)), incoming)

    async def _detokenize(self, incoming: Incoming, located: list[Locate]) -> bytes:
        gateway = self._gateway
        wire = await decoded_body(gateway, incoming, decode_detokenize)
        name = only_model(gateway, wire.model, incoming.caller)
        asked = GenerationRequest(incoming.request_id, name, caller=incoming.caller, headers=incoming.headers)
        model = answering_model(gateway, asked)
        if model is None:
            gateway.refuse(name, incoming.caller)
        tokenizer, size = tokenizer_of(model), model.vocab_size
        several = isinstance(wire.tokens[0], list)
        nested = [each for each in wire.tokens if isinstance(each, list)]
        lists = nested or [[each for each in wire.tokens if isinstance(each, int)]]
        skip = wire.skip_special_tokens is not False

        def texts() -> list[str]:
            for place, ids in enumerate(lists):
                if max(ids, default=0) >= size:
                    at = f"tokens[{place}]" if several else "tokens"
                    raise InvalidRequest(f"Invalid '{at}': token ids must be between 0 and {size - 1}.", param=at)
            return [tokenizer.decode(ids, skip_special_tokens=skip) for ids in lists]

        found = await self._long(texts, sum(map(len, lists)), incoming)
        return detokenized_body(found, several=several)

    async def _long(self, work: Callable[[], T], tokens: int, incoming: Incoming) -> T:
        """What `work` returns, off the event loop where it goes through many tokens."""
        if tokens <= _DECODED_INLINE:
            return work()
        return await self._gateway.executor.run(lambda _: work(), size=tokens, caller=incoming.caller.tenant)


def _strings(ids: Sequence[int], model: ServedModel) -> list[str]:
    tokenizer = tokenizer_of(model)
    return [tokenizer.token_bytes(each).decode("utf-8", "replace") for each in ids]
