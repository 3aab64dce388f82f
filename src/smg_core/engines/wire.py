"""What goes onto a protobuf wire: framing by hand for the one field that is worth it, and the ranges that numbers have there.

A prompt's ids are packed once and sent by every dialect; upb does the packing, since it is forty times as fast as Python. A
number that its field cannot hold is refused by name: `param` is its path in request.py ("sampling.top_k"). Pure. Above: the
codecs. Knows varints and tags, and no message.
"""

import math

from smg_core.engines._pb.engine_pb2 import EmbedRequest
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.tokens import TokenIds

__all__ = ["float32", "int32", "nonzero", "positive", "tagged", "uint32", "varint", "varints_of"]

_LENGTH_DELIMITED = 2
_SMALLEST_FLOAT32, _LARGEST_FLOAT32 = 2.0**-149, (2 - 2**-23) * 2.0**127
_INT32 = range(-(2**31), 2**31)
_UINT32_END = 2**32


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
    return b"".join((varint(field << 3 | _LENGTH_DELIMITED), varint(len(payload)), payload))


def varints_of(ids: TokenIds) -> bytes:
    """The packed varints of `ids`, without tag and length: the payload that is the same in every protobuf dialect.

    Made at most once for a prompt and kept with it, so that one the tokenizer cache knows is not packed again.
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
    """`value`, if a float field can hold it. Raises InvalidRequest naming `param`, as do all below."""
    if not math.isfinite(value) or abs(value) > _LARGEST_FLOAT32:
        raise InvalidRequest(f"{_last(param)} must be a finite number.", param=param)
    return value


def nonzero(param: str, value: float) -> float:
    """`value`, if the wire does not take it for "not set". Raises UnsupportedParameter."""
    if abs(value) < _SMALLEST_FLOAT32:
        told = f"{_last(param)}={value} cannot be asked of this engine; it must be above 0."
        raise UnsupportedParameter(told, param=param)
    return float32(param, value)


def uint32(param: str, value: int) -> int:
    """`value`, if an unsigned 32-bit field can hold it."""
    if not 0 <= value < _UINT32_END:
        raise InvalidRequest(f"{_last(param)} must be between 0 and {_UINT32_END - 1}, got {value}.", param=param)
    return value


def positive(param: str, value: int) -> int:
    """`value`, if it is at least 1."""
    if value < 1:
        raise InvalidRequest(f"{_last(param)} must be at least 1, got {value}.", param=param)
    return uint32(param, value)


def int32(param: str, value: int) -> int:
    """`value`, if a signed 32-bit field can hold it."""
    if value not in _INT32:
        range_ = f"between {_INT32.start} and {_INT32.stop - 1}"
        raise UnsupportedParameter(f"{_last(param)} must be {range_} for this engine, got {value}.", param=param)
    return value


def _last(param: str) -> str:
    """The name at the end of a path into request.py: "sampling.top_k" is `top_k` to the client."""
    return param.rpartition(".")[2]
