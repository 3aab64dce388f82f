"""The uses of a component: its world, and whether it has what it should and wants what it may.

Above: `running`. Below: `joining`, `worlds`, the types of the package wasmtime.
"""

from collections.abc import Sequence
from typing import Any

from wasmtime import Engine, component
from wasmtime.component import ComponentInstanceType, FuncType

from smg_core.wasm.joining import Outline
from smg_core.wasm.worlds import CLOCK, HOST, OURS, RANDOM, Function, World, interface_hook, world_of

__all__ = ["ComponentPlan", "Unusable", "wit_of"]


class Unusable(Exception):
    """A component cannot be used here; the message says why, in words for an operator."""


class ComponentPlan:
    """What a component is used for here, by its outline: its world, and the functions that it exports, by their names in
    `worlds`, with the name of the interface as it exports it. Raises Unusable."""

    def __init__(self, known: Outline, grants: Sequence[str]) -> None:
        self.outline = known
        world = world_of(known.exports)
        if world is None:
            hooks = ", ".join(interface_hook(each) for each in known.exports) or "nothing"
            raise Unusable(f"is of another world: it exports {hooks[:200]}, and none of our hooks")
        self.world: World = world
        self.wants_wasi = self._check_imports(grants)
        spelt = {each.partition("@")[0]: each for each in known.exports}
        self.exported: dict[str, tuple[str, Function]] = {}
        for name, function in world.functions.items():
            interface = function.interface if world is OURS else spelt.get(function.interface, "")
            if interface in known.exports:
                self.exported[name] = interface, function

    def _check_imports(self, grants: Sequence[str]) -> bool:
        """Whether it wants WASI. Raises Unusable for imports that are not granted."""
        wasi = False
        for name in self.outline.imports:
            if name.startswith("wasi:"):
                if "wasi" not in grants:
                    raise Unusable(
                        f"imports {name} without the grant wasi, which gives clock and random, no files, no network"
                    )
                wasi = True
            elif name in (CLOCK, RANDOM):
                needed = interface_hook(name)
                if needed not in grants:
                    raise Unusable(f"imports {name}, and has no grant for it: add {needed} to grants")
            elif name != HOST and interface_hook(name) not in ("types", "middleware-types"):
                raise Unusable(f"imports {name[:100]}, which the gateway does not have")
        return wasi

    def check_types(self, engine: Engine, found: Any) -> None:
        """Raises Unusable where a function is not there, or of another type."""
        interfaces = found.exports(engine)
        for interface, function in self.exported.values():
            there = interfaces[interface].ty
            functions = there.exports(engine) if isinstance(there, ComponentInstanceType) else {}
            type_ = functions[function.name].ty if function.name in functions else None
            if not isinstance(type_, FuncType):
                raise Unusable(f"has {interface} without its function {function.name}")
            if wit_of(type_) != function.wit:
                raise Unusable(f"has {function.name} of another type: {wit_of(type_)[:300]}")


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
