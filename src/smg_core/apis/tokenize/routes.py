"""Routes that prepare a prompt and ask no engine: tokenize, detokenize, and what counts tokens (edge).

The prompt is made as for an answer, by the same code, so its ids are those that an engine would be sent. Above:
app.generating_routes puts the routes into its table. Below: the decoders, the pipeline's preparing.
"""

from collections.abc import Callable, Sequence

from smg_core.apis.tokenize.wire import (
    DetokenizeBody,
    Detokenized,
    TokenizeBody,
    Tokenized,
    TokenizeRequest,
    decode_detokenize,
    decode_tokenize,
    detokenized_body,
    tokenized_body,
)
from smg_core.errors import InvalidRequest
from smg_core.http.endpoint import Endpoint
from smg_core.http.routes import Route
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import GenerationRequest
from smg_core.serving.fallback_model import answering_model
from smg_core.serving.json_handler import T, decoded_body, json_handler
from smg_core.serving.prompt_count import named, only_model, prompted_here, tokenizer_of
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, again
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["DETOKENIZE_OPERATION", "SPEC", "TOKENIZE_OPERATION", "Tokenizing"]

_DECODED_INLINE = 4_000
"""Token ids that are decoded on the event loop."""


TOKENIZE_OPERATION = Operation(
    "tokenize",
    "The token ids of a text, or of the prompt that messages become.",
    "tokens",
    TokenizeBody,
    (OperationResponse(200, "The ids.", Tokenized),),
    {"text": {"model": "MODEL", "prompt": "Hello"}, "texts": {"prompt": ["One", "Two"], "return_token_strs": True}},
)

DETOKENIZE_OPERATION = Operation(
    "detokenize",
    "The text of token ids.",
    "tokens",
    DetokenizeBody,
    (OperationResponse(200, "The text.", Detokenized),),
    {"ids": {"model": "MODEL", "tokens": [5, 6, 7]}},
)


class Tokenizing:
    """tokenize and detokenize."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.tokenize = json_handler(services, "tok-", openai_error, self._tokenize)
        self.detokenize = json_handler(services, "tok-", openai_error, self._detokenize)

    async def _tokenize(self, incoming: Incoming, located: list[Locate]) -> bytes:
        services = self._services
        decoded: TokenizeRequest = await decoded_body(services, incoming, decode_tokenize)
        located.append(decoded.locate)
        prompts = [await prompted_here(services, named(request, services)) for request in decoded.generations]
        ids = [each.ids for each in prompts]

        def written() -> bytes:
            strings = [_strings(each.ids, each.model) for each in prompts] if decoded.strings else []
            return tokenized_body(decoded, ids, prompts[0].model.context_length, strings)

        return await self._long(written, sum(map(len, ids)), incoming)

    async def _detokenize(self, incoming: Incoming, located: list[Locate]) -> bytes:
        services = self._services
        wire = await decoded_body(services, incoming, decode_detokenize)
        name = only_model(services, wire.model, incoming.caller)
        asked = GenerationRequest(incoming.request_id, name, caller=incoming.caller, headers=incoming.headers)
        model = answering_model(services, asked)
        if model is None:
            services.lookup.refuse(name, incoming.caller)
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
        return await self._services.running.executor.run(lambda _: work(), size=tokens, caller=incoming.caller.tenant)


def _strings(ids: Sequence[int], model: ServedModel) -> list[str]:
    tokenizer = tokenizer_of(model)
    return [tokenizer.token_bytes(each).decode("utf-8", "replace") for each in ids]


def tokenize_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes, with and without a version."""
    handlers = Tokenizing(context.services)
    tokenize = Endpoint(handlers.tokenize, "tokenize", reads_json=True, about=TOKENIZE_OPERATION)
    detokenize = Endpoint(handlers.detokenize, "tokenize", reads_json=True, about=DETOKENIZE_OPERATION)
    return (
        Route("POST", "/tokenize", tokenize),
        Route("POST", "/v1/tokenize", again(tokenize)),
        Route("POST", "/detokenize", detokenize),
        Route("POST", "/v1/detokenize", again(detokenize)),
    )


SPEC = ApiSpec((ApiName("tokenize"),), {"tokenize": "/tokenize and /detokenize"}, tokenize_routes)
