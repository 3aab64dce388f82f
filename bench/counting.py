"""What count_tokens costs: a prompt of about 8,000 tokens that is new, the same one again, and the dummy that clients ask for.

    python bench/counting.py
    python bench/counting.py --tokenizer FOLDER --tokens 8000 --rounds 200
    python bench/counting.py --url http://127.0.0.1:8000         a gateway that runs that serves the model "sim", over HTTP

Calls the gateway's app with requests as a server passes them on, without a socket. Printed are the medians of CPU time, of all
threads of this process, which holds the simulated engine too, and of the time that passed; over HTTP of the latter alone, from
one connection.
"""

import argparse
import asyncio
import http.client
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from smg_core import Config, Gateway
from smg_core.config import TokenizerConfig

SYLLABLES = [consonant + vowel for consonant in "bcdfghklmnprst" for vowel in "aeiou"]
PATH = "/v1/messages/count_tokens"
DISTINCT = 5000
"""Different words that the texts are drawn from."""


def body(text: str) -> bytes:
    return json.dumps({"model": "sim", "messages": [{"role": "user", "content": text}], "tools": []}).encode()


def of_app(gateway: Gateway) -> Callable[[bytes], Awaitable[int]]:
    """Asks the app of `gateway`."""
    app = gateway.asgi()
    headers = [(b"content-type", b"application/json"), (b"anthropic-version", b"2023-06-01"), (b"host", b"localhost")]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
    }
    scope |= {"path": PATH, "raw_path": PATH.encode(), "query_string": b"beta=true"}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}

    async def counted(data: bytes) -> int:
        sent: list[bytes] = []
        messages = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else await asyncio.Future()

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message.get("body", b""))

        await app({**scope, "headers": [*headers, (b"content-length", b"%d" % len(data))]}, receive, send)
        return int(json.loads(b"".join(sent))["input_tokens"])

    return counted


def of_url(url: str) -> Callable[[bytes], Awaitable[int]]:
    """Asks a gateway over HTTP, on one connection."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))

    async def counted(data: bytes) -> int:
        connection.request("POST", PATH, data, {"content-type": "application/json"})
        return int(json.loads(connection.getresponse().read())["input_tokens"])

    return counted


async def measured(name: str, counted: Callable[[bytes], Awaitable[int]], bodies: list[bytes], over_http: bool) -> None:
    """Print the medians of one request each."""
    spent, passed, found = [], [], 0
    for data in bodies:
        cpu, clock = time.process_time(), time.perf_counter()
        found = await counted(data)
        spent.append(time.process_time() - cpu)
        passed.append(time.perf_counter() - clock)
    cpu_column = "" if over_http else f"{statistics.median(spent) * 1e3:6.3f} ms of CPU  "
    print(f"{name:<28} {found:6} tokens  {cpu_column}{statistics.median(passed) * 1e3:6.3f} ms")


async def compare(counted: Callable[[bytes], Awaitable[int]], args: argparse.Namespace) -> None:
    drawn = random.Random(time.time_ns() if args.url else 0)
    distinct = ["".join(drawn.choices(SYLLABLES, k=drawn.randint(1, 4))) for _ in range(DISTINCT)]

    def text(words: int) -> bytes:
        return body(" ".join(drawn.choices(distinct, k=words)))

    words = args.tokens
    for _ in range(3):
        words = max(1, round(words * args.tokens / await counted(text(words))))
    again = text(words)
    await counted(again)
    for name, bodies in (
        ("new", [text(words) for _ in range(args.rounds)]),
        ("seen before", [again] * args.rounds),
        ("a dummy of one word", [body("foo")] * args.rounds),
    ):
        await measured(name, counted, bodies, args.url is not None)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", help="a folder with a tokenizer; default that of the embedded engine")
    parser.add_argument("--url", help="a gateway to ask instead of one in this process")
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    if args.url:
        await compare(of_url(args.url), args)
        return
    async with Gateway.simulated(config=Config(tokenizer=TokenizerConfig(path=args.tokenizer))) as gateway:
        await compare(of_app(gateway), args)


if __name__ == "__main__":
    asyncio.run(main())
