"""The names under which a model is offered the tools of a Responses request.

The API groups tools in namespaces, and two groups may each have a tool of one name; a model knows only names. A tool of a
group is offered as `group__tool`, and a call of it is split again into the two. Tools with a type of their own that clients
run (tool_search) are offered as functions. Pure. Above: responses and its readers, the encoders. Below: nothing.
"""

from collections.abc import Iterable

import attrs

__all__ = ["OfferedTool", "ToolNames"]

_JOINT = "__"
_NAMED = ("function", "custom", "tool_search")
_BUILT_IN = "\0"  # in place of the namespace of a built-in tool


@attrs.frozen
class OfferedTool:
    """What a name before the model stands for on the wire, and where it stands. `kind`: "function", "custom",
    "tool_search", or the type of a built-in tool that the client runs."""

    name: str
    namespace: str | None = None
    kind: str = "function"
    at: str = attrs.field(default="tools", eq=False)


class ToolNames:
    """The names of one request's tools."""

    __slots__ = ("_by_flat", "_flat", "_servers")

    def __init__(self, tools: Iterable[OfferedTool] = ()) -> None:
        self._by_flat: dict[str, OfferedTool] = {}
        self._flat: dict[tuple[str, str | None], str] = {}
        self._servers: list[str] = []
        for tool in tools:
            self.add(tool)

    def add(self, tool: OfferedTool) -> str:
        """Take in a tool; returns its name before the model, unlike that of any other."""
        key = (tool.name, tool.namespace)
        if tool.kind not in _NAMED:  # the client may have a function of its name as well
            key = (tool.kind, _BUILT_IN)
        known = self._flat.get(key)
        if known is not None:
            self._by_flat[known] = tool
            return known
        flat = _flattened(tool.name, tool.namespace)
        while flat in self._by_flat:
            flat += "_"
        self._by_flat[flat] = tool
        self._flat[key] = flat
        return flat

    def add_server(self, at: str) -> None:
        """Take in a server of tools, which stands behind the tools in the request."""
        self._servers.append(at)

    def flat(self, name: str, namespace: str | None) -> str:
        """The name before the model; of a tool that the request does not have, the one it would get."""
        return self._flat.get((name, namespace)) or _flattened(name, namespace)

    def built_in(self, *kinds: str) -> str | None:
        """The name before the model of a built-in tool of one of these types; None where the request has none."""
        return next((flat for kind in kinds if (flat := self._flat.get((kind, _BUILT_IN))) is not None), None)

    def of(self, flat: str) -> OfferedTool:
        """What `flat` stands for; a name that nobody gave stands for itself."""
        return self._by_flat.get(flat) or OfferedTool(flat)

    def place(self, order: int) -> str:
        """The field that the tool offered in place `order` was read from."""
        places = [tool.at for tool in self._by_flat.values()] + self._servers
        return places[order] if order < len(places) else "tools"


def _flattened(name: str, namespace: str | None) -> str:
    return name if namespace is None else f"{namespace}{_JOINT}{name}"
