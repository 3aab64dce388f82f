"""A check in Python that an installed package or a module has (edge).

A source is MODULE:ATTRIBUTE, or the name of an entry point of the group `smg.guardrails`. Above: `rows`. Below: nothing.
"""

import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, cast

from msgspec import Struct

from smg_core.guardrails.records import GuardCheck
from smg_core.settings import ConfigError

__all__ = ["GUARD_POINTS", "PythonConfig", "python_check"]

GUARD_POINTS = "smg.guardrails"
"""The group of entry points by whose names installed packages offer checks."""


class PythonConfig(Struct, forbid_unknown_fields=True):
    """`source` names a function, or a class whose instances can be called; `settings` are the arguments of the class."""

    source: str
    settings: Mapping[str, Any] = {}


def python_check(config: PythonConfig) -> GuardCheck:
    """The check. Raises ConfigError, and what importing or making it raises."""
    module, colon, attribute = config.source.partition(":")
    if colon:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    else:
        installed = {point.name: point for point in entry_points(group=GUARD_POINTS)}
        if config.source not in installed:
            names = ", ".join(sorted(installed)) or "none"
            raise ConfigError(
                f"source: neither MODULE:ATTRIBUTE, nor an entry point of the group {GUARD_POINTS} (there are: {names})"
            )
        found = installed[config.source].load()
    if isinstance(found, type):
        found = found(**config.settings)
    elif config.settings:
        raise ConfigError("settings: a function takes none; name a class")
    if not callable(found):
        raise ConfigError(f"source: {type(found).__name__} cannot be called")
    return cast("GuardCheck", found)
