"""The input and output of each route of the admin door, for its `/admin/openapi.json`. Above: the routes. Pure."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = ["CreateKeyBody", "ExpireKeyBody", "RevokeKeyBody", "RotateKeyBody"]

_Name = Annotated[str, Meta(max_length=256)]
_CENTURY = 36_500 * 86400.0


class CreateKeyBody(Struct, forbid_unknown_fields=True):
    """A key that is to be made: whose requests it carries, its roles, models and tools of MCP servers, and when it expires, in
    seconds since the Unix epoch."""

    tenant: _Name
    principal: _Name = ""
    name: _Name = ""
    roles: Annotated[tuple[_Name, ...], Meta(max_length=64)] = ("user",)
    models: Annotated[tuple[_Name, ...], Meta(max_length=1024)] = ()
    tools: Annotated[tuple[_Name, ...], Meta(max_length=1024)] = ()
    expires_at: Annotated[float, Meta(ge=0, le=1e12)] | None = None


class RotateKeyBody(Struct, forbid_unknown_fields=True):
    """`overlap_s`: seconds for which the earlier secrets stay good."""

    overlap_s: Annotated[float, Meta(ge=0, le=_CENTURY)] = 0.0


class ExpireKeyBody(Struct, forbid_unknown_fields=True):
    """`expires_at`: from when on the key is refused, in seconds since the Unix epoch; null: never."""

    expires_at: Annotated[float, Meta(ge=0, le=1e12)] | None


class RevokeKeyBody(Struct, forbid_unknown_fields=True):
    """A revocation says nothing more."""


class ListedKey(Struct):
    """A virtual key without its secret. Times are in seconds since the Unix epoch."""

    id: str
    prefix: str
    name: str
    tenant: str
    principal: str
    roles: list[str]
    models: list[str]
    tools: list[str]
    status: Literal["active", "expired", "revoked"]
    secrets: int
    created_at: float
    expires_at: float | None
    revoked_at: float | None


class TextOfKey(ListedKey, kw_only=True):
    """A virtual key that was just made or rotated, with the key itself."""

    key: str


class KeyPage(Struct):
    """Virtual keys, newest first."""

    data: list[ListedKey]
    has_more: bool
