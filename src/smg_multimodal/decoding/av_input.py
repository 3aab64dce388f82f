"""Opening a clip or a recording with PyAV so that it can reach nothing but its own bytes.

Above: `clips`, `sounds`. Below: `containers`, and PyAV (FFmpeg), which is loaded when a file first needs it. The container is
the one that the first bytes show, decoders are those of an allow-list, and whatever the file asks for by name (another file, an
address, a playlist's parts) is refused. Decodes in one thread, so that the number of processes is the number of cores in use.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from smg_multimodal.decoding.containers import (
    AUDIO_DECODERS,
    CONTAINERS,
    VIDEO_DECODERS,
    container_of,
    needs_pyav,
    unreadable,
)
from smg_multimodal.records.errors import BadClip, BadMedia, BadRecording, MediaTooLarge
from smg_multimodal.records.types import Modality

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

__all__ = ["check_readable", "ended_early", "opened", "prepared"]

_DECODERS = {Modality.VIDEO: VIDEO_DECODERS, Modality.AUDIO: AUDIO_DECODERS}
_KIND = {Modality.VIDEO: "video", Modality.AUDIO: "audio"}
_OPENING = ("mpeg4", *AUDIO_DECODERS)
"""What may be decoded to find out what a file has: only that whose size or rate stands nowhere else."""


def check_readable(data: bytes, modality: Modality) -> None:
    """Raises BadMedia for what is in no container that is taken for `modality`, and where PyAV is not installed."""
    name = container_of(data)
    if name is None or modality not in CONTAINERS[name].kinds:
        raise unreadable(data, modality)
    if find_spec("av") is None:
        raise needs_pyav(name, modality)


@contextmanager
def opened(data: bytes, modality: Modality, most_pixels: int) -> Iterator["InputContainer"]:
    """The file, for the length of a block. No frame of more than `most_pixels` is decoded. What FFmpeg finds wrong with the file,
    in the block too, is raised as BadMedia."""
    check_readable(data, modality)
    import av

    container = CONTAINERS[container_of(data) or ""]
    options = {
        "protocol_whitelist": "none",
        "format_whitelist": container.demuxer,
        "codec_whitelist": ",".join(_OPENING),
        "max_pixels": str(most_pixels),
    }
    try:
        with av.open(
            io.BytesIO(data),
            "r",
            format=container.demuxer,
            options=options,
            metadata_errors="replace",
            io_open=_refused,
        ) as file:
            yield file
    except MemoryError as error:
        raise MediaTooLarge(f"the {_name(modality)} takes more memory to decode than it may") from error
    except (av.error.FFmpegError, OverflowError) as error:
        raise ended_early(modality, container.label) from error


def _refused(url: str, flags: int, options: dict[str, str]) -> object:
    """What is called where a file asks for another."""
    del url, flags, options
    raise PermissionError("a media file may open no other")


def ended_early(modality: Modality, label: str = "") -> BadMedia:
    """The error for a file, in a container of that name, that does not decode to its end."""
    return _wrong(modality, f"the {_name(modality)}{label and f', in {label},'} is damaged or truncated")


def prepared(file: "InputContainer", modality: Modality, most_pixels: int) -> "Stream":
    """The stream of `file` that has what is wanted, ready to be decoded; no frame of more than `most_pixels` is."""
    found = file.streams.best("video" if modality is Modality.VIDEO else "audio")
    if found is None or found.disposition & found.disposition.attached_pic:
        raise _wrong(modality, f"the {_name(modality)} has no {_KIND[modality]}{_has(file)}")
    context = found.codec_context
    if context is None or context.name not in _DECODERS[modality]:
        coded = "a codec that is not known here" if context is None else context.name
        taken = ", ".join(dict.fromkeys(_DECODERS[modality].values()))
        raise _wrong(modality, f"the {_name(modality)} is coded in {coded}; taken are {taken}")
    context.thread_count = 1
    context.options = {"codec_whitelist": ",".join(_DECODERS[modality]), "max_pixels": str(most_pixels)}
    for stream in file.streams:
        if stream.index != found.index:
            stream.discard = type(stream.discard).all
    return found


def _name(modality: Modality) -> str:
    return "clip" if modality is Modality.VIDEO else "recording"


def _has(file: "InputContainer") -> str:
    kinds = sorted({stream.type for stream in file.streams})
    return f"; it has {' and '.join(kinds)}" if kinds else ""


def _wrong(modality: Modality, text: str) -> BadMedia:
    return BadClip(text) if modality is Modality.VIDEO else BadRecording(text)
