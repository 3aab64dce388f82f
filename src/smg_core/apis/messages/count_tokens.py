"""Answers how many tokens the prompt of a Messages request has, without asking an engine (edge).

Above: app.generating_routes puts the route into its table. Below: the decoder, `apis.tokenize.routes`.
"""

from msgspec.structs import replace

from smg_core.apis.messages.api import MESSAGES
from smg_core.apis.messages.decode import decode_count
from smg_core.http.endpoint import Handler
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.pipeline.tools.loop import without_hosted_tools
from smg_core.serving.json_handler import decoded_body, json_handler
from smg_core.serving.prompt_count import prompt_count
from smg_core.serving.services import Services
from smg_core.tools.opening import hosted_kinds
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import anthropic_error, anthropic_status
from smg_core.wire.json_text import encode_object

__all__ = ["token_count"]


def token_count(services: Services) -> Handler:
    """The handler of `POST /v1/messages/count_tokens`."""

    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(
            services, replace(incoming, hosted=hosted_kinds(services.live.config.mcp)), decode_count
        )
        located.append(decoded.locate)
        with naming_places_of(decoded.generation):
            counted = await prompt_count(services, without_hosted_tools(decoded.generation))
        found: dict[str, object] = {"input_tokens": counted.tokens}
        if decoded.edited:
            found["context_management"] = {"original_input_tokens": counted.tokens + counted.cleared}
        return encode_object(found)

    return json_handler(services, "req_", anthropic_error, count, status=anthropic_status, id_header=MESSAGES.id_header)
