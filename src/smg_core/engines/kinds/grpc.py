"""The kinds of engines that take token ids over gRPC: one row a dialect.

A row has factories, so that reading the table imports no protobuf, no numpy and no transport. An installed package makes its row
by `grpc_kind`. Pure. Above: table.
"""

from collections.abc import Callable
from importlib.util import find_spec

from smg_core.engines.base import Codec, MediaPacking, Transport
from smg_core.engines.connections.target import GRPC_SCHEMES, Target
from smg_core.engines.kinds.kind import EngineKind, EnginePlace
from smg_core.extras import needs, with_install_line

__all__ = ["GRPC_KINDS", "grpc_kind"]

_GRPCIO = "grpcio"
_NAMED = "the library grpcio"


def grpc_kind(name: str, codec: Callable[[], Codec], packing: Callable[[], MediaPacking] | None = None) -> EngineKind:
    """The row of a dialect over gRPC. An engine that names no kind is asked whether it speaks it."""
    return EngineKind(
        name, GRPC_SCHEMES, codec=codec, transport=_transport, check=_check, packing=packing, unnamed="asked"
    )


def _target(place: EnginePlace) -> Target:
    return Target.parse(place.url, tls=place.tls or place.usual_tls)


def _check(place: EnginePlace) -> None:
    _target(place)
    if place.library == _GRPCIO and find_spec("grpc") is None:
        raise ValueError(needs(_NAMED, "grpc"))


def _transport(place: EnginePlace) -> Transport:
    target = _target(place)
    transport: Transport
    if place.library == _GRPCIO:
        try:
            from smg_core.engines.grpc.grpcio import GrpcioTransport
        except ModuleNotFoundError as error:
            raise with_install_line(_NAMED, error) from None
        transport = GrpcioTransport(
            target,
            limits=place.limits,
            connect_timeout=place.connect_timeout,
            channel=place.channel,
            interceptors=place.interceptors,
        )
    else:
        from smg_core.engines.grpc.h2.transport import H2Transport

        transport = H2Transport(target, limits=place.limits, connect_timeout=place.connect_timeout)
    if not place.headers:
        return transport
    from smg_core.engines.grpc.credentials import WithHeaders

    return WithHeaders(transport, place.headers)


def _vllm() -> Codec:
    from smg_core.engines.codecs.vllm.codec import VllmCodec

    return VllmCodec()


def _vllm_packing() -> MediaPacking:
    from smg_core.engines.codecs.vllm.packing import VllmPacking

    return VllmPacking()


def _neutral() -> Codec:
    from smg_core.engines.codecs.neutral.codec import NeutralCodec

    return NeutralCodec()


def _neutral_packing() -> MediaPacking:
    from smg_core.engines.codecs.neutral.packing import NeutralPacking

    return NeutralPacking()


def _mlx() -> Codec:
    from smg_core.engines.codecs.mlx.codec import MlxCodec

    return MlxCodec()


def _sglang() -> Codec:
    from smg_core.engines.codecs.sglang.codec import SglangCodec

    return SglangCodec()


def _sglang_packing() -> MediaPacking:
    from smg_core.engines.codecs.sglang.packing import SglangPacking

    return SglangPacking()


def _trtllm() -> Codec:
    from smg_core.engines.codecs.trtllm.codec import TrtllmCodec

    return TrtllmCodec()


def _trtllm_packing() -> MediaPacking:
    from smg_core.engines.codecs.trtllm.packing import TrtllmPacking

    return TrtllmPacking()


def _tokenspeed() -> Codec:
    from smg_core.engines.codecs.tokenspeed.codec import TokenSpeedCodec

    return TokenSpeedCodec()


def _tokenspeed_packing() -> MediaPacking:
    from smg_core.engines.codecs.tokenspeed.packing import TokenSpeedPacking

    return TokenSpeedPacking()


GRPC_KINDS: tuple[EngineKind, ...] = (
    grpc_kind("vllm", _vllm, _vllm_packing),
    grpc_kind("neutral", _neutral, _neutral_packing),
    grpc_kind("mlx", _mlx),
    grpc_kind("sglang", _sglang, _sglang_packing),
    grpc_kind("trtllm", _trtllm, _trtllm_packing),
    grpc_kind("tokenspeed", _tokenspeed, _tokenspeed_packing),
)
"""The built-in dialects over gRPC, in the order in which an engine that names no kind is asked."""
