"""Compares every family with transformers' torchvision backend over the whole corpus, and says where a difference comes from.

Needs an environment of its own, since torchvision installs only with torch's CUDA build (6 GB):

    make multimodal-torchvision

Per family it counts how many of our values equal that backend's and how many lie within one eight-bit level, with the largest
difference; the same for transformers' own PIL backend, where the family has one; and the mean time of ours and torchvision's
from encoded bytes to tensor. Then it takes the resizes that the torchvision backend made, and resizes the same bytes by Pillow
and by the arithmetic in byte_resize.py, so that the page shows which part of the difference is whose.

Exits with 1 when a grid, shape or count differs, when our tensors are not those of the PIL backend, or when torchvision's
bytes are not what the arithmetic says.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
import transformers
from PIL import Image
from PIL import __version__ as pillow_version
from torchvision.transforms.v2 import functional

sys.path.insert(0, str(Path(__file__).parent))

from byte_resize import resized
from pictures import EVERY_FORMAT, Picture, encoded, pictures
from reference_families import FAMILIES, Family, opened, reference_processor

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.decode import decode_image
from smg_multimodal.families.registry import family_of
from smg_multimodal.records.errors import BadMedia

EXACT = {
    "image_grid_thw",
    "image_sizes",
    "num_crops",
    "num_patches",
    "target_sizes",
    "aspect_ratios",
    "num_img_tokens",
    "image_attention_mask",
}
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
EXPLAINED_PIXELS = 210_000
LARGER_EXPLAINED = 3
"""Of resizes from or to more pixels than that, only so many a family are taken apart; all are compared."""
REFUSALS = (ValueError, RuntimeError, ZeroDivisionError)

Array = np.ndarray[Any, Any]
Resize = tuple[Array, tuple[int, int], str, Array]


@dataclass
class Levels:
    """Differences in levels: how many values were compared, are equal, are within one, and the largest."""

    values: int = 0
    equal: int = 0
    near: int = 0
    largest: float = 0.0

    def add(self, difference: Array) -> None:
        self.values += difference.size
        self.equal += int((difference < 0.02).sum())
        self.near += int((difference < 1.02).sum())
        self.largest = max(self.largest, float(difference.max(initial=0.0)))

    @property
    def columns(self) -> str:
        most = max(1, self.values)
        return f"{100 * self.equal / most:.2f} | {100 * self.near / most:.3f} | {self.largest:.1f}"


@dataclass
class Explained:
    """The resizes taken apart: Pillow beside torchvision, split by Pillow's first pass, and the steps from one to the other."""

    resizes: int = 0
    larger: int = 0
    columns_first: int = 0
    by_columns: Levels = field(default_factory=Levels)
    by_rows: Levels = field(default_factory=Levels)
    same_order: Levels = field(default_factory=Levels)
    same_bits: Levels = field(default_factory=Levels)
    pillow_other: int = 0


@dataclass
class Tally:
    """What was seen of one family."""

    pictures: int = 0
    refused: int = 0
    ours: Levels = field(default_factory=Levels)
    pil: Levels = field(default_factory=Levels)
    as_pil: int = 0
    ours_s: float = 0.0
    theirs_s: float = 0.0
    wrong: str = ""
    explained: Explained = field(default_factory=Explained)


def reference_of(family: Family) -> Any:
    """transformers' default processor of the family, configured alike; None where transformers has none."""
    name = family.torch or family.reference
    if name == "phi3_v":
        return None
    module = importlib.import_module(f"transformers.models.{name}.image_processing_{name}")
    (kind,) = (
        value
        for key, value in vars(module).items()
        if key.endswith("ImageProcessor") and isinstance(value, type) and value.__module__ == module.__name__
    )
    return kind(**{key: value for key, value in family.preprocessor.items() if key != "image_seq_length"})


def in_levels(difference: Array, std: Any) -> Array:
    """Differences of normalised values as steps of an eight-bit pixel, each channel by its own deviation."""
    steps = np.asarray(std, np.float32) * 255
    if difference.ndim >= 3 and difference.shape[-3] == 3:
        return difference * steps[:, None, None]
    return difference.reshape(*difference.shape[:-1], 3, -1) * steps[:, None]


