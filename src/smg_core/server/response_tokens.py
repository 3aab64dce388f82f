"""POST /v1/responses/input_tokens: the tokens that a request's prompt has, made as for its answer (edge).

Above: server.generating puts the route into the table. Below: the decoder, what the API remembers, the preparing.
"""

from msgspec.structs import replace

from smg_core.pipeline.tool_places import naming_places_of
from smg_core.protocols.base import Incoming, Locate
from smg_core.protocols.errors import responses_error
from smg_core.protocols.json_text import encode_body
from smg_core.protocols.responses import decode_responses
from smg_core.server.endpoint import Handler
from smg_core.server.remembering import ResponseMemory
from smg_core.server.responses_flow import prompted_as, shortened
from smg_core.server.runtime import Runtime
from smg_core.server.tokenizing import decoded_body, json_handler, prompt_count

__all__ = ["input_tokens"]


def input_tokens(gateway: Runtime, memory: ResponseMemory) -> Handler:
    """The handler; `memory` has what a request continues."""

    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(gateway, incoming, decode_responses)
        located.append(decoded.locate)
        unkept = replace(decoded.generation, history=replace(decoded.history, store=False))
        decoded = await memory.recall(replace(decoded, generation=unkept))
        may_shorten = decoded.generation.truncation == "auto"
        with naming_places_of(decoded.generation):
            counted = await prompt_count(gateway, prompted_as(decoded), shortened if may_shorten else None)
        return encode_body({"object": "response.input_tokens", "input_tokens": counted.tokens})

    return json_handler(gateway, "resp_", responses_error, count)
