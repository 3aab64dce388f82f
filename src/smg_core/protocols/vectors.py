"""How APIs write vectors: shortened_vector, as numbers, as base64, or as bits.

Pure. Above: the encoders of embeddings. A vector is an array of type "f", as engines send them.
"""

import sys
from array import array
from base64 import b64encode
from collections.abc import Sequence
from math import hypot
from operator import mul

from msgspec import Struct

__all__ = [
    "BASE64_BYTES",
    "FLOAT_BYTES",
    "PooledVectors",
    "as_base64",
    "as_bits",
    "as_floats",
    "likeness",
    "shortened_vector",
]

FLOAT_BYTES = 24
"""What a number takes in JSON, at most: its sign, 17 digits, a point and an exponent, and a comma."""
BASE64_BYTES = 6
"""What a number takes in base64, at most."""


class PooledVectors(Struct, frozen=True):
    """What the pipeline made of a request: the name of the model, a vector for each input, in order, the tokens
    counted, and the time in seconds since the epoch."""

    model: str
    vectors: "Sequence[array[float]]"
    prompt_tokens: int
    created: int = 0


def shortened_vector(vector: "array[float]", dimensions: int | None) -> "array[float]":
    """The first `dimensions` numbers of a vector, with length 1 again; the vector itself where it has no more. Models that were
    trained for that (Matryoshka) keep most of their meaning there."""
    if dimensions is None or dimensions >= len(vector):
        return vector
    kept = vector[:dimensions]
    length = hypot(*kept)
    return array("f", [each / length for each in kept]) if length else kept


def likeness(one: "array[float]", other: "array[float]") -> float:
    """The cosine of the angle between two vectors, -1 to 1; 0 where one has no length."""
    lengths = hypot(*one) * hypot(*other)
    return max(-1.0, min(1.0, sum(map(mul, one, other)) / lengths)) if lengths else 0.0


def as_floats(vector: "array[float]") -> list[float]:
    """The numbers."""
    return vector.tolist()


def as_base64(vector: "array[float]") -> str:
    """The numbers as base64 of little-endian float32, as OpenAI's SDKs read them."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return b64encode(vector.tobytes()).decode("ascii")


def as_bits(vector: "array[float]", *, signed: bool) -> list[int]:
    """One bit a number, set where it is above 0; eight to a byte, the first in the highest place, zeros behind the last.
    `signed`: bytes of -128 to 127, each 128 less."""
    bits = "".join(["1" if each > 0 else "0" for each in vector])
    found = [int(bits[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(bits), 8)]
    return [each - 128 for each in found] if signed else found
