"""Processors that transformers has not, but the models' publishers: their steps, with Pillow and numpy.

Written from what the published code does (openbmb/MiniCPM-V-2_6, image_processing_minicpmv.py; moonshotai/Kimi-VL-A3B-Instruct,
image_processing_kimi_vl.py) and, for InternVL, what vLLM's processor does (0.33, transformers_utils/processors/internvl.py). The
arithmetic is single precision throughout. They are called as transformers' classes are.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

Arrays = dict[str, np.ndarray[Any, Any]]


def in_rgb(image: Image.Image) -> Image.Image:
    """As transformers makes a picture RGB: transparency on white."""
    from transformers.image_transforms import convert_to_rgb  # not before make_references.py has its stand-in in place

    return Image.fromarray(np.asarray(convert_to_rgb(image, return_numpy=True)))


def normalised(image: Image.Image, mean: list[float], std: list[float]) -> np.ndarray[Any, Any]:
    """(3, height, width) floats."""
    scaled = np.asarray(image).astype(np.float32) / np.float32(255)
    return ((scaled - np.array(mean, np.float32)) / np.array(std, np.float32)).transpose(2, 0, 1)


@dataclass
class KimiVL:
    """Shrunk to a number of patches, padded with black to whole blocks, cut into patches."""

    in_token_limit: int
    patch_size: int
    image_mean: list[float]
    image_std: list[float]
    pad_input: bool
    merge_kernel_size: list[int] = field(default_factory=lambda: [2, 2])

    def __call__(self, images: list[Image.Image], return_tensors: str) -> Arrays:
        assert self.pad_input
        patches, grids = [], []
        for image in map(in_rgb, images):
            whole = (image.width // self.patch_size) * (image.height // self.patch_size)
            if whole > self.in_token_limit:
                scale = math.sqrt(self.in_token_limit / whole)
                image = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BICUBIC)
            down, across = (self.patch_size * merge for merge in self.merge_kernel_size)
            size = (image.width + -image.width % across, image.height + -image.height % down)
            canvas = Image.new("RGB", size)
            canvas.paste(image, (0, 0))
            rows, columns = (side // self.patch_size for side in size[::-1])
            if max(rows, columns) >= 512:
                raise ValueError("more places than there are embeddings")
            floats = normalised(canvas, self.image_mean, self.image_std)
            cut = floats.reshape(3, rows, self.patch_size, columns, self.patch_size).transpose(1, 3, 0, 2, 4)
            patches.append(cut.reshape(-1, 3, self.patch_size, self.patch_size))
            grids.append((rows, columns))
        return {"pixel_values": np.concatenate(patches), "image_grid_hws": np.array(grids)}


@dataclass
class MiniCPMV:
    """An overview and slices, each a strip of patches; here strips of one picture are padded to the longest."""

    max_slice_nums: int
    scale_resolution: int
    patch_size: int
    image_feature_size: int
    norm_mean: list[float]
    norm_std: list[float]
    use_image_id: bool = True

    def grid(self, width: int, height: int) -> tuple[int, int] | None:
        """(columns, rows) of slices."""
        wanted = min(math.ceil(width * height / self.scale_resolution**2), self.max_slice_nums)
        if wanted <= 1:
            return None
        found, least = (1, 1), float("inf")
        for count in (wanted - 1, wanted, wanted + 1):
            if count == 1 or count > self.max_slice_nums:
                continue
            for columns in (each for each in range(1, count + 1) if count % each == 0):
                error = abs(math.log(width / height) - math.log(columns / (count // columns)))
                if error < least:
                    found, least = (columns, count // columns), error
        return found

    def _side(self, length: float, multiple: int) -> int:
        return max(round(length / multiple) * multiple, multiple)

    def _best(self, width: float, height: float, *, enlarge: bool) -> tuple[int, int]:
        if width * height > self.scale_resolution**2 or enlarge:
            aspect = width / height
            height = int(self.scale_resolution / math.sqrt(aspect))
            width = int(height * aspect)
        return self._side(width, self.patch_size), self._side(height, self.patch_size)

    def views(self, image: Image.Image) -> list[Image.Image]:
        """The overview, and the slices row by row."""
        grid = self.grid(image.width, image.height)
        best = self._best(image.width, image.height, enlarge=grid is None)
        made = [image.resize(best, Image.Resampling.BICUBIC)]
        if grid is None:
            return made
        cell = (self._side(image.width, grid[0]) / grid[0], self._side(image.height, grid[1]) / grid[1])
        wide, tall = self._best(*cell, enlarge=True)
        whole = image.resize((wide * grid[0], tall * grid[1]), Image.Resampling.BICUBIC)
        places = [(column * wide, row * tall) for row in range(grid[1]) for column in range(grid[0])]
        return made + [whole.crop((left, top, left + wide, top + tall)) for left, top in places]

    def strip(self, view: Image.Image) -> np.ndarray[Any, Any]:
        """(3, patch, patches * patch) floats, patches in raster order."""
        floats, patch = normalised(view, self.norm_mean, self.norm_std), self.patch_size
        cut = floats.reshape(3, view.height // patch, patch, view.width // patch, patch)
        return cut.transpose(0, 2, 1, 3, 4).reshape(3, patch, -1)

    def __call__(self, images: list[Image.Image], return_tensors: str) -> Arrays:
        views = [view for image in images for view in self.views(in_rgb(image))]
        strips = [self.strip(view) for view in views]
        longest = max(strip.shape[-1] for strip in strips)
        return {
            "pixel_values": np.stack(
                [np.pad(strip, ((0, 0), (0, 0), (0, longest - strip.shape[-1]))) for strip in strips]
            ),
            "tgt_sizes": np.array([(view.height // self.patch_size, view.width // self.patch_size) for view in views]),
        }

    def placeholder(self, width: int, height: int, index: int) -> str:
        """What is written for one picture."""
        feature = "<unk>" * self.image_feature_size
        text = f"<image_id>{index}</image_id>" if self.use_image_id else ""
        text += f"<image>{feature}</image>"
        grid = self.grid(width, height)
        if grid is None:
            return text
        return text + "\n".join([f"<slice>{feature}</slice>" * grid[0]] * grid[1])


@dataclass
class InternVLChat:
    """The picture stretched over the nearest grid of tiles, and a thumbnail after more than one."""

    image_mean: list[float]
    image_std: list[float]
    resample: int = 3

    def grid(self, width: int, height: int, tile: int, least: int, most: int) -> tuple[int, int]:
        """(columns, rows); grids are tried by area, and of one area as a set yields them."""
        every = {
            (columns, rows)
            for count in range(least, most + 1)
            for columns in range(1, count + 1)
            for rows in range(1, count + 1)
            if least <= columns * rows <= most
        }
        found, difference = (1, 1), float("inf")
        for columns, rows in sorted(every, key=lambda shape: shape[0] * shape[1]):
            away = abs(width / height - columns / rows)
            roomy = width * height > 0.5 * tile * tile * columns * rows
            if away < difference or (away == difference and roomy):
                found, difference = (columns, rows), away
        return found

    def __call__(
        self,
        images: list[Image.Image],
        return_tensors: str,
        image_size: int,
        min_dynamic_patch: int,
        max_dynamic_patch: int,
        use_thumbnail: bool,
    ) -> Arrays:
        tiles, counts = [], []
        for image in map(in_rgb, images):
            columns, rows = self.grid(*image.size, image_size, min_dynamic_patch, max_dynamic_patch)
            whole = image.resize((columns * image_size, rows * image_size), Image.Resampling(self.resample))
            corners = [(left * image_size, top * image_size) for top in range(rows) for left in range(columns)]
            views = [whole.crop((left, top, left + image_size, top + image_size)) for left, top in corners]
            if use_thumbnail and len(views) > 1:
                views.append(image.resize((image_size, image_size), Image.Resampling(self.resample)))
            tiles += [normalised(view, self.image_mean, self.image_std) for view in views]
            counts.append(len(views))
        return {"pixel_values": np.stack(tiles), "num_patches": np.array(counts)}


PUBLISHED = {"internvl_chat": InternVLChat, "kimi_vl": KimiVL, "minicpmv": MiniCPMV}
