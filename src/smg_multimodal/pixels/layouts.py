"""Normalised floats written by the kernel, straight into the layouts the encoders read.

Above: `transforms`, which decides what the arithmetic is and does the same with numpy where the kernel cannot. Below: `kernel`.
Each function returns False, having written nothing, where it does not take the arrays: bytes must lie row by row, plane by
plane, as `passes` writes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smg_multimodal.pixels.kernel import OUTPUT, REGION, SLACK, SOURCE, TABLES, Kernel, Loop, MemoryRegion
from smg_multimodal.records.types import Bytes8, Float32

__all__ = ["columns_written", "patches_written", "tiles_written"]

_FLOAT_BAND = 768 * 1024
"""Bytes of floats made at a time: they are still in a core's cache when they are copied to the tensor."""

_FEWEST = 4
"""Floats of the shortest run that the kernel writes."""


class _Planes(NamedTuple):
    """Where bytes lie: memory from the first to the last, bytes from row to row and from plane to plane, pixels in a row."""

    memory: MemoryRegion
    row: int
    plane: int
    width: int

    def span(self, rows: int) -> int:
        """Bytes from the first to the last of `rows` rows."""
        return (rows - 1) * self.row + 2 * self.plane + self.width


def _planes(pixels: Bytes8) -> _Planes | None:
    row, column, plane = pixels.strides
    if column != 1 or plane < 0 or row < 0:
        return None
    height, width, planes = pixels.shape
    size = (height - 1) * row + (planes - 1) * plane + width if pixels.size else 0
    return _Planes(MemoryRegion(pixels.__array_interface__["data"][0], size, pixels), row, plane, width)


def _arithmetic(kernel: Kernel, table: Float32, constants: Float32 | None) -> tuple[int, int, int]:
    """The job's `constants` and `table`, and the step from channel to channel."""
    chosen = table if constants is None else constants
    kernel.put(TABLES, MemoryRegion.of(np.ascontiguousarray(chosen)))
    return (TABLES, 0, chosen.strides[0]) if constants is not None else (0, TABLES, chosen.strides[0])


