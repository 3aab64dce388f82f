"""A routing policy of one's own: a user's requests stay on one worker, as long as that worker is there.

    pip install openai && python examples/custom_policy.py

A policy is any object with a `name` and a `pick`. `--policy your_package:Sticky` selects it; for a name of its
own (`--policy sticky`), a package names it in its pyproject.toml:

    [project.entry-points."smg.policies"]
    sticky = "your_package:Sticky"
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from zlib import crc32

import openai

from smg_core import Gateway
from smg_core.routing import Candidate, Pick, RoutingContext


class Sticky:
    """The worker with the highest hash of user and worker: when one leaves, only its own users move."""

    name = "sticky"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        user = context.headers.get("x-user", "")
        return Pick(max(candidates, key=lambda worker: crc32(f"{user} {worker.name}".encode())))


async def main() -> None:
    async with Gateway.simulated(engines=3, policy=Sticky()) as gateway:
        client = openai.AsyncOpenAI(http_client=gateway.http_client(), base_url="http://gateway/v1", api_key="-")
        for user in ("ada", "grace", "edsger"):
            before = Counter({engine.target: len(engine.requests) for engine in gateway.engines})
            for _ in range(4):
                await client.chat.completions.create(
                    model="sim",
                    messages=[{"role": "user", "content": "Hello."}],
                    max_tokens=4,
                    extra_headers={"x-user": user},
                )
            after = Counter({engine.target: len(engine.requests) for engine in gateway.engines})
            print(user, sorted((after - before).values()))


if __name__ == "__main__":
    asyncio.run(main())
