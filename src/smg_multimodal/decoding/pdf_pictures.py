"""A picture on a page of a PDF as a JPEG file, within bounds of pixels and bytes.

A PDF has pictures in a dozen forms, of which a model is shown one: RGB on white, no larger than models look at, as a file that
every decoder takes. Decides which are worth showing, and what decoding them may cost. Above: `pdf`. Below: `decode`, and
pypdf's decoders.
"""

import io
import struct
import warnings
import zlib
from dataclasses import dataclass
from typing import Any

from PIL import Image

from smg_multimodal.decoding.decode import to_rgb

__all__ = ["PICTURE_INFLATED", "PictureRoom", "is_drawn", "picture_file"]

PICTURE_INFLATED = 75_000_000
"""Bytes that one picture of a document may inflate to, and have in memory, where colours take four a pixel: a page of A4 in
colour at 400 dots an inch."""
_SMALLEST = 32
"""Pixels of a side; smaller ones are rules, bullets and ornaments."""
_PIXELS = 36_000_000
"""Pixels of one picture: a page of A4 in grey at 600 dots an inch."""
_PIXELS_TOGETHER = 160_000_000
_SIDE = 2048
"""Pixels of the longer side, to which a larger picture is scaled: models look at no more."""
_BYTES = 16 * 1024 * 1024
"""Bytes of all JPEG files of one document."""
_QUALITY = 90
_DEEP = 16
"""Bits of a sample that pypdf takes for two samples."""
_PALETTES = ("/FlateDecode", "/RunLengthDecode", "/DCTDecode", "/JPXDecode", "/CCITTFaxDecode", "/JBIG2Decode")
"""How pictures are packed that pypdf gives the colours of their palettes, or that have none."""

_UNDECODED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
    Image.DecompressionBombError,
    struct.error,
    zlib.error,
)
"""What pypdf and Pillow raise for pictures that they cannot decode, beside pypdf's own errors."""


@dataclass(slots=True)
class PictureRoom:
    """What the pictures of one document may have yet: pixels before they are scaled, and bytes."""

    pixels: int = _PIXELS_TOGETHER
    bytes: int = _BYTES


def is_drawn(part: Any) -> bool:
    """Whether a picture is large enough to show something."""
    return min(_size(part)) >= _SMALLEST


def picture_file(part: Any, room: PictureRoom) -> bytes | None:
    """A picture of a page as a JPEG file; None for one that cannot be decoded here, or that `room` has not enough for."""
    from pypdf.errors import PyPdfError

    width, height = _size(part)
    if not 0 < width * height <= min(_PIXELS, room.pixels):
        return None
    room.pixels -= width * height
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            read = _as_pypdf_reads(part)
            image = (
                None if read is None else read.decode_as_image({"compress_level": 1})
            )  # which writes a file of it first
            data = None if image is None else _jpeg(image)
    except (PyPdfError, *_UNDECODED):
        return None
    if data is None or len(data) > room.bytes:
        return None
    room.bytes -= len(data)
    return data


def _jpeg(image: Image.Image) -> bytes:
    image = image.convert("L") if image.mode == "1" else image if image.mode == "L" else to_rgb(image)
    image.thumbnail((_SIDE, _SIDE))  # which takes the nearest of black and white, and of colours by number
    out = io.BytesIO()
    to_rgb(image).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def _as_pypdf_reads(part: Any) -> Any:
    """The picture in a form whose colours pypdf gets right; None for 16 bits a sample and for Lab, of which it makes noise.

    Pypdf takes palettes of what is packed in its usual way alone, and an ink for what its page has in place of it.
    """
    from pypdf.generic import ArrayObject, DecodedStreamObject, NameObject

    filters = _resolved(part, "/Filter")
    packed = filters[-1] if filters and isinstance(filters, list) else filters
    space = _resolved(part, "/ColorSpace")
    kind = str(space[0].get_object()) if space and isinstance(space, list) else ""
    if kind == "/Lab" or (_resolved(part, "/BitsPerComponent") == _DEEP and packed != "/JPXDecode"):
        return None
    if kind == "/Separation":
        part[NameObject("/ColorSpace")] = ArrayObject([*space[:2], NameObject("/DeviceGray"), *space[3:]])
    if kind == "/Indexed" and packed not in _PALETTES:
        plain = DecodedStreamObject()
        plain.update({name: part.raw_get(name) for name in part if name not in ("/Filter", "/DecodeParms")})
        plain.set_data(part.get_data())
        return plain.flate_encode(1)
    return part


def _resolved(part: Any, name: str) -> Any:
    found = part.get(name)
    return None if found is None else found.get_object()


def _size(part: Any) -> tuple[int, int]:
    found = _resolved(part, "/Width"), _resolved(part, "/Height")
    width, height = (int(each) if isinstance(each, int) else 0 for each in found)
    return width, height
