"""Plain JPEG files decoded by simplejpeg, where it is installed.

Above: `fast_decode`, which finds out whether its pixels are Pillow's before it is used. Below: simplejpeg, which has the library
that Pillow has, libjpeg-turbo, and writes four bytes a pixel in one go. Pillow has read a file's markers by then.
"""

import io
from importlib import import_module
from importlib.util import find_spec
from itertools import product

import numpy as np
from PIL import Image

from smg_multimodal.pixels.rgbx import RgbxImage
from smg_multimodal.records.types import Bytes8

__all__ = ["JpegDecoder"]

_SAMPLINGS = frozenset({(1, 1), (2, 1), (2, 2)})
"""How often brightness is sampled for a sample of colour, across and down, in files that are taken: 4:4:4, 4:2:2, 4:2:0."""


class JpegDecoder:
    """Three colours of eight bits, as cameras and browsers write them. Raises ImportError where simplejpeg is not installed."""

    def __init__(self) -> None:
        if find_spec("simplejpeg") is None:
            raise ImportError("simplejpeg is not installed")
        self._decode = import_module("simplejpeg").decode_jpeg

    @staticmethod
    def takes(data: bytes, opened: Image.Image) -> bool:
        """Whether the file is a plain one. `opened` is what Pillow made of its markers; nothing is decoded."""
        del data
        layers: list[tuple[int, int, int, int]] = getattr(opened, "layer", [])
        if opened.format != "JPEG" or opened.mode != "RGB" or len(layers) != 3:
            return False
        (_, across, down, _), *colours = layers
        ids = tuple(layer[0] for layer in layers)
        subsampled = [(across, down) for _, *factors, _ in colours if tuple(factors) == (1, 1)]
        plain = opened.info.get("adobe_transform", 1) == 1
        return plain and ids == (1, 2, 3) and len(subsampled) == 2 and (across, down) in _SAMPLINGS

    def decode(self, data: bytes, opened: Image.Image) -> Image.Image | None:
        """The pixels, not turned; None for a file that it does not decode without a warning."""
        width, height = opened.size
        pixels: Bytes8 = np.empty((height, width, 4), np.uint8)
        try:
            made = self._decode(data, colorspace="RGBX", buffer=pixels, strict=True)
        except (ValueError, MemoryError):
            return None
        return RgbxImage(pixels) if made.shape == pixels.shape else None

    @staticmethod
    def samples(noise: Bytes8) -> list[bytes]:
        """Small files on which it is compared with Pillow: every sampling, in one scan and in several, sides of every kind."""
        picture = Image.fromarray(noise)
        made = []
        for number, (sampling, progressive) in enumerate(product(range(3), (False, True))):
            out = io.BytesIO()
            box = (0, 0, picture.width - number, picture.height - 2 * number)
            picture.crop(box).save(out, "JPEG", quality=60 + 7 * number, subsampling=sampling, progressive=progressive)
            made.append(out.getvalue())
        return made
