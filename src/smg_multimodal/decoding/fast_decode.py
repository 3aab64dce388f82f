"""Faster decoders than Pillow's for plain files, used after a comparison of their pixels.

Above: `decode`, which asks here first. Below: `fast_jpeg`, `fast_png`, and the packages that they need, which are optional
(`smg-sdk[fast-media]`). A decoder is compared with Pillow once a process, on files that are made for it; one that differs in a
single pixel, fails or is not installed is not asked again. Everything that is not plain is Pillow's: other colours and depths,
interlacing, animations, files that have to be turned, damaged ones.
"""

import io
import logging
from functools import cache
from typing import Protocol

import numpy as np
from PIL import Image
from PIL.ExifTags import Base

from smg_multimodal.decoding.fast_jpeg import JpegDecoder
from smg_multimodal.decoding.fast_png import PngDecoder
from smg_multimodal.records.types import Bytes8

__all__ = ["decoded", "prove_decoders"]

log = logging.getLogger(__name__)


class _Decoder(Protocol):
    def takes(self, data: bytes, opened: Image.Image) -> bool: ...
    def decode(self, data: bytes, opened: Image.Image) -> Image.Image | None: ...
    def samples(self, noise: Bytes8) -> list[bytes]: ...


_KINDS: dict[str, type[_Decoder]] = {"JPEG": JpegDecoder, "PNG": PngDecoder}
"""What may decode a format, by Pillow's name for it."""


def _agrees(decoder: _Decoder) -> bool:
    words = np.arange(61 * 47 * 3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)
    for data in decoder.samples(words.astype(np.uint8).reshape(47, 61, 3)):
        with Image.open(io.BytesIO(data)) as opened:
            made = decoder.decode(data, opened) if decoder.takes(data, opened) else None
            if made is None or not np.array_equal(np.asarray(made.convert("RGB")), np.asarray(opened.convert("RGB"))):
                return False
    return True


@cache
def _trusted(name: str) -> _Decoder | None:
    """The decoder of the format of that name, once it has shown that its pixels are Pillow's."""
    kind = _KINDS.get(name)
    if kind is None:
        return None
    try:
        decoder = kind()
    except ImportError:
        return None
    if _agrees(decoder):
        return decoder
    log.warning("%s files are decoded by Pillow alone: the pixels of %s are not Pillow's", name, kind.__name__)
    return None


def prove_decoders() -> None:
    """Compare all decoders with Pillow now, so that the first picture does not wait for it."""
    for name in _KINDS:
        _trusted(name)


def _is_upright(opened: Image.Image) -> bool:
    # The method of the base class: the one for PNG decodes the file first, to see what comes after the pixels.
    return bool(Image.Image.getexif(opened).get(Base.Orientation, 1) == 1)


def decoded(data: bytes, opened: Image.Image) -> Image.Image | None:
    """The picture that Pillow has `opened` from `data`, decoded and upright, RGB or RGBA; None where Pillow has to decode it."""
    decoder = _trusted(opened.format or "")
    if decoder is None or not decoder.takes(data, opened) or not _is_upright(opened):
        return None
    return decoder.decode(data, opened)
