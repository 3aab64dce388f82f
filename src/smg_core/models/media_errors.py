"""Turns errors of smg_multimodal into errors that name a part of the request.

The library's messages are written for clients and are kept. Above: models.model_media. Below: both trees of errors.
"""

import contextlib
from collections.abc import Iterator

from smg_core.errors import InvalidRequest, Overloaded, RecordingInParts, UnsupportedParameter
from smg_multimodal.records.errors import (
    BadRecording,
    MediaBusy,
    MediaError,
    PlaceholderMismatch,
    RecordingTooLong,
    UnsupportedModel,
)

__all__ = ["of_the_request"]


@contextlib.contextmanager
def of_the_request(param: str, declared: str | None = None) -> Iterator[None]:
    """Raises the errors of the library as errors of the request's part `param`. `declared`: the format that the client gave for a
    recording."""
    try:
        yield
    except BadRecording as error:
        hint = f" (it was said to be {declared!r})" if declared not in (None, "wav", "pcm16") else ""
        raise InvalidRequest(f"Invalid '{param}': {error}{hint}.", param=param, code=error.code) from error
    except PlaceholderMismatch as error:
        raise InvalidRequest(f"The media cannot be placed: {error}.", param=param, code=error.code) from error
    except MediaBusy as error:
        raise Overloaded(f"{error}.".capitalize(), code=error.code, retry_after=error.retry_after) from error
    except RecordingTooLong as error:
        raise RecordingInParts(f"Invalid '{param}': {error}.", error.parts, param=param, code=error.code) from error
    except MediaError as error:
        raise InvalidRequest(f"Invalid '{param}': {error}.", param=param, code=error.code) from error
    except UnsupportedModel as error:
        raise UnsupportedParameter(f"Invalid '{param}': {error}.", param=param) from error
