"""POST /v1/responses/input_tokens: the tokens that a request's prompt has, made as for its answer (edge).

Above: app.generating_routes puts the route into the table. Below: the decoder, what the API remembers, the preparing.
"""

from msgspec.structs import replace

from smg_core.apis.responses.flow import prompted_as, shortened
from smg_core.apis.responses.memory import ResponseMemory
from smg_core.apis.responses.wire.decode import decode_responses
from smg_core.http.endpoint import Handler
from smg_core.pipeline.prompt.tool_places import naming_places_of
from smg_core.serving.json_handler import decoded_body, json_handler
from smg_core.serving.prompt_count import prompt_count
from smg_core.serving.services import Services
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.errors import responses_error
from smg_core.wire.json_text import encode_body

__all__ = ["input_tokens"]


def input_tokens(services: Services, memory: ResponseMemory) -> Handler:
    """The handler; `memory` has what a request continues."""

    async def count(incoming: Incoming, located: list[Locate]) -> bytes:
        decoded = await decoded_body(services, incoming, decode_responses)
        located.append(decoded.locate)
        unkept = replace(decoded.generation, history=replace(decoded.history, store=False))
        decoded = await memory.recall(replace(decoded, generation=unkept))
        may_shorten = decoded.generation.truncation == "auto"
        with naming_places_of(decoded.generation):
            counted = await prompt_count(services, prompted_as(decoded), shortened if may_shorten else None)
        return encode_body({"object": "response.input_tokens", "input_tokens": counted.tokens})

    return json_handler(services, "resp_", responses_error, count)
