"""A gateway that starts a real engine, and one answer of it: `make demo-real`, or with a model of your own

python tools/demo_real.py ENGINE_PYTHON MODEL_FOLDER
"""

import asyncio
import sys

import openai

from smg_core import Gateway


async def main(python: str, model: str) -> None:
    async with (
        Gateway.launch("mlx", model=model, python=python) as gateway,
        openai.AsyncOpenAI(
            http_client=gateway.http_client(openai), base_url="http://gateway/v1", api_key="-"
        ) as client,
    ):
        stream = await client.chat.completions.create(
            model=next(iter(gateway.models)),
            messages=[{"role": "user", "content": "Hello"}],
            temperature=0,
            stream=True,
        )
        async for chunk in stream:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
