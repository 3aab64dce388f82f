"""Reads the bodies of requests at the admin door: JSON of a given shape, and nothing that the shape does not have. Pure."""

from typing import TypeVar

import msgspec

from smg_core.errors import InvalidRequest, SmgError

__all__ = ["decode_body"]

B = TypeVar("B", bound=msgspec.Struct)


def decode_body(data: bytes, shape: type[B]) -> B:
    """The body as `shape`; an empty one is {}. Raises InvalidRequest naming the field that is wrong."""
    try:
        return msgspec.json.decode(data or b"{}", type=shape)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(str(error)) from None


def _fault(message: str) -> SmgError:
    """The refusal of a body, from what msgspec says of it: "Expected `str`, got `int` - at `$.tenant`"."""
    what, _, place = message.partition(" - at ")
    param = place.strip("`").removeprefix("$.")
    return InvalidRequest(f"Invalid '{param}': {what}." if param else f"Invalid body: {what}.", param=param or None)
