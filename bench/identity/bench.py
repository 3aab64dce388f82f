"""What it costs to find the caller of a request: nobody asked, a key of the settings, a virtual key in use, one that is read.

Usage: python bench/identity/bench.py [--repeat N] [--keys N]. Prints the least CPU time of N runs in microseconds, which on a
busy machine is the figure least wrong. The head is as openai's SDK sends it; what an exchange costs without identity is left out.
"""

import argparse
import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from smg_core.auth.settings import AuthConfig
from smg_core.clock import SystemClock
from smg_core.config import Config
from smg_core.history.memory.store import MemoryStore
from smg_core.http.exchange import Exchange
from smg_core.identity.identity import open_identity, permitted
from smg_core.identity.virtual_keys import VirtualKeys

HEADERS = {
    "host": "gateway.example",
    "accept": "application/json",
    "accept-encoding": "gzip, deflate",
    "connection": "keep-alive",
    "content-type": "application/json",
    "content-length": "312",
    "user-agent": "AsyncOpenAI/Python 2.9.0",
    "x-stainless-lang": "python",
    "x-stainless-os": "Linux",
    "x-stainless-arch": "x64",
    "x-stainless-retry-count": "0",
}
ROUND = 500
STATIC = "sk-static-{:08}-0123456789"


def exchange(key: str) -> Exchange:
    """A request with this key."""
    headers = [(name.encode(), value.encode()) for name, value in {**HEADERS, "authorization": f"Bearer {key}"}.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": headers,
        "client": ("10.0.0.1", 50000),
    }

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    return Exchange(scope, nothing, nothing)  # type: ignore[arg-type]


async def measure(name: str, call: Callable[[], Awaitable[object]], repeat: int) -> None:
    best = float("inf")
    for _ in range(repeat):
        began = time.thread_time()
        for _ in range(ROUND):
            await call()
        best = min(best, (time.thread_time() - began) / ROUND)
    print(f"{name:<52} {best * 1e6:8.2f} us")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--keys", type=int, default=1_000, help="keys that there are of each kind")
    args = parser.parse_args()
    clock = SystemClock()
    store = MemoryStore(clock, most_bytes=1 << 28, most_links=10, most_link_bytes=1 << 20, most_page_bytes=1 << 20)
    static = tuple(f"{STATIC.format(number)} tenant=t{number}" for number in range(args.keys))
    auth = AuthConfig(keys=static, virtual_keys=True, key_fresh_s=1.0)

    async with AsyncExitStack() as stack:
        identify, _ = await open_identity(Config(), clock, stack, store)
        sent = exchange("-")
        await measure("nobody is asked", lambda: permitted(identify, sent, "chat"), args.repeat)
    async with AsyncExitStack() as stack:
        identify, keys = await open_identity(Config(auth=auth), clock, stack, store)
        assert isinstance(keys, VirtualKeys)
        made = [(await keys.create(tenant="acme")).text for _ in range(args.keys)]
        sent = exchange(STATIC.format(args.keys // 2))
        await measure("a key of the settings", lambda: permitted(identify, sent, "chat"), args.repeat)
        sent_virtual = exchange(made[args.keys // 2])
        await measure("a virtual key in use", lambda: permitted(identify, sent_virtual, "chat"), args.repeat)
        cold = itertools.cycle([exchange(text) for text in made])

        async def read() -> object:
            keys._remembered.clear()
            return await permitted(identify, next(cold), "chat")

        await measure("a virtual key that is read (store in memory)", read, args.repeat)


if __name__ == "__main__":
    asyncio.run(main())
