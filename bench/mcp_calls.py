"""What smg_mcp costs beside the mcp package's own client, and how fast tools are found.

    python bench/mcp_calls.py [--calls N] [--rounds N]

Servers are real: a child process over stdio and an HTTP server in another process. Times of one call are medians of rounds in
which the package's own client and ours take turns, so that both see the same machine.
"""

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from smg_mcp import Bm25Index, McpTool, McpTools

SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]), json_response=True)
else:
    server.run("stdio")
"""
ARGUMENTS = {"a": 1, "b": 2}
Call = Callable[[], Awaitable[object]]


async def seconds(call: Call, times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        await call()
    return (time.perf_counter() - begun) / times


async def taking_turns(theirs: Call, ours: Call, calls: int, rounds: int) -> tuple[float, float]:
    pairs = [(await seconds(theirs, calls), await seconds(ours, calls)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


async def compare(name: str, client: Client, server: dict[str, object], calls: int, rounds: int) -> None:
    async with client, McpTools.from_config({"servers": [{"name": "bench", **server}]}) as tools:
        await client.list_tools()

        async def ours() -> object:
            return await tools.call("bench.add", ARGUMENTS)

        async def theirs() -> object:
            return await client.call_tool("add", ARGUMENTS)

        await taking_turns(theirs, ours, 5, 1)
        one, two = await taking_turns(theirs, ours, calls, rounds)
        print(
            f"{name}: the package's call {one * 1e3:.2f} ms, pooled {two * 1e3:.2f} ms, ratio {two / one:.2f} (goal 1.5)"
        )
        begun = time.perf_counter()
        await asyncio.gather(*(ours() for _ in range(100)))
        print(
            f"{name}: 100 calls at once in {(time.perf_counter() - begun) * 1e3:.0f} ms, on {len(tools.pool)} session"
        )


def many_tools(count: int) -> list[McpTool]:
    verbs, nouns = (
        ("list", "create", "delete", "update", "search"),
        ("file", "branch", "issue", "page", "event", "user", "row"),
    )
    tools = []
    for number in range(count):
        verb, noun = verbs[number % len(verbs)], nouns[number % len(nouns)]
        schema = {"type": "object", "properties": {f"{noun}_id": {"description": f"Which {noun}."}, "limit": {}}}
        text = (
            f"{verb.title()} one or more {noun}s of the service {number}, and return what is known about each {noun}."
        )
        tools.append(McpTool(f"{verb}_{noun}_{number}", f"service{number % 50}", f"{verb}_{noun}", text, schema))
    return tools


def search(count: int) -> None:
    begun = time.perf_counter()
    index = Bm25Index(many_tools(count))
    built = time.perf_counter() - begun
    times = []
    for query in (
        "delete a branch",
        "search events of service 17",
        "what is known about each user",
        "update row limit",
    ) * 25:
        begun = time.perf_counter()
        index.search(query, 10)
        times.append(time.perf_counter() - begun)
    median, worst = statistics.median(times) * 1e3, max(times) * 1e3
    print(
        f"search in {count} tools: median {median:.2f} ms, worst {worst:.2f} ms (goal 2); index built in {built * 1e3:.0f} ms"
    )


async def main(calls: int, rounds: int) -> None:
    search(1000)
    command = [sys.executable, "-c", SERVER]
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    server: dict[str, object] = {"protocol": "stdio", "command": command[0], "args": command[1:]}
    await compare("stdio", Client(parameters), server, calls, rounds)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except OSError:
                await asyncio.sleep(0.05)
        writer.close()
        url = f"http://127.0.0.1:{port}/mcp"
        await compare("Streamable HTTP", Client(url), {"protocol": "streamable", "url": url}, calls, rounds)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=50, help="calls of one round")
    parser.add_argument("--rounds", type=int, default=9, help="rounds")
    told = parser.parse_args()
    asyncio.run(main(told.calls, told.rounds))
