"""Vector code for pixels, compiled by wasmtime: what may be called, and the memory that it works in.

Above: `passes` (resampling), `layouts` (normalised floats). Below: `kernel_text`. Keeps a bounded number of instances of 16 MiB,
each used by one thread at a time; calls do not hold the interpreter's lock. Without wasmtime there is no kernel, and callers go
their own way: the result is the same. So it is where wasmtime cannot work (no address space for its memory, no memory that may
be executed), and when anything goes wrong later: that is said once, and the kernel is not asked again. Nothing is copied without
its bounds being checked on both sides. Knows addresses and bytes, no pictures.
"""

import atexit
import ctypes
import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from smg_multimodal.pixels.kernel_text import LOOPS, text
from smg_multimodal.records.types import Float32

if TYPE_CHECKING:
    from wasmtime import Engine, Func, Memory, Module

__all__ = [
    "LINES",
    "MEMORY",
    "MIDDLE",
    "OUTPUT",
    "REGION",
    "SLACK",
    "SOURCE",
    "TABLES",
    "Kernel",
    "KernelFailed",
    "Loop",
    "MemoryRegion",
    "attempted",
    "borrowed",
    "compiled_module",
    "keep",
]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

TABLES, SOURCE, MIDDLE, OUTPUT, LINES = 4096, 3 << 20, 7 << 20, 11 << 20, 15 << 20
"""Where the regions of an instance's memory begin, in bytes, after the job at 0. What they hold is the callers' business."""
REGION = 4 << 20
"""Bytes of `SOURCE`, `MIDDLE` and `OUTPUT` each."""
MEMORY = 16 << 20
"""Bytes of an instance's memory."""
SLACK = 256
"""Bytes that vector loads may touch after the last one meant."""

_PAGE = 64 * 1024
_MOST_KEPT = 16
"""Instances that are kept at most while nobody uses them, however many threads there are."""


class KernelFailed(RuntimeError):
    """The kernel cannot do it: wasmtime cannot work here, or a copy would leave its bounds."""


class _Health:
    """Whether the kernel failed in this process, and how many instances are kept while nobody uses them."""

    broken = False
    kept = 4


def keep(threads: int) -> None:
    """So many threads will want an instance at once: keep one for each, up to 16."""
    _Health.kept = max(_Health.kept, min(threads, _MOST_KEPT))


def _give_up(error: BaseException) -> None:
    if not _Health.broken:
        _Health.broken = True
        first = (str(error).splitlines() or [""])[0]
        log.warning("pictures are processed without wasmtime, more slowly: %s", first)


@contextmanager
def _failures() -> Iterator[None]:
    """What goes wrong within wasmtime, as KernelFailed."""
    from wasmtime import Trap, WasmtimeError

    try:
        yield
    except (WasmtimeError, Trap, OSError, MemoryError) as error:
        raise KernelFailed(f"{type(error).__name__}: {error}") from error


