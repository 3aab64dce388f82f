"""Makes the lazy exports of a package: its public names, each loaded from its module when it is first used.

A package that other packages import inside must cost them nothing: its `__init__` names what users may import, for types in a
block `if TYPE_CHECKING` and for Python in a table, and loads none of it. Above: the `__init__` of such packages. Below: the
standard library.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from smg_core.extras import with_install_line

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, places: Mapping[str, tuple[str, ...]]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """The `__all__`, `__getattr__` and `__dir__` of a package. `places` maps its modules, named in full, to the names that the
    package takes from each."""
    module_of = {name: module for module, names in places.items() for name in names}

    def load(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            raise with_install_line(f"{package}.{name}", error) from error
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    in_order = sorted(module_of, key=lambda name: (not name.isupper(), not name[:1].isupper(), name))
    return in_order, load, names
