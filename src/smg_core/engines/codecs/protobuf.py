"""Protobuf framing by hand for token ids, where it saves time, and checks of the ranges of numbers.

A prompt's ids are packed once and used by every dialect; upb packs them, forty times as fast as Python. A number that its
field cannot hold is refused: `param` is its path in request.py ("sampling.top_k"). Pure. Above: the codecs. Knows varints and
tags, but no message.
"""

import math
import re
from collections.abc import Iterable

from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.tokens import TokenIds
from smg_engine_contract.engine_pb2 import EmbedRequest

__all__ = [
    "any_of",
    "float32",
    "int32",
    "nonzero",
    "positive",
    "tagged",
    "uint32",
    "uint64_seed",
    "varint",
    "varints_of",
    "within",
]

_LENGTH_DELIMITED = 2
_SMALLEST_FLOAT32, _LARGEST_FLOAT32 = 2.0**-149, (2 - 2**-23) * 2.0**127
_INT32 = range(-(2**31), 2**31)
_UINT32_END = 2**32
_INT64 = range(-(2**63), 2**63)
_UINT64_MASK = 2**64 - 1
_special = re.compile(r"[\\^$.|?*+()\[\]{}]")


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]
"""The varints of one byte, by their values."""


def varint(value: int) -> bytes:
    """An unsigned integer as base-128, least significant group first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tagged(field: int, payload: bytes) -> bytes:
    """A length-delimited field: string, bytes, message or packed numbers."""
    tag, length = field << 3 | _LENGTH_DELIMITED, len(payload)
    head = _ONE_BYTE[tag] if tag < len(_ONE_BYTE) else varint(tag)
    return b"".join((head, _ONE_BYTE[length] if length < len(_ONE_BYTE) else varint(length), payload))


def varints_of(ids: TokenIds) -> bytes:
    """The packed varints of `ids`, without tag and length: the same payload in every dialect.

    Made once and kept in `ids.packed_varints`, so that a prompt from the tokenizer cache is not packed again.
    """
    made = ids.packed_varints
    if made is None:
        made = ids.packed_varints = _packed(ids.tolist())
    return made


def _packed(ids: list[int]) -> bytes:
    if not ids:
        return b""
    framed: bytes = EmbedRequest(input_ids=ids).SerializeToString()
    at = 1  # behind the tag; skip the length
    while framed[at] & 0x80:
        at += 1
    return framed[at + 1 :]


def float32(param: str, value: float) -> float:
    """Return `value` if a float field can hold it. Raises InvalidRequest naming `param`, as do all functions below."""
    if not math.isfinite(value) or abs(value) > _LARGEST_FLOAT32:
        raise InvalidRequest(f"{_last(param)} must be a finite number.", param=param)
    return value


def nonzero(param: str, value: float) -> float:
    """Return `value` unless the field would round it to 0, which means "not set". Raises UnsupportedParameter."""
    if abs(value) < _SMALLEST_FLOAT32:
        message = f"{_last(param)}={value} cannot be asked of this engine; it must be above 0."
        raise UnsupportedParameter(message, param=param)
    return float32(param, value)


def uint32(param: str, value: int) -> int:
    """Return `value` if an unsigned 32-bit field can hold it."""
    if not 0 <= value < _UINT32_END:
        raise InvalidRequest(f"{_last(param)} must be between 0 and {_UINT32_END - 1}, got {value}.", param=param)
    return value


def positive(param: str, value: int) -> int:
    """Return `value` if it is at least 1."""
    if value < 1:
        raise InvalidRequest(f"{_last(param)} must be at least 1, got {value}.", param=param)
    return uint32(param, value)


def int32(param: str, value: int) -> int:
    """Return `value` if a signed 32-bit field can hold it."""
    if value not in _INT32:
        range_ = f"between {_INT32.start} and {_INT32.stop - 1}"
        raise UnsupportedParameter(f"{_last(param)} must be {range_} for this engine, got {value}.", param=param)
    return value


def within(bits: int, value: int, what: str) -> int:
    """Return `value`, a number of the gateway's own that is called `what`, if it is not negative and has at most `bits` bits.
    Raises UnsupportedParameter: no field of a request is at fault."""
    if not 0 <= value < 1 << bits:
        raise UnsupportedParameter(f"This engine's protocol has {bits} bits for {what}.")
    return value


def uint64_seed(param: str, value: int) -> int:
    """A seed for an unsigned 64-bit field: every 64-bit integer, negative ones too, has a number of its own there."""
    if value not in _INT64:
        raise InvalidRequest(f"{_last(param)} must fit 64 bits, got {value}.", param=param)
    return value & _UINT64_MASK


def any_of(choices: Iterable[str]) -> str:
    """A regular expression that is any of `choices` and nothing else, for engines that know no constraint to choices."""
    return f"({'|'.join(_special.sub(_escaped, each) for each in choices)})"


def _escaped(character: re.Match[str]) -> str:
    return f"\\{character[0]}"


def _last(param: str) -> str:
    """The name at the end of a path into request.py: "sampling.top_k" is `top_k` to the client."""
    return param.rpartition(".")[2]