@cache
def compiled_module() -> "tuple[Engine, Module] | None":
    """The compiled module, or None where wasmtime is not installed or cannot work. Made once for a process, when it is first
    asked for; one instance is made too, since that takes memory of another kind."""
    try:
        from wasmtime import Engine, Module
    except ImportError:
        return None
    except (OSError, RuntimeError, AttributeError) as error:  # its library is there and cannot be loaded
        _give_up(error)
        return None
    # What wasmtime made must go while its library can still be called.
    atexit.register(compiled_module.cache_clear)
    atexit.register(_idle.clear)
    try:
        with _failures():
            engine = Engine()
            parts = engine, Module(engine, text(MEMORY // _PAGE))
            _idle.append(Kernel(parts))
    except KernelFailed as error:
        _give_up(error)
        return None
    return parts


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """Memory of the process that may be copied from or to: `size` bytes from `address` on, and what keeps them alive."""

    address: int
    size: int
    owner: object

    @classmethod
    def of(cls, array: NDArray[Any]) -> "MemoryRegion":
        """All of an array that lies in one piece."""
        if not array.flags.c_contiguous:
            raise KernelFailed("the array does not lie in one piece")
        return cls(array.__array_interface__["data"][0], array.nbytes, array)

    def address_of(self, offset: int, size: int) -> int:
        """Where `size` bytes from `offset` on begin. Raises KernelFailed where they are not all in this memory."""
        if not 0 <= offset <= offset + size <= self.size:
            raise KernelFailed(f"{size} bytes at {offset} are not in the {self.size} that were lent")
        return self.address + offset


@dataclass(frozen=True, slots=True)
class Loop:
    """One of the loops of `Kernel.normalise`: how often, and by how many bytes source, destination and channel advance."""

    count: int = 1
    source: int = 0
    destination: int = 0
    channel: int = 0


class Kernel:
    """One instance: 16 MiB of memory and the functions of the module, for one thread at a time."""

    def __init__(self, parts: "tuple[Engine, Module]") -> None:
        from wasmtime import Instance, Store

        engine, module = parts
        self._store = Store(engine)
        exports = Instance(self._store, module, []).exports(self._store)
        memory = cast("Memory", exports["memory"])
        self._horizontal, self._vertical, self._horizontal_narrow, self._vertical_narrow = (
            cast("Func", exports[name]) for name in ("horizontal", "vertical", "horizontal_narrow", "vertical_narrow")
        )
        self._normalise = cast("Func", exports["normalise"])
        self._unfilter = cast("Func", exports["unfilter"])
        self._buffer = memory.get_buffer_ptr(self._store)
        self._base = ctypes.addressof(self._buffer)
        self._bytes: NDArray[np.uint8] = np.frombuffer(memoryview(self._buffer), np.uint8)
        self._words = self._bytes.view(np.int32)

    @staticmethod
    def _check(place: int, size: int) -> None:
        if not 0 <= place <= place + size <= MEMORY:
            raise KernelFailed(f"{size} bytes at {place} are not in the kernel's memory")

    def load(self, place: int, source: "MemoryRegion", offset: int, size: int) -> None:
        """Copy `size` bytes from `offset` of `source` to `place`."""
        self._check(place, size)
        ctypes.memmove(self._base + place, source.address_of(offset, size), size)

    def put(self, place: int, content: "MemoryRegion") -> int:
        """Copy all of `content` to `place`; returns where it ends, aligned."""
        self.load(place, content, 0, content.size)
        return (place + content.size + 63) & ~63

    def store(self, place: int, target: "MemoryRegion", offset: int, size: int) -> None:
        """Copy `size` bytes from `place` to `offset` of `target`."""
        self._check(place, size)
        ctypes.memmove(target.address_of(offset, size), self._base + place, size)

    def move(self, source: int, target: int, size: int) -> None:
        """Copy within the memory; the two may overlap."""
        self._check(source, size)
        self._check(target, size)
        ctypes.memmove(self._base + target, self._base + source, size)

    def floats(self, place: int, count: int) -> Float32:
        """`count` floats at `place`, not copied."""
        self._check(place, 4 * count)
        found: Float32 = self._bytes[place : place + 4 * count].view(np.float32)
        return found

    def pixels(self, place: int, rows: int, columns: int) -> NDArray[np.int32]:
        """(rows, columns) pixels of four bytes at `place`, not copied."""
        self._check(place, 4 * rows * columns)
        return self._words[place // 4 : place // 4 + rows * columns].reshape(rows, columns)

    def _write_job(self, *numbers: int) -> None:
        struct.pack_into(f"<{len(numbers)}i", self._buffer, 0, *numbers)

    def horizontal(self, *job: int, narrow: int = 0) -> None:
        """The module's `horizontal`; with weights of `narrow` bits after the point its `horizontal_narrow`."""
        self._write_job(*job, narrow)
        (self._horizontal_narrow if narrow else self._horizontal)(self._store)

    def vertical(self, *job: int, narrow: int = 0) -> None:
        """The module's `vertical`; with weights of `narrow` bits after the point its `vertical_narrow`."""
        self._write_job(*job, narrow)
        (self._vertical_narrow if narrow else self._vertical)(self._store)

    def normalise(self, *job: int, loops: Sequence[Loop]) -> None:
        """The module's `normalise`; `loops` innermost first, at most six."""
        filled = [*loops, *[Loop()] * (LOOPS - len(loops))]
        steps = [step for loop in filled for step in (loop.count, loop.source, loop.destination, loop.channel)]
        self._write_job(*job, *steps)
        self._normalise(self._store)

    def unfilter(self, *job: int) -> None:
        """The module's `unfilter`."""
        self._write_job(*job)
        self._unfilter(self._store)

    def bytes_at(self, place: int, size: int) -> NDArray[np.uint8]:
        """`size` bytes at `place`, not copied."""
        self._check(place, size)
        return self._bytes[place : place + size]


_idle: list[Kernel] = []


@contextmanager
def borrowed() -> Iterator[Kernel]:
    """An instance that nobody else uses meanwhile. Raises KernelFailed where there is none."""
    parts = compiled_module()
    if parts is None:
        raise KernelFailed("there is no kernel")
    try:
        kernel = _idle.pop()
    except IndexError:
        with _failures():
            kernel = Kernel(parts)
    with _failures():
        yield kernel  # one that failed is not used again
    if len(_idle) < _Health.kept:
        _idle.append(kernel)


def attempted(work: Callable[[Kernel], Result]) -> Result | None:
    """What `work` makes with an instance; None where there is no kernel, or it fails: then it is never asked again."""
    if _Health.broken or compiled_module() is None:
        return None
    try:
        with borrowed() as kernel:
            return work(kernel)
    except KernelFailed as error:
        _give_up(error)
        return None
