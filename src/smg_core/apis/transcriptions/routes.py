"""The routes of transcriptions and translations: a row each (edge).

Above: app.generating_routes puts them into its table. Below: the handler of APIs that generate, and the protocol.
"""

from smg_core.apis.transcriptions.flow import write_down
from smg_core.apis.transcriptions.wire import (
    TranscriptionObject,
    TranscriptionRequest,
    TranscriptionStreamEncoder,
    TranscriptionWholeEncoder,
    decode_transcription,
    decode_translation,
)
from smg_core.http.endpoint import Endpoint
from smg_core.http.routes import Route
from smg_core.serving.api import Api
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiName, ApiSpec
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC", "TRANSCRIPTIONS", "speech_routes"]

TRANSCRIPTIONS: Api[TranscriptionRequest] = Api(
    name="transcriptions",
    id_prefix="trsc-",
    decode=decode_transcription,
    stream=TranscriptionStreamEncoder,
    whole=TranscriptionWholeEncoder,
    error=openai_error,
    flow=write_down,
    takes_media=True,
)
TRANSLATIONS: Api[TranscriptionRequest] = Api(
    name="translations",
    id_prefix="trsl-",
    decode=decode_translation,
    stream=TranscriptionStreamEncoder,
    whole=TranscriptionWholeEncoder,
    error=openai_error,
    flow=write_down,
    takes_media=True,
)


def speech_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`."""
    return (
        Route(
            "POST",
            "/v1/audio/transcriptions",
            Endpoint(
                Inference(services, TRANSCRIPTIONS),
                "audio",
                about=_about(
                    "createTranscription",
                    "The words that are spoken in a recording. multipart/form-data: file, model, language, prompt, "
                    "response_format, temperature, timestamp_granularities[], stream.",
                ),
            ),
        ),
        Route(
            "POST",
            "/v1/audio/translations",
            Endpoint(
                Inference(services, TRANSLATIONS),
                "audio",
                about=_about(
                    "createTranslation",
                    "The same in English. multipart/form-data: file, model, prompt, response_format, temperature.",
                ),
            ),
        ),
    )


def _about(name: str, summary: str) -> Operation:
    answers = (
        OperationResponse(200, "The text, with its usage.", TranscriptionObject),
        OperationResponse(200, "Deltas of the text, where `stream` is true.", None, "text/event-stream"),
    )
    return Operation(name, summary, "audio", None, answers)


SPEC = ApiSpec(
    (ApiName("transcriptions"), ApiName("translations")),
    {"audio": "Transcriptions and translations of recordings, and speech"},
    lambda context: speech_routes(context.services),
)
