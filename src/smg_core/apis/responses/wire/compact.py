"""POST /v1/responses/compact: a request in, the user's messages and one compaction item out.

The answer is what a client sends from then on in place of its history. Nothing of it is kept, so the compaction is sealed for the
client. Fields that only an answer of the model needs are refused by name; the tools are taken, since Codex sends them, and say
nothing to the model. Pure. Above: the server. Below: responses, encode.
"""

from collections.abc import Callable

from msgspec.structs import replace

from smg_core.apis.responses.wire.builder import SealSummary
from smg_core.apis.responses.wire.decode import ResponsesRequest, of_body, read_body
from smg_core.apis.responses.wire.encode import ResponsesWholeEncoder
from smg_core.apis.responses.wire.types import ResponsesBody
from smg_core.errors import EngineFailed, InvalidRequest
from smg_core.json_types import Json
from smg_core.wire.base import Incoming
from smg_core.wire.json_text import encode_body

__all__ = ["CompactionEncoder", "decode_compact"]

_TAKEN = frozenset(
    {
        "client_metadata",
        "image",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "text",
        "tools",
        "user",
    }
)


def decode_compact(incoming: Incoming) -> ResponsesRequest:
    """Decode the body of `incoming`. Raises as `decode_responses` does."""
    wire = read_body(incoming)
    for name in ResponsesBody.__struct_fields__:
        if name not in _TAKEN and getattr(wire, name) is not None:
            raise InvalidRequest(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    return of_body(replace(wire, store=False), incoming, compacts=True)


class CompactionEncoder(ResponsesWholeEncoder):
    """One compaction. Arguments as for `ResponsesStreamEncoder`."""

    def __init__(self, request: ResponsesRequest, created: int, now: Callable[[], float], seal: SealSummary) -> None:
        super().__init__(request, created, now, seal)
        self._of_the_user = request.of_the_user

    def body(self) -> bytes:
        """The finished object. Raises the error of a `Failed` event, and of a summary that is none or was cut off."""
        made = self.response()
        self.raise_failure()
        if made["status"] != "completed":
            raise EngineFailed("The model's summary was cut off.")
        output: list[Json] = [*self._of_the_user, *self.output]
        return encode_body(
            {
                "id": made["id"],
                "object": "response.compaction",
                "created_at": made["created_at"],
                "output": output,
                "usage": made["usage"],
            }
        )
