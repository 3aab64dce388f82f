"""Vectors as the APIs write them: shortened_vector, as numbers, as base64, or as bits.

Pure. Above: the encoders of embeddings. A vector is an array of type "f", as engines send them.
"""

import sys
from array import array
from base64 import b64encode
from collections.abc import Sequence
from math import exp, hypot
from operator import mul
from struct import pack

from msgspec import Struct

__all__ = [
    "BASE64_BYTES",
    "FLOAT_BYTES",
    "PooledVectors",
    "as_base64",
    "as_bits",
    "as_floats",
    "likeness",
    "pair_scores",
    "shortened_vector",
]

FLOAT_BYTES = 24
"""What a number takes in JSON, at most: its sign, 17 digits, a point and an exponent, and a comma."""
_FLOAT16 = 65504.0
"""The largest number of the type float16."""
BASE64_BYTES = 6
"""What a number takes in base64, at most."""


class PooledVectors(Struct, frozen=True):
    """What the pipeline made of a request: the name of the model, the numbers for each input or pair, in order, the tokens
    counted, and the time in seconds since the epoch. `method` is how pairs were judged; `labels` are the names of the model's
    classes, `likeliest` the likeliest class of each input where its engine named it ("")."""

    model: str
    vectors: "Sequence[array[float]]"
    prompt_tokens: int
    created: int = 0
    method: str = ""
    labels: Sequence[str] = ()
    likeliest: Sequence[str] = ()


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


def pair_scores(made: PooledVectors, pairs: Sequence[tuple[int, int]], *, raw: bool = False) -> list[float]:
    """How well each pair fits, higher is better: the cosine of its two vectors; the number of a cross-encoder; or the share of
    the first of a reranker's two answers, of which the numbers are logprobs. `raw`: the difference of those instead."""
    found = made.vectors
    if made.method == "cosine":
        return [likeness(found[one], found[other]) for one, other in pairs]
    if made.method == "generative":
        return [each[0] - each[1] if raw else 1 / (1 + exp(min(each[1] - each[0], 700.0))) for each in found]
    return [each[0] for each in found]


def as_floats(vector: "array[float]") -> list[float]:
    """The numbers."""
    return vector.tolist()


def as_base64(vector: "array[float]", *, kind: str = "float32", big: bool = False) -> str:
    """The numbers as base64 of little-endian float32, as OpenAI's SDKs read them; or of another `kind` ("float16", "bfloat16"),
    the nearest number of which stands for each, or with the highest byte first (`big`)."""
    if kind == "float16":
        data = pack(f"{'>' if big else '<'}{len(vector)}e", *[max(-_FLOAT16, min(_FLOAT16, each)) for each in vector])
        return b64encode(data).decode("ascii")
    words = array("I" if array("I").itemsize == 4 else "L", vector.tobytes())
    if kind == "bfloat16":
        # the upper half of a float32, rounded to the nearest and of two to the even one
        words = array("H", [(each + 0x7FFF + (each >> 16 & 1)) >> 16 & 0xFFFF for each in words])
    if (sys.byteorder == "big") != big:
        words.byteswap()
    return b64encode(words.tobytes()).decode("ascii")


def as_bits(vector: "array[float]", *, signed: bool) -> list[int]:
    """One bit a number, set where it is above 0; eight to a byte, the first in the highest place, zeros behind the last.
    `signed`: bytes of -128 to 127, each 128 less."""
    bits = "".join(["1" if each > 0 else "0" for each in vector])
    found = [int(bits[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(bits), 8)]
    return [each - 128 for each in found] if signed else found
