"""Vectors in 16 bits a number, and which of many are nearest to one.

A vector is made one long and its numbers are kept as whole numbers of 1/32767: as many bytes as float16, with half its error, and
five times as fast to read, since processors turn them into floats by themselves. Every vector is compared, so the result is exact
but for that rounding. numpy is loaded with this module. Pure. Above: the index. Below: nothing.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = [
    "SLAB",
    "Floats",
    "Packed",
    "best_of",
    "pack_vectors",
    "similarities",
    "unit_vector",
    "unpack_vectors",
    "unpacked_floats",
]

Packed = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float32]

SLAB = 4096
"""Vectors that lie in memory one behind the other."""

_ONE = 32767
_BLOCK = 256  # vectors that are compared at once: as floats they fit into the cache of a core


def unit_vector(values: Sequence[float]) -> Floats:
    """The vector of length 1 in this direction; of zeros where there is no direction, or a number is none."""
    found: Floats = _units(np.asarray([values], dtype=np.float32))[0]
    return found


def _units(vectors: Floats) -> Floats:
    usable = np.isfinite(vectors).all(axis=1, keepdims=True)
    sound = np.where(usable, vectors, np.float32(0))
    largest = np.abs(sound).max(axis=1, keepdims=True, initial=0)
    scaled = sound / np.where(largest > 0, largest, np.float32(1))  # squares of large numbers would not fit
    lengths = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    units: Floats = (scaled / np.where(lengths > 0, lengths, np.float32(1))).astype(np.float32)
    return units


def pack_vectors(vectors: Sequence[Sequence[float]]) -> bytes:
    """The bytes of these vectors, which have the same length."""
    units = _units(np.asarray(vectors, dtype=np.float32))
    packed: bytes = np.rint(units * np.float32(_ONE)).astype("<i2").tobytes()
    return packed


def unpack_vectors(data: bytes, dimensions: int) -> Packed:
    """The vectors that `data` has."""
    return np.frombuffer(data, dtype="<i2").reshape(-1, dimensions)


def unpacked_floats(vectors: Packed) -> list[list[float]]:
    """The same vectors, as numbers."""
    found: list[list[float]] = (vectors.astype(np.float32) / np.float32(_ONE)).tolist()
    return found


def similarities(vectors: Packed, query: Floats) -> Floats:
    """How near each of the vectors is to `query`, which has length 1: the cosine of the angle."""
    scaled = query / np.float32(_ONE)
    found = np.empty(len(vectors), dtype=np.float32)
    block = np.empty((min(_BLOCK, len(vectors)), vectors.shape[1]), dtype=np.float32)
    for at in range(0, len(vectors), _BLOCK):
        part = vectors[at : at + _BLOCK]
        np.copyto(block[: len(part)], part, casting="unsafe")
        np.dot(block[: len(part)], scaled, out=found[at : at + len(part)])
    return found


def best_of(scores: Floats, most: int) -> list[int]:
    """The places of the `most` highest scores, the highest first; of equal ones the earlier."""
    if len(scores) > most:
        least = np.partition(scores, len(scores) - most)[len(scores) - most]
        places = np.flatnonzero(scores >= least)
    else:
        places = np.arange(len(scores))
    order = np.lexsort((places, -scores[places]))[:most]
    return [int(each) for each in places[order]]
