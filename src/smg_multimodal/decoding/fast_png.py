"""Plain PNG files decoded by isal, which inflates, and the kernel, which undoes the row filters.

Above: `fast_decode`, which finds out whether its pixels are Pillow's before it is used. Below: `pixels.kernel`, isal. Goes
through a file in bands: what is inflated is still in a core's cache when its filters are undone. Pillow has read the chunks
before the pixels by then.
"""

import struct
import zlib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.pixels.kernel import OUTPUT, REGION, SLACK, SOURCE, Kernel, MemoryRegion, attempted, compiled_module
from smg_multimodal.pixels.rgbx import RgbxImage
from smg_multimodal.records.types import Bytes8, Size

__all__ = ["PngDecoder"]

_BAND = 256 * 1024
"""Filtered bytes worked on at a time."""
_PIECE = 64 * 1024
"""Compressed bytes that are inflated at a time, at least; chunks are often smaller."""
_LAST_FILTER = 4
_COLOURS = {2: 3, 6: 4}
"""Bytes of a pixel for the two colour types that are taken: RGB and RGBA."""


class _Unusual(Exception):
    """The file is not as a plain one is, or damaged."""


def _pieces(data: bytes) -> Iterator[bytes]:
    """The compressed bytes, in pieces. Raises _Unusual unless the file is: some chunks, IDAT chunks in a row, IEND."""
    place, begun, held, size = 8, False, list[memoryview](), 0
    view = memoryview(data)
    while place + 12 <= len(data):
        length = int.from_bytes(view[place : place + 4], "big")
        kind, begin = data[place + 4 : place + 8], place + 8
        place = begin + length + 4
        if kind == b"IDAT" and place <= len(data):
            begun = True
            for start in range(begin, begin + length, _PIECE):
                held.append(view[start : min(start + _PIECE, begin + length)])
                size += len(held[-1])
                if size >= _PIECE:
                    yield b"".join(held)
                    held, size = [], 0
        elif begun:
            if kind != b"IEND" or length:
                break
            yield b"".join(held)
            return
    raise _Unusual


class _Inflating:
    """The bytes that a file's chunks inflate to, so many at a time."""

    def __init__(self, isal: Any, data: bytes) -> None:
        self._stream = isal.decompressobj()
        self._pieces = _pieces(data)
        self._rest = b""
        self._ended = False

    def fill(self, kernel: Kernel, place: int, wanted: int) -> None:
        """The next `wanted` bytes to `place`."""
        while wanted:
            made = self._next(wanted)
            if not made and (self._stream.eof or self._ended):
                raise _Unusual
            kernel.load(place, MemoryRegion.of(np.frombuffer(made, np.uint8)), 0, len(made))
            place += len(made)
            wanted -= len(made)

    def finish(self) -> None:
        """Nothing but the checksum follows."""
        while not self._stream.eof:
            if self._next(1) or self._ended:
                raise _Unusual
        if self._stream.unused_data or any(self._pieces):
            raise _Unusual

    def _next(self, most: int) -> bytes:
        piece = self._rest or next(self._pieces, b"")
        self._ended = not piece  # what the stream still holds comes for an empty piece too
        made: bytes = self._stream.decompress(piece, most)
        self._rest = self._stream.unconsumed_tail
        return made


class PngDecoder:
    """RGB and RGBA of eight bits, not interlaced. Raises ImportError where isal is not installed or there is no kernel."""

    def __init__(self) -> None:
        if find_spec("isal") is None or compiled_module() is None:
            raise ImportError("isal is not installed, or there is no kernel")
        self._isal = import_module("isal.isal_zlib")

    @staticmethod
    def takes(data: bytes, opened: Image.Image) -> bool:
        """Whether the file is a plain one. `opened` is what Pillow made of its chunks; nothing is decoded."""
        depth, colour, *others = data[24:29]
        plain = depth == 8 and not any(others) and "transparency" not in opened.info
        mode = {2: "RGB", 6: "RGBA"}.get(colour)
        return opened.format == "PNG" and plain and opened.mode == mode and not getattr(opened, "is_animated", False)

    def decode(self, data: bytes, opened: Image.Image) -> Image.Image | None:
        """The pixels, not turned: RGB where nothing is transparent, else RGBA. None for a file that it does not decode."""
        size = Size(opened.height, opened.width)
        pixels = attempted(lambda kernel: self._pixels(kernel, data, size))
        if pixels is None:
            return None
        if data[25] == 6 and np.bitwise_and.reduce(pixels[:, :, 3], axis=None) != 255:
            return Image.frombuffer("RGBA", opened.size, pixels, "raw", "RGBA", 0, 1)
        return RgbxImage(pixels)

    def _pixels(self, kernel: Kernel, data: bytes, size: Size) -> Bytes8 | None:
        bytes_each = _COLOURS[data[25]]
        step, stride = 1 + bytes_each * size.width, 4 * size.width
        band = max(1, _BAND // step)
        if step + SLACK > REGION or 2 * stride + SLACK > REGION:
            return None
        pixels: Bytes8 = np.empty((size.height, size.width, 4), np.uint8)
        target, source = MemoryRegion.of(pixels), _Inflating(self._isal, data)
        kernel.bytes_at(OUTPUT, stride)[:] = 0
        try:
            for top in range(0, size.height, band):
                rows = min(band, size.height - top)
                source.fill(kernel, SOURCE, rows * step)
                if kernel.bytes_at(SOURCE, rows * step)[::step].max() > _LAST_FILTER:
                    return None
                kernel.unfilter(SOURCE, rows, size.width, OUTPUT + stride, stride, step, bytes_each)
                kernel.store(OUTPUT + stride, target, top * stride, rows * stride)
                kernel.move(OUTPUT + rows * stride, OUTPUT, stride)
            source.finish()
        except (_Unusual, self._isal.error):
            return None
        return pixels

    @staticmethod
    def samples(noise: Bytes8) -> list[bytes]:
        """Small files on which it is compared with Pillow: any bytes are a picture, so every filter meets any neighbours."""
        made = []
        for number, (colour, bytes_each) in enumerate([*_COLOURS.items()] * 3):
            height, width = 11 + number, 29 + number
            rows = np.resize(noise, (height, 1 + bytes_each * width))
            rows[:, 0] = (np.arange(height) * 3 + number) % (_LAST_FILTER + 1)
            if colour == 6:
                rows[:, 4::4] = np.arange(height)[:, None] % 2  # with some filters some rows are opaque, others not
            made.append(_file(width, height, colour, rows.tobytes()))
        return made


def _file(width: int, height: int, colour: int, filtered: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered, 1)), (b"IEND", b""))
    made = b"\x89PNG\r\n\x1a\n"
    for kind, content in chunks:
        made += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return made
