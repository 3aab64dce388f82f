"""Resizing with the kernel: Pillow's two passes over bands of rows, in bounded memory, with Pillow's rounding.

Above: `resample`, which finds out whether the bytes are Pillow's before it uses them. Below: `kernel`, `filters`. Decides how a
picture is cut into bands that fit the kernel's memory and a core's cache. Pixels are read where Pillow keeps them (through the
Arrow C data interface) and written as rows of three planes, which is the order that the tensors need.
"""

import contextlib
import ctypes
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from smg_multimodal.pixels.filters import (
    FILTERS,
    PRECISION_BITS,
    Filter,
    Taps,
    TorchFilter,
    kind_of,
    taps,
    taps_at_most,
)
from smg_multimodal.pixels.kernel import (
    LINES,
    MEMORY,
    MIDDLE,
    OUTPUT,
    REGION,
    SLACK,
    SOURCE,
    TABLES,
    Kernel,
    MemoryRegion,
)
from smg_multimodal.pixels.rgbx import RgbxImage
from smg_multimodal.records.types import Bytes8, Size

__all__ = ["Colour", "pixels_are_lent", "resize_in_bands"]

_SOURCE_BAND = 512 * 1024
_MIDDLE_BAND = 1024 * 1024
_OUTPUT_BAND = 512 * 1024
"""Bytes worked on at a time: together they stay in a core's second-level cache."""

_LOW_BITS = 11

Colour = tuple[int, int, int]


class _ArrowArray(ctypes.Structure):
    """The beginning of the Arrow C data interface's ArrowArray."""


_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
]

_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype = ctypes.c_void_p
_pointer_in.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _lent(image: Image.Image) -> MemoryRegion:
    """Where the RGBX pixels of an RGB image lie. Raises `ValueError` where Pillow keeps them in several pieces."""
    _, capsule = image.__arrow_c_array__()
    array = _ArrowArray.from_address(_pointer_in(capsule, b"arrow_array"))
    values = array.children[0].contents
    if values.length < 4 * image.width * image.height:
        raise ValueError("fewer pixels are lent than the image has")
    return MemoryRegion(int(values.buffers[1]), int(values.length), (image, capsule))


def pixels_are_lent() -> bool:
    """Whether this Pillow lends its memory (from 11.2 on)."""
    return hasattr(Image.Image, "__arrow_c_array__")


