"""API keys with tenants and roles: who may send requests, and which models.

    pip install openai && python examples/static_keys.py

The keys stand in the settings here. In production they come from a file (`auth.keys_file`) or from the environment
(`SMG_AUTH_KEYS`), as hashes if you like; docs/identity.md has the whole of it.
"""

import asyncio
import logging

import openai

from smg_core import Config, Gateway
from smg_core.auth.settings import AuthConfig

ADA, GUEST = "sk-ada-0123456789abcdef", "sk-guest-0123456789abcdef"
KEYS = AuthConfig(
    keys=(f"{ADA} tenant=research principal=ada", f"{GUEST} tenant=guests role=reader"),
    roles=("reader=chat models model:tiny*",),
)


async def main() -> None:
    async with Gateway.simulated(config=Config(auth=KEYS)) as gateway:
        for name, key in (("ada", ADA), ("guest", GUEST), ("nobody", "sk-nobody")):
            client = openai.AsyncOpenAI(http_client=gateway.http_client(), base_url="http://gateway/v1", api_key=key)
            try:
                models = [model.id async for model in client.models.list()]
                await client.chat.completions.create(
                    model="sim", messages=[{"role": "user", "content": "Hello."}], max_tokens=4
                )
                print(name, models, "answered")
            except openai.APIStatusError as error:
                print(name, error.status_code, error.code)


if __name__ == "__main__":
    logging.getLogger("smg.auth").setLevel(logging.ERROR)  # refused credentials are logged as warnings
    asyncio.run(main())
