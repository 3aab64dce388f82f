"""A kind of engines: a row of the table, and the place that an engine of it is opened at. Pure.

Above: `grpc` and `http` have the built-in rows, `table` finds the row of a worker, `opening` opens its engine.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs

from smg_core.engines.base import Codec, Engine, MediaPacking, Transport
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.engines.settings import EnginesConfig

__all__ = ["AUTO", "EngineKind", "EnginePlace"]

AUTO = "auto"
"""What names no kind: which one it is follows from the URL, or from what the engine answers."""

_DEFAULTS = EnginesConfig()


@attrs.frozen
class EnginePlace:
    """The place of one engine, and the operator's settings for it.

    `kind` is what the worker calls its kind, and `usual_kind` what the settings say for workers that name none. `tls` are the
    worker's own certificates, `usual_tls` those of the settings. `model` is what the operator calls its model, "" where they do
    not: of a server of several it is the one of that name. `credential`, `region`, `vendor_model` (what it calls the model)
    and `api_version` are those of an outside provider. `library`: what carries gRPC. `label` names the worker in messages.
    `channel` and `interceptors` are a program's own of grpc.aio, for the library grpcio.
    """

    url: str
    kind: str = AUTO
    usual_kind: str = AUTO
    label: str = ""
    role: str | None = None
    model: str = ""
    headers: Sequence[tuple[str, str]] = attrs.field(default=(), repr=False)
    tls: Tls | None = None
    usual_tls: Tls | None = None
    limits: EnginesConfig = _DEFAULTS
    connect_timeout: float = 5.0
    credential: CredentialSpec | None = None
    region: str = ""
    vendor_model: str = ""
    api_version: str = ""
    library: Literal["h2", "grpcio"] = "h2"
    channel: Any = None
    interceptors: tuple[Any, ...] = ()

    @property
    def scheme(self) -> str:
        """The scheme of the URL, "" without one."""
        scheme, mark, _ = self.url.partition("://")
        return scheme.lower() if mark else ""

    @property
    def named(self) -> str:
        """The kind that is named, by the worker or else by the settings."""
        return self.usual_kind if self.kind == AUTO else self.kind


def _accept(place: EnginePlace) -> None:
    """There is nothing to check."""


@attrs.frozen
class EngineKind:
    """One row of the table. `name` is what workers and settings call it (`dialect`), `schemes` are those of its URLs.

    It is opened by `open`, or is a `codec` on a `transport`; neither connects before the engine is asked something. `check`
    raises ValueError for what cannot be such an engine. `packing` makes what packs media for a codec; without it, media are
    refused. `unnamed` says what becomes of a worker of these schemes that names no kind: it is "assumed" to be of this one; or
    it is "asked" in this codec, after those before it in the table, over one connection; or "never": this one has to be named.
    """

    name: str
    schemes: tuple[str, ...]
    open: Callable[[EnginePlace], Engine] | None = None
    codec: Callable[[], Codec] | None = None
    transport: Callable[[EnginePlace], Transport] | None = None
    check: Callable[[EnginePlace], None] = _accept
    packing: Callable[[], MediaPacking] | None = None
    unnamed: Literal["assumed", "asked", "never"] = "assumed"

    def __attrs_post_init__(self) -> None:
        if (self.codec is None) != (self.transport is None) or (self.codec is None) == (self.open is None):
            raise ValueError(f"the kind {self.name!r} has either `open`, or `codec` and `transport`")
        if self.unnamed == "asked" and self.codec is None:
            raise ValueError(f"the kind {self.name!r} has no codec to ask an engine in")
