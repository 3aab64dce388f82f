"""The parts of a message or an output of a Responses request.

Decides which part becomes which record, and which parts a role may have. Pure. Above: responses_items. Below: the wire types,
documents, request.
"""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from smg_core.apis.responses.wire import types as wire
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import Audio, File, Image, MediaSource, Part, Reasoning, Refusal, Text
from smg_core.wire.decoding import explained, no_kind
from smg_core.wire.documents import document_text, inline_file, untyped_url

__all__ = ["TEXTS", "read_part"]

TEXTS = frozenset({"input_text", "output_text", "text"})
_MEDIA = frozenset({"input_image", "input_file", "input_audio"})
_ALLOWED: Mapping[str, frozenset[str]] = {
    "system": TEXTS,
    "developer": TEXTS | _MEDIA,
    "user": TEXTS | _MEDIA,
    "assistant": TEXTS | {"refusal", "reasoning_text", "summary_text"},
    "tool": TEXTS | _MEDIA | {"computer_screenshot"},
}


def read_part(part: JsonObject, role: str, at: str) -> Part:
    """The part of a message of `role`, or of an output (role "tool"), that stands at `at`. Raises InvalidRequest."""
    kind = part.get("type")
    if not isinstance(kind, str):
        raise no_kind(part, at)
    if kind not in _ALLOWED[role]:
        raise InvalidRequest(
            f"Invalid value for '{at}.type': {kind[:80]!r}. "
            f"Supported values are: {', '.join(sorted(repr(each) for each in _ALLOWED[role]))}.",
            param=f"{at}.type",
            code="invalid_value",
        )
    if kind in TEXTS:
        text = explained(part, wire.TextPart, at)
        return Text(text.text, _mark(text.prompt_cache_breakpoint))
    return _PART_READERS[kind](part, at)


def _mark(mark: Struct | None) -> JsonObject | None:
    return None if mark is None else {k: v for k, v in msgspec.structs.asdict(mark).items() if v is not None}


def _image(part: JsonObject, at: str) -> Part:
    read = explained(part, wire.InputImagePart, at)
    cache = _mark(read.prompt_cache_breakpoint)
    if read.file_id is not None:
        if read.image_url is not None:
            raise _two_sources(f"{at}.image_url")
        return Image(MediaSource(file_id=read.file_id), read.detail or "auto", cache=cache)
    if read.image_url is None:
        raise _missing(f"{at}.image_url")
    return Image(MediaSource(url=read.image_url), read.detail or "auto", cache=cache)


def _file(part: JsonObject, at: str) -> Part:
    read = explained(part, wire.InputFilePart, at)
    cache = _mark(read.prompt_cache_breakpoint)
    if read.file_id is not None:
        if read.file_data is not None or read.file_url is not None:
            raise _two_sources(f"{at}.{'file_url' if read.file_data is None else 'file_data'}")
        return File(MediaSource(file_id=read.file_id), read.filename, cache=cache)
    if (read.file_data is None) == (read.file_url is None):
        raise _missing(f"{at}.file_data")
    url = read.file_url or untyped_url(read.file_data or "")
    found = inline_file(url, f"{at}.{'file_data' if read.file_url is None else 'file_url'}")
    if isinstance(found, str):
        return Text(document_text(found, read.filename), cache)
    return File(found, read.filename, cache=cache)


def _audio(part: JsonObject, at: str) -> Part:
    read = explained(part, wire.InputAudioPart, at)
    sound = read.input_audio
    url = f"data:audio/{sound.format};base64,{sound.data}"
    return Audio(MediaSource(url=url), sound.format, cache=_mark(read.prompt_cache_breakpoint))


def _two_sources(at: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid '{at}': the part has a file_id.", param=at, code="invalid_value")


def _missing(at: str) -> InvalidRequest:
    return InvalidRequest(f"Missing required parameter: '{at}'.", param=at, code="missing_required_parameter")


_PART_READERS: Mapping[str, Callable[[JsonObject, str], Part]] = {
    "input_image": _image,
    "computer_screenshot": _image,
    "input_file": _file,
    "input_audio": _audio,
    "refusal": lambda part, at: Refusal(explained(part, wire.RefusalPart, at).refusal),
    "reasoning_text": lambda part, at: Reasoning(explained(part, wire.TextPart, at).text),
    "summary_text": lambda part, at: Reasoning(explained(part, wire.TextPart, at).text),
}
