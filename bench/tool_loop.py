"""What a response of five turns with tools in between costs the gateway, beside five plain responses with the same prompts.

    python bench/tool_loop.py [--times N] [--rounds N]

The numbers are CPU milliseconds of the gateway's thread: the engine runs in a thread of its own, the server of tools in a
process of its own, and requests enter by ASGI without a client. Both kinds take turns, so that both see the same machine; medians
of rounds. Most of what the calls cost is the mcp package's client: a bare client of that package makes the same calls beside it,
and the last figure is the loop without them, which is what there is to save here.
"""

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client

from smg_core import Config, Gateway
from smg_core.config import McpConfig
from smg_mcp import McpTools
from smg_simulator import Reply, SimulatedEngine, SimulatorConfig
from smg_simulator.testing import in_thread, tool_call

SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench", log_level="ERROR")
@server.tool()
def add(a: int, b: int) -> str:
    return str(a + b)
server.run("streamable-http", port=int(sys.argv[1]), json_response=True)
"""
TURNS = 5
TOOL = {
    "type": "function",
    "name": "bench__add",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
USER = {"role": "user", "content": "Add!"}
HOSTED = {
    "model": "sim",
    "input": [USER],
    "tools": [{"type": "mcp", "server_label": "bench", "require_approval": "never"}],
}
ARGUMENTS = {"a": 1, "b": 2}
ASKS = tool_call("bench__add", ARGUMENTS)


def plain(turn: int) -> dict[str, Any]:
    """The request that the turn of this number is, where the client runs the tool."""
    items: list[Any] = [USER]
    for number in range(turn):
        called: dict[str, str] = {
            "type": "function_call",
            "call_id": f"call_{number}",
            "name": "bench__add",
            "arguments": '{"a": 1, "b": 2}',
        }
        items += [called, {"type": "function_call_output", "call_id": f"call_{number}", "output": "3"}]
    return {"model": "sim", "input": items, "tools": [TOOL]}


async def ask(app: Any, body: dict[str, Any]) -> dict[str, Any]:
    """POST /v1/responses, by ASGI."""
    data, sent = json.dumps(body).encode(), bytearray()
    messages = iter([{"type": "http.request", "body": data, "more_body": False}])

    async def receive() -> Any:
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.extend(message.get("body", b""))

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "raw_path": b"/v1/responses",
        "query_string": b"",
    }
    scope |= {"headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http"}
    scope |= {"http_version": "1.1", "asgi": {"version": "3.0"}}
    await app(scope, receive, send)
    answer: dict[str, Any] = json.loads(bytes(sent))
    if answer.get("status") != "completed":
        raise SystemExit(f"no response: {answer}")
    return answer


async def loop(app: Any, engine: SimulatedEngine) -> None:
    engine.say(*[ASKS] * (TURNS - 1), Reply("Done."))
    answer = await ask(app, HOSTED)
    ran = [item for item in answer["output"] if item["type"] == "mcp_call" and item["output"] == "3"]
    if len(ran) != TURNS - 1:
        raise SystemExit(f"the tools did not run: {answer}")


async def plain_turns(app: Any, engine: SimulatedEngine) -> None:
    engine.say(*[ASKS] * (TURNS - 1), Reply("Done."))
    for turn in range(TURNS):
        await ask(app, plain(turn))


async def cpu(work: Any, app: Any, engine: SimulatedEngine, times: int) -> float:
    begun = time.thread_time()
    for _ in range(times):
        await work(app, engine)
    return (time.thread_time() - begun) / times * 1000


async def calls_alone(path: str, url: str, times: int, rounds: int) -> tuple[float, float]:
    """The calls of one loop without a gateway, made by a bare client of the mcp package and by smg_mcp, which take turns."""

    async def seconds(call: Callable[[], Awaitable[object]]) -> float:
        begun = time.thread_time()
        for _ in range(times * (TURNS - 1)):
            await call()
        return (time.thread_time() - begun) / times * 1000

    async with McpTools.from_config(path) as tools, Client(url) as client:
        await client.list_tools()

        async def ours() -> object:
            return await tools.call("bench.add", ARGUMENTS)

        async def theirs() -> object:
            return await client.call_tool("add", ARGUMENTS)

        await ours()
        await theirs()
        pairs = [(await seconds(theirs), await seconds(ours)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


async def measure(url: str, folder: Path, times: int, rounds: int) -> None:
    file = {"servers": [{"name": "bench", "protocol": "streamable", "url": url}]}
    path = str(folder / "mcp.json")
    Path(path).write_text(json.dumps(file))
    with in_thread(SimulatedEngine(SimulatorConfig(seed=1))) as engine:
        async with Gateway([engine.target], config=Config(mcp=McpConfig(config=path))) as gateway:
            app = gateway.asgi()
            for _ in range(2):  # connections, caches and lists are there afterwards
                await loop(app, engine)
                await plain_turns(app, engine)
            pairs = [
                (await cpu(loop, app, engine, times), await cpu(plain_turns, app, engine, times)) for _ in range(rounds)
            ]
    package, alone = await calls_alone(path, url, times, rounds)
    with_tools = statistics.median(pair[0] for pair in pairs)
    without = statistics.median(pair[1] for pair in pairs)
    ratio = statistics.median(pair[0] / pair[1] for pair in pairs)
    print(f"{TURNS - 1} calls by the mcp package: {package:.2f} ms; by smg_mcp: {alone:.2f} ms, {alone / package:.2f}x")
    print(
        f"{TURNS} turns with {TURNS - 1} calls here: {with_tools:.2f} ms; {TURNS} plain responses: {without:.2f} ms; "
        f"{ratio:.2f}x; without the package's own calls {(with_tools - package) / without:.2f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="loops of each kind in a round")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)])
    try:
        while server.poll() is None:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        with tempfile.TemporaryDirectory() as folder:
            url = f"http://127.0.0.1:{port}/mcp"
            asyncio.run(measure(url, Path(folder), arguments.times, arguments.rounds))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
