"""Every dialect that the embedded engine speaks, on one port. Pure. Above: server.grpc_server. Below: the dialects' codecs."""

from collections.abc import Collection

from smg_simulator.codecs.base import ServerCodec
from smg_simulator.codecs.mlx import MlxServerCodec
from smg_simulator.codecs.neutral import NeutralServerCodec
from smg_simulator.codecs.sglang import SglangServerCodec
from smg_simulator.codecs.tokenspeed import TokenSpeedServerCodec
from smg_simulator.codecs.trtllm import TrtllmServerCodec
from smg_simulator.codecs.vllm import VllmServerCodec
from smg_simulator.engine.media import ReadShared

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
