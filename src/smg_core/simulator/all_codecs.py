"""Every dialect that the embedded engine speaks, on one port. Pure. Above: simulator.server. Below: the dialects' codecs."""

from collections.abc import Collection

from smg_core.simulator.media import ReadShared
from smg_core.simulator.mlx_codec import MlxServerCodec
from smg_core.simulator.neutral_codec import NeutralServerCodec
from smg_core.simulator.server_codec import ServerCodec
from smg_core.simulator.sglang_codec import SglangServerCodec
from smg_core.simulator.tokenspeed_codec import TokenSpeedServerCodec
from smg_core.simulator.trtllm_codec import TrtllmServerCodec
from smg_core.simulator.vllm_codec import VllmServerCodec

__all__ = ["server_codecs"]


def server_codecs(*, rust: bool, shared: ReadShared, only: Collection[str] = ()) -> tuple[ServerCodec, ...]:
    """A codec for each dialect of `only` (empty: of all); with `rust`, vLLM's has the habits of its Rust servicer. `shared` reads
    tensors from shared memory. Raises ValueError for a dialect that there is not."""
    codecs: dict[str, ServerCodec] = {
        "vllm": VllmServerCodec(rust=rust, shared=shared),
        "neutral": NeutralServerCodec(),
        "mlx": MlxServerCodec(),
        "sglang": SglangServerCodec(),
        "trtllm": TrtllmServerCodec(),
        "tokenspeed": TokenSpeedServerCodec(),
    }
    if unknown := set(only) - codecs.keys():
        raise ValueError(f"no dialect {', '.join(sorted(unknown))}; there are {', '.join(codecs)}")
    return tuple(codec for name, codec in codecs.items() if not only or name in only)
