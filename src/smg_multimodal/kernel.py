"""Vector code for pixels, compiled by wasmtime: what may be called, and the memory that it works in.

Above: `passes` (resampling), `layouts` (normalised floats). Below: kernel.wat. Keeps a bounded number of instances of 16 MiB,
each used by one thread at a time; calls do not hold the interpreter's lock. Without wasmtime there is no kernel, and callers go
their own way: the result is the same. Knows addresses and bytes, no pictures.
"""

import atexit
import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from smg_multimodal.types import Float32

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
    "Loop",
    "borrowed",
    "compiled",
]

TABLES, SOURCE, MIDDLE, OUTPUT, LINES = 4096, 3 << 20, 7 << 20, 11 << 20, 15 << 20
"""Where the regions of an instance's memory begin, in bytes, after the job at 0. What they hold is the callers' business."""
REGION = 4 << 20
"""Bytes of `SOURCE`, `MIDDLE` and `OUTPUT` each."""
MEMORY = 16 << 20
"""Bytes of an instance's memory, as kernel.wat states them in pages."""
SLACK = 256
"""Bytes that vector loads may touch after the last one meant."""

_LOOPS = 6
_INSTANCES = 4
"""Instances kept while nobody uses them."""


@cache
def compiled() -> "tuple[Engine, Module] | None":
    """The compiled module, or None without wasmtime. Made once for a process, when it is first asked for."""
    try:
        from wasmtime import Engine, Module
    except ImportError:
        return None
    # What wasmtime made must go while its library can still be called.
    atexit.register(compiled.cache_clear)
    atexit.register(_idle.clear)
    engine = Engine()
    return engine, Module(engine, resources.files(__package__).joinpath("kernel.wat").read_text())


@dataclass(frozen=True, slots=True)
class Loop:
    """One of the loops of `Kernel.normalise`: how often, and by how many bytes source, destination and channel advance."""

    count: int = 1
    source: int = 0
    destination: int = 0
    channel: int = 0


class Kernel:
    """One instance: 16 MiB of memory and the functions of kernel.wat, for one thread at a time."""

    def __init__(self) -> None:
        from wasmtime import Instance, Store

        parts = compiled()
        if parts is None:
            raise RuntimeError("there is no kernel")
        engine, module = parts
        self._store = Store(engine)
        exports = Instance(self._store, module, []).exports(self._store)
        memory = cast("Memory", exports["memory"])
        self._horizontal = cast("Func", exports["horizontal"])
        self._vertical = cast("Func", exports["vertical"])
        self._normalise = cast("Func", exports["normalise"])
        self._buffer = memory.get_buffer_ptr(self._store)
        self._base = ctypes.addressof(self._buffer)
        self._bytes: NDArray[np.uint8] = np.frombuffer(memoryview(self._buffer), np.uint8)
        self._words = self._bytes.view(np.int32)

    def load(self, place: int, address: int, size: int) -> None:
        """Copy `size` bytes from `address` of the process to `place`."""
        ctypes.memmove(self._base + place, address, size)

    def put(self, place: int, content: NDArray[Any]) -> int:
        """Copy `content` to `place`; returns where it ends, aligned."""
        self.load(place, content.ctypes.data, content.nbytes)
        return (place + content.nbytes + 63) & ~63

    def store(self, place: int, address: int, size: int) -> None:
        """Copy `size` bytes from `place` to `address` of the process."""
        ctypes.memmove(address, self._base + place, size)

    def move(self, source: int, target: int, size: int) -> None:
        """Copy within the memory; the two may overlap."""
        ctypes.memmove(self._base + target, self._base + source, size)

    def floats(self, place: int, count: int) -> Float32:
        """`count` floats at `place`, not copied."""
        found: Float32 = self._bytes[place : place + 4 * count].view(np.float32)
        return found

    def pixels(self, place: int, rows: int, columns: int) -> NDArray[np.int32]:
        """(rows, columns) pixels of four bytes at `place`, not copied."""
        return self._words[place // 4 : place // 4 + rows * columns].reshape(rows, columns)

    def horizontal(self, *job: int) -> None:
        """kernel.wat's `horizontal`."""
        self._words[: len(job)] = job
        self._horizontal(self._store)

    def vertical(self, *job: int) -> None:
        """kernel.wat's `vertical`."""
        self._words[: len(job)] = job
        self._vertical(self._store)

    def normalise(self, *job: int, loops: Sequence[Loop]) -> None:
        """kernel.wat's `normalise`; `loops` innermost first, at most six."""
        filled = [*loops, *[Loop()] * (_LOOPS - len(loops))]
        steps = [step for loop in filled for step in (loop.count, loop.source, loop.destination, loop.channel)]
        self._words[: len(job) + len(steps)] = [*job, *steps]
        self._normalise(self._store)


_idle: list[Kernel] = []


@contextmanager
def borrowed() -> Iterator[Kernel]:
    """An instance that nobody else uses meanwhile. Only where `compiled` gives something."""
    try:
        kernel = _idle.pop()
    except IndexError:
        kernel = Kernel()
    try:
        yield kernel
    finally:
        if len(_idle) < _INSTANCES:
            _idle.append(kernel)
