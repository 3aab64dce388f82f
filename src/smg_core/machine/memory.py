"""Settings of the C library's allocator and of the garbage collector; with `cpus`, what this process has of the machine (edge).

Loading a tokenizer needs, for a moment, a third of the process's memory. glibc would keep that memory, and more of it the more
arenas the threads use. On other C libraries these functions do nothing to the allocator.
"""

import contextlib
import ctypes
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = [
    "Settling",
    "Trimming",
    "resident_bytes",
    "settle_objects",
    "trim",
    "use_one_arena",
    "without_full_collections",
]

_M_ARENA_MAX = -8
_M_MMAP_THRESHOLD = -3
_MAPPED_BYTES = 1 << 20


def use_one_arena() -> None:
    """Let all threads share one arena; to be called before threads are started. That costs little, since threads seldom allocate
    at the same time. Blocks of 1 MiB or more are then mapped one by one and returned to the system when they are freed; by
    default glibc raises that size when the first large block is freed."""
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def trim() -> None:
    """Return free memory to the system, without a garbage collection: a few milliseconds at most."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Resident memory of this process; 0 on a system that does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


TRIM_S, LONGEST_TRIM_S = 1.0, 60.0
"""Seconds between two returns of memory: the least, and the most that they are put off when nothing comes of them."""


class Trimming:
    """Returns free memory to the system while resident memory is `step` bytes over the least that it was; a step of 0 never does.

    The C library keeps what a large answer took, in pieces between objects that live on, until it is told to return it. How much
    of the resident memory is free cannot be known cheaply, so a return that brings little is repeated later and later, at once
    again when memory has grown by another step. `resident` says how many bytes are resident now, `trim` returns the free ones."""

    def __init__(
        self, step: int, *, resident: Callable[[], int] = resident_bytes, trim: Callable[[], None] = trim
    ) -> None:
        self._step, self._resident, self._trim = step, resident, trim
        self._least: int | None = None
        self._left = 0  # what was resident after the last time
        self._last, self._wait = -TRIM_S, TRIM_S

    def due(self, now: float) -> bool:
        """Whether `run` should be called, `now` being seconds of a monotonic clock. Costs some microseconds."""
        if not self._step:
            return False
        resident = self._resident()
        if self._least is None or resident < self._least:
            self._least = resident
        wait = TRIM_S if resident - self._left >= self._step else self._wait
        return resident - self._least >= self._step and now >= self._last + wait

    def run(self, now: float) -> None:
        """Return free memory: some milliseconds, so not on the event loop."""
        before = self._resident()
        self._trim()
        self._left = self._resident()
        self._wait = TRIM_S if before - self._left >= self._step // 2 else min(2 * self._wait, LONGEST_TRIM_S)
        self._last = now


class Settling:
    """Keeps the objects of loaded models out of garbage collections, in a process that serves nothing else: otherwise collections
    stop all threads for 20 to 60 ms every few requests. `settle` and `freeze` are `settle_objects` and `gc.freeze`."""

    def __init__(self, *, settle: Callable[[], None] | None = None, freeze: Callable[[], None] = gc.freeze) -> None:
        self._settle, self._freeze = settle or settle_objects, freeze
        self._loaded: frozenset[int] = frozenset()
        self._left = False  # what was garbage when the objects were frozen is still there

    def look(self, loaded: frozenset[int], *, busy: bool) -> None:
        """Called every second or so with the identities of what is loaded. While requests are answered (`busy`), what is new is
        only frozen, which costs nothing; what is garbage is collected once none is."""
        if loaded != self._loaded:
            self._loaded, self._left = loaded, True
            if busy:
                self._freeze()
        if self._left and not busy:
            self._left = False
            self._settle()


class _FullCollections:
    """Whether collections of all objects are put off in this process, for how many, and how often there would be one. `settled`:
    the objects of this process were excluded from them once."""

    def __init__(self) -> None:
        self.settled = False
        self._lock = threading.Lock()
        self._count, self._usual = 0, 0

    def put_off(self) -> None:
        with self._lock:
            if not self._count:
                youngest, younger, self._usual = gc.get_threshold()
                gc.set_threshold(youngest, younger, _NEVER)
            self._count += 1

    def resume(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                youngest, younger, _ = gc.get_threshold()
                gc.set_threshold(youngest, younger, self._usual)


_NEVER = 1 << 30  # collections of the younger objects
_full_collections = _FullCollections()


@contextlib.contextmanager
def without_full_collections() -> Iterator[None]:
    """While large packages are loaded, no collection looks at all objects: it would stop every thread for 50 ms. Nor does one
    directly afterwards. In a process whose objects were settled, what is there then is excluded from later ones too."""
    _full_collections.put_off()
    try:
        yield
    finally:
        if _full_collections.settled:
            gc.freeze()
        elif not gc.get_freeze_count():  # whatever the process has excluded itself stays so
            gc.freeze()  # begins to count anew
            gc.unfreeze()
        _full_collections.resume()


def settle_objects() -> None:
    """Collect garbage, exclude all objects that are left from later collections, and return free memory to the system. Stops all
    threads for some 50 ms. Garbage among what was excluded before is collected too."""
    _full_collections.settled = True
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim()
