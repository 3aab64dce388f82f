"""The official SDKs as clients of a gateway: each asks the body of a case, and gives the answer as its types have it, in JSON."""

import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anthropic
import httpx
import openai
from google import genai

from smg_core import Gateway

__all__ = ["SDKS", "Sdk"]

Json = dict[str, Any]


class Sdk(Protocol):
    """One SDK at a gateway. `faults` are its errors of an answer that is none, and of a stream that ends early."""

    faults: tuple[type[Exception], ...]

    async def whole(self, body: Json) -> Json: ...

    async def text_of_stream(self, body: Json) -> str: ...


class _Chat:
    faults = (openai.APIError, httpx.RemoteProtocolError)

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def whole(self, body: Json) -> Json:
        return (await self._client.chat.completions.create(**body)).model_dump(mode="json", exclude_none=True)

    async def text_of_stream(self, body: Json) -> str:
        chunks = await self._client.chat.completions.create(**body, stream=True)
        return "".join([each.choices[0].delta.content or "" async for each in chunks if each.choices])


class _Responses:
    faults = (openai.APIError, httpx.RemoteProtocolError, RuntimeError)  # the last where a stream has no end

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def whole(self, body: Json) -> Json:
        return (await self._client.responses.create(**body)).model_dump(mode="json", exclude_none=True)

    async def text_of_stream(self, body: Json) -> str:
        async with self._client.responses.stream(**body) as stream:
            return str((await stream.get_final_response()).output_text)


class _Messages:
    faults = (anthropic.APIError, httpx.RemoteProtocolError)

    def __init__(self, client: anthropic.AsyncAnthropic) -> None:
        self._client = client

    async def whole(self, body: Json) -> Json:
        return (await self._client.messages.create(**body)).model_dump(mode="json", exclude_none=True)

    async def text_of_stream(self, body: Json) -> str:
        async with self._client.messages.stream(**body) as stream:
            message = await stream.get_final_message()
        return "".join(each.text for each in message.content if each.type == "text")


class _GenerateContent:
    faults = (genai.errors.APIError, httpx.RemoteProtocolError)

    def __init__(self, client: Any) -> None:
        self._client = client

    @staticmethod
    def _asked(body: Json) -> Json:
        config = {**body.get("generationConfig", {})}
        config |= {name: body[name] for name in ("tools", "toolConfig") if name in body}
        config["automaticFunctionCalling"] = {"disable": True}
        return {"model": "m", "contents": body["contents"], "config": config}

    async def whole(self, body: Json) -> Json:
        answer = await self._client.models.generate_content(**self._asked(body))
        found: Json = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        return found

    async def text_of_stream(self, body: Json) -> str:
        chunks = await self._client.models.generate_content_stream(**self._asked(body))
        parts = [part async for each in chunks for part in _parts(each)]
        return "".join(part.text or "" for part in parts if not part.thought)


def _parts(chunk: Any) -> list[Any]:
    return (chunk.candidates[0].content.parts or []) if chunk.candidates and chunk.candidates[0].content else []


@asynccontextmanager
async def _openais(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url="http://gateway/v1", api_key="k", http_client=gateway.http_client(openai), max_retries=0
    ) as client:
        yield client


@asynccontextmanager
async def _chat(gateway: Gateway) -> AsyncIterator[Sdk]:
    async with _openais(gateway) as client:
        yield _Chat(client)


@asynccontextmanager
async def _responses(gateway: Gateway) -> AsyncIterator[Sdk]:
    async with _openais(gateway) as client:
        yield _Responses(client)


@asynccontextmanager
async def _messages(gateway: Gateway) -> AsyncIterator[Sdk]:
    async with anthropic.AsyncAnthropic(
        base_url="http://gateway", api_key="k", http_client=gateway.http_client(anthropic), max_retries=0
    ) as client:
        yield _Messages(client)


@asynccontextmanager
async def _generate_content(gateway: Gateway) -> AsyncIterator[Sdk]:
    async with gateway.http_client(httpx, base_url="http://gateway") as transport:
        options = genai.types.HttpOptions(base_url="http://gateway", httpx_async_client=transport)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = genai.Client(api_key="-", http_options=options)
        yield _GenerateContent(client.aio)


SDKS: Mapping[str, Any] = {
    "Chat Completions": _chat,
    "Messages": _messages,
    "Responses": _responses,
    "generateContent": _generate_content,
}
"""What opens each SDK at a gateway, by the API that it speaks."""
