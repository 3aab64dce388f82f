"""Every dialect that the embedded engine speaks, on one port. Pure. Above: simulator.server. Below: the dialects' codecs."""

from smg_core.simulator.media import ReadShared
from smg_core.simulator.mlx_codec import MlxServerCodec
from smg_core.simulator.neutral_codec import NeutralServerCodec
from smg_core.simulator.server_codec import ServerCodec
from smg_core.simulator.sglang_codec import SglangServerCodec
from smg_core.simulator.tokenspeed_codec import TokenSpeedServerCodec
from smg_core.simulator.trtllm_codec import TrtllmServerCodec
from smg_core.simulator.vllm_codec import VllmServerCodec

__all__ = ["server_codecs"]


def server_codecs(*, rust: bool, shared: ReadShared) -> tuple[ServerCodec, ...]:
    """A codec for each dialect; with `rust`, vLLM's has the habits of its Rust servicer. `shared` reads tensors from shared
    memory."""
    return (
        VllmServerCodec(rust=rust, shared=shared),
        NeutralServerCodec(),
        MlxServerCodec(),
        SglangServerCodec(),
        TrtllmServerCodec(),
        TokenSpeedServerCodec(),
    )
