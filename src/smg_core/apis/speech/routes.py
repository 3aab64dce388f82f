"""The route of speech (edge).

Above: apis.ALL. Below: the handler of APIs that generate, and the protocol.
"""

from typing import NoReturn

from smg_core.apis.speech.wire import SpeechBody, SpeechRequest, SpeechStreamEncoder, decode_speech
from smg_core.http.endpoint import Endpoint
from smg_core.http.routes import Route
from smg_core.serving.api import Api
from smg_core.serving.inference import Inference
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEAKING", "SPEC"]


def _never_whole(request: SpeechRequest, created: int) -> NoReturn:
    raise AssertionError("sound is always streamed")


SPEAKING: Api[SpeechRequest] = Api(
    name="speech",
    id_prefix="spch-",
    decode=decode_speech,
    stream=SpeechStreamEncoder,
    whole=_never_whole,
    error=openai_error,
)
_OPERATION = Operation(
    "createSpeech",
    "A text that is spoken, as the sound is made; as server-sent events where `stream_format` is sse.",
    "audio",
    SpeechBody,
    (
        OperationResponse(200, "The sound, in its format.", None, "audio/mpeg"),
        OperationResponse(200, "Its pieces as base64, where `stream_format` is sse.", None, "text/event-stream"),
    ),
)


def speech_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The route of speech."""
    handler = Inference(context.services, SPEAKING)
    return (Route("POST", "/v1/audio/speech", Endpoint(handler, "audio", reads_json=True, about=_OPERATION)),)


SPEC = ApiSpec(
    (ApiName("speech"),),
    {},
    speech_routes,
)
