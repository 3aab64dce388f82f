"""The table of engine dialects, each loaded when it is first used.

A row has factories, so that naming a dialect imports no protobuf and no numpy. An installed package can add a row (`Dialect`)
through the entry point group `smg.engines`. Pure. Above: server.reaching, which tries the dialects on an engine.
"""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

import attrs

from smg_core.engines.base import Codec, MediaPacking

__all__ = ["AUTO", "DIALECTS", "Dialect", "UnknownDialect", "dialect", "dialect_names"]

AUTO = "auto"
"""The setting that means: ask each engine when it joins, in the order of `dialect_names()`."""


@attrs.frozen
class Dialect:
    """One row: `codec` makes the dialect's `Codec`, `packing` its `MediaPacking` (None: the dialect carries no media)."""

    codec: Callable[[], Codec]
    packing: Callable[[], MediaPacking] | None = None


class UnknownDialect(LookupError):
    """No dialect has that name; the message lists those that exist."""


def _vllm() -> Codec:
    from smg_core.engines.vllm.codec import VllmCodec

    return VllmCodec()


def _vllm_packing() -> MediaPacking:
    from smg_core.engines.vllm.packing import VllmPacking

    return VllmPacking()


def _neutral() -> Codec:
    from smg_core.engines.neutral.codec import NeutralCodec

    return NeutralCodec()


def _neutral_packing() -> MediaPacking:
    from smg_core.engines.neutral.packing import NeutralPacking

    return NeutralPacking()


def _mlx() -> Codec:
    from smg_core.engines.mlx.codec import MlxCodec

    return MlxCodec()


def _sglang() -> Codec:
    from smg_core.engines.sglang.codec import SglangCodec

    return SglangCodec()


def _sglang_packing() -> MediaPacking:
    from smg_core.engines.sglang.packing import SglangPacking

    return SglangPacking()


def _trtllm() -> Codec:
    from smg_core.engines.trtllm.codec import TrtllmCodec

    return TrtllmCodec()


def _trtllm_packing() -> MediaPacking:
    from smg_core.engines.trtllm.packing import TrtllmPacking

    return TrtllmPacking()


def _tokenspeed() -> Codec:
    from smg_core.engines.tokenspeed.codec import TokenSpeedCodec

    return TokenSpeedCodec()


def _tokenspeed_packing() -> MediaPacking:
    from smg_core.engines.tokenspeed.packing import TokenSpeedPacking

    return TokenSpeedPacking()


DIALECTS: dict[str, Dialect] = {
    "vllm": Dialect(_vllm, _vllm_packing),
    "neutral": Dialect(_neutral, _neutral_packing),
    "mlx": Dialect(_mlx),
    "sglang": Dialect(_sglang, _sglang_packing),
    "trtllm": Dialect(_trtllm, _trtllm_packing),
    "tokenspeed": Dialect(_tokenspeed, _tokenspeed_packing),
}
"""The built-in dialects, in the order in which an engine of unknown dialect is asked."""


def dialect_names() -> tuple[str, ...]:
    """The names of all dialects, in the order in which an engine of unknown dialect is asked: the built-in ones, then the
    installed ones by name."""
    return (*DIALECTS, *sorted(set(_installed()) - set(DIALECTS)))


def dialect(name: str) -> Dialect:
    """The row called `name`; built-in ones cannot be replaced. Raises UnknownDialect."""
    if name in DIALECTS:
        return DIALECTS[name]
    installed = _installed()
    if name not in installed:
        raise UnknownDialect(f"no engine dialect {name!r}; there are {', '.join((AUTO, *dialect_names()))}")
    row = installed[name].load()
    if not isinstance(row, Dialect):
        raise UnknownDialect(f"the entry point {name!r} of smg.engines is no smg_core.engines.dialects.Dialect")
    return row


def _installed() -> Mapping[str, EntryPoint]:
    return _found_on(tuple(sys.path))


@lru_cache(maxsize=1)
def _found_on(path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """The entry points of the packages on `path` (`sys.path`). Looked up once for a path: it reads a file of every package that
    is installed, which takes tens of milliseconds, and a connection to an engine must not wait for that."""
    return {entry.name: entry for entry in entry_points(group="smg.engines")}
