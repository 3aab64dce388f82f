"""Has pictures made for the tool `image_generation`: a request of its own to the model that makes them (edge).

Above: the assembly, which gives it to the tools. Below: the API of pictures, requests within others.
"""

import copy
from collections.abc import Sequence

import attrs
import msgspec
from msgspec.structs import replace

from smg_core.apis.images.routes import GENERATIONS
from smg_core.apis.images.wire import ImagesRequest
from smg_core.errors import EngineFailed
from smg_core.events import Event, Failed, OpaqueBlock
from smg_core.imaging import PICTURE, Imaging, MadePicture, picture_of
from smg_core.inner_requests import asked_within
from smg_core.json_types import JsonObject
from smg_core.origin import Origin
from smg_core.pipeline.tools.hosted import OnToolProgress
from smg_core.request import Caller, GenerationRequest, Message, Text
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.wire.base import Incoming

__all__ = ["PicturesAsked"]

_ORIGIN = Origin("images")


class PicturesAsked:
    """The `PictureMaker` of one gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(
        self, caller: Caller, wanted: tuple[str, str], prompt: str, asked: Imaging, progress: OnToolProgress
    ) -> MadePicture:
        """The picture. Raises SmgError."""
        named, model = wanted
        if named and self._services.lookup.served(named, caller) is not None:
            model = named
        else:  # the operator's own, for whoever may use the tool
            caller = replace(caller, grants=replace(caller.grants, models=()))
        hears = _Hears(progress)

        def decode(incoming: Incoming) -> ImagesRequest:
            generation = GenerationRequest(
                id=incoming.request_id,
                model=model,
                messages=(Message("user", (Text(prompt),), content_is_text=True),),
                stream=asked.partial > 0,
                origin=_ORIGIN,
                caller=caller,
                imaging=asked,
            )
            return ImagesRequest(generation, asked, bool(asked.given))

        api = attrs.evolve(
            GENERATIONS, decode=decode, stream=lambda request, created: hears, whole=lambda request, created: hears
        )
        answer = await asked_within(
            self._services, Inference(self._services, api), caller, "/v1/images/generations", {}
        )
        answer.check()
        if hears.failed is not None:
            raise hears.failed.error
        if hears.made is None:
            raise EngineFailed("The model that was asked made no picture.")
        return hears.made


class _Hears:
    """Both encoders of one answer: they keep its picture, tell its earlier states, and write nothing."""

    content_type = "application/json"

    def __init__(self, progress: OnToolProgress) -> None:
        self._progress = progress
        self.made: MadePicture | None = None
        self.failed: Failed | None = None

    def start(self) -> bytes:
        return b""

    def keep_alive(self) -> bytes:
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        """Take in events."""
        self.add(events)
        return b""

    def add(self, events: Sequence[Event]) -> None:
        """Take in events."""
        for event in events:
            if isinstance(event, Failed):
                self.failed = event
            elif isinstance(event, OpaqueBlock) and event.kind == PICTURE:
                self._picture(picture_of(event.payload))

    def _picture(self, made: MadePicture) -> None:
        if made.partial is None:
            self.made = self.made or made
            return
        fields: JsonObject = {"partial_image_index": made.partial, **made.about}
        fields["partial_image_b64"] = msgspec.Raw(b'"%b"' % made.data)
        self._progress(fields)

    def body(self) -> bytes:
        """Nothing. Raises the error of a `Failed` event."""
        if self.failed is not None:
            raise self.failed.error
        return b""

    def fork(self) -> "_Hears":
        """An independent copy."""
        return copy.copy(self)
