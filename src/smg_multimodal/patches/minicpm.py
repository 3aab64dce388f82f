"""MiniCPM-V 2.6 to 4.7: an overview of the picture and, where it is large, slices on a grid nearest its shape.

Above: `families.pipelines`. Below: `pixels.transforms`, `pixels.resample`. From 4.6 on this follows transformers'
image_processing_pil_minicpmv4_6: patches of all views lie side by side in one (1, 3, patch, patches * patch) strip. Before, it
follows the processor published with the models, whose views are strips of their own, with as many tokens for each.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.configs.keys import ProcessorClass, settled
from smg_multimodal.pixels.collate import joined, padded
from smg_multimodal.pixels.filters import Filter
from smg_multimodal.pixels.resample import BICUBIC, resample_of, resize
from smg_multimodal.pixels.transforms import HALF, Normalizer, fused_normalizer, normalizer_of, write_columns
from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import Array, Bytes8, ItemFeatures, Modality, Size

__all__ = [
    "MiniCpmProcessor",
    "StripsProcessor",
    "minicpm_image",
    "minicpm_ocr_image",
    "minicpm_strips_image",
    "separate_views",
    "slicer_of",
]

_CLASS = ProcessorClass(frozenset({"MiniCPMV4_6ImageProcessor"}), {"do_resize": True}, {"do_resize": (True,)})
_OCR = ProcessorClass(
    frozenset({"MiniCPMOcrImageProcessor"}),
    {"do_resize": True, "downsample_mode": "4x", "small_image_upsize": "always"},
    {"do_resize": (True,), "small_image_upsize": ("always", "never"), "downsample_mode": ("4x", "16x")},
)
_STRIPS_CLASS = ProcessorClass(
    frozenset({"MiniCPMVImageProcessor"}),
    {"norm_mean": HALF, "norm_std": HALF, "slice_mode": True, "use_image_id": False},
    {"slice_mode": (True,)},
)


def _multiple(length: float, divisor: int) -> int:
    return max(round(length / divisor) * divisor, divisor)


@dataclass(frozen=True, slots=True)
class MiniCpmProcessor:
    """Pictures to (1, 3, patch, patches * patch) floats and (views, 2) int32 rows of (rows, columns) of patches.

    `block` patches a side are merged into one token (2 or 4). `most` bounds the slices; 1 turns slicing off. A
    picture that is not sliced is enlarged where it is small, or with `enlarged` off left as large as it is.
    """

    normalizer: Normalizer
    most: int = 9
    resolution: int = 448
    patch: int = 14
    block: int = 4
    resample: Filter = BICUBIC
    enlarged: bool = True

    def slices(self, size: Size) -> tuple[int, int]:
        """(rows, columns) of slices; (0, 0) for a picture that is not sliced."""
        wanted = min(math.ceil(size.width * size.height / self.resolution**2), self.most)
        if wanted <= 1:
            return 0, 0
        shape = math.log(size.width / size.height)
        best, least = (1, 1), math.inf
        for count in (wanted - 1, wanted, wanted + 1):
            if count == 1 or count > self.most:
                continue
            for rows in range(1, count + 1):
                if count % rows == 0:
                    error = abs(shape - math.log((count // rows) / rows))
                    if error < least or (error == least and rows > best[0]):
                        best, least = (rows, count // rows), error
        return best

    def _fit(self, height: float, width: float, *, enlarge: bool) -> Size:
        if height * width > self.resolution**2 or enlarge:
            aspect = width / height
            height = int(self.resolution / math.sqrt(aspect))
            width = int(height * aspect)
        side = self.patch * self.block
        return Size(_multiple(height, side), _multiple(width, side))

    def views(self, size: Size) -> tuple[Size, Size, tuple[int, int]]:
        """Size of the overview, size of one slice (0, 0 if none), and (rows, columns) of slices."""
        grid = self.slices(size)
        overview = self._fit(*size, enlarge=self.enlarged and grid == (0, 0))
        if grid == (0, 0):
            return overview, Size(0, 0), grid
        cell = (_multiple(size.height, grid[0]) / grid[0], _multiple(size.width, grid[1]) / grid[1])
        return overview, self._fit(*cell, enlarge=True), grid

    def patches(self, size: Size) -> int:
        """How many patches a view of `size` has."""
        return (size.height // self.patch) * (size.width // self.patch)

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and (rows, columns) of slices."""
        overview, piece, grid = self.views(size)
        area = self.block**2
        return self.patches(overview) // area + grid[0] * grid[1] * (self.patches(piece) // area), grid

    def pictures(self, image: Image.Image) -> Iterator[Bytes8]:
        """The overview, then the slices row by row, each at its size."""
        overview, piece, grid = self.views(Size(image.height, image.width))
        yield resize(image, overview, self.resample)
        if grid == (0, 0):
            return
        whole = resize(image, Size(piece.height * grid[0], piece.width * grid[1]), self.resample)
        for top in range(0, whole.shape[0], piece.height):
            for left in range(0, whole.shape[1], piece.width):
                yield whole[top : top + piece.height, left : left + piece.width]

    def shapes(self, size: Size) -> list[Size]:
        """The size of every view of a picture of `size`."""
        overview, piece, grid = self.views(size)
        return [overview] + [piece] * (grid[0] * grid[1])

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; `facts["tokens"]` has the token count of every view."""
        size = Size(image.height, image.width)
        grid, shapes = self.views(size)[2], self.shapes(size)
        lengths = [self.patches(view) * self.patch for view in shapes]
        out = np.empty((1, 3, self.patch, sum(lengths)), np.float32)
        edge = 0
        for pixels, length in zip(self.pictures(image), lengths, strict=True):
            start, edge = edge, edge + length
            write_columns(out[0, :, :, start:edge], pixels, self.normalizer, patch=self.patch)
        rows = np.array([(view.height // self.patch, view.width // self.patch) for view in shapes], np.int32)
        per_view = tuple(self.patches(view) // self.block**2 for view in shapes)
        return ItemFeatures(
            {"pixel_values": out, "target_sizes": rows}, size, sum(per_view), grid, facts={"tokens": per_view}
        )

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All views' patches side by side; their sizes one after the other."""
        return {
            "pixel_values": joined([item.tensors["pixel_values"] for item in items], axis=-1),
            "target_sizes": joined([item.tensors["target_sizes"] for item in items]),
        }


