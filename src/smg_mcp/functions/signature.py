"""A Python function as a tool: its name, its description, and the schema and the check of its arguments.

Above: `session`, `loading`. Below: `docstrings`, the records; msgspec, which makes schemas of types and checks values. Pure.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import attrs
import msgspec

from smg_mcp.functions.docstrings import read_docstring
from smg_mcp.records.base import OnProgress, ToolHints

__all__ = ["PythonTool", "ReadFunction", "ToolContext", "read_function"]


@attrs.frozen
class PythonTool:
    """A Python function as a tool, where more is to be said of it than its signature and its docstring do.

    `hints` say what it does to the world; without them the worse is expected, as of a tool of a server. `timeout_s` is how long
    a call may take (None: what the configuration says)."""

    function: Callable[..., Any]
    name: str | None = None
    description: str | None = None
    hints: ToolHints = attrs.field(factory=ToolHints)
    timeout_s: float | None = None


@attrs.frozen
class ToolContext:
    """Of which call a function is run: one with a parameter of this type is given it, and the model does not see it.

    `progress` tells the client how far the call is; it may be called in any thread."""

    tenant: str = ""
    request_id: str = ""
    progress: OnProgress = attrs.field(default=lambda progress: None, repr=False)


@attrs.frozen
class ReadFunction:
    """A function that was read: what the model is told of it, and how it is called."""

    tool: PythonTool
    name: str
    description: str
    schema: Mapping[str, Any]
    is_async: bool
    arguments: Any = attrs.field(repr=False)
    """The struct of the arguments, whose fields are set where the model gave a value."""
    parameters: Sequence[inspect.Parameter] = attrs.field(default=(), repr=False)
    context: str | None = None

    def call_of(self, given: Mapping[str, Any], context: ToolContext) -> Callable[[], Any]:
        """The call with these arguments. Raises msgspec.ValidationError where they do not fit."""
        read = msgspec.convert(given, self.arguments)
        placed, named = [], {}
        for place, each in enumerate(self.parameters):
            value = context if each.name == self.context else getattr(read, _field(place))
            if each.kind is inspect.Parameter.POSITIONAL_ONLY:
                placed.append(each.default if value is msgspec.UNSET else value)
            elif value is not msgspec.UNSET:
                named[each.name] = value
        return functools.partial(self.tool.function, *placed, **named)


def read_function(given: Callable[..., Any] | PythonTool) -> ReadFunction:
    """What is to be known of a function. Raises ValueError where it can be no tool: the message says why."""
    tool = given if isinstance(given, PythonTool) else PythonTool(given)
    function = tool.function
    inner = _innermost(function)
    name = str(tool.name or getattr(inner, "__name__", type(inner).__name__))
    if not callable(function) or isinstance(function, type):
        raise ValueError(  # noqa: TRY004
            f"a tool is a function, not {name[:80]!r} of the type {type(function).__name__}"
        )
    if not name.isidentifier():
        raise ValueError(f"a tool needs a name of letters, digits and '_', not {name[:80]!r}: give one by PythonTool")
    called = inner if inspect.isroutine(inner) else type(inner).__call__
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ValueError(f"the function {name} yields; a tool returns its result")
    summary, described = read_docstring(inspect.getdoc(inner if inspect.isroutine(inner) else called) or "")
    try:
        signature, types_of = inspect.signature(function), _types_of(called)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise ValueError(f"the signature of the function {name} cannot be read: {error}") from error
    bound = _bound(function)  # the operator's values, which the model neither sees nor sets
    signature = signature.replace(parameters=[each for each in signature.parameters.values() if each.name not in bound])
    context = next((each for each in signature.parameters if _is_context(types_of.get(each))), None)
    arguments, schema = _arguments(name, signature, types_of, described, context)
    return ReadFunction(
        tool,
        name,
        tool.description if tool.description is not None else summary,
        schema,
        inspect.iscoroutinefunction(called),
        arguments,
        tuple(signature.parameters.values()),
        context,
    )


def _innermost(function: Any) -> Any:
    """The function that a partial call is of."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _bound(function: Any) -> frozenset[str]:
    """The parameters that partial calls have given by name."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names |= function.keywords.keys()
        function = function.func
    return frozenset(names)


def _is_context(kind: Any) -> bool:
    return kind is ToolContext or ToolContext in get_args(kind)


def _types_of(called: Any) -> dict[str, Any]:
    found = get_type_hints(inspect.unwrap(called), include_extras=True)
    found.pop("return", None)
    return found


def _field(place: int) -> str:
    """The field of the argument in this place: a parameter may have a name that no field can have."""
    return f"argument_{place}"


def _arguments(
    name: str,
    signature: inspect.Signature,
    types_of: Mapping[str, Any],
    described: Mapping[str, str],
    context: str | None,
) -> tuple[Any, dict[str, Any]]:
    """The struct of the arguments of a function, and their schema."""
    fields: list[Any] = []
    for place, each in enumerate(signature.parameters.values()):
        if place == 0 and each.name in ("self", "cls") and each.name not in types_of:
            raise ValueError(f"the function {name} is a method without its object: give object.{name}")
        if each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ValueError(f"the function {name} takes any arguments (*{each.name}), which no model can know")
        if each.name == context:
            continue
        kind = types_of.get(each.name, Any)
        kind = Any if kind is object else kind
        if each.default is inspect.Parameter.empty:
            fields.append((_field(place), kind, msgspec.field(name=each.name)))
        else:
            kind = kind | None if each.default is None and kind is not Any else kind
            kind = Any if kind is Any else kind | msgspec.UnsetType
            fields.append((_field(place), kind, msgspec.field(default=msgspec.UNSET, name=each.name)))
    try:
        struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        made = msgspec.json.schema(struct)
    except (TypeError, ValueError, NameError) as error:
        reason = str(error).rstrip().rpartition("\n")[2]  # the rest is advice for who defines such a type
        raise ValueError(f"a parameter of the function {name} has a type that JSON cannot give: {reason}") from error
    return struct, _schema(made, signature, types_of, described)


def _schema(
    made: Mapping[str, Any],
    signature: inspect.Signature,
    types_of: Mapping[str, Any],
    described: Mapping[str, str],
) -> dict[str, Any]:
    others = dict(made["$defs"])
    own = others.pop(made["$ref"].rpartition("/")[2])
    properties = {key: dict(value) for key, value in own["properties"].items()}
    for key, of_property in properties.items():
        of_property.pop("default", None)
        default = signature.parameters[key].default
        if default is not inspect.Parameter.empty and _is_plain(default):
            of_property["default"] = default
        text = _noted(types_of.get(key)) or described.get(key)
        if text:
            of_property.setdefault("description", text)
    found: dict[str, Any] = {"type": "object", "properties": properties, "required": list(own.get("required", ()))}
    found["additionalProperties"] = False
    if others:
        found["$defs"] = others
    return found


def _is_plain(value: Any) -> bool:
    """Whether a default is a value of JSON that the model can be shown."""
    return value is None or (isinstance(value, bool | int | float | str) and value == value)


def _noted(kind: Any) -> str | None:
    """The description that stands with a type, as in `Annotated[int, "how many"]`."""
    if get_origin(kind) is not Annotated:
        return None
    return next((each for each in get_args(kind)[1:] if isinstance(each, str)), None)
