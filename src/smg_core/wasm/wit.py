"""Types of the component model as text, to compare those of a component with those of a world.

Pure. Above: `worlds`. Below: nothing.
"""

from collections.abc import Mapping

__all__ = ["enum", "list_of", "option_of", "record", "result", "variant"]


def list_of(element: str) -> str:
    """A list."""
    return f"list<{element}>"


def option_of(inner: str) -> str:
    """An option."""
    return f"option<{inner}>"


def record(fields: Mapping[str, str]) -> str:
    """A record."""
    return "record{" + ", ".join(f"{name}: {each}" for name, each in fields.items()) + "}"


def enum(*cases: str) -> str:
    """An enum."""
    return "enum{" + ", ".join(cases) + "}"


def variant(cases: Mapping[str, str | None]) -> str:
    """A variant; a case without payload has None."""
    return "variant{" + ", ".join(n if each is None else f"{n}({each})" for n, each in cases.items()) + "}"


def result(good: str | None, bad: str | None) -> str:
    """A result."""
    return f"result<{good or '_'}, {bad or '_'}>"