def tiles_written(kernel: Kernel, out: Float32, pixels: Bytes8, table: Float32, constants: Float32 | None) -> bool:
    """`transforms.write_tiles` by the kernel."""
    _, _, tall, wide = out.shape
    planes = _planes(pixels)
    line = pixels.shape[1] // wide * 3 * wide * 4
    if planes is None or wide < _FEWEST or line > REGION or not out.flags.c_contiguous:
        return False
    step = min(tall, max(1, _FLOAT_BAND // line))
    if planes.span(step) + SLACK > REGION:
        return False
    where = _arithmetic(kernel, table, constants)
    for top in range(0, pixels.shape[0] // tall * tall, tall):
        for start in range(0, tall, step):
            rows = min(step, tall - start)
            kernel.load(SOURCE, planes.memory, (top + start) * planes.row, planes.span(rows))
            _tile_rows(kernel, out, planes, (top // tall, start, rows), where)
    return True


def _tile_rows(
    kernel: Kernel, out: Float32, planes: _Planes, part: tuple[int, int, int], where: tuple[int, int, int]
) -> None:
    _, _, tall, wide = out.shape
    band, start, rows = part
    constants, table, channel = where
    columns, block = planes.width // wide, rows * wide * 4
    loops = (
        Loop(rows, planes.row, wide * 4),
        Loop(3, planes.plane, block, channel),
        Loop(columns, wide, 3 * block),
    )
    kernel.normalise(SOURCE, OUTPUT, wide, constants, table, 0, loops=loops)
    target = MemoryRegion.of(out)
    for index in range(columns):
        tile = (band * columns + index) * 3 * tall * wide * 4
        if rows == tall:
            kernel.store(OUTPUT + index * 3 * block, target, tile, 3 * block)
            continue
        for plane in range(3):
            place = OUTPUT + (index * 3 + plane) * block
            kernel.store(place, target, tile + (plane * tall + start) * wide * 4, block)


def patches_written(
    kernel: Kernel,
    out: Float32,
    frames: Sequence[Bytes8],
    table: Float32,
    constants: Float32 | None,
    sizes: tuple[int, int, int],
) -> bool:
    """`transforms.write_patches` by the kernel; `sizes` are patch, merge and temporal."""
    patch, merge, temporal = sizes
    found = [_planes(frame) for frame in frames]
    planes = [each for each in found if each is not None]
    band, block = patch * merge, merge * merge * 3 * temporal * patch * patch * 4
    usable = len(planes) == len(found) and patch >= _FEWEST and (len(frames) == temporal or temporal <= 2)
    if not usable or block > REGION or not out.flags.c_contiguous:
        return False
    if _span(planes, band) + SLACK > REGION:
        return False
    height, width, _ = frames[0].shape
    rows, columns = height // band, width // band
    step = max(1, _FLOAT_BAND // block)
    deep = 1  # rows of blocks that are written in one call, where one row is little
    while deep < rows and (deep + 1) * columns <= step and _span(planes, (deep + 1) * band) + SLACK <= REGION:
        deep += 1
    where = _arithmetic(kernel, table, constants)
    numbers, target = (patch, merge, temporal, len(frames)), MemoryRegion.of(out)
    for top in range(0, rows, deep):
        tall = min(deep, rows - top)
        for start in range(0, columns, step):
            wide = min(step, columns - start)
            for moment, each in enumerate(planes):
                if len(planes) > 1 or start == 0:
                    kernel.load(SOURCE, each.memory, top * band * each.row, each.span(tall * band))
                _blocks(kernel, each, (start, wide, tall, moment), numbers, where)
            kernel.store(OUTPUT, target, (top * columns + start) * block, tall * wide * block)
    return True


def _span(planes: Sequence[_Planes], rows: int) -> int:
    return max(each.span(rows) for each in planes)


def _blocks(
    kernel: Kernel,
    planes: _Planes,
    part: tuple[int, int, int, int],
    sizes: tuple[int, int, int, int],
    where: tuple[int, int, int],
) -> None:
    start, wide, tall, moment = part
    patch, merge, temporal, frames = sizes
    constants, table, channel = where
    area = patch * patch * 4
    whole = 3 * temporal * area
    block = merge * merge * whole
    loops = (
        Loop(patch, planes.row, patch * 4),
        Loop(3, planes.plane, temporal * area, channel),
        Loop(merge, patch, whole),
        Loop(merge, patch * planes.row, merge * whole),
        Loop(wide, merge * patch, block),
        Loop(tall, merge * patch * planes.row, wide * block),
    )
    twin = area if temporal > frames else 0
    source = SOURCE + start * merge * patch
    kernel.normalise(source, OUTPUT + moment * area, patch, constants, table, twin, loops=loops)


def columns_written(
    kernel: Kernel, out: Float32, pixels: Bytes8, table: Float32, constants: Float32 | None, patch: int
) -> bool:
    """`transforms.write_columns` by the kernel."""
    height, width, _ = pixels.shape
    planes = _planes(pixels)
    size = 3 * patch * width
    if planes is None or width < _FEWEST or size * 4 > REGION or planes.span(patch) + SLACK > REGION:
        return False
    by_constants, by_table, channel = _arithmetic(kernel, table, constants)
    loops = (Loop(patch, planes.row, width * 4), Loop(3, planes.plane, patch * width * 4, channel))
    for band in range(height // patch):
        kernel.load(SOURCE, planes.memory, band * patch * planes.row, planes.span(patch))
        kernel.normalise(SOURCE, OUTPUT, width, by_constants, by_table, 0, loops=loops)
        out[:, :, band * width : (band + 1) * width] = kernel.floats(OUTPUT, size).reshape(3, patch, width)
    return True
