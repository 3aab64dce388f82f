"""Containers and their files on OpenAI's wire: bodies, queries and objects. Pure. Above: the handlers. Below: decoding."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

from smg_core.containers.records import CodeContainer, ContainerFile
from smg_core.errors import InvalidRequest
from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.fields import not_in_list, read_limit
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "ContainerBody",
    "ContainerFileBody",
    "check_memory",
    "container_file_object",
    "container_object",
    "list_object",
    "listed_page",
    "read_container",
    "read_container_file",
]

_MEMORY = {"1g": 1 << 30, "4g": 4 << 30, "16g": 16 << 30, "64g": 64 << 30}
_MOST_FILES = 100
_USUAL, _MOST = 20, 100  # of a page


class _LastUse(Struct, frozen=True, forbid_unknown_fields=True):
    """When a container is removed: so many minutes after its last use."""

    anchor: Literal["last_active_at"]
    minutes: Annotated[int, Meta(ge=1, le=43_200)]


class _NoNetwork(Struct, frozen=True, forbid_unknown_fields=True, tag="disabled"):
    """Code reaches no network."""


class ContainerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that makes a container."""

    name: Annotated[str, Meta(max_length=256)]
    expires_after: _LastUse | None = None
    file_ids: Annotated[tuple[str, ...], Meta(max_length=_MOST_FILES)] = ()
    memory_limit: str | None = None
    network_policy: _NoNetwork | None = None


class ContainerFileBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that copies a kept file into a container."""

    file_id: str


_CONTAINER, _FILE = WireDecoder(ContainerBody, {}), WireDecoder(ContainerFileBody, {})


def read_container(body: bytes, limits: LimitsConfig, memory: int) -> ContainerBody:
    """The body of a request for a container, of which each has `memory` bytes. Raises InvalidRequest."""
    wire = _CONTAINER.decode(body, limits)
    check_memory(wire.memory_limit, memory, "memory_limit")
    return wire


def check_memory(asked: str | None, memory: int, param: str) -> None:
    """Raise InvalidRequest for more memory than a container has here."""
    if asked is None:
        return
    if asked not in _MEMORY:
        known = ", ".join(f"'{each}'" for each in _MEMORY)
        raise InvalidRequest(f"Invalid value for '{param}'. Supported values are: {known}.", param=param)
    if _MEMORY[asked] > memory:
        raise InvalidRequest(
            f"Unsupported value for '{param}': a container has {memory:,} bytes of memory here; leave the field out.",
            param=param,
            code="unsupported_value",
        )


def read_container_file(body: bytes, limits: LimitsConfig) -> ContainerFileBody:
    """The body of a request that copies a file. Raises InvalidRequest."""
    return _FILE.decode(body, limits)


def container_object(container: CodeContainer) -> JsonObject:
    """A container as clients get it."""
    return {
        "id": container.id,
        "object": "container",
        "created_at": int(container.created_at),
        "status": "running",
        "expires_after": {"anchor": "last_active_at", "minutes": int(container.minutes)},
        "last_active_at": int(container.used_at),
        "memory_limit": None,
        "network_policy": {"type": "disabled"},
        "name": container.name,
    }


def container_file_object(file: ContainerFile) -> JsonObject:
    """A file of a container as clients get it."""
    return {
        "id": file.id,
        "object": "container.file",
        "created_at": int(file.file.changed_at),
        "bytes": file.file.bytes,
        "container_id": file.container,
        "path": file.path,
        "source": "user" if file.given else "assistant",
    }


_Listed = TypeVar("_Listed", CodeContainer, ContainerFile)


def listed_page(found: Sequence[_Listed], query: Mapping[str, tuple[str, ...]]) -> tuple[Sequence[_Listed], bool]:
    """The page of a list, whose newest stand first, that a query asks for, and whether there are more. Raises InvalidRequest."""
    limit = read_limit(query, usual=_USUAL, most=_MOST)
    order, after = query.get("order", ("desc",))[-1], query.get("after", (None,))[-1]
    if order not in ("asc", "desc"):
        raise InvalidRequest("Invalid value for 'order'. Supported values are: 'asc', 'desc'.", param="order")
    ordered = list(found) if order == "desc" else list(reversed(found))
    if after is not None:
        place = next((place for place, each in enumerate(ordered) if each.id == after), None)
        if place is None:
            raise not_in_list(after)
        ordered = ordered[place + 1 :]
    return ordered[:limit], len(ordered) > limit


def list_object(data: Sequence[Json], ids: Sequence[str], has_more: bool) -> JsonObject:
    """A page as clients get it."""
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"object": "list", "data": list(data), "first_id": first, "last_id": last, "has_more": has_more}
