"""Types for JSON values, for annotations in every room.

Type checkers see the recursive types. At run time both names are what msgspec reads fastest: any value, and a dict with string
keys; msgspec knows no recursive alias. Decides nothing. Above: everything. Below: the standard library.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

__all__ = ["Json", "JsonObject"]

if TYPE_CHECKING:
    Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
    """A JSON value that is only read."""
    JsonObject = dict[str, Json]
    """A JSON object that is being built or changed."""
else:
    from typing import Any

    Json = Any
    JsonObject = dict[str, Any]
