"""How the process behaves towards the C library's allocator (edge).

Loading a model's tokenizer takes for a moment a third of what the process holds. glibc would keep that, and would keep more of
it the more arenas the threads have opened. Elsewhere than on glibc they do nothing.
"""

import contextlib
import ctypes
import gc

__all__ = ["give_back", "one_arena", "settle", "trim"]

_M_ARENA_MAX = -8
_M_MMAP_THRESHOLD = -3
_MAPPED_BYTES = 1 << 20


def one_arena() -> None:
    """Let all threads share one arena; to be called before there are threads. Nothing here allocates in several threads
    at once for long. Blocks of a large request's body and texts are mapped each for itself from then on, and so are returned
    when they are freed; left alone, glibc raises the size from which it does so with the first large block that it frees."""
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def trim() -> None:
    """Return to the system what is free, without looking for garbage: a few milliseconds at most."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def give_back() -> None:
    """Return to the system what is free, garbage included, and of that what was settled."""
    gc.unfreeze()
    gc.collect()
    trim()


def settle() -> None:
    """Have the garbage collector look no more at what there is now, until `give_back`. For a process of ours alone, once a model
    has been loaded: no thread runs while the collector walks over it, for some 20 to 60 milliseconds every few requests."""
    gc.freeze()