def _halves(weights: NDArray[np.int32], group: int) -> NDArray[np.int16]:
    """(n, taps) weights, `group` high parts then `group` low parts at a time: (n, groups, 2, group)."""
    count, wide = weights.shape
    filled = np.zeros((count, -(-wide // group) * group), np.int32)
    filled[:, :wide] = weights
    parts = np.stack([filled >> _LOW_BITS, filled & ((1 << _LOW_BITS) - 1)], axis=1)
    grouped = parts.reshape(count, 2, -1, group).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(grouped.astype(np.int16))


def _packed(weights: NDArray[np.int32], group: int, narrow: int) -> NDArray[np.int16]:
    """(n, taps) weights as a pass takes them, `group` taps at a time: in halves, or whole where they are `narrow`."""
    if not narrow:
        return _halves(weights, group)
    count, wide = weights.shape
    filled = np.zeros((count, -(-wide // group), group), np.int16)
    filled.reshape(count, -1)[:, :wide] = weights >> (PRECISION_BITS - narrow)
    return filled


@dataclass(frozen=True, slots=True, eq=False)
class _Across:
    """The horizontal pass: columns written (a multiple of 16), groups of four taps, two more or not, first byte, weights; and of
    torch's, how many bits they have after the point, else 0 (`narrow`)."""

    columns: int
    quads: int
    pair: bool
    starts: MemoryRegion
    weights: MemoryRegion
    narrow: int


@dataclass(frozen=True, slots=True, eq=False)
class _Down:
    """The vertical pass: pairs of taps, first and last row of every row, weights, and bits as for the other pass."""

    pairs: int
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    weights: MemoryRegion
    narrow: int

    @property
    def row_bytes(self) -> int:
        """Bytes of the weights of one row."""
        return self.pairs * (4 if self.narrow else 8)


_WHOLE_BITS = 14
"""Bits after the point of torch's weight where a pass is left out: one, in 16 bits."""


def _narrow(made: Taps, resample: Filter) -> int:
    """The bits after the point of weights that fit 16 bits; 0 where they do not."""
    return made.bits if isinstance(resample, TorchFilter) else 0


@lru_cache(16)
def _across(length: int, wanted: int, resample: Filter) -> _Across:
    if length == wanted:  # Pillow leaves the pass out
        each = np.arange(wanted, dtype=np.int64)
        made = Taps(each, each + 1, np.full((wanted, 1), 1 << PRECISION_BITS, np.int32), _WHOLE_BITS)
    else:
        made = taps(length, wanted, resample)
    columns = -(-wanted // 16) * 16
    weights = np.zeros((columns, made.weights.shape[1]), np.int32)
    weights[:wanted] = made.weights
    starts = np.zeros(columns, np.int32)
    starts[:wanted] = made.first * 4
    quads, rest = divmod(weights.shape[1], 4)
    pair = 0 < rest <= 2
    if rest > 2:
        quads += 1
    narrow = _narrow(made, resample)
    parts = [_packed(weights[:, : quads * 4], 4, narrow), _packed(weights[:, quads * 4 :], 2, narrow)]
    packed = np.concatenate([part.reshape(columns, -1) for part in parts], axis=1)
    return _Across(columns, quads, pair, MemoryRegion.of(starts), MemoryRegion.of(packed), narrow)


@lru_cache(16)
def _down(length: int, wanted: int, resample: Filter) -> _Down:
    made = taps(length, wanted, resample)
    narrow = _narrow(made, resample)
    packed = _packed(made.weights, 2, narrow)
    return _Down(packed.shape[1], made.first, made.last, MemoryRegion.of(packed), narrow)


@lru_cache(16)
def _starts(down: _Down, top: int, stop: int, begin: int, step: int) -> MemoryRegion:
    """Where the taps of the rows from `top` to `stop` begin, `step` bytes a row, where the row `begin` lies first."""
    return MemoryRegion.of(((down.first[top:stop] - begin) * step).astype(np.int32))


class _Rows:
    """The rows of an RGB picture as RGBX bytes, wherever Pillow keeps them.

    With `fill` they are those of the square that has the picture in its middle and that colour around it.
    """

    def __init__(self, image: Image.Image, fill: Colour | None) -> None:
        self._image = image
        self.width, self.height = image.size if fill is None else (max(image.size),) * 2
        self._fill = None if fill is None else np.frombuffer(bytes([*fill, 255]), np.int32)[0]
        self._whole: MemoryRegion | None = None
        if isinstance(image, RgbxImage) and image.pixels is not None:
            self._whole = MemoryRegion.of(image.pixels)
            return
        with contextlib.suppress(ValueError):  # large pictures lie in several pieces
            self._whole = _lent(image)

    def _lend(self, top: int, count: int) -> tuple[MemoryRegion, int]:
        """Memory that has `count` rows from `top` on, and where they begin in it."""
        if self._whole is not None:
            return self._whole, top * self._image.width * 4
        return _lent(self._image.crop((0, top, self._image.width, top + count))), 0

    def load(self, kernel: Kernel, place: int, top: int, count: int) -> None:
        """Copy `count` rows from `top` on to `place`."""
        if self._fill is None:
            lent, offset = self._lend(top, count)
            kernel.load(place, lent, offset, count * self.width * 4)
            return
        rows = kernel.pixels(place, count, self.width)
        rows[...] = self._fill
        wide, tall = self._image.size
        above, before = (self.height - tall) // 2, (self.width - wide) // 2
        begin, end = max(top, above), min(top + count, above + tall)
        if begin < end:
            lent, offset = self._lend(begin - above, end - begin)
            address = lent.address_of(offset, (end - begin) * wide * 4)
            own = np.frombuffer(memoryview((ctypes.c_int32 * ((end - begin) * wide)).from_address(address)), np.int32)
            rows[begin - top : end - top, before : before + wide] = own.reshape(end - begin, wide)


class _Resizing:
    """One picture on its way to `size`: passes over bands of rows that fit the kernel's memory."""

    def __init__(self, kernel: Kernel, rows: _Rows, size: Size, resample: Filter, *, down_first: bool) -> None:
        self._kernel = kernel
        self._rows = rows
        self._stride = rows.width * 4
        self._tall = rows.height
        self._across = _across(rows.width, size.width, resample)
        self._down = None if rows.height == size.height else _down(rows.height, size.height, resample)
        self._down_first = down_first
        self._step = 3 * self._across.columns
        self._wide = (self._stride + 15) & ~15
        self._columns_at = kernel.put(TABLES, self._across.starts)
        self._rows_at = kernel.put(self._columns_at, self._across.weights)
        if self._down is not None:
            self._starts_at = kernel.put(self._rows_at, self._down.weights)
        self.out = np.empty((size.height, 3, self._across.columns), np.uint8)
        self._target = MemoryRegion.of(self.out)

    def _squeeze(self, source: int, stride: int, rows: int, target: int) -> None:
        across = self._across
        groups = -(-rows // 4)
        self._kernel.horizontal(
            *(source, stride, groups, target, self._step, across.columns),
            *(TABLES, self._columns_at, across.columns, across.quads, LINES, across.pair),
            narrow=across.narrow,
        )

    def _emit(self, top: int, rows: int) -> None:
        self._kernel.store(OUTPUT, self._target, top * self._step, rows * self._step)

    def _chunk(self) -> int:
        return max(4, _SOURCE_BAND // self._stride // 4 * 4)

    def run(self) -> None:
        """Fill `out`."""
        if self._down is not None:
            self._both(self._down)
            return
        rows = min(self._chunk(), max(4, _OUTPUT_BAND // self._step // 4 * 4))
        for top in range(0, self._tall, rows):
            count = min(rows, self._tall - top)
            self._rows.load(self._kernel, SOURCE, top, count)
            self._squeeze(SOURCE, self._stride, count, OUTPUT)
            self._emit(top, count)

    def _both(self, down: _Down) -> None:
        """Bands of output rows; the rows between the passes that the next band needs too are kept."""
        between = self._stride if self._down_first else self._step
        most = max(_MIDDLE_BAND // between, 2 * down.pairs)
        band = max(1, _OUTPUT_BAND // max(self._step, self._wide if self._down_first else 0))
        wanted = len(self.out)
        begin = end = int(down.first[0])
        top = 0
        while top < wanted:
            first = int(down.first[top])
            stop = min(wanted, top + band, int(np.searchsorted(down.last, first + most, "right")))
            if first > begin:
                self._kernel.move(MIDDLE + (first - begin) * between, MIDDLE, max(0, end - first) * between)
                begin, end = first, max(first, end)
            last = int(down.last[stop - 1])
            self._fill(end, last, MIDDLE + (end - begin) * between)
            end = max(end, last)
            self._write(down, top, stop, begin, between)
            top = stop

    def _fill(self, top: int, last: int, place: int) -> None:
        chunk = self._chunk()
        for row in range(top, last, chunk):
            count = min(chunk, last - row)
            if self._down_first:
                self._rows.load(self._kernel, place + (row - top) * self._stride, row, count)
                continue
            self._rows.load(self._kernel, SOURCE, row, count)
            self._squeeze(SOURCE, self._stride, count, place + (row - top) * self._step)

    def _write(self, down: _Down, top: int, stop: int, begin: int, between: int) -> None:
        self._kernel.put(self._starts_at, _starts(down, top, stop, begin, between))
        target, width = (SOURCE, self._wide) if self._down_first else (OUTPUT, self._step)
        weights = self._rows_at + top * down.row_bytes
        self._kernel.vertical(
            *(MIDDLE, between, stop - top, target, width),
            *(self._starts_at, weights, down.pairs),
            narrow=down.narrow,
        )
        if self._down_first:
            self._squeeze(SOURCE, self._wide, stop - top, OUTPUT)
        self._emit(top, stop - top)


def _fits(rows: _Rows, size: Size, resample: Filter) -> bool:
    """Whether tables and the fewest rows that a pass needs at once fit the memory."""
    across = taps_at_most(rows.width, size.width, resample)
    down = taps_at_most(rows.height, size.height, resample)
    columns = size.width + 15
    tables = columns * (across + 3) * 4 + columns * 4 + size.height * ((down + 1) * 4 + 4)
    row = max(rows.width * 4 + 16, columns * 3)
    return tables + SLACK < SOURCE - TABLES and (down + 9) * row < REGION and columns * 16 < MEMORY - LINES


def resize_in_bands(
    kernel: Kernel,
    image: Image.Image,
    size: Size,
    resample: Filter,
    *,
    fill: Colour | None = None,
    down_first: bool = False,
) -> Bytes8 | None:
    """`image` (RGB) at `size`, as (height, width, 3) bytes that lie row by row, plane by plane; None if it is not for us.

    With `fill` the picture first lies in the middle of a square of its longer side, filled with that colour. `down_first`
    has the vertical pass run before the horizontal one, which rounds differently.
    """
    rows = _Rows(image, fill)
    if kind_of(resample) not in FILTERS or not _fits(rows, size, resample):
        return None
    work = _Resizing(kernel, rows, size, resample, down_first=down_first)
    work.run()
    return work.out[:, :, : size.width].transpose(0, 2, 1)
