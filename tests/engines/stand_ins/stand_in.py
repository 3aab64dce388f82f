"""A module that has every name, and submodules of every name: for packages that an engine imports and does not call.

torchvision and torchaudio have no build that SGLang could import beside torch's build for CPUs.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Anything:
    """What every name of such a module is: it can be called, subclassed, and has every attribute."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        del arguments, named

    def __call__(self, *arguments: Any, **named: Any) -> "Anything":
        del arguments, named
        return Anything()

    def __getattr__(self, name: str) -> "Anything":
        return anything(name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        del bases
        return (object,)


def anything(name: str) -> Anything:
    """The value of a name. Raises AttributeError for those that Python itself looks for."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Anything:
        return anything(name)


class _Finder:
    """Finds every submodule of one package."""

    def __init__(self, package: str) -> None:
        self._prefix = package + "."

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        del path, target
        return ModuleSpec(name, self, is_package=True) if name.startswith(self._prefix) else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty."""


def stand_in(package: str) -> None:
    """Let every submodule of the package be imported."""
    sys.meta_path.insert(0, _Finder(package))  # type: ignore[arg-type]