def separate_views(features: ItemFeatures) -> dict[str, Array]:
    """The same picture or clip view by view, as vLLM's class takes it: (1, views, 3, patch, longest) floats, each view's patches
    side by side with zeros after them, and (1, views, 2) rows of (rows, columns) of patches."""
    end = "_videos" if features.modality is Modality.VIDEO else ""
    strip, sizes = features.tensors[f"pixel_values{end}"], features.tensors[f"target_sizes{end}"]
    lengths = [int(rows * columns) * strip.shape[2] for rows, columns in sizes]
    out = np.zeros((1, len(lengths), *strip.shape[1:3], max(lengths)), strip.dtype)
    start = 0
    for view, length in enumerate(lengths):
        out[0, view, :, :, :length] = strip[0, :, :, start : start + length]
        start += length
    return {f"pixel_values{end}": out, f"target_sizes{end}": sizes[None]}


@dataclass(frozen=True, slots=True)
class StripsProcessor:
    """MiniCPM-V 2.6, 4.0 and 4.5: pictures to (views, 3, patch, longest) floats and (views, 2) rows and columns of patches.

    `slicer` says what the views are. A view's patches lie side by side; what a shorter one does not fill is zeros. Each is
    `per_view` tokens.
    """

    slicer: MiniCpmProcessor
    per_view: int = 64

    def measure(self, size: Size) -> tuple[int, tuple[int, ...]]:
        """Tokens that receive embeddings, and (rows, columns) of slices."""
        grid = self.slicer.views(size)[2]
        return (grid[0] * grid[1] + 1) * self.per_view, grid

    def nbytes(self, size: Size) -> int:
        """Bytes of the floats of a picture of `size`: every view takes as much as the longest."""
        shapes = self.slicer.shapes(size)
        return len(shapes) * max(self.slicer.patches(view) for view in shapes) * 3 * self.slicer.patch**2 * 4

    def item(self, image: Image.Image) -> ItemFeatures:
        """The tensors of one RGB picture; `facts["tokens"]` has the token count of every view."""
        size, slicer = Size(image.height, image.width), self.slicer
        tokens, grid = self.measure(size)
        shapes = slicer.shapes(size)
        lengths = [slicer.patches(view) * slicer.patch for view in shapes]
        out = np.zeros((len(shapes), 3, slicer.patch, max(lengths)), np.float32)
        for strip, pixels, length in zip(out, slicer.pictures(image), lengths, strict=True):
            write_columns(strip[:, :, :length], pixels, slicer.normalizer, patch=slicer.patch)
        sizes = np.array([(view.height // slicer.patch, view.width // slicer.patch) for view in shapes], np.int64)
        tensors: dict[str, Array] = {
            "pixel_values": out,
            "tgt_sizes": sizes,
            "num_slices": np.array([len(shapes)], np.int64),
        }
        return ItemFeatures(tensors, size, tokens, grid, facts={"tokens": (self.per_view,) * len(shapes)})

    def collate(self, items: Sequence[ItemFeatures]) -> dict[str, Array]:
        """All views one after the other, padded with zeros to the longest; the number of views of each picture."""
        return {
            "pixel_values": padded([item.tensors["pixel_values"] for item in items]),
            "tgt_sizes": joined([item.tensors["tgt_sizes"] for item in items]),
            "num_slices": joined([item.tensors["num_slices"] for item in items]),
        }


_STRIPS = ("2.6", "4.0", "4.5")


def minicpm_strips_image(config: Mapping[str, Any], model: Mapping[str, Any]) -> StripsProcessor:
    """From preprocessor_config.json and config.json of MiniCPM-V 2.6, 4.0 and 4.5, and MiniCPM-o 2.6."""
    version = str(float(model.get("version") or 0))
    if version not in _STRIPS:
        raise UnsupportedModel(f"version {model.get('version')} of MiniCPM-V is none of {', '.join(_STRIPS)}")
    config = settled(config, _STRIPS_CLASS)
    slicer = MiniCpmProcessor(
        normalizer=normalizer_of({"image_mean": config["norm_mean"], "image_std": config["norm_std"]}, HALF, HALF),
        most=int(config.get("max_slice_nums") or 9),
        resolution=int(config.get("scale_resolution") or 448),
        patch=int(config.get("patch_size") or 14),
        block=1,
        resample=resample_of({}, BICUBIC),
    )
    return StripsProcessor(slicer, int(config.get("image_feature_size") or 64))


def slicer_of(config: Mapping[str, Any], normalizer: Normalizer) -> MiniCpmProcessor:
    """What pictures and clips from 4.6 on read of a settled configuration."""
    return MiniCpmProcessor(
        normalizer=normalizer,
        most=1 if config.get("slice_mode") is False else int(config.get("max_slice_nums") or 9),
        resolution=int(config.get("scale_resolution") or 448),
        patch=int(config.get("patch_size") or 14),
        block=2 if config.get("downsample_mode") == "4x" else 4,
        resample=resample_of(config, BICUBIC),
    )


def minicpm_image(config: Mapping[str, Any]) -> MiniCpmProcessor:
    """From preprocessor_config.json."""
    config = settled(config, _CLASS)
    return slicer_of(config, normalizer_of(config, HALF, HALF))


def minicpm_ocr_image(config: Mapping[str, Any]) -> MiniCpmProcessor:
    """From preprocessor_config.json of MiniCPM-OCR. Enlarging by the size of letters would need OpenCV, and is refused."""
    config = settled(config, _OCR)
    made = slicer_of(config, normalizer_of(config, HALF, HALF, fused_normalizer))
    return replace(made, enlarged=config["small_image_upsize"] == "always")
