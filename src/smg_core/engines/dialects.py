"""The engine dialects by name, each made at first use.

A row is a factory, so that naming a dialect imports no protobuf. Third parties add theirs through the entry point group
`smg.engines`. Pure: trying the dialects on an engine is the gateway's.
"""

from collections.abc import Callable
from importlib.metadata import entry_points

from smg_core.engines.base import Codec

__all__ = ["DIALECTS", "UnknownDialect", "dialect"]


class UnknownDialect(LookupError):
    """No dialect of that name, built in or installed."""


def _vllm() -> Codec:
    from smg_core.engines.vllm.codec import VllmCodec

    return VllmCodec()


def _neutral() -> Codec:
    from smg_core.engines.neutral.codec import NeutralCodec

    return NeutralCodec()


DIALECTS: dict[str, Callable[[], Codec]] = {"vllm": _vllm, "neutral": _neutral}
"""In the order in which an engine of unknown dialect is asked."""


def dialect(name: str) -> Codec:
    """The codec called `name`. Raises UnknownDialect, naming what there is."""
    if name in DIALECTS:
        return DIALECTS[name]()
    installed = {entry.name: entry for entry in entry_points(group="smg.engines")}
    if name in installed:
        factory: Callable[[], Codec] = installed[name].load()
        return factory()
    raise UnknownDialect(f"no engine dialect {name!r}; there are {', '.join(sorted({*DIALECTS, *installed}))}")
