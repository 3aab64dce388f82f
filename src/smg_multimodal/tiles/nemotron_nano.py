"""Nemotron Nano VL: a picture as tiles of the grid nearest to its shape, resized as floats, and a small one of the whole.

Above: `families.tile_pipelines`. Below: `internvl` for the grid, `pixels.floats`. The rules are those of the processor in vLLM,
which reads config.json alone; transformers has the model after it, of which `patches.nemotron` has the pictures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.key_kinds import MOST_TILES, refused
from smg_multimodal.configs.keys import positive_number
from smg_multimodal.pixels.collate import joined
from smg_multimodal.pixels.floats import FloatNormalizer, float_bands
from smg_multimodal.pixels.resample import BICUBIC
from smg_multimodal.pixels.transforms import CLIP_MEAN, CLIP_STD, means_of
from smg_multimodal.records.types import Array, Bytes8, Float32, ItemFeatures, Size
from smg_multimodal.tiles.internvl import nearest_grid

__all__ = ["NemotronTileProcessor", "nemotron_nano_image"]

_ROWS = 16
"""Rows that are interpolated at a time."""
_USUAL_TILES = 12


@dataclass(frozen=True, slots=True)
class NemotronTileProcessor:
    """Pictures to (tiles, 3, side, side) floats, of `most` tiles and, where there are several, one of the whole with `thumbnail`.

    `per_tile` tokens stand for each of them.
    """

    normalizer: FloatNormalizer
    side: int = 512
    per_tile: int = 256
    most: int = _USUAL_TILES
    thumbnail: bool = True

    def grid(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of tiles."""
        columns, rows = nearest_grid(size, Size(self.side, self.side), 1, self.most, hashed=True)
        return rows, columns

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and (rows, columns) of tiles."""
        rows, columns = self.grid(size)
        return self._count(rows * columns) * self.per_tile, (rows, columns)

    def nbytes(self, size: Size) -> int:
        """Bytes of the tensors of a picture of `size`; those of a few numbers are not counted."""
        rows, columns = self.grid(size)
        return 12 * self._count(rows * columns) * self.side**2

    def _count(self, tiles: int) -> int:
        return tiles + (self.thumbnail and tiles > 1)

    def _write(self, out: Float32, pixels: Bytes8, rows: int, columns: int) -> None:
        """Write the tiles of a picture that is stretched over all of them."""
        side = self.side
        tiles = out.reshape(rows, columns, 3, side, side)
        step = _ROWS if side % _ROWS == 0 else side
        for top, band in float_bands(pixels, Size(rows * side, columns * side), BICUBIC, step):
            row, inner = divmod(top, side)
            parts = self.normalizer(band).reshape(step, columns, side, 3).transpose(1, 3, 0, 2)
            tiles[row, :, :, inner : inner + step] = parts

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture."""
        size, pixels = Size(image.height, image.width), np.asarray(image)
        tokens, (rows, columns) = self.measure(size)
        count = self._count(rows * columns)
        out = np.empty((count, 3, self.side, self.side), np.float32)
        self._write(out[: rows * columns], pixels, rows, columns)
        if count > rows * columns:
            self._write(out[-1:], pixels, 1, 1)
        tensors: dict[str, Array] = {"pixel_values": out, "num_patches": np.array([count], np.int64)}
        return ItemFeatures(tensors, size, tokens, (rows, columns))

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All tiles one after the other, and how many each picture has."""
        return {name: joined([item.tensors[name] for item in items]) for name in items[0].tensors}


def nemotron_nano_image(model: Mapping[str, Any]) -> NemotronTileProcessor:
    """From config.json. Pictures that keep their shape, which later models of the type have, are refused by their key's name."""
    vision = model.get("vision_config") or {}
    if (least := (vision.get("args") or {}).get("min_num_patches")) is not None:
        raise refused("min_num_patches", least, "tiles alone are done here")
    config = {"force_image_size": 512, "patch_size": 16, "max_num_tiles": _USUAL_TILES, **model}
    side, patch = positive_number(config, "force_image_size"), positive_number(config, "patch_size")
    ratio = config.get("downsample_ratio", 0.5)
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
        raise refused("downsample_ratio", ratio, "a number above nothing, up to 1, is needed")
    mean, std = means_of(config, CLIP_MEAN, "norm_mean"), means_of(config, CLIP_STD, "norm_std")
    return NemotronTileProcessor(
        normalizer=FloatNormalizer(np.array(mean, np.float32), np.array(std, np.float32), 1 / 255),
        side=side,
        per_tile=max(1, int((side // patch) ** 2 * ratio**2)),
        most=positive_number(config, "max_num_tiles", MOST_TILES),
        thumbnail=config.get("use_thumbnail", True) is not False,
    )
