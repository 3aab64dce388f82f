"""Settings of the C library's allocator and of the garbage collector (edge).

Loading a tokenizer needs, for a moment, a third of the process's memory. glibc would keep that memory, and more of it the more
arenas the threads use. On other C libraries these functions do nothing to the allocator.
"""

import contextlib
import ctypes
import gc

__all__ = ["settle_objects", "trim", "use_one_arena"]

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


def settle_objects() -> None:
    """Collect garbage, exclude all objects that are left from later collections, and return free memory to the system.

    To be called when a model has been loaded or is gone, in a process that serves nothing else: otherwise collections stop all
    threads for 20 to 60 ms every few requests. Garbage among what was excluded before is collected too."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim()
