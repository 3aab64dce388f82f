"""A decoded picture whose pixels lie in an array of ours instead of in Pillow's memory.

Above: `decoding.fast_jpeg` and `decoding.fast_png`, which make these, and `passes`, which reads them where they lie. Below:
Pillow, to which it is an RGB picture like any other: the pixels are copied to Pillow's memory when something asks for them
there.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smg_multimodal.records.types import Bytes8

__all__ = ["RgbxImage"]


class RgbxImage(Image.Image):
    """An RGB picture of `pixels`, (height, width, 4) bytes in one piece, the fourth of each without meaning.

    `pixels` is None as soon as Pillow has a copy of its own, which may be changed."""

    def __init__(self, pixels: Bytes8) -> None:
        super().__init__()
        self.pixels: Bytes8 | None = np.ascontiguousarray(pixels)
        self._mode = "RGB"
        self._size = (pixels.shape[1], pixels.shape[0])

    def load(self) -> Any:
        """Pillow's own hook: called before it reads or changes a picture's memory."""
        if self.pixels is not None:
            lent: NDArray[np.uint8] = self.pixels.reshape(-1)
            self.im = Image.frombytes("RGB", self._size, lent.data, "raw", "RGBX").im
            self.pixels = None
        return super().load()
