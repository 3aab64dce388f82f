"""The table of the kinds of engines: which kind a worker is of, by its URL and what it calls its dialect.

`ENGINE_KINDS` has the built-in kinds; an installed package adds an `EngineKind` through the entry point group `smg.engines`. Pure
but for the packages that are installed. Above: fleet.connect, config.check and the packing of media.
"""

import logging
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from smg_core.engines.kinds.grpc import GRPC_KINDS
from smg_core.engines.kinds.http import HTTP_KINDS
from smg_core.engines.kinds.kind import AUTO, EngineKind, EnginePlace
from smg_core.engines.kinds.providers import PROVIDER_KINDS

__all__ = ["ENGINE_KINDS", "UnknownDialect", "check_place", "kind", "kind_names", "kinds_at"]

log = logging.getLogger(__name__)

ENGINE_KINDS: dict[str, EngineKind] = {each.name: each for each in (*GRPC_KINDS, *HTTP_KINDS, *PROVIDER_KINDS)}
"""The built-in kinds by name."""


class UnknownDialect(LookupError):
    """No kind of engines has that name, or none of those that the URL can mean; the message lists those that exist."""


def kind_names() -> tuple[str, ...]:
    """The names of all kinds: the built-in ones, then the installed ones by name."""
    return (*ENGINE_KINDS, *sorted(set(_installed()) - set(ENGINE_KINDS)))


def kind(name: str) -> EngineKind:
    """The row called `name`; built-in ones cannot be replaced. Raises UnknownDialect."""
    if name in ENGINE_KINDS:
        return ENGINE_KINDS[name]
    installed = _installed()
    if name not in installed:
        raise UnknownDialect(f"no engine dialect {name!r}; there are {', '.join((AUTO, *kind_names()))}")
    row = installed[name].load()
    if not isinstance(row, EngineKind) or row.name != name:
        raise UnknownDialect(f"the entry point {name!r} of smg.engines is no EngineKind of that name")
    return row


def kinds_at(place: EnginePlace) -> tuple[EngineKind, ...]:
    """The kinds that the engine at `place` may be of, in the order in which it is asked; one alone is taken without asking.
    Raises UnknownDialect, and ValueError for a scheme that no kind has."""
    for name in (each for each in (place.kind, place.usual_kind) if each != AUTO):
        if place.scheme in (row := kind(name)).schemes:
            return (row,)
        if name == place.kind:
            raise _elsewhere(name, place)
    possible = _kinds_of(place)
    if asked := tuple(each for each in possible if each.unnamed == "asked"):
        if place.usual_kind != AUTO:  # which says that engines are not asked
            raise _elsewhere(place.usual_kind, place)
        return asked
    if assumed := tuple(each for each in possible if each.unnamed == "assumed"):
        return assumed[:1]
    raise UnknownDialect(f"which of {', '.join(each.name for each in possible)} is the dialect of {place.label!r}?")


def _elsewhere(name: str, place: EnginePlace) -> UnknownDialect:
    """That the kind called `name` has other URLs than that of `place`."""
    known = ", ".join((AUTO, *(each.name for each in _kinds_of(place))))
    return UnknownDialect(f"no dialect {name!r} at {place.scheme}:// URLs; there are {known}")


def check_place(place: EnginePlace) -> None:
    """Raise ValueError for a place where no engine of its kind can be, and UnknownDialect where it can be of none."""
    for each in kinds_at(place):
        each.check(place)


def _kinds_of(place: EnginePlace) -> list[EngineKind]:
    """The kinds whose URLs have the scheme of `place`. Raises ValueError where there are none."""
    rows = [*ENGINE_KINDS.values(), *_installed_kinds(tuple(sys.path))]
    found = [each for each in rows if place.scheme in each.schemes]
    if not found:
        quoted = "a worker URL with a user name or password" if "@" in place.url else f"worker URL {place.url!r}"
        known = ", ".join(dict.fromkeys(f"{scheme}://" for each in rows for scheme in each.schemes))
        raise ValueError(f"{quoted} has no known scheme; use one of {known}")
    return found


@lru_cache(maxsize=1)
def _installed_kinds(path: tuple[str, ...]) -> tuple[EngineKind, ...]:
    """The rows that packages on `path` add, by name. One that cannot be loaded is left out here, and raises when it is named."""
    found = []
    for name in sorted(set(_found_on(path)) - set(ENGINE_KINDS)):
        try:
            found.append(kind(name))
        except (ImportError, AttributeError, UnknownDialect) as error:
            log.warning("the entry point %r of smg.engines is left out: %s", name, type(error).__name__)
    return tuple(found)


def _installed() -> Mapping[str, EntryPoint]:
    return _found_on(tuple(sys.path))


@lru_cache(maxsize=1)
def _found_on(path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """The entry points of the packages on `path` (`sys.path`). Looked up once for a path: it reads a file of every package that
    is installed, which takes tens of milliseconds, and a connection to an engine must not wait for that."""
    return {entry.name: entry for entry in entry_points(group="smg.engines")}
