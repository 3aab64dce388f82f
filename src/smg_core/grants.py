"""The grants of a caller: permissions by name, models, and tools that run here.

Made by authenticators of a caller's roles; part of `request.Caller`. Read by whoever does something that needs a permission, and
by whoever finds a model by its name. Pure. Above: everything. Below: nothing.
"""

from msgspec import Struct

__all__ = ["Grants"]


class Grants(Struct, frozen=True, omit_defaults=True):
    """What a caller may do. `permissions` are names of `auth.roles`, None for all of them. `models` are lists of names, or of
    beginnings that end with "*"; a model must be in each of the lists. `tools` are such lists for tools that run here:
    SERVER.TOOL, or the URL of a server that the request brings. Within `deadline_ms` it has to be the turn of a request in the
    queue before its model; 0: within none of the caller's own."""

    permissions: frozenset[str] | None = None
    models: tuple[tuple[str, ...], ...] = ()
    tools: tuple[tuple[str, ...], ...] = ()
    deadline_ms: int = 0

    def may(self, permission: str) -> bool:
        """Whether the caller has this permission."""
        return self.permissions is None or permission in self.permissions

    def may_use(self, *names: str) -> bool:
        """Whether the caller may use a model that has these names: the one it asked for, and the one that this stands for."""
        return all(any(_fits(name, each) for each in listed for name in names) for listed in self.models)

    def may_call(self, tool: str) -> bool:
        """Whether the caller may call a tool of this name: SERVER.TOOL, or the URL of its server."""
        return all(any(_fits(tool, each) for each in listed) for listed in self.tools)


def _fits(name: str, listed: str) -> bool:
    return name == listed or (listed.endswith("*") and name.startswith(listed[:-1]))
