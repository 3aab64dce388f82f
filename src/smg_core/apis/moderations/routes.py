"""The route of moderations: a row (edge).

Above: apis.ALL. Below: the handler.
"""

from smg_core.apis.moderations.inference import ModerationInference
from smg_core.apis.moderations.wire import ModerationAnswer, ModerationBody
from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC"]

_OPERATION = Operation(
    "createModeration",
    "Whether texts, and with some models pictures, may do harm, by categories.",
    "moderations",
    ModerationBody,
    (OperationResponse(200, "The results, in the order of the inputs.", ModerationAnswer),),
)


def _routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    handler = ModerationInference(context.services)
    return (Route("POST", "/v1/moderations", Endpoint(handler, "moderations", reads_json=True, about=_OPERATION)),)


SPEC = ApiSpec(
    (ApiName("moderations"),),
    {"moderations": "Moderations: whether texts and pictures may do harm"},
    _routes,
    (EnvelopeRule("/v1/moderations", openai_error),),
)
