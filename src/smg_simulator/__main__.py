"""`python -m smg_simulator` (edge): the embedded engine alone, on a port. `smg-gateway simulate` is the same with every
option."""

import argparse
import asyncio

from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.running import run_simulator

__all__: list[str] = []


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m smg_simulator", description="An engine without a model.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=50051, help="0 takes any that is free")
    parser.add_argument("--unix", default="", help="listen on this socket instead")
    parser.add_argument("--model", default="sim", help="the name it serves")
    parser.add_argument("--model-folder", default="", help="tokenizer and template; the shipped ones if not given")
    parser.add_argument(
        "--prefill-rate", type=float, default=None, help="prompt tokens a second, all requests together"
    )
    parser.add_argument("--decode-rate", type=float, default=None, help="tokens a second of one request")
    parser.add_argument("--batch", type=int, default=256, help="requests that run at once")
    parser.add_argument("--tokens-per-step", type=int, default=1, help="tokens in one message")
    parser.add_argument("--reply-tokens", type=int, default=None, help="the least a reply has")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    config = SimulatorConfig(
        model=flags.model,
        model_folder=flags.model_folder,
        reply_tokens=flags.reply_tokens,
        seed=flags.seed,
        timing=Timing(flags.prefill_rate, flags.decode_rate, flags.batch, tokens_per_step=flags.tokens_per_step),
    )
    listen = f"unix://{flags.unix}" if flags.unix else f"{flags.host}:{flags.port}"
    asyncio.run(run_simulator(config, listen, ready=_announce))


def _announce(engine: SimulatedEngine) -> None:
    print(f"ready {engine.target} {engine.model_folder}", flush=True)


if __name__ == "__main__":
    _main()
