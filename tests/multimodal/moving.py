"""Clips and recordings to be decoded, made with PyAV: small, and the same on every run with one version of it."""

import io
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from PIL import Image

__all__ = ["CODECS", "SOUNDS", "coded_clip", "coded_sound", "number_of", "numbered"]

CODECS = {
    "mp4": ("mp4", "libx264"),
    "mov": ("mov", "libx264"),
    "webm": ("webm", "libvpx-vp9"),
    "vp8": ("webm", "libvpx"),
    "mpeg4": ("mp4", "mpeg4"),
    "mkv": ("matroska", "libx264"),
}
"""Containers and encoders of the clips that are taken."""

SOUNDS = {
    "mp3": ("mp3", "mp3", 44100),
    "flac": ("flac", "flac", 44100),
    "ogg": ("ogg", "libopus", 48000),
    "m4a": ("mp4", "aac", 44100),
    "alac": ("mp4", "alac", 44100),
    "webm": ("webm", "libopus", 48000),
    "aac": ("adts", "aac", 44100),
    "oga": ("ogg", "flac", 22050),
}
"""Containers, encoders and rates of the recordings that are taken."""

_BLOCK = 16


def numbered(number: int, width: int = 64, height: int = 48) -> Image.Image:
    """A frame that shows its number in black and white blocks, so that it can be read after lossy coding."""
    pixels = np.full((height, width, 3), 128, np.uint8)
    for bit in range(width // _BLOCK * 2):
        row, column = divmod(bit, width // _BLOCK)
        shade = 235 if number >> bit & 1 else 16
        pixels[row * _BLOCK : (row + 1) * _BLOCK, column * _BLOCK : (column + 1) * _BLOCK] = shade
    pixels[2 * _BLOCK :, :, 0] = 200
    return Image.fromarray(pixels)


def number_of(frame: Image.Image) -> int:
    """The number that a frame shows."""
    columns = frame.width // _BLOCK
    centres = [(bit % columns * _BLOCK + 8, bit // columns * _BLOCK + 8) for bit in range(columns * 2)]
    return sum(1 << bit for bit, centre in enumerate(centres) if frame.convert("L").getpixel(centre) > 128)  # type: ignore[operator]


def coded_clip(
    kind: str = "mp4",
    frames: int = 12,
    *,
    size: tuple[int, int] = (64, 48),
    rate: int = 12,
    times: Sequence[int] | None = None,
    turn: int = 0,
    sound: float = 0.0,
    gop: int = 12,
    **options: str,
) -> bytes:
    """Numbered frames at `rate`, or at `times` in units of its inverse. `turn` is by how many degrees a player turns them,
    `sound` the seconds of a tone beside them."""
    container, codec = CODECS[kind]
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream: Any = file.add_stream(codec, rate=rate, options={"threads": "1", **options})
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = gop
        if turn:
            stream.set_display_rotation(turn)
        voice: Any = file.add_stream("libopus" if container == "webm" else "aac", rate=48000) if sound else None
        for number in range(frames):
            frame = av.VideoFrame.from_image(numbered(number, *size))
            frame.pts = number if times is None else times[number]
            frame.time_base = Fraction(1, rate)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
        if voice is not None:
            _encode(file, voice, _tone(sound, 48000))
    return out.getvalue()


def coded_sound(kind: str = "mp3", seconds: float = 0.5, *, channels: int = 2, silent: bool = False) -> bytes:
    """A tone of 440 Hz, in a second channel at half its loudness."""
    container, codec, rate = SOUNDS[kind]
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream: Any = file.add_stream(codec, rate=rate)
        stream.layout = "stereo" if channels == 2 else "mono"
        samples = _tone(seconds, rate) * (0.0 if silent else 1.0)
        _encode(file, stream, np.stack([samples[0], samples[0] / 2]) if channels == 2 else samples)
    return out.getvalue()


def _tone(seconds: float, rate: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    time = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)[None]


def _encode(file: Any, stream: Any, samples: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    if not stream.codec_context.is_open:
        stream.codec_context.open()
    layout = "stereo" if len(samples) == 2 else "mono"
    stream_format = stream.codec_context.format.name
    changed = av.AudioResampler(format=stream_format, layout=stream.codec_context.layout.name, rate=stream.rate)
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=layout)
    frame.sample_rate, frame.pts = stream.rate, 0
    waiting = av.AudioFifo()
    for each in changed.resample(frame):
        waiting.write(each)
    length = stream.codec_context.frame_size or 4096
    while (piece := waiting.read(length, partial=True)) is not None:
        file.mux(stream.encode(piece))
    file.mux(stream.encode(None))
