"""The error envelope of Google's APIs as types, for the description of their answers."""

from msgspec import UNSET, Struct, UnsetType

from smg_core.json_types import JsonObject

__all__ = ["GeminiError", "GeminiErrorDetail", "GoogleAnswer"]


class GoogleAnswer(Struct, forbid_unknown_fields=True, rename="camel"):
    """Base of the types of answers of Google's APIs."""


class GeminiErrorDetail(GoogleAnswer):
    """`status` is the name of a google.rpc.Code."""

    code: int
    message: str
    status: str
    details: list[JsonObject] | UnsetType = UNSET


class GeminiError(GoogleAnswer):
    """Google's error envelope."""

    error: GeminiErrorDetail
