"""Sends the requests of a bench and reads their streams (edge).

Decides that a request is sent when it is due or when a user is free, that no more are under way than there may be, and what
counts as a token's coming: a piece of the stream with something in it. Above: the command. Below: load, figures, smg_core.sse.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

import attrs
import httpx
import msgspec

from smg_core.errors import EngineGarbled
from smg_core.sse import DONE, SseReader
from smg_simulator.bench.figures import BenchOutcome
from smg_simulator.bench.load import BenchRequest

__all__ = ["BenchTarget", "bench_run"]

_LONGEST_ERROR = 120
_WRITTEN = ("content", "reasoning_content", "reasoning", "tool_calls")
"""The parts of a delta that are something."""


@attrs.frozen
class BenchTarget:
    """The server at `url`, the model that is asked, and the headers and fields of every request; `timeout` is in seconds."""

    url: str
    model: str
    headers: Mapping[str, str]
    timeout: float
    fields: Mapping[str, object] = attrs.field(factory=dict)


class _Run:
    """A run: begins now, and `come` is called with each outcome."""

    def __init__(self, target: BenchTarget, come: Callable[[BenchOutcome], None]) -> None:
        self._target, self._come = target, come
        self._began = time.perf_counter()
        self.outcomes: list[BenchOutcome] = []

    def now(self) -> float:
        """Seconds since the begin."""
        return time.perf_counter() - self._began

    async def ask(self, client: httpx.AsyncClient, request: BenchRequest, *, closed: bool) -> None:
        """Send a request and keep what comes of it."""
        sent = self.now()
        outcome = BenchOutcome(sent if closed else request.at, sent)
        try:
            outcome = await self._read(client, request, outcome)
        except (httpx.HTTPError, EngineGarbled, msgspec.DecodeError) as error:
            outcome = attrs.evolve(outcome, error=(str(error) or type(error).__name__)[:_LONGEST_ERROR])
        self.outcomes.append(outcome)
        self._come(outcome)

    async def _read(self, client: httpx.AsyncClient, request: BenchRequest, outcome: BenchOutcome) -> BenchOutcome:
        body = {
            "model": self._target.model,
            "messages": [{"role": "user", "content": request.prompt}],
            "max_tokens": request.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._target.fields,
        }
        reader, pieces, stream = SseReader(), _Pieces(), "/v1/chat/completions"
        async with client.stream("POST", stream, json=body) as answer:
            if answer.status_code != httpx.codes.OK:
                text = (await answer.aread()).decode(errors="replace")
                return attrs.evolve(outcome, error=f"{answer.status_code} {_message(text)}"[:_LONGEST_ERROR])
            async for chunk in answer.aiter_raw():
                now = self.now()
                for event in reader.feed(chunk):
                    pieces.take(event.data, now)
        return pieces.outcome(outcome, self.now())


def _message(text: str) -> str:
    """The words of an answer that refuses: its error's message where it has one, else all."""
    try:
        found = msgspec.json.decode(text)
        message = found["error"]["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return text
    return message if isinstance(message, str) else text


class _Pieces:
    """The pieces of one stream as they come."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._usage: Mapping[str, object] = {}
        self._ended, self._error = False, ""

    def take(self, data: str, now: float) -> None:
        """An event has come. Raises msgspec.DecodeError."""
        if data.encode() == DONE:
            self._ended = True
            return
        chunk = msgspec.json.decode(data)
        if not isinstance(chunk, dict):
            return
        if chunk.get("error"):
            self._error = str(chunk["error"])[:_LONGEST_ERROR]
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        if any(delta.get(name) for name in _WRITTEN):
            self._times.append(now)

    def outcome(self, begun: BenchOutcome, now: float) -> BenchOutcome:
        """What came of the request, whose stream is over."""
        if self._error or not self._times or not self._ended:
            why = self._error or ("the answer has no token" if self._ended else "the stream broke off")
            return attrs.evolve(begun, error=why)
        details = self._usage.get("prompt_tokens_details")
        return attrs.evolve(
            begun,
            first=self._times[0] - begun.due,
            whole=now - begun.due,
            gaps=tuple(later - earlier for earlier, later in zip(self._times, self._times[1:], strict=False)),
            prompt_tokens=_count(self._usage.get("prompt_tokens")),
            cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
            output_tokens=_count(self._usage.get("completion_tokens")) or len(self._times),
        )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


async def bench_run(
    target: BenchTarget,
    requests: Iterable[BenchRequest],
    *,
    users: int | None,
    most: int,
    come: Callable[[BenchOutcome], None],
) -> tuple[list[BenchOutcome], float]:
    """The outcomes of all requests, and the seconds that it took. With `users`, each sends the next one when its last is
    answered; else each request is sent when it is due, and at most `most` are under way: others wait, and their waiting
    counts."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=most)
    async with httpx.AsyncClient(
        base_url=target.url.rstrip("/"), headers=dict(target.headers), timeout=target.timeout, limits=limits
    ) as client:
        run, waiting = _Run(target, come), iter(requests)
        if users is not None:
            await asyncio.gather(*(_user(run, client, waiting) for _ in range(users)))
        else:
            await _open_loop(run, client, waiting, most)
        return run.outcomes, run.now()


async def _user(run: _Run, client: httpx.AsyncClient, waiting: Iterable[BenchRequest]) -> None:
    for request in waiting:
        await run.ask(client, request, closed=True)


async def _open_loop(run: _Run, client: httpx.AsyncClient, waiting: Iterable[BenchRequest], most: int) -> None:
    free = asyncio.Semaphore(most)

    async def ask(request: BenchRequest) -> None:
        try:
            await run.ask(client, request, closed=False)
        finally:
            free.release()

    async with asyncio.TaskGroup() as tasks:
        for request in waiting:
            await asyncio.sleep(request.at - run.now())
            await free.acquire()
            tasks.create_task(ask(request))