def as_arrays(family: Family, out: Any) -> dict[str, Array]:
    """The family's tensors of one answer of transformers."""
    found = {}
    for name in family.tensors:
        value = out[name]
        floats = hasattr(value, "float") and name not in EXACT
        found[name] = value.float().numpy() if floats else np.asarray(value)
    return found


class Recorder:
    """Stands around torchvision's resize and keeps what bytes went in and came out."""

    def __init__(self) -> None:
        self.seen: list[tuple[torch.Tensor, torch.Tensor, str]] = []
        self._resize = functional.resize
        functional.resize = self

    def __call__(
        self, image: torch.Tensor, size: Any, interpolation: Any = functional.InterpolationMode.BILINEAR, **more: Any
    ) -> torch.Tensor:
        out: torch.Tensor = self._resize(image, size, interpolation=interpolation, **more)
        if image.dtype == torch.uint8 and image.shape != out.shape:
            self.seen.append((image, out, interpolation.value))
        return out

    def taken(self) -> list[Resize]:
        """What was seen since the last call, as arrays of (height, width, channels)."""
        seen, self.seen = self.seen, []
        found = []
        for image, out, kind in seen:
            pairs = zip(image.reshape(-1, *image.shape[-3:]), out.reshape(-1, *out.shape[-3:]), strict=True)
            for before, after in pairs:
                was, now = (each.permute(1, 2, 0).contiguous().numpy() for each in (before, after))
                found.append((was, (now.shape[0], now.shape[1]), kind, now))
        return found


def explain(resize: Resize, into: Explained) -> None:
    """Take one resize apart."""
    before, size, kind, theirs = resize
    if max(before.size, theirs.size) > EXPLAINED_PIXELS * 3:
        if into.larger == LARGER_EXPLAINED:
            return
        into.larger += 1
    filters = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
    by_pillow = np.asarray(Image.fromarray(before).resize((size[1], size[0]), filters[kind]))
    rows = resized(before, size, kind)

    def apart(one: Array) -> Array:
        return np.abs(one.astype(np.int16) - theirs.astype(np.int16))

    into.resizes += 1
    if np.array_equal(by_pillow, rows):
        into.by_rows.add(apart(by_pillow))
    elif np.array_equal(by_pillow, resized(before, size, kind, columns_first=True)):
        into.columns_first += 1
        into.by_columns.add(apart(by_pillow))
    else:
        into.pillow_other += 1
    into.same_order.add(apart(rows))
    into.same_bits.add(apart(resized(before, size, kind, torch=True)))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and what it returned; a refusal is returned too."""
    start = time.perf_counter()
    try:
        found = work()
    except (*REFUSALS, BadMedia) as error:
        found = error
    return time.perf_counter() - start, found


class Comparison:
    """One family: our processor, transformers' two, and the tally."""

    def __init__(self, family: Family, recorder: Recorder) -> None:
        files = ModelFiles(family.model, family.preprocessor, family.processor)
        self.family, self.recorder, self.tally = family, recorder, Tally()
        self.ours, self.theirs = family_of(files).image(files), reference_of(family)
        self.pil = reference_processor(family) if family.reference else None
        self.std = family.preprocessor.get("image_std") or CLIP_STD

    def _pair(self, data: bytes, ours_first: bool) -> tuple[tuple[float, Any], tuple[float, Any]]:
        def ours() -> Any:
            return self.ours.collate([self.ours.item(decode_image(data, EVERY_FORMAT))])

        def theirs() -> Any:
            return self.theirs(images=[opened(data)], return_tensors="pt", **self.family.call)

        if ours_first:
            first = timed(ours)
            return first, timed(theirs)
        second = timed(theirs)
        return timed(ours), second

    def add(self, picture: Picture) -> None:
        """Compare one picture."""
        tally, data = self.tally, encoded(picture)
        (ours_s, mine), (theirs_s, theirs) = self._pair(data, ours_first=picture.index % 2 == 0)
        resizes = self.recorder.taken()
        if isinstance(theirs, REFUSALS):
            tally.refused += 1
            return
        if isinstance(mine, Exception):
            tally.wrong = tally.wrong or f"{picture.name} refused: {mine}"
            return
        tally.pictures, tally.ours_s, tally.theirs_s = (
            tally.pictures + 1,
            tally.ours_s + ours_s,
            tally.theirs_s + theirs_s,
        )
        expected = as_arrays(self.family, theirs)
        self._compared(picture, tally.ours, mine, expected)
        if self.pil is not None:
            by_pil = as_arrays(self.family, self.pil(images=[opened(data)], return_tensors="np", **self.family.call))
            tally.as_pil += all(np.array_equal(mine[name], by_pil[name]) for name in self.family.tensors)
            self._compared(picture, tally.pil, by_pil, expected)
        for resize in resizes:
            explain(resize, tally.explained)

    def _compared(self, picture: Picture, levels: Levels, mine: Any, expected: dict[str, Array]) -> None:
        for name, value in expected.items():
            got = np.asarray(mine[name])
            if got.shape != value.shape or (name in EXACT and not np.array_equal(got, value)):
                self.tally.wrong = self.tally.wrong or f"{picture.name}: {name} is {got.shape}, expected {value.shape}"
            elif name not in EXACT and got.dtype == np.float32:
                levels.add(in_levels(np.abs(got - value), self.std))

    def verdict(self) -> None:
        """Note what breaks the rule."""
        tally = self.tally
        if self.pil is not None and tally.as_pil != tally.pictures:
            tally.wrong = tally.wrong or f"{tally.pictures - tally.as_pil} pictures differ from the PIL backend"
        if not tally.pictures:
            tally.wrong = "no picture was taken"
        if tally.explained.same_bits.largest or tally.explained.pillow_other:
            tally.wrong = tally.wrong or "a resize is not what the arithmetic says"


