"""The faults of a picture, a clip, a recording or a document that somebody sent.

    MediaError                     root; never raised itself
    +-- BadMedia             400   the bytes are not what they claim, or the family cannot take such a picture
    |   +-- BadClip          400   the same of a clip
    |   +-- BadRecording     400   the same of a recording
    |   +-- BadDocument      400   the same of a document, which may be encrypted too, or have no text
    +-- MediaTooLarge        400   a byte, pixel, frame or time budget would be exceeded; refused before the work is done
    |   +-- RecordingTooLong 400   the same of a recording that may be sent part by part
    +-- MediaForbidden       400   the address may not be fetched (scheme, host, private network, redirect)
    +-- MediaUnavailable     400   the address did not answer, or answered with an error
    +-- MediaBusy            503   nothing is wrong with the item: it waited for others in vain, and may be sent again
    +-- PlaceholderMismatch  400   the prompt has other than one placeholder per item
    +-- BadDictation         400   the model cannot write a recording down in the way that is asked for
    |   +-- LanguageNeeded   400   it has to be told which language is spoken
    UnsupportedModel               a model's configuration has what no family does
    +-- UnknownFamily              no family row matches it

Decided here: the names, and the HTTP status a gateway should answer with. Not here: any envelope. Messages are written
for the client: they name the limit or the reason, never an internal address.
"""

from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "BadClip",
    "BadDictation",
    "BadDocument",
    "BadMedia",
    "BadRecording",
    "LanguageNeeded",
    "MediaBusy",
    "MediaError",
    "MediaForbidden",
    "MediaTooLarge",
    "MediaUnavailable",
    "PlaceholderMismatch",
    "RecordingTooLong",
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


class RecordingTooLong(MediaTooLarge):
    """The recording is longer than the model's encoder reads; it may be sent in so many `parts`."""

    def __init__(self, message: str, parts: int) -> None:
        super().__init__(message)
        self.parts = parts


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


class BadDictation(MediaError):
    """The model cannot write a recording down so. `field` is what of the request says so: "language", "prompt" or "model"."""

    code = "unsupported_parameter"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class LanguageNeeded(BadDictation):
    """The language that is spoken has to be known first."""


class UnsupportedModel(LookupError):
    """No family takes the model, or its configuration lacks a value or has one unknown to the family."""


class UnknownFamily(UnsupportedModel):
    """No family has models of this type. `reason` says which type, for clients; the text says which families there are too."""

    def __init__(self, reason: str, families: Iterable[str]) -> None:
        super().__init__(f"{reason}; the families here are {', '.join(sorted(families))}")
        self.reason = reason
