"""The format of a clip's or recording's file, from its first bytes: the containers and codecs that are taken, and no others.

Above: `clips`, `sounds` and `reader`, which refuse by what is found here before a library opens the file. Below: nothing. Pure. A
demuxer is never left to guess: the one for the container that the first bytes show is named to it, so that a playlist or a
script of files that calls itself a video is opened by none.
"""

from dataclasses import dataclass

from smg_multimodal.decoding.formats import FORMATS, recognised
from smg_multimodal.records.errors import BadClip, BadMedia, BadRecording
from smg_multimodal.records.extras import line_to_install
from smg_multimodal.records.types import Modality

__all__ = ["AUDIO_DECODERS", "CONTAINERS", "VIDEO_DECODERS", "Container", "container_of", "needs_pyav", "unreadable"]

VIDEO_DECODERS = {
    "h264": "H.264",
    "hevc": "H.265",
    "mpeg4": "MPEG-4",
    "vp8": "VP8",
    "vp9": "VP9",
    "libdav1d": "AV1",
    "av1": "AV1",
}
"""The decoders that a clip's frames may be given to: FFmpeg's name of each, and the codec's."""
AUDIO_DECODERS = {
    "mp3float": "MP3",
    "mp3": "MP3",
    "aac": "AAC",
    "flac": "FLAC",
    "alac": "ALAC",
    "vorbis": "Vorbis",
    "opus": "Opus",
    "libopus": "Opus",
    "pcm_s16le": "PCM",
    "pcm_s16be": "PCM",
    "pcm_s24le": "PCM",
    "pcm_s24be": "PCM",
    "pcm_f32le": "PCM",
}
"""The same for a recording, or the sound of a clip."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container. `label` is the name people use, `demuxer` FFmpeg's; `kinds` are the media that are taken in it."""

    label: str
    demuxer: str
    kinds: frozenset[Modality]


_BOTH = frozenset({Modality.VIDEO, Modality.AUDIO})
_SOUND = frozenset({Modality.AUDIO})

CONTAINERS: dict[str, Container] = {
    "mp4": Container("MP4", "mov", _BOTH),
    "mov": Container("MOV", "mov", _BOTH),
    "webm": Container("WebM", "matroska", _BOTH),
    "mp3": Container("MP3", "mp3", _SOUND),
    "flac": Container("FLAC", "flac", _SOUND),
    "ogg": Container("Ogg", "ogg", _SOUND),
    "aac": Container("AAC", "aac", _SOUND),
}
"""Every container that PyAV opens for us. M4A is MP4, Matroska is read as WebM, and Opus and Vorbis come in Ogg and WebM."""

_OTHERS = (
    (0, b"#EXTM3U", "a playlist (M3U8)"),
    (0, b"ffconcat", "a list of files (ffconcat)"),
    (0, b"<?xml", "XML"),
    (0, b"<MPD", "a DASH manifest"),
    (0, b"<!DOCTYPE", "HTML"),
    (0, b"<html", "HTML"),
    (8, b"AVI ", "AVI"),
    (0, b"FLV", "FLV"),
    (0, b"\x00\x00\x01\xba", "an MPEG program stream"),
    (0, b"\x00\x00\x01\xb3", "MPEG-1 or MPEG-2 video"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "ASF (WMV, WMA)"),
    (0, b".RMF", "RealMedia"),
    (0, b"FORM", "AIFF"),
    (0, b"#!AMR", "AMR"),
    (0, b"caff", "CAF"),
    (0, b"MThd", "MIDI"),
    (0, b"%PDF", "PDF"),
)
"""Beginnings of files that are often sent by mistake or in bad faith, for the message."""

_MOV_ATOMS = frozenset({b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"})
_TAG = 10
"""Bytes of an ID3 tag's head."""


def container_of(data: bytes) -> str | None:
    """The name in `CONTAINERS` of what the first bytes are; None for anything else."""
    if data[4:8] == b"ftyp" and recognised(data) is None:
        return "mov" if data[8:12] == b"qt  " else "mp4"
    if data[4:8] in _MOV_ATOMS:
        return "mov"
    for mark, name in ((b"\x1a\x45\xdf\xa3", "webm"), (b"fLaC", "flac"), (b"OggS", "ogg")):
        if data.startswith(mark):
            return name
    if data.startswith(b"ID3"):
        return _tagged(data)
    return _mpeg_audio(data)


def _tagged(data: bytes) -> str:
    """What stands behind an ID3 tag, which MP3 files begin with, and some others."""
    size = 0
    for byte in data[6:_TAG]:
        size = size << 7 | byte & 0x7F
    behind = data[_TAG + size : _TAG + size + 4]
    return "flac" if behind == b"fLaC" else _mpeg_audio(behind) or "mp3"


def _mpeg_audio(data: bytes) -> str | None:
    if len(data) < 2 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:
        return None
    layer = data[1] >> 1 & 3  # 0 in AAC (ADTS)
    if layer == 0:
        return "aac" if data[1] & 0xF0 == 0xF0 else None
    return "mp3"


def needs_pyav(name: str, modality: Modality) -> BadMedia:
    """The error for a container that is taken where PyAV is installed, and it is not."""
    return _error(
        modality, f"is in {CONTAINERS[name].label}, for which PyAV is needed here: {line_to_install('video')}"
    )


def unreadable(data: bytes, modality: Modality) -> BadMedia:
    """The error for a file that is no medium of that kind: what it is, where that is plain to see, and what is taken."""
    name, picture = container_of(data), recognised(data)
    if name is not None:
        found = f"is in {CONTAINERS[name].label}"
    elif picture is not None:
        found = f"is a picture in {FORMATS[picture].label}"
    elif data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        found = "is a WAV file"
    elif len(data) > 188 and data[0] == data[188] == 0x47:
        found = "is an MPEG transport stream"
    else:
        start = data[:64].lstrip()
        format_name = next(
            (label for at, mark, label in _OTHERS if (start if not at else data)[at:].startswith(mark)), None
        )
        found = f"looks like {format_name}" if format_name else "is in no format that is known here, or damaged"
    return _error(modality, f"{found}; taken are {_taken(modality)}")


def _taken(modality: Modality) -> str:
    ours = ("GIF", "WebP", "PNG") if modality is Modality.VIDEO else ("WAV",)
    return ", ".join((*ours, *(each.label for each in CONTAINERS.values() if modality in each.kinds)))


def _error(modality: Modality, text: str) -> BadMedia:
    return BadClip(f"the clip {text}") if modality is Modality.VIDEO else BadRecording(f"the recording {text}")
