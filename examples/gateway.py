"""A gateway in a script: an embedded engine, the official OpenAI client, no port and no GPU.

pip install openai && python examples/gateway.py
"""

import asyncio

import openai

from smg_core import Gateway


async def main() -> None:
    async with Gateway.simulated() as gateway:
        client = openai.AsyncOpenAI(http_client=gateway.http_client(), base_url="http://gateway/v1", api_key="-")
        model = (await client.models.list()).data[0].id

        answer = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "What is a token?"}], max_tokens=40
        )
        print(answer.choices[0].message.content)
        print(answer.usage)

        stream = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "And a block?"}], max_tokens=40, stream=True
        )
        async for chunk in stream:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        print()


if __name__ == "__main__":
    asyncio.run(main())
