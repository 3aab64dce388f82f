"""A fleet of H100s behind one gateway, assembled from the packages: vLLM and SGLang, mixed and as prefill and decode pools.

    pip install -e '.[server,vision,mcp,plugins]' mcp-server-time
    python examples/fleet/fleet_gateway.py --simulated    # here, without a GPU: asks one question of each kind, and ends
    python examples/fleet/fleet_gateway.py                # before the engines that fleet.yaml starts; serves on port 8000

`fleet.yaml` is the same as one file: `smg-gateway up examples/fleet/fleet.yaml`. docs/fleet.md has the flags of engines by model.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn

from smg_core import Gateway, WorkerSpec
from smg_core.admin.metrics.meter import Meter, metrics_bytes
from smg_core.admin.metrics.serving import metrics_app
from smg_core.clock import SystemClock
from smg_core.config import ConfigError, config_of
from smg_core.history import open_store
from smg_core.routing import CacheAware, LeastLoad

HERE = Path(__file__).parent
CHAT, LONG, EYES = "gpt-oss-120b", "qwen3-32b", "qwen2.5-vl-72b"
WORKERS = [  # URL, name, model, dialect, what it does of a request, where it publishes its KV events
    ("grpc://127.0.0.1:50051", "vllm-0", CHAT, "vllm", "", "tcp://127.0.0.1:5557"),
    ("grpc://127.0.0.1:50052", "sglang-0", CHAT, "sglang", "", ""),  # its KV events come over gRPC
    ("grpc://127.0.0.1:50053", "vllm-prefill-0", LONG, "vllm", "prefill", "tcp://127.0.0.1:5558"),
    ("grpc://127.0.0.1:50054", "vllm-decode-0", LONG, "vllm", "decode", ""),
    ("grpc://127.0.0.1:50055", "sglang-prefill-0", LONG, "sglang", "prefill", ""),
    ("grpc://127.0.0.1:50056", "sglang-decode-0", LONG, "sglang", "decode", ""),
    ("grpc://127.0.0.1:50057", "vllm-eyes-0", EYES, "vllm", "", "tcp://127.0.0.1:5559"),
]
HISTORY = f"sqlite:///{HERE}/fleet.db"
KEY = "sk-fleet-0123456789abcdef"  # of the example alone: yours are hashes in a file, auth.keys_file
SETTINGS: dict[str, Any] = {
    "auth": {"keys": [f"{KEY} tenant=acme principal=ada role=user"]},
    "tokenizer": {"l1_bytes": 256 << 20},  # beginnings of prompts
    "model": {"parsers": [f"{CHAT}=auto"], "aliases": [f"gpt-4o={CHAT}"]},
    "limits": {
        "rules": ["6000 requests/minute per=key", "40_000_000 tokens/minute per=tenant,model", "512 at-once per=key"]
    },
    "mcp": {"config": str(HERE / "mcp.yaml")},
    "metrics": {"port": 9090},
}


def gpu_price(gpu: str, hours: float = 1.0) -> str:
    """What so many hours of a GPU, h100 or h200, cost."""
    return f"{ {'h100': 2.5, 'h200': 3.5}[gpu.lower()] * hours:.2f} USD"


def workers() -> list[WorkerSpec]:
    """The engines that fleet.yaml starts."""
    return [
        WorkerSpec(url, name=name, model=model, dialect=dialect, role=part or None, kv_events=events)  # type: ignore[arg-type]
        for url, name, model, dialect, part, events in WORKERS
    ]


@contextlib.asynccontextmanager
async def simulated(folder: Path) -> AsyncIterator[list[WorkerSpec]]:
    """Engines without a model in the place of the same workers."""
    from h100 import engine, model_with_pictures

    from smg_simulator import MODEL_FOLDER, SimulatedEngine

    eyes, found = model_with_pictures(folder / "eyes"), []
    async with contextlib.AsyncExitStack() as stack:
        for _, name, model, dialect, part, _ in WORKERS:
            config = engine(model, dialect, part, eyes if model == EYES else str(MODEL_FOLDER))
            started = await stack.enter_async_context(SimulatedEngine(config, listen=f"unix://{folder}/{name}.sock"))
            found.append(WorkerSpec(started.target, name=name, model=model, dialect=dialect, role=part or None))  # type: ignore[arg-type]
        yield found


async def main(options: argparse.Namespace) -> None:
    os.environ.setdefault("FLEET_PYTHON", sys.executable)
    config = config_of(SETTINGS)
    meter = Meter(config.metrics, SystemClock(), memoryview(bytearray(metrics_bytes(config.metrics, 1))))
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gateway = Gateway(
            await stack.enter_async_context(simulated(folder)) if options.simulated else workers(),
            config=config,
            policy=CacheAware,  # a new one for each model and role
            policies={"*/decode": LeastLoad},
            history=await stack.enter_async_context(open_store("memory:" if options.simulated else HISTORY)),
            tools=[gpu_price],
            middleware=[str(HERE.parent / "plugins" / "redaction" / "redact_numbers.wasm")],
            observer=meter.recorder,
        )
        await stack.enter_async_context(gateway)
        await stack.enter_async_context(meter.gathering())
        apps = {8000: gateway.asgi(), config.metrics.port: metrics_app(gateway, meter, config)}
        if options.simulated:
            from tour import tour

            await tour(gateway, apps[config.metrics.port], KEY)
            return
        servers = [uvicorn.Server(uvicorn.Config(app, port=port, lifespan="off")) for port, app in apps.items() if port]
        await asyncio.gather(*(server.serve() for server in servers))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", action="store_true", help="engines without a model in the place of the GPUs")
    try:
        asyncio.run(main(parser.parse_args()))
    except (ConfigError, ModuleNotFoundError) as error:
        sys.exit(str(error))