INTRODUCTION = """# Compared with the torchvision backend

{versions}; {capability}, one thread; written by `make multimodal-torchvision`.

transformers has two backends, PIL and torchvision, and they differ from one another. Ours equals the PIL backend bit for bit
("as PIL" counts the pictures), so it is exactly as far from torchvision as transformers' own PIL backend is: the two triples of
columns agree. No processor can equal both backends. One level is one step of an eight-bit pixel; "near" is the share within one
level. Grids, shapes and counts are equal throughout. Times are means over the corpus, from encoded bytes to tensor, measured in
turns: other work of the machine is in both columns, so only compare them with each other.
"""

WHY = """
## Why they differ

Decoding, colours, crops and normalising agree; the difference comes from resizing. Both backends resize along rows and along
columns separately, and round to bytes (0 to 255) in between. They differ in two things, shown here on every resize of
the torchvision backend from and to at most {pixels} pixels, and the first {larger} larger ones of a family:

- **The order of the passes.** torch goes along rows first, always. Pillow did so up to 12; Pillow 13 goes down the columns first
  where the height loses more than twice the pixels that the width loses ("columns first"). A bicubic filter overshoots at hard
  edges, and which values are cut at black and white after the first pass depends on the order. All differences of more than two
  levels come from this; the corpus has many hard edges, photographs have few.
- **The weights' precision.** Pillow keeps 22 bits after the point, torch as many as fit into 16 bits in all. "Same order" is
  Pillow's arithmetic with rows first, as in Pillow 12: then only this difference is left, two levels at most.
- With both alike ("same order and bits", by [byte_resize.py](../../tests/multimodal/byte_resize.py)) torchvision's bytes come out
  exactly: "left" counts the values that do not.

Each cell is the share within one level and the largest difference.

| family | resizes | columns first | Pillow, columns first | Pillow, rows first | same order | same order and bits | left |
|---|---|---|---|---|---|---|---|
"""

MATCHING = """
## Equal to torchvision instead

- This page compares what is made with `resize: pil`. With `resize: torch` ours takes torch's order and bits, and torchvision's
  arithmetic of normalising: every family that has a torchvision class equals it then, bit for bit
  (`tests/multimodal/pixels/test_torch_resize.py`).
"""

TIMES = """
## Time by size

Least milliseconds of a few calls of each in turns, one thread, from encoded bytes to tensor; the pictures are those of
`bench/multimodal/bench.py`. Ratio is ours to torchvision.

| family | image | ours | torchvision | ratio |
|---|---|---|---|---|
"""


