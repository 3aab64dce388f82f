"""A request for pictures as a provider's routes for them take it, which are OpenAI's.

Pure. Above: the formats of providers that have these routes. Below: the writer and the reader of such requests.
"""

from smg_core.engines.openai.imaging import PictureDecoder, write_picture_request
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.wire_format import ProviderCall
from smg_core.imaging import Imaging
from smg_core.request import GenerationRequest

__all__ = ["picture_call"]


def picture_call(
    request: GenerationRequest, asked: Imaging, model: str, limits: EnginesConfig, *, extras: bool = False
) -> ProviderCall:
    """The call. `extras`: the provider gives addresses of pictures where nothing is said."""
    made = write_picture_request(request, asked, model, extras=extras)
    decoder = PictureDecoder(asked, limits)
    return ProviderCall(made.path, made.body, decoder, accept="*/*", content_type=made.content_type, raw=True)
