"""The load of `frontends.py`: so many streams at once, each begun when one before it has ended, and what each client saw.

A time to the first token is from the request's last byte to the first piece of text: an event that only names the role is not
counted, since some servers send it before the engine has done anything. The time between two tokens is that from the first
piece of text to the last, by the tokens that the server counts. A piece may have several tokens: a character may need them, and a
server that has fallen behind its engine sends at once what has come meanwhile. That costs it less, so pieces are counted too.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import sse_client
import stand
from tokenizers import Tokenizer

__all__ = ["Asked", "Load", "Prompts", "Seen", "ask_all"]

TEXT = re.compile(rb'"content":\s*"[^"]')
PROMPT_TOKENS = re.compile(rb'"prompt_tokens":\s*(\d+)')
OUTPUT_TOKENS = re.compile(rb'"completion_tokens":\s*(\d+)')
WORDS = "Most of what a port does is waiting for water. The cranes wait for the hull, and the hull waits for the tide. "


@attrs.frozen
class Load:
    """What one run asks: `requests` streams of `tokens` tokens, `at_once` of them at a time. `fields` are added to each body."""

    requests: int
    at_once: int
    tokens: int
    model: str
    pause_us: int = 0
    fields: dict[str, object] = attrs.field(factory=dict)


@attrs.frozen
class Seen:
    """What one client saw, in seconds. `outcome` is "ok" or a few words on what went wrong; `pieces` are the events with text."""

    outcome: str
    first: float = 0.0
    between: float = 0.0
    longest: float = 0.0
    prompt: int = 0
    tokens: int = 0
    pieces: int = 0


@attrs.frozen
class Asked:
    """All of one run: what each client saw, and the seconds from the first request to the last answer's end."""

    seen: Sequence[Seen]
    seconds: float


class Prompts:
    """Texts of about so many tokens with the chat template. No two begin alike, so that no engine finds one in its cache."""

    def __init__(self, folder: Path, run: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._run = run
        self._count = 0
        self._tails: dict[int, str] = {}

    def take(self, tokens: int) -> str:
        self._count += 1
        head = f"{self._run}-{self._count}: "
        if tokens not in self._tails:
            left = max(1, tokens - TEMPLATE - len(self._ids(head)))
            self._tails[tokens] = str(self._tokenizer.decode(self._ids(WORDS * (tokens // 16 + 1))[:left]))
        return head + self._tails[tokens]

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


TEMPLATE = 24
"""About how many tokens the chat templates of the two models add to the user's text."""


class _Answer(sse_client.Stream):
    """One stream, of which all bytes are kept until it has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, body: bytes) -> None:
        super().__init__(loop, body)
        self.pieces: list[bytes] = []
        self.first_text = self.last_text = self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.sent = time.perf_counter()  # uvloop's own clock has milliseconds only

    def data_received(self, data: bytes) -> None:
        if TEXT.search(data):
            self.last_text = time.perf_counter() - self.sent
            self.first_text = self.first_text or self.last_text
        self.pieces.append(data)
        super().data_received(data)

    def seen(self, wanted: int) -> Seen:
        """What came of it, once `outcome` is there."""
        outcome = self.outcome.result()
        whole = b"".join(self.pieces)
        prompt, tokens = _last(PROMPT_TOKENS, whole), _last(OUTPUT_TOKENS, whole)
        if outcome == "ok" and tokens != wanted:
            outcome = f"{tokens} tokens for {wanted}"
        if outcome != "ok":
            return Seen(outcome)
        between = (self.last_text - self.first_text) / max(1, tokens - 1)
        return Seen(outcome, self.first_text, between, self.longest_gap, prompt, tokens, len(TEXT.findall(whole)))


def _last(pattern: re.Pattern[bytes], whole: bytes) -> int:
    found = pattern.findall(whole)
    return int(found[-1]) if found else 0


async def ask_all(port: int, load: Load, text: Callable[[], str], patience_s: float) -> Asked:
    """Ask `load.requests` times, `load.at_once` at a time. A stream that takes longer than `patience_s` has failed."""
    fields = {"stream_options": {"include_usage": True}, **load.fields}
    bodies = iter(
        [
            stand.chat(load.tokens, stream=True, text=text(), pause_us=load.pause_us, model=load.model, more=fields)
            for _ in range(load.requests)
        ]
    )
    seen: list[Seen] = []
    began = time.perf_counter()
    await asyncio.gather(*(_client(port, bodies, load.tokens, seen, patience_s) for _ in range(load.at_once)))
    return Asked(seen, time.perf_counter() - began)


async def _client(port: int, bodies: Iterator[bytes], wanted: int, seen: list[Seen], patience_s: float) -> None:
    """Ask with one body after the other until there are no more."""
    loop = asyncio.get_running_loop()
    for body in bodies:
        transport = None
        try:
            async with asyncio.timeout(patience_s):
                transport, answer = await loop.create_connection(partial(_Answer, loop, body), "127.0.0.1", port)
                await answer.outcome
        except TimeoutError:
            seen.append(Seen("no end in time"))
        except OSError as error:
            seen.append(Seen(f"no connection: {error.strerror}"))
        else:
            seen.append(answer.seen(wanted))
        finally:
            if transport is not None:
                transport.close()
