"""The format of a picture file and the cost of decoding it, from header and markers alone.

Above: `decode` and `preparing.prepare`, which refuse by what is found here before a library opens the file. Below: nothing.
Pure: bytes in, an `ImageHeader` out; no pixel is decoded and no memory taken that grows with what the file claims. A decoder
may allocate as soon as it opens a file (WebP's does), so formats are told apart here, and only those that are allowed are
handed on.
"""

import re
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from smg_multimodal.records.errors import BadMedia, MediaTooLarge
from smg_multimodal.records.types import Size
from smg_multimodal.records.walks import MOST_STEPS, StepCount

__all__ = ["DEFAULT_FORMATS", "FORMATS", "Format", "ImageHeader", "format_table", "read_header", "recognised"]

_MOST_PIECES = 65536
"""Segments, chunks or blocks that a file may be made of: decoders take microseconds for each, in Python code."""
_BLOCKS_A_STEP = 16
"""Blocks of a GIF's data that are one step of a walk: each is passed in a fraction of the time that a chunk takes."""
_INFLATED = 200
"""Pieces that one compressed text or profile counts as: up to 1 MiB is inflated, whether it is looked at or not."""
_BYTE_SECONDS = 30e-9
_PIECE_SECONDS = 1e-5


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `name` is the library's, `label` the one people use.

    `pixel_bytes` is the memory a decoded pixel takes at most while it is made, upright and RGB, and `scanned_bytes` what is added
    where it comes in several scans; `scan_nanoseconds` the time that one pixel takes in one scan, on a slow core. `isolated`:
    always decoded in a process of its own, since its decoder's memory is not bounded by the size of the picture. `default`:
    taken without being named. `deep_grey`: it has grey of 16 bits, of which the upper 8 are taken.
    """

    name: str
    label: str
    pixel_bytes: int
    scan_nanoseconds: int
    scanned_bytes: int = 0
    isolated: bool = False
    default: bool = False
    deep_grey: bool = False


FORMATS: dict[str, Format] = {
    "jpeg": Format("JPEG", "JPEG", 9, 10, scanned_bytes=6, default=True),
    "png": Format("PNG", "PNG", 12, 60, default=True, deep_grey=True),
    "webp": Format("WEBP", "WebP", 22, 60, default=True),
    "gif": Format("GIF", "GIF", 10, 40, default=True),
    "bmp": Format("BMP", "BMP", 12, 20, isolated=True),
    "tiff": Format("TIFF", "TIFF", 24, 100, isolated=True, deep_grey=True),
    "avif": Format("AVIF", "AVIF", 16, 100, isolated=True),
    "heic": Format("HEIF", "HEIC", 16, 100, isolated=True),
    "jpeg2000": Format("JPEG2000", "JPEG 2000", 32, 250, isolated=True, deep_grey=True),
}
"""Every format that is known, by the name that settings use."""

DEFAULT_FORMATS = frozenset(name for name, each in FORMATS.items() if each.default)
"""Those taken without being named: what browsers and cameras send."""


def format_table(max_memory: int) -> list[str]:
    """The formats as the lines of a table in Markdown, with the largest picture that `max_memory` bytes are enough for."""
    rows = ["| format | `formats` | by default | grey of 16 bits | largest by default |", "|---|---|---|---|---|"]
    for name, each in FORMATS.items():
        grey = "its upper 8 bits" if each.deep_grey else "has none"
        most = f"{max_memory // each.pixel_bytes // 1_000_000} million pixels"
        rows.append(
            f"| {each.label} | `{name}` | {'taken' if each.default else 'where it is named'} | {grey} | {most} |"
        )
    never = ", ".join(dict.fromkeys(label for _, label in _OTHERS))
    return [*rows, f"| {never} | | never | | |"]


_OTHERS = (
    (b"%PDF", "PDF"),
    (b"<svg", "SVG"),
    (b"<?xml", "XML or SVG"),
    (b"8BPS", "Photoshop"),
    (b"\x00\x00\x01\x00", "ICO"),
    (b"\x1a\x45\xdf\xa3", "WebM"),
    (b"RIFF", "AVI or WAV"),
    (b"<!DOCTYPE", "HTML"),
    (b"<html", "HTML"),
    (b"OggS", "Ogg"),
    (b"fLaC", "FLAC"),
    (b"ID3", "MP3"),
    *((b"P%d" % kind, "PBM, PGM or PPM") for kind in range(1, 7)),
)
"""Beginnings of files that are often sent by mistake, for the message."""


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """What a file says of itself. `size` is as stored, before it is turned upright; `scans` how often each pixel is gone over;
    `extra` are seconds that the file takes beside its pixels: its bytes, and the pieces that it is made of. `duration` are the
    seconds for which an animation's frames are shown once."""

    format: Format
    size: Size
    frames: int = 1
    scans: int = 1
    extra: float = 0.0
    duration: float = 0.0

    @property
    def pixels(self) -> int:
        """Pixels of one frame."""
        return self.size.height * self.size.width

    def memory(self, frames: int = 1) -> int:
        """Bytes that decoding takes at most, when `frames` are kept."""
        each = self.format.pixel_bytes + (self.format.scanned_bytes if self.scans > 1 else 0)
        return self.pixels * (each + 4 * (frames - 1))

    def seconds(self, frames: int = 1) -> float:
        """About how long decoding takes at most, on a slow core."""
        return self.pixels * self.format.scan_nanoseconds * max(self.scans, frames) * 1e-9 + self.extra


