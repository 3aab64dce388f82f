"""Refuses tools that name something on which nothing works for their caller: a store of vectors, a container, a file, a skill.

A tool that a server runs is taken and not offered, since clients declare some by habit. One that says what it is to work on is
no habit: its client expects an answer out of that, and an answer without would look like one. Pure. Above: the readers of tools
of all APIs. Below: errors.
"""

from collections.abc import Iterator, Mapping

from smg_core.errors import NotFound
from smg_core.json_types import Json
from smg_core.wire.decoding import brief

__all__ = ["refuse_named"]

_STORE, _CONTAINER, _FILE, _SKILL = "vector store", "container", "file", "skill"
_NAMES: Mapping[str, str] = {
    "vector_store_ids": _STORE,
    "file_search_store_names": _STORE,
    "fileSearchStoreNames": _STORE,
    "rag_resources": _STORE,
    "ragResources": _STORE,
    "rag_corpora": _STORE,
    "ragCorpora": _STORE,
    "datastore": _STORE,
    "data_store_specs": _STORE,
    "dataStoreSpecs": _STORE,
    "engine": _STORE,
    "container": _CONTAINER,
    "container_id": _CONTAINER,
    "file_id": _FILE,
    "file_ids": _FILE,
    "skill_id": _SKILL,
}
"""Fields of tools whose values name what a tool works on, and what that is."""
_DEEPEST = 8
"""Levels of a tool that are looked at; the deepest name in an API stands in the fourth."""


def refuse_named(tool: Json, at: str) -> None:
    """Raise NotFound for the first thing that the tool at `at` names, a tool that its caller is not offered: there is no such
    thing here, or the caller may not use what works on it. A container that is to be made has no name."""
    for place, kind, name in _named(tool, at):
        raise NotFound(
            f"Invalid '{place}': no tool that this key may use works on a {kind} here, so not on {brief(repr(name))}.",
            param=place,
        )


def _named(value: Json, at: str, depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """The field, the kind and the name of each thing that is named, in order."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for field, inner in value.items():
            kind, place = _NAMES.get(field), f"{at}.{field}"
            if kind is not None and isinstance(inner, str) and inner:
                yield place, kind, inner
            elif kind is not None and isinstance(inner, list) and inner and not isinstance(inner[0], Mapping):
                yield f"{place}[0]", kind, str(inner[0])
            else:
                yield from _named(inner, place, depth + 1)
    elif isinstance(value, list):
        for order, each in enumerate(value):
            yield from _named(each, f"{at}[{order}]", depth + 1)
