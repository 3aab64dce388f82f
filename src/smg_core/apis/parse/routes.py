"""The routes `/parse/*`: parse a text that a model wrote, as the gateway parses its answers (edge).

Off by default, since they use CPU without a model. Parsing runs in the executor, as other long work does, and is given up when
its client leaves. Above: the app's route table. Below: apis.parse.wire.
"""

import asyncio
from collections.abc import Callable

from smg_core.apis.parse.wire import FamilyOf, ParseBody, parse_function_call, parse_reasoning
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.http.scope import Header
from smg_core.json_types import JsonObject
from smg_core.request import GenerationRequest
from smg_core.serving.fallback_model import answering_model
from smg_core.serving.inference import take_back_cancellation
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiSpec
from smg_core.tokenizer.base import GivenUp
from smg_core.wire.operation import Operation, OperationResponse
from smg_core.wire.settings import LimitsConfig
from smg_parsers import Family

__all__ = ["PARSE_CALLS_OPERATION", "PARSE_REASONING_OPERATION", "SPEC", "parse_routes"]

PARSE_COST = 16
"""How many times longer a character takes to be parsed than to be encoded; the executor's lanes are divided by encoding."""
JSON_TYPE: Header = (b"content-type", b"application/json")

Parse = Callable[[bytes, LimitsConfig, FamilyOf, GivenUp], bytes]


PARSE_CALLS_OPERATION = Operation(
    "parseFunctionCall",
    "Read a text that a model wrote: its tool calls.",
    "parse",
    ParseBody,
    (OperationResponse(200, "What was read.", JsonObject),),
    {"hermes": {"text": '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "parser": "hermes"}},
)

PARSE_REASONING_OPERATION = Operation(
    "parseReasoning",
    "Read a text that a model wrote: its reasoning.",
    "parse",
    ParseBody,
    (OperationResponse(200, "What was read.", JsonObject),),
    {"qwen3": {"text": "<think>Hm.</think>Hello.", "parser": "qwen3"}},
)


def parse_routes(services: Services) -> list[Route[Endpoint]]:
    """The two routes."""
    calls = Endpoint(_handler(services, parse_function_call), "parse", reads_json=True, about=PARSE_CALLS_OPERATION)
    reasoning = Endpoint(_handler(services, parse_reasoning), "parse", reads_json=True, about=PARSE_REASONING_OPERATION)
    return [Route("POST", "/parse/function_call", calls), Route("POST", "/parse/reasoning", reasoning)]


def _handler(services: Services, parse: Parse) -> Handler:
    async def answer(exchange: Exchange) -> None:
        services.admission.check_room()
        with services.admission.bodies.open() as held:
            body = await exchange.body(services.lookup.body_bytes, held)
            lease = services.admission.admit(exchange.caller, "parse", len(body))
            try:
                parsed = await read(exchange, body)
                if parsed is None:
                    return
                exchange.take_id(services.ids, "req_")
                await exchange.respond(200, parsed, [JSON_TYPE, services.request_ids.header(exchange.name)])
            finally:
                lease.release()

    async def read(exchange: Exchange, body: bytes) -> bytes | None:
        def family_of(name: str) -> Family | None:
            asked = GenerationRequest(exchange.request_id, name, caller=exchange.caller, headers=exchange.headers)
            served = answering_model(services, asked)
            return served.parser if served is not None else None

        exchange.watch()
        try:
            return await services.running.executor.run(
                lambda given_up: parse(body, services.live.limits, family_of, given_up),
                size=len(body) * PARSE_COST,
                caller=exchange.caller.tenant,
            )
        except asyncio.CancelledError:
            if not exchange.gone:
                raise
            take_back_cancellation()
            return None
        finally:
            exchange.unwatch()

    return answer


SPEC = ApiSpec(
    (),
    {"parse": "/parse/function_call and /parse/reasoning"},
    lambda context: parse_routes(context.services) if context.services.live.config.server.parse_routes else (),
)
