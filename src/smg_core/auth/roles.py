"""Permissions, and the roles with them.

Each route names the permission that its callers need (`http.endpoint`); some headers and fields of a request need one of their
own. Those of the APIs are in their rows and are handed in. A role is a name for some permissions, and for the models and the
tools of MCP servers that they hold for.
Pure. Above: `keys` and other authenticators make `Grants` of a caller's roles. Below: `request`.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence

import attrs

from smg_core.errors import PermissionDenied
from smg_core.grants import Grants
from smg_core.settings import ConfigError, nearest

__all__ = [
    "GENERAL_PERMISSIONS",
    "HEADERS",
    "PUBLIC",
    "USER",
    "AccessRole",
    "Roles",
    "check_giving",
    "check_permission",
]

PUBLIC = ""
"""In place of a permission: nobody is asked who they are."""

GENERAL_PERMISSIONS: Mapping[str, str] = {
    "models": "The lists of models, the front page, /docs and /openapi.json",
    "explain": "The header x-smg-explain",
    "parser": "The header x-smg-parser",
    "priority": "A priority other than 0. No HTTP API takes one: for requests that are made or changed in Python",
    "queue.system": "The first band of the queue before a model",
    "queue.interactive": "The second band of that queue; without it requests are standard",
    "admin.decisions": "Which engine got a request, and why",
    "admin.health": "The health of this gateway and its processes",
    "admin.workers": "Engines behind this gateway: adding, changing, draining and removing them, their load, caches, profiles",
    "admin.models": "Models and routing policies that are in use",
    "admin.config": "The settings: reading them with secrets masked, and having their file read again",
    "admin.drain": "Whether this gateway takes requests",
    "admin.logging": "The level of the log",
    "admin.metrics": "Metrics at the admin door",
    "admin.keys": "Virtual keys: create, rotate, revoke and list",
    "admin.usage": "What every tenant used and what it cost: reading it, and having a tenant or a user forgotten",
    "admin.history": "Erasing all that is kept of a tenant",
}
"""The permissions that are no API's, and what each permits. Those of an API stand in its row (`serving.spec`)."""

HEADERS: Mapping[str, str] = {"x-smg-explain": "explain", "x-smg-parser": "parser"}
"""Headers of requests that need a permission, and which."""

USER = "user"
"""The role of callers that name none."""
_TRUSTED = frozenset({"explain", "parser", "priority", "queue.system", "queue.interactive"})
_ADMIN = "admin."
_MODEL = "model:"
_TOOL = "tool:"
_DEADLINE = "deadline:"
_MILLISECONDS = re.compile("[1-9][0-9]{0,9}")
_ALL = "*"


@attrs.frozen
class AccessRole:
    """The permissions of a role, and the models that it holds for: names, or beginnings that end with "*"; None for all. So are
    `tools`, which are SERVER.TOOL or a server's URL. `deadline_ms`: within how many milliseconds it has to be a
    request's turn in the queue before its model; 0: within none."""

    name: str
    permissions: frozenset[str]
    models: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    deadline_ms: int = 0


class Roles:
    """The roles of a gateway: `user`, `admin` and those of the settings, which may replace these two."""

    def __init__(self, entries: Iterable[str], permissions: Mapping[str, str]) -> None:
        """`permissions` are all that there are, and what each permits. Raises ConfigError for an entry that is no role, and for a
        name that two have."""
        users = frozenset(name for name in permissions if not name.startswith(_ADMIN)) - _TRUSTED
        built_in = (AccessRole(USER, users), AccessRole("admin", frozenset(permissions)))
        own: dict[str, AccessRole] = {}
        for entry in entries:
            role = _role(entry, permissions)
            if role.name in own:
                raise ConfigError(f"auth.roles: {role.name} is given twice")
            own[role.name] = role
        self._roles = {role.name: role for role in built_in} | own

    def grants(self, names: Sequence[str], models: Sequence[str] = (), tools: Sequence[str] = ()) -> Grants:
        """What a caller with these roles may do; `models` and `tools` are the only ones for this caller, if it has its own.
        Raises ConfigError for an unknown role."""
        for name in names:
            if name not in self._roles:
                raise ConfigError(f"there is no role {name}{nearest(name, tuple(self._roles))}")
        roles = [self._roles[name] for name in names]
        permissions = (
            frozenset[str]().union(*(role.permissions for role in roles)) if len(roles) != 1 else roles[0].permissions
        )
        return Grants(
            permissions,
            _lists([role.models for role in roles], models),
            _lists([role.tools for role in roles], tools),
            _longest([role.deadline_ms for role in roles]),
        )


