"""`smg-gateway demo`: starts a simulated engine and a gateway, and streams one answer to the terminal (edge).

Only the model is simulated: the engine is called over gRPC, the gateway over HTTP, by a plain client that reads server-sent
events. Above: flags. Below: gateway.gateway, server.tls_accept.
"""

import argparse
import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn

from smg_core.gateway.gateway import Gateway
from smg_core.server.tls_accept import send_at_once
from smg_core.settings import number_flag
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig

__all__ = ["demo_flags"]

_PORT = number_flag(int, 0, 65535)

CALL = """
From Python:    client = openai.OpenAI(base_url="{base}", api_key="-")
                client.chat.completions.create(model="{model}", messages=[{{"role": "user", "content": "Hello"}}])
From a shell:   curl {base}/chat/completions -H 'content-type: application/json' \\
                  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
Real engines:   {program} serve --worker grpc://HOST:PORT
                (vLLM with its gRPC server; --tokenizer FOLDER where the engine does not hand its own over)
"""
LATER_PORT = 8000


def demo_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway demo`."""
    parser.set_defaults(run=_demo)
    parser.add_argument("--prompt", default="What does a gateway do?", help="what to ask")
    parser.add_argument(
        "--port",
        type=_PORT,
        default=0,
        help="port of the gateway; 0 (the default) takes a free one",
    )
    parser.add_argument("--serve", action="store_true", help="keep serving until interrupted")


def _demo(args: argparse.Namespace) -> int:
    try:
        return asyncio.run(_show(args.prompt, args.port, args.serve))
    except OSError as error:
        print(f"smg-gateway: cannot listen on port {args.port}: {error.strerror or error}", file=sys.stderr)
        return 1


async def _show(prompt: str, port: int, keep_serving: bool) -> int:
    """Show one streamed chat completion and what to do next; with `keep_serving`, serve until interrupted."""
    engine = SimulatorConfig(timing=Timing(prefill_rate=2000, decode_rate=40))
    async with Gateway.simulated(engine) as gateway, _served(gateway, port) as (server, base):
        async with httpx.AsyncClient(base_url=base, timeout=60) as client:
            model = (await client.get("/models")).raise_for_status().json()["data"][0]["id"]
            print(
                f"engine   {gateway.engines[0].target}  (no GPU, no weights, real gRPC)\ngateway  {base}\n\n> {prompt}\n"
            )
            await _stream(client, model, prompt)
        program = sys.argv[0] if sys.argv[0].endswith("smg-gateway") else "python -m smg_core"
        if keep_serving:
            print(CALL.format(base=base, model=model, program=program) + "\nServing until Ctrl-C.", flush=True)
            await server
        else:
            print(f"This gateway stops now. To keep one: {program} demo --serve --port {LATER_PORT}, and then")
            print(CALL.format(base=f"http://127.0.0.1:{LATER_PORT}/v1", model=model, program=program), end="")
    return 0


@asynccontextmanager
async def _served(gateway: Gateway, port: int) -> AsyncIterator[tuple["asyncio.Task[None]", str]]:
    """The gateway behind an HTTP server; the server's task and the base URL of the API."""
    listener = socket.create_server(("127.0.0.1", port))
    send_at_once(listener)
    server = uvicorn.Server(uvicorn.Config(gateway.asgi(), log_level="warning", lifespan="off", ws="none"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield task, f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task
        listener.close()


async def _stream(client: httpx.AsyncClient, model: str, prompt: str) -> None:
    """Ask, and print each piece of the answer when it arrives."""
    asked = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 80,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    usage: dict[str, int] = {}
    async with client.stream("POST", "/chat/completions", json=asked) as response:
        if response.is_error:
            await response.aread()
        response.raise_for_status()
        async for line in response.aiter_lines():
            data = line.removeprefix("data: ")
            if data and data != "[DONE]":
                chunk = json.loads(data)
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"]:
                    sys.stdout.write(choice["delta"].get("content") or "")
                    sys.stdout.flush()
    counts = f"{usage.get('prompt_tokens')} tokens in, {usage.get('completion_tokens')} out"
    print(f"\n\n({counts}, each sent as it came)")