def read_header(
    data: bytes,
    allowed: Collection[str] = DEFAULT_FORMATS,
    *,
    max_scans: int = 64,
    max_frames: int = 1024,
    max_steps: int = MOST_STEPS,
) -> ImageHeader:
    """The header of a picture file. Raises BadMedia for what is damaged, unknown or not among `allowed` (which names what it is),
    MediaTooLarge for more scans or frames than may be, LongWalk after `max_steps` pieces. Takes milliseconds for a file of tens
    of MiB."""
    kind = recognised(data)
    if kind is None:
        other = next((label for mark, label in _OTHERS if data[:64].lstrip().startswith(mark)), None)
        other = "a clip or a recording (MP4 or MOV)" if data[4:8] == b"ftyp" else other
        what = f"it looks like {other}" if other else "it is in no format that is known here, or damaged"
        raise BadMedia(f"the image cannot be read: {what}; {_taken(allowed)}")
    if kind not in allowed:
        raise BadMedia(
            f"the image is in {FORMATS[kind].label}, which is taken only where the setting media.formats names {kind!r}; "
            + _taken(allowed)
        )
    try:
        found = _READERS[kind](data, max_scans, _Pieces(max_steps))
    except (struct.error, IndexError) as error:
        raise BadMedia("the image is damaged or truncated") from error
    size = found.size
    if size.height < 1 or size.width < 1:
        raise BadMedia(f"the image is {size.width}x{size.height}")
    if found.frames > max_frames:
        raise MediaTooLarge(f"the animation has more than {max_frames} frames")
    extra = len(data) * _BYTE_SECONDS + found.pieces * _PIECE_SECONDS
    return ImageHeader(FORMATS[kind], size, found.frames, found.scans, extra, found.duration)


def _taken(allowed: Collection[str]) -> str:
    return "taken are " + ", ".join(each.label for name, each in FORMATS.items() if name in allowed)


