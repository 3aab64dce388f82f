"""Sends the requests of a cassette again, at their times, and reads the answers (edge).

Above: the command. Below: cassette, said.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import httpx
import msgspec

from smg_simulator.cassettes.answer_summary import AnswerSummary, summary_of_answer
from smg_simulator.cassettes.cassette import CassetteExchange, kept_headers
from smg_simulator.cassettes.difference import ReplayedExchange

__all__ = ["replayed"]


async def replayed(
    exchanges: Sequence[CassetteExchange],
    url: str,
    *,
    headers: Mapping[str, str],
    model: str,
    faster: float,
    most: int,
    timeout: float,
    come: Callable[[int, ReplayedExchange], None],
) -> None:
    """Ask every exchange again; `come` is called with its place and with what it is now. They are sent at their times, so many
    times `faster`, and at most `most` at once; `model` is asked in place of the recorded one ("": that one)."""
    began, free = time.perf_counter(), asyncio.Semaphore(most)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=most)
    async with httpx.AsyncClient(
        base_url=url.rstrip("/"), headers=dict(headers), timeout=timeout, limits=limits
    ) as client:

        async def again(number: int, before: CassetteExchange) -> None:
            await asyncio.sleep(before.at / faster - (time.perf_counter() - began))
            async with free:
                pair = ReplayedExchange(before, await _asked(client, before, model))
            come(number, pair)

        async with asyncio.TaskGroup() as tasks:
            for number, each in enumerate(exchanges):
                tasks.create_task(again(number, each))


async def _asked(client: httpx.AsyncClient, before: CassetteExchange, model: str) -> CassetteExchange:
    began = time.perf_counter()
    after = CassetteExchange(before.at, before.method, before.path, "", 0, AnswerSummary())
    pieces: list[bytes] = []
    headers = {**kept_headers(before.headers.items()), "accept-encoding": "identity"}
    body = _body(before.body, model)
    try:
        async with client.stream(before.method, before.path, headers=headers, content=body) as answer:
            after.status = answer.status_code
            async for piece in answer.aiter_raw():
                after.times.append(time.perf_counter() - began)
                pieces.append(piece)
        after.seconds = time.perf_counter() - began
        content_type = answer.headers.get("content-type", "")
        after.summary = await asyncio.to_thread(
            summary_of_answer, before.path, after.status, content_type, b"".join(pieces)
        )
    except httpx.HTTPError as error:
        after.summary = AnswerSummary(error=str(error) or type(error).__name__)
    return after


def _body(recorded: str, model: str) -> bytes:
    """The body that is sent: the recorded one, with another model where one is named."""
    if not model:
        return recorded.encode()
    try:
        found = msgspec.json.decode(recorded)
    except msgspec.DecodeError:
        return recorded.encode()
    return msgspec.json.encode({**found, "model": model} if isinstance(found, dict) and "model" in found else found)
