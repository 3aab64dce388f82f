"""Requests to a model that makes pictures, and the pictures from an engine to an encoder.

Part of the vocabulary: a decoder puts `Imaging` into `GenerationRequest.imaging`, beside the prompt in the messages. The
answer is blocks of the kind "picture", each a few facts and the picture in base64, as engines send it and clients get it. Pure.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from smg_core.json_types import Json, JsonObject

__all__ = ["PICTURE", "GivenPicture", "Imaging", "MadePicture", "picture_of", "written_picture"]

PICTURE = "picture"
"""The kind of the blocks that are pictures."""


class GivenPicture(Struct, frozen=True):
    """A picture of the client's: its bytes, their media type, and the client's name for it."""

    data: bytes
    media_type: str
    filename: str = "picture"


class Imaging(Struct, frozen=True):
    """How pictures of the text of a message are made: `count` of them. With `partial` so many earlier states of each are told
    while it is made, where the answer is streamed. `wishes` are the request's other words for the engine (size, quality, ...) as
    they are. `given` are pictures to be changed, where there are any; `mask` says by what it leaves out what of the first one."""

    count: int = 1
    partial: int = 0
    wishes: Mapping[str, Json] = {}
    given: tuple[GivenPicture, ...] = ()
    mask: GivenPicture | None = None


class MadePicture(Struct, frozen=True):
    """A picture that was made, in base64. `about` are the facts that the engine tells of it: size, quality, output_format, ...;
    `partial` is the place of an earlier state of it among those, None for the picture itself."""

    data: bytes
    about: JsonObject = {}
    partial: int | None = None


def written_picture(picture: MadePicture) -> bytes:
    """The payload of its block."""
    return msgspec.json.encode([picture.partial, picture.about]) + b"\n" + picture.data


def picture_of(payload: bytes) -> MadePicture:
    """The picture of a block."""
    facts, _, data = payload.partition(b"\n")
    partial, about = msgspec.json.decode(facts, type=tuple[int | None, dict[str, Json]])
    return MadePicture(data, about, partial)