def recognised(data: bytes) -> str | None:
    """The name in `FORMATS` of what the first bytes are; None for anything else."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp":
        brands = data[8 : min(len(data), int.from_bytes(data[:4], "big"), 256)]
        if b"avif" in brands or b"avis" in brands:
            return "avif"
        if any(brand in brands for brand in (b"heic", b"heix", b"heim", b"hevc", b"mif1")):
            return "heic"
    return None


_MARKS = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jpeg2000"),
    (b"\xff\x4f\xff\x51", "jpeg2000"),
)

_UNTIMED = 0.1
"""Seconds for which a frame is shown that says nothing of it."""


class _Found(NamedTuple):
    """What a reader found. `duration` is in seconds, all frames together."""

    size: Size
    frames: int = 1
    scans: int = 1
    pieces: int = 1
    duration: float = 0.0


class _Pieces(StepCount):
    """Counts what a file is made of, and refuses more than `_MOST_PIECES`; a piece that takes a decoder long counts for several.
    Each is one step of the walk."""

    __slots__ = ("count",)

    def __init__(self, most_steps: int) -> None:
        super().__init__("image", most_steps)
        self.count = 0

    def add(self, count: int = 1) -> None:
        self.step()
        self.count += count
        if self.count > _MOST_PIECES:
            raise MediaTooLarge(f"the image is made of more than {_MOST_PIECES} pieces")


_JPEG_MARKER = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")
"""Markers between and within scans: not the escaped 0xFF of coded data, not restarts, not fill. What stands below 0xC0 has no
length that a decoder would skip by, so nothing can be hidden behind it."""
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def _jpeg(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    size, scans, place = Size(0, 0), 0, 2
    while (found := _JPEG_MARKER.search(data, place)) is not None:
        pieces.add(1 if scans else 1 + found.start() - place)  # what fills a head is read by the byte
        code, place = found[1][0], found.end()
        if code == 0xD8:
            continue
        if code == 0xD9:
            break
        if code in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, place + 3)
            size = Size(max(size.height, height), max(size.width, width))
        elif code == 0xDA:
            scans += 1
            if scans > max_scans:
                raise MediaTooLarge(f"the image has more than {max_scans} scans")
        if place + 2 > len(data):
            break
        place += max(2, int.from_bytes(data[place : place + 2], "big"))
    if not size.height or not scans:
        raise BadMedia("the image is damaged or truncated")
    return _Found(size, 1, scans, pieces.count)


_PNG_INFLATED = frozenset({b"iCCP", b"zTXt", b"iTXt"})


def _png(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    del max_scans
    if data[12:16] != b"IHDR":
        raise BadMedia("the image is damaged or truncated")
    width, height = struct.unpack_from(">II", data, 16)
    animated, still, place, duration = 0, False, 8, 0.0
    while place + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind = data[place + 4 : place + 8]
        pieces.add(_INFLATED if kind in _PNG_INFLATED else 1)
        if kind == b"acTL":
            animated = max(animated, *struct.unpack_from(">I", data, place + 8))
        elif kind == b"fcTL":
            delay, parts = struct.unpack_from(">HH", data, place + 28)
            duration += delay / (parts or 100) or _UNTIMED
        elif kind == b"IDAT" and animated and not duration:
            still = True  # what is shown where nothing moves; Pillow has it as the first frame
        place += 12 + length
    if still:
        animated, duration = animated + 1, duration + _UNTIMED
    return _Found(Size(height, width), max(animated, 1), 1, pieces.count, duration)


def _webp(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    del max_scans
    size, frames, place, duration = Size(0, 0), 0, 12, 0.0
    while place + 8 <= len(data):
        pieces.add()
        kind, length = struct.unpack_from("<4sI", data, place)
        inner = place + 8
        if kind == b"VP8X":
            size = _larger(size, 1 + _word24(data, inner + 7), 1 + _word24(data, inner + 4))
        elif kind == b"VP8 ":
            width, height = struct.unpack_from("<HH", data, inner + 6)
            size = _larger(size, height & 0x3FFF, width & 0x3FFF)
        elif kind == b"VP8L":
            (bits,) = struct.unpack_from("<I", data, inner + 1)
            size = _larger(size, (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1)
        elif kind == b"ANMF":
            frames += 1
            size = _larger(size, 1 + _word24(data, inner + 9), 1 + _word24(data, inner + 6))
            duration += _word24(data, inner + 12) / 1000 or _UNTIMED
        place = inner + length + length % 2
    return _Found(size, max(frames, 1), 1, pieces.count, duration)


def _word24(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 3], "little") if place + 3 <= len(data) else 0


def _larger(size: Size, height: int, width: int) -> Size:
    return Size(max(size.height, height), max(size.width, width))


def _gif(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    del max_scans
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    size, frames, duration, delay = Size(height, width), 0, 0.0, 0
    place = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    while place < len(data):
        pieces.add()
        if data[place] == 0x2C and place + 10 <= len(data):
            left, top, wide, tall, flags = struct.unpack_from("<HHHHB", data, place + 1)
            size = _larger(size, top + tall, left + wide)
            frames += 1
            duration, delay = duration + (delay / 100 or _UNTIMED), 0
            place = _blocks_end(data, place + 11 + (3 << (flags & 7) + 1 if flags & 0x80 else 0), pieces)
        elif data[place] == 0x21:
            if data[place + 1 : place + 3] == b"\xf9\x04":
                (delay,) = struct.unpack_from("<H", data, place + 4)
            place = _blocks_end(data, place + 2, pieces)
        elif data[place] == 0x3B:
            break
        else:
            place += 1
    if not frames:
        raise BadMedia("the image is damaged or truncated")
    return _Found(size, frames, 1, pieces.count, duration)


def _blocks_end(data: bytes, place: int, walk: StepCount) -> int:
    passed = 0
    while place < len(data) and data[place]:
        place += 1 + data[place]
        passed += 1
        if not passed % _BLOCKS_A_STEP:
            walk.step()
    return place + 1


def _bmp(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    del max_scans, pieces
    (length,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if length == 12 else "<ii", data, 18)
    return _Found(Size(abs(height), abs(width)))


def _tiff(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    del max_scans
    order = "<" if data[:2] == b"II" else ">"
    (place,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, place)
    sides = {256: 0, 257: 0}
    for index in range(count):
        pieces.add()
        entry = place + 2 + 12 * index
        tag, kind = struct.unpack_from(order + "HH", data, entry)
        if tag in sides:
            (sides[tag],) = struct.unpack_from(order + ("H" if kind == 3 else "I"), data, entry + 8)
    return _Found(Size(sides[257], sides[256]), pieces=pieces.count)


_ISPE = re.compile(rb"ispe\x00\x00\x00\x00(.{8})", re.DOTALL)


def _box(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    """AVIF and HEIC: the largest extent that any item of the file has."""
    del max_scans
    size = Size(0, 0)
    for found in _ISPE.finditer(data):
        pieces.add()
        width, height = struct.unpack(">II", found[1])
        size = _larger(size, height, width)
    return _Found(size, pieces=pieces.count)


def _jpeg2000(data: bytes, max_scans: int, pieces: _Pieces) -> _Found:
    del max_scans, pieces
    size = Size(0, 0)
    box = data.find(b"ihdr")
    if 0 < box < 4096:
        size = Size(*struct.unpack_from(">II", data, box + 4))
    stream = data.find(b"\xff\x4f\xff\x51")
    if stream >= 0:
        right, bottom, left, top = struct.unpack_from(">IIII", data, stream + 8)
        size = _larger(size, bottom - top, right - left)
    return _Found(size)


_READERS: dict[str, Callable[[bytes, int, _Pieces], _Found]] = {
    "jpeg": _jpeg,
    "png": _png,
    "webp": _webp,
    "gif": _gif,
    "bmp": _bmp,
    "tiff": _tiff,
    "avif": _box,
    "heic": _box,
    "jpeg2000": _jpeg2000,
}
