"""Files that were made to cost more than they weigh."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

__all__ = [
    "TINY_PIECES",
    "flat_jpeg2000",
    "flat_png",
    "flat_webp",
    "png_of_profiles",
    "png_of_tags",
    "saved",
    "scan_bomb",
    "tiny_pieces",
]


def saved(image: Image.Image, container: str, **options: object) -> bytes:
    """`image` as a file."""
    out = io.BytesIO()
    image.save(out, container, **options)  # type: ignore[arg-type]
    return out.getvalue()


def scan_bomb(side: int, scans: int) -> bytes:
    """A progressive JPEG whose last scan, of a few bytes, comes again and again: each is work for every pixel."""
    whole = saved(Image.new("RGB", (side, side), "red"), "JPEG", progressive=True)
    last = whole.rindex(b"\xff\xda")
    return whole[:-2] + whole[last:-2] * scans + whole[-2:]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def flat_png(width: int, height: int, *, before: bytes = b"") -> bytes:
    """A PNG of one colour, with alpha, which takes kilobytes and decodes to four bytes a pixel and more."""
    rows = zlib.compressobj(9)
    body = b"".join(rows.compress(bytes(1 + 4 * width)) for _ in range(height)) + rows.flush()
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + before + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def png_of_profiles(count: int) -> bytes:
    """A small PNG before which a decoder inflates `count` profiles of 1 MiB each."""
    profile = _chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(1 << 20), 9))
    return flat_png(4, 4, before=profile * count)


def png_of_tags(count: int, orientation: int = 1) -> bytes:
    """A PNG whose EXIF has so many tags beside its orientation, each of which says that all that follows is its value."""
    entries = struct.pack("<HHII", 0x0112, 3, 1, orientation)
    value = 10 + 12 * (count + 1)
    entries += b"".join(struct.pack("<HHII", 0x0200 + tag, 7, 100_000, value) for tag in range(count))
    tags = b"II*\0\x08\0\0\0" + struct.pack("<H", count + 1) + entries + bytes(100_004)
    return flat_png(6, 4, before=_chunk(b"eXIf", tags))


def flat_webp(side: int) -> bytes:
    """A lossless WebP of one colour."""
    return saved(Image.new("RGB", (side, side)), "WEBP", lossless=True)


def flat_jpeg2000(side: int) -> bytes:
    """A JPEG 2000 of one colour."""
    return saved(Image.fromarray(np.zeros((side, side, 3), np.uint8)), "JPEG2000")


TINY_PIECES: dict[str, tuple[bytes, bytes]] = {
    "png-chunks": (flat_png(2, 2)[:33], struct.pack(">I4sI", 0, b"teXt", 0)),
    "png-frames": (flat_png(2, 2)[:33] + _chunk(b"acTL", struct.pack(">II", 9, 0)), _chunk(b"fcTL", bytes(26))),
    "webp": (b"RIFF\xff\xff\xff\0WEBPVP8X" + struct.pack("<I", 10) + bytes(10), b"ANMF\0\0\0\0"),
    "gif-frames": (b"GIF89a\x09\0\x09\0\0\0\0", b"\x2c\0\0\0\0\x01\0\x01\0\0\x08\0"),
    "gif-blocks": (b"GIF89a\x09\0\x09\0\0\0\0\x2c" + bytes(4) + b"\x01\0\x01\0\0\x08", b"\x01\x01"),
    "gif-nothing": (b"GIF89a\x09\0\x09\0\0\0\0", b"\0"),
    "jpeg-segments": (b"\xff\xd8\xff\xc0\0\x08\x08\0\x10\0\x10\x01", b"\xff\xe1\0\x02"),
    "jpeg-markers": (b"\xff\xd8\xff\xc0\0\x08\x08\0\x10\0\x10\x01\xff\xda\0\x02", b"\xff\xe1\0\x02"),
    "jpeg-beginnings": (b"\xff\xd8\xff\xc0\0\x08\x08\0\x10\0\x10\x01\xff\xda\0\x02", b"\xff\xd8"),
    "tiff": (b"II*\0\x08\0\0\0\xff\xff", struct.pack("<HHII", 256, 4, 1, 9) + struct.pack("<HHII", 257, 4, 1, 9)),
    "avif": (b"\0\0\0\x20ftypavif" + bytes(20), b"ispe\0\0\0\0" + struct.pack(">II", 9, 9)),
    "wav": (
        b"RIFF\xff\xff\xff\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data\x02\0\0\0\0\0",
        b"abcd\0\0\0\0",
    ),
}
"""How a file begins, and the smallest piece that its format has, which comes again and again."""


def tiny_pieces(kind: str, size: int) -> bytes:
    """About `size` bytes of a file of that kind of `TINY_PIECES`."""
    start, piece = TINY_PIECES[kind]
    return start + piece * ((size - len(start)) // len(piece))
