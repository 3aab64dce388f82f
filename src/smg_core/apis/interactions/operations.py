"""What the routes of Interactions take and give, in the words of `/openapi.json`.

Above: `interactions`, which has the routes. Below: the protocols' types.
"""

from collections.abc import Mapping

from smg_core.apis.google.answer_types import GeminiError
from smg_core.apis.interactions.answer_types import InteractionAnswer, InteractionEvent
from smg_core.apis.interactions.types import InteractionBody
from smg_core.json_types import JsonObject
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["INTERACTIONS"]

_STREAM = "text/event-stream"
_ASKED: JsonObject = {"model": "MODEL", "input": "Hello"}
_TOLD = OperationResponse(200, "The interaction.", InteractionAnswer)


def _operation(name: str, summary: str, *answers: OperationResponse, body: object = None) -> Operation:
    examples = {"whole": _ASKED, "stream": {**_ASKED, "stream": True}} if body is not None else {}
    return Operation(name, summary, "interactions", body, answers, examples, error=GeminiError)


INTERACTIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/interactions"): _operation(
        "createInteraction",
        "Answer in the words of Google's Interactions API; the interaction is kept and can be continued.",
        _TOLD,
        OperationResponse(200, "The events.", InteractionEvent, _STREAM),
        body=InteractionBody,
    ),
    ("GET", "/interactions/{id}"): _operation("getInteraction", "An interaction that is kept, or its events.", _TOLD),
    ("DELETE", "/interactions/{id}"): _operation(
        "deleteInteraction", "Forget an interaction.", OperationResponse(200, "Nothing.", JsonObject)
    ),
    ("POST", "/interactions/{id}/cancel"): _operation(
        "cancelInteraction", "End an interaction that is made in the background.", _TOLD
    ),
}
"""The routes, by method and pattern below the version."""
