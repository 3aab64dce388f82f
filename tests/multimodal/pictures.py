"""The pictures that every family is compared on: more than three hundred encoded files, the same on every run.

Sizes go from one pixel to 4096x4096, with portraits, panoramas and the edges at which rules change; modes and containers go
from palette and CMYK to sixteen bits and rotated by EXIF. Each is made from its index alone, so a reference made elsewhere
means the same bytes as long as Pillow's filters and codecs are the same; `fingerprint` says whether they are.
"""

import hashlib
import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from smg_multimodal.decoding.decode import ImageLimits
from smg_multimodal.decoding.formats import FORMATS

COUNT = 320

EVERY_FORMAT = ImageLimits(formats=frozenset(FORMATS))
"""The corpus has formats that are taken by name alone."""

EDGES = (
    (1, 1), (1, 2), (2, 1), (2, 3), (3, 1), (1, 7), (13, 13), (14, 14), (15, 27), (27, 28), (28, 28), (29, 28), (28, 57),
    (1, 90), (90, 1), (2, 399), (401, 2), (13, 2600), (2613, 13), (5, 400), (32, 32), (31, 33), (48, 47), (55, 56), (56, 57),
    (112, 112), (111, 113), (223, 225), (224, 224), (335, 336), (336, 337), (337, 335), (384, 384), (385, 383), (447, 449),
    (448, 448), (449, 448), (512, 512), (640, 480), (480, 640), (672, 336), (336, 672), (673, 671), (768, 1024), (896, 896),
    (1000, 64), (64, 1000), (1008, 336), (300, 1000), (1120, 100), (1500, 60), (60, 1500), (1280, 720), (720, 1280),
    (1023, 1025), (1344, 448), (1600, 200), (200, 1600), (1540, 1540), (1541, 770), (2000, 250), (1920, 1080), (1080, 1920),
    (2304, 384), (2400, 500), (3000, 400), (400, 3000), (4096, 256), (256, 4096), (2048, 2048), (4096, 2160), (4096, 4096),
)  # fmt: skip
"""(width, height) of the pictures made first."""

KINDS = (
    "jpeg", "png", "png-l", "png-p", "png-rgba", "jpeg-cmyk", "jpeg-exif", "png-16", "png-la", "png-p-alpha", "webp",
    "webp-rgba", "gif", "png-1", "jpeg-l", "bmp", "tiff", "jpeg-progressive", "png-exif", "tiff-cmyk",
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """One encoded file: what it is, and its (width, height) before any rotation."""

    index: int
    kind: str
    size: tuple[int, int]

    @property
    def name(self) -> str:
        return f"{self.index:03d}-{self.kind}-{self.size[0]}x{self.size[1]}"

    @property
    def pixels(self) -> int:
        return self.size[0] * self.size[1]


def pictures() -> list[Picture]:
    """All of them, in order of index."""
    rng = np.random.default_rng(20250117)
    made = []
    for index in range(COUNT):
        if index < len(EDGES):
            size = EDGES[index]
        else:
            area = float(np.exp(rng.uniform(np.log(200), np.log(900_000))))
            shape = float(np.exp(rng.normal(0, 0.7)))
            size = (max(1, round((area * shape) ** 0.5)), max(1, round((area / shape) ** 0.5)))
        made.append(Picture(index, KINDS[(index * 7 + index // len(KINDS)) % len(KINDS)], size))
    return made


def _colours(picture: Picture) -> Image.Image:
    """Smooth shapes with hard edges and noise on top: every byte value, nothing flat."""
    rng = np.random.default_rng(picture.index)
    width, height = picture.size
    coarse = rng.integers(0, 256, (max(1, height // 23), max(1, width // 23), 3), np.uint8)
    image = Image.fromarray(coarse).resize(picture.size, Image.Resampling.BICUBIC)
    block = np.tile(rng.integers(0, 256, (37, 41, 3), np.uint8), (height // 74 + 1, width // 82 + 1, 1))
    image.paste(Image.fromarray(block[: max(1, height // 2), : max(1, width // 2)]), (width // 3, height // 3))
    return image


def _alpha(picture: Picture) -> Image.Image:
    width, height = picture.size
    ramp = np.add.outer(np.arange(height) * 3, np.arange(width) * 5) % 256
    return Image.fromarray(ramp.astype(np.uint8))


def _in_mode(picture: Picture) -> Image.Image:
    """The picture in its kind's colour mode."""
    image, kind = _colours(picture), picture.kind
    if kind in {"png-l", "jpeg-l", "png-la"}:
        image = image.convert("L")
    if kind in {"png-rgba", "webp-rgba", "png-la"}:
        image.putalpha(_alpha(picture))
    if kind == "png-1":
        return image.convert("1")
    if kind in {"png-p", "gif", "png-p-alpha"}:
        return image.quantize(64)
    if kind.endswith("cmyk"):
        return image.convert("CMYK")
    if kind == "png-16":
        return Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 251)
    return image


@lru_cache(maxsize=4)
def encoded(picture: Picture) -> bytes:
    """The file."""
    kind, options = picture.kind, dict[str, Any]()
    container = kind.split("-")[0].upper()
    if kind == "png-p-alpha":
        options["transparency"] = 3
    if kind.endswith("exif"):
        exif = Image.Exif()
        exif[0x0112] = picture.index % 8 + 1
        options["exif"] = exif
    if container == "PNG":
        options["compress_level"] = 1
    if container == "WEBP":
        options.update(lossless=True, method=0, quality=0)
    if kind == "jpeg-progressive":
        options["progressive"] = True
    out = io.BytesIO()
    _in_mode(picture).save(out, container, **options)
    return out.getvalue()


def fingerprint() -> str:
    """A hash over the decoded pixels of some files: references made from other pictures do not apply, and say so."""
    digest = hashlib.sha256()
    for picture in pictures()[7::13]:
        if picture.pixels < 500_000:
            digest.update(Image.open(io.BytesIO(encoded(picture))).tobytes())
    return digest.hexdigest()
