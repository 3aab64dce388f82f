"""Answers how many tokens the prompt of a Messages request has, without asking an engine (edge).

Above: server.generating puts the route into its table. Below: the decoder, `server.tokenizing`.
"""

from msgspec.structs import replace

from smg_core.pipeline.tool_loop import without_hosted_tools
from smg_core.pipeline.tool_places import naming_places_of
from smg_core.protocols.base import Incoming, Locate
from smg_core.protocols.errors import anthropic_error, anthropic_status
from smg_core.protocols.json_text import encode_object
from smg_core.protocols.messages import decode_count
from smg_core.server.endpoint import Handler
from smg_core.server.messages_api import MESSAGES
from smg_core.server.runtime import Runtime
from smg_core.server.tokenizing import decoded_body, json_handler, prompt_count

__all__ = ["token_count"]


def token_count(gateway: Runtime) -> Handler:
    """The handler of `POST /v1/messages/count_tokens`."""

    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(gateway, replace(incoming, hosted=gateway.hosted), decode_count)
        located.append(decoded.locate)
        with naming_places_of(decoded.generation):
            counted = await prompt_count(gateway, without_hosted_tools(decoded.generation))
        found: dict[str, object] = {"input_tokens": counted.tokens}
        if decoded.edited:
            found["context_management"] = {"original_input_tokens": counted.tokens + counted.cleared}
        return encode_object(found)

    return json_handler(gateway, "req_", anthropic_error, count, status=anthropic_status, id_header=MESSAGES.id_header)
