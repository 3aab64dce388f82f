"""Types of the component model as text, to compare those of a component with those of a world.

Above: `running`. Below: the types of the package wasmtime.
"""

from typing import Any

from wasmtime import component

__all__ = ["wit_of"]


def wit_of(function: Any) -> str:
    """The type of a function of a component, as `worlds.Function.wit` writes it."""
    result = function.result
    parameters = ", ".join(_type(each) for _, each in function.params)
    return f"({parameters}) -> {'()' if result is None else _type(result)}"


def _type(found: Any) -> str:
    if isinstance(found, component.ListType):
        return f"list<{_type(found.element)}>"
    if isinstance(found, component.OptionType):
        return f"option<{_type(found.payload)}>"
    if isinstance(found, component.RecordType):
        return "record{" + ", ".join(f"{name}: {_type(each)}" for name, each in found.fields) + "}"
    if isinstance(found, component.EnumType):
        return "enum{" + ", ".join(found.names) + "}"
    if isinstance(found, component.VariantType):
        return "variant{" + ", ".join(n if t is None else f"{n}({_type(t)})" for n, t in found.cases) + "}"
    if isinstance(found, component.ResultType):
        sides = (found.ok, found.err)
        return f"result<{', '.join('_' if each is None else _type(each) for each in sides)}>"
    return type(found).__name__.lower()