def _lists(of_roles: Sequence[tuple[str, ...] | None], own: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The lists that a name must be in: that of all roles together, unless one of them has none, and the caller's own."""
    lists: list[tuple[str, ...]] = []
    if of_roles and all(each is not None for each in of_roles):
        lists.append(tuple(name for each in of_roles for name in each or ()))
    if own:
        lists.append(tuple(own))
    return tuple(lists)


def _longest(deadlines: Sequence[int]) -> int:
    """The longest of these; none where one of them is."""
    return max(deadlines) if deadlines and all(deadlines) else 0


def check_permission(granted: Grants, needed: str, headers: Container[str] = ()) -> None:
    """Refuse a caller that may not do what it asks for: the permission of its route, and that of each header. Raises
    PermissionDenied."""
    permissions = granted.permissions
    if permissions is None:
        return
    if needed != PUBLIC and needed not in permissions:
        raise PermissionDenied(f"This key has no permission '{needed}', which this request needs.")
    for name in HEADERS:
        if name in headers and HEADERS[name] not in permissions:
            raise PermissionDenied(f"This key has no permission '{HEADERS[name]}', which the header {name} needs.")


def check_giving(giver: Grants, given: Grants) -> None:
    """Refuse a caller that would hand out a key which may administer what the caller itself may not: who makes keys could else
    make an admin of itself. Raises PermissionDenied."""
    for name in GENERAL_PERMISSIONS:
        if name.startswith(_ADMIN) and given.may(name) and not giver.may(name):
            raise PermissionDenied(f"This key has no permission '{name}', so it can give it to no other key.")


def _role(entry: str, known: Mapping[str, str]) -> AccessRole:
    name, equals, rest = entry.partition("=")
    name, words = name.strip(), rest.split()
    if not (name and equals and words) or len(name.split()) > 1:
        raise ConfigError(
            f'auth.roles: {entry}: expected "NAME=PERMISSION PERMISSION model:NAME tool:SERVER.TOOL deadline:MS"'
        )
    models = tuple(word.removeprefix(_MODEL) for word in words if word.startswith(_MODEL))
    tools = tuple(word.removeprefix(_TOOL) for word in words if word.startswith(_TOOL))
    for prefix, named in ((_MODEL, models), (_TOOL, tools)):
        if not all(named):
            raise ConfigError(f"auth.roles: {name}: {prefix} names no {prefix[:-1]}")
    permissions: set[str] = set()
    for word in words:
        if not word.startswith((_MODEL, _TOOL, _DEADLINE)):
            permissions |= _permissions(word, name, known)
    return AccessRole(name, frozenset(permissions), models or None, tools or None, _deadline(name, words))


def _deadline(role: str, words: Sequence[str]) -> int:
    """The milliseconds of the word `deadline:` of a role; 0 where there is none."""
    given = [word.removeprefix(_DEADLINE) for word in words if word.startswith(_DEADLINE)]
    if not given:
        return 0
    if len(given) > 1 or not _MILLISECONDS.fullmatch(given[0]):
        raise ConfigError(f"auth.roles: {role}: {_DEADLINE} takes one whole number of milliseconds above 0")
    return int(given[0])


def _permissions(word: str, role: str, known: Mapping[str, str]) -> frozenset[str]:
    """The permissions that one word means: itself, or all with its beginning ("admin.*", "*")."""
    if word.endswith(_ALL):
        found = frozenset(each for each in known if each.startswith(word[: -len(_ALL)]))
    else:
        found = frozenset({word}) & known.keys()
    if not found:
        raise ConfigError(f"auth.roles: {role}: there is no permission {word}{nearest(word, tuple(known))}")
    return found
