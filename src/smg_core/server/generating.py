"""The routes of the APIs that generate: a row each (edge).

Above: server.app puts them into its table. Below: the handler, and the table of APIs.
"""

from smg_core.server import descriptions
from smg_core.server.apis import CHAT, COMPLETIONS, MESSAGES, responses_api
from smg_core.server.counting import TokenCount
from smg_core.server.endpoint import Endpoint
from smg_core.server.inference import Inference
from smg_core.server.responses_flow import respond_to
from smg_core.server.routes import Route
from smg_core.server.runtime import Runtime

__all__ = ["generating_routes"]


def generating_routes(gateway: Runtime) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`."""
    chat = Endpoint(Inference(gateway, CHAT), reads_json=True, about=descriptions.CHAT)
    completions = Endpoint(Inference(gateway, COMPLETIONS), reads_json=True, about=descriptions.COMPLETIONS)
    made = responses_api(gateway.clock.time, respond_to)
    responses = Endpoint(Inference(gateway, made), reads_json=True, about=descriptions.RESPONSES)
    messages = Endpoint(Inference(gateway, MESSAGES), reads_json=True, about=descriptions.MESSAGES)
    count = Endpoint(TokenCount(gateway), reads_json=True, about=descriptions.COUNT_TOKENS)
    return (
        Route("POST", "/v1/chat/completions", chat),
        Route("POST", "/v1/completions", completions),
        Route("POST", "/v1/responses", responses),
        Route("POST", "/v1/messages", messages),
        Route("POST", "/v1/messages/count_tokens", count),
    )
