"""Files that were made to cost more than they weigh."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

__all__ = ["flat_jpeg2000", "flat_png", "flat_webp", "png_of_profiles", "saved", "scan_bomb"]


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


def flat_webp(side: int) -> bytes:
    """A lossless WebP of one colour."""
    return saved(Image.new("RGB", (side, side)), "WEBP", lossless=True)


def flat_jpeg2000(side: int) -> bytes:
    """A JPEG 2000 of one colour."""
    return saved(Image.fromarray(np.zeros((side, side, 3), np.uint8)), "JPEG2000")
