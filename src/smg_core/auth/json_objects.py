"""Reads a JSON object of which nothing may be ambiguous: the head and the claims of a token, the documents of an issuer.

Stricter than JSON demands: UTF-8 only, every name once in its object, no NaN, no number without bounds. Two readers of the same
token must not see two meanings. Pure. Above: tokens, jwks. Below: the standard library.
"""

import json
from typing import NoReturn

from smg_core.json_types import Json, JsonObject

__all__ = ["unambiguous_object"]


def unambiguous_object(text: bytes) -> JsonObject:
    """The object that `text` is. Raises ValueError for everything else; the caller has bounded the length."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("no object")  # noqa: TRY004
    return found


def _once(pairs: list[tuple[str, Json]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
