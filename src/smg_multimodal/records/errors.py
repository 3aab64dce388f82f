"""The faults of a picture, a clip, a recording or a document that somebody sent.

    MediaError                     root; never raised itself
    +-- BadMedia             400   the bytes are not what they claim, or the family cannot take such a picture
    |   +-- BadClip          400   the same of a clip
    |   +-- BadRecording     400   the same of a recording
    |   +-- BadDocument      400   the same of a document, which may be encrypted too, or have no text
    +-- MediaTooLarge        400   a byte, pixel, frame or time budget would be exceeded; refused before the work is done
    +-- MediaForbidden       400   the address may not be fetched (scheme, host, private network, redirect)
    +-- MediaUnavailable     400   the address did not answer, or answered with an error
    +-- MediaBusy            503   nothing is wrong with the item: it waited for others in vain, and may be sent again
    +-- PlaceholderMismatch  400   the prompt has other than one placeholder per item
    UnsupportedModel               a model's configuration has what no family does
    +-- UnknownFamily              no family row matches it

Decided here: the names, and the HTTP status a gateway should answer with. Not here: any envelope. Messages are written
for the client: they name the limit or the reason, never an internal address.
"""

from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "BadClip",
    "BadDocument",
    "BadMedia",
    "BadRecording",
    "MediaBusy",
    "MediaError",
    "MediaForbidden",
    "MediaTooLarge",
    "MediaUnavailable",
    "PlaceholderMismatch",
    "UnknownFamily",
    "UnsupportedModel",
]


class MediaError(ValueError):
    """Root of what is told to the client; `str(error)` is safe to show."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "invalid_media"


class BadMedia(MediaError):
    """The bytes do not decode, or the picture has a shape the family refuses."""

    code = "invalid_image"


class BadClip(BadMedia):
    """The bytes are no clip that is decoded here, or it has no frames."""

    code = "invalid_video"


class BadRecording(BadMedia):
    """The bytes are no recording that is decoded here, or it is empty or too short."""

    code = "invalid_audio"


class BadDocument(BadMedia):
    """The bytes are no PDF that can be read here: damaged, encrypted, or without text."""

    code = "invalid_document"


class MediaTooLarge(MediaError):
    """A budget (bytes, pixels, frames, seconds, items) would be exceeded."""

    code = "media_too_large"


class MediaForbidden(MediaError):
    """The egress rules do not allow this address."""

    code = "media_forbidden"


class MediaUnavailable(MediaError):
    """The address was allowed but gave nothing usable."""

    code = "media_unavailable"


class MediaBusy(MediaError):
    """Fetching, decoding or memory was taken up by others for too long. `retry_after` is in seconds."""

    status = 503
    code = "media_busy"

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PlaceholderMismatch(MediaError):
    """The number of placeholders in the prompt is not the number of items."""

    code = "placeholder_mismatch"


class UnsupportedModel(LookupError):
    """No family takes the model, or its configuration lacks a value or has one unknown to the family."""


class UnknownFamily(UnsupportedModel):
    """No family has models of this type. `reason` says which type, for clients; the text says which families there are too."""

    def __init__(self, reason: str, families: Iterable[str]) -> None:
        super().__init__(f"{reason}; the families here are {', '.join(sorted(families))}")
        self.reason = reason