def _row(name: str, tally: dict[str, Any]) -> str:
    ours, pil = Levels(**tally["ours"]), Levels(**tally["pil"])
    count = max(1, tally["pictures"])
    beside = pil.columns if pil.values else "- | - | -"
    alike = f"{tally['as_pil']}" if pil.values else "-"
    return (
        f"| {name} | {tally['pictures']} | {tally['refused']} | {alike} | {ours.columns} | {beside} |"
        f" {tally['ours_s'] / count * 1e3:.1f} | {tally['theirs_s'] / count * 1e3:.1f} | {tally['wrong'] or 'no'} |"
    )


def _why(name: str, explained: dict[str, Any]) -> str:
    def cell(key: str) -> str:
        levels = Levels(**explained[key])
        return f"{100 * levels.near / levels.values:.3f}%, {levels.largest:.0f}" if levels.values else "-"

    left = explained["same_bits"]["values"] - explained["same_bits"]["equal"]
    cells = " | ".join(map(cell, ("by_columns", "by_rows", "same_order", "same_bits")))
    return f"| {name} | {explained['resizes']} | {explained['columns_first']} | {cells} | {left} |"


def _times(row: dict[str, Any]) -> str:
    ratio = row["ours_min"] / row["tv_min"]
    image = f"{row['size']} {row['container']}"
    return f"| {row['family']} | {image} | {row['ours_min']:.1f} | {row['tv_min']:.1f} | {ratio:.2f} |"


def report(found: dict[str, Any], times: list[dict[str, Any]]) -> str:
    """The page."""
    rows = found["families"]
    heads = ("family", "pictures", "refused by both", "as PIL", "equal, %", "near, %", "largest")
    heads = (*heads, "PIL: equal, %", "near, %", "largest", "ours, ms", "torchvision, ms", "broken")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(_row(name, each) for name, each in rows.items())]
    why = [_why(name, each["explained"]) for name, each in rows.items()]
    page = INTRODUCTION.format(**found) + "\n" + "\n".join(lines) + "\n"
    page += WHY.format(pixels=f"{EXPLAINED_PIXELS:,}", larger=LARGER_EXPLAINED) + "\n".join(why) + "\n" + MATCHING
    timed_rows = [_times(row) for row in times if "tv_min" in row]
    return page + (TIMES + "\n".join(timed_rows) + "\n" if timed_rows else "")


def compare(names: list[str]) -> dict[str, Any]:
    """Every picture of every family of `names`."""
    torch.set_num_threads(1)
    versions = {"transformers": transformers.__version__, "torch": torch.__version__, "Pillow": pillow_version}
    versions |= {"torchvision": torchvision.__version__, "numpy": np.__version__}
    recorder = Recorder()
    comparisons = {name: Comparison(FAMILIES[name], recorder) for name in names if reference_of(FAMILIES[name])}
    for picture in pictures():
        for comparison in comparisons.values():
            comparison.add(picture)
        print(picture.name, file=sys.stderr, flush=True)
    for comparison in comparisons.values():
        comparison.verdict()
    families = {name: asdict(comparison.tally) for name, comparison in comparisons.items()}
    stated = ", ".join(f"{name} {version}" for name, version in versions.items())
    return {
        "versions": stated,
        "capability": f"torch uses {torch.backends.cpu.get_cpu_capability()}",
        "families": families,
    }


def main() -> int:
    """Compare, write, and say whether the rule holds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--family", nargs="*", default=list(FAMILIES))
    parser.add_argument(
        "--json", type=Path, help="keep what was found here; what is there already is not compared again"
    )
    parser.add_argument("--times", type=Path, help="what bench.py --torchvision --json wrote")
    parser.add_argument("--report", type=Path, help="write the page here")
    options = parser.parse_args()
    kept = options.json and options.json.exists()
    found = json.loads(options.json.read_text()) if kept else compare(options.family)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1))
    times = json.loads(options.times.read_text())["rows"] if options.times else []
    page = report(found, times)
    if options.report:
        options.report.write_text(page)
    print(page)
    return int(any(tally["wrong"] for tally in found["families"].values()))


if __name__ == "__main__":
    sys.exit(main())
