"""The routes of pictures: a row each (edge).

Above: apis.ALL. Below: the handler of APIs that generate, and the protocol.
"""

from smg_core.apis.images.encode import ImagesObject, ImagesStreamEncoder, ImagesWholeEncoder
from smg_core.apis.images.wire import ImagesBody, ImagesRequest, decode_edit, decode_images
from smg_core.http.endpoint import Endpoint
from smg_core.http.routes import Route
from smg_core.serving.api import Api
from smg_core.serving.inference import Inference
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["GENERATIONS", "SPEC"]

GENERATIONS: Api[ImagesRequest] = Api(
    name="images",
    id_prefix="img-",
    decode=decode_images,
    stream=ImagesStreamEncoder,
    whole=ImagesWholeEncoder,
    error=openai_error,
)
EDITS: Api[ImagesRequest] = Api(
    name="image_edits",
    id_prefix="img-",
    decode=decode_edit,
    stream=ImagesStreamEncoder,
    whole=ImagesWholeEncoder,
    error=openai_error,
    takes_media=True,
)
_ANSWERS = (
    OperationResponse(200, "The pictures in base64, with their usage.", ImagesObject),
    OperationResponse(200, "Earlier states and the pictures, where `stream` is true.", None, "text/event-stream"),
)
_MADE = Operation("createImage", "Pictures of what a text says.", "images", ImagesBody, _ANSWERS)
_CHANGED = Operation(
    "createImageEdit",
    "Pictures, changed as a text says. multipart/form-data: image or image[], mask, prompt, model and the fields of generations.",
    "images",
    None,
    _ANSWERS,
)


def image_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes of pictures."""
    made, changed = Inference(context.services, GENERATIONS), Inference(context.services, EDITS)
    return (
        Route("POST", "/v1/images/generations", Endpoint(made, "images", reads_json=True, about=_MADE)),
        Route("POST", "/v1/images/edits", Endpoint(changed, "images", about=_CHANGED)),
    )


SPEC = ApiSpec(
    (ApiName("images"), ApiName("image_edits")),
    {"images": "Pictures, made and changed"},
    image_routes,
)
