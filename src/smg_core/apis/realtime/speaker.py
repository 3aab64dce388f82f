"""Speaks the answer of one response (edge): its text, sentence by sentence, by a model that makes speech.

The text goes out as a transcript at once; its sound follows in pieces of a tenth of a second, and before the end of the part all
of it is out. Each sentence is a request of its own to the model that speaks, counted and limited as such. Where one fails, the
client is told, and the rest of the answer is text. Above: the connection. Below: the API of speech.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import attrs

from smg_core.apis.realtime.wire.sentences import Sentences
from smg_core.apis.speech.wire import SpeechRequest, speaking_of
from smg_core.http.scope import Disconnect
from smg_core.json_types import JsonObject
from smg_core.speech import Speech
from smg_core.wire.base import Incoming

__all__ = ["Speaker", "SpokenPart"]

_PIECE = 4800  # bytes of sound in an event: a tenth of a second
AskForSpeech = Callable[
    [Callable[[Incoming], SpeechRequest], Callable[[bytes], Awaitable[None]], Disconnect], Awaitable[bool]
]
"""Has a request for speech answered: how it is decoded, where its sound goes, what gives it up. Returns whether it was spoken."""


@attrs.define(eq=False)
class SpokenPart:
    """The part of a response that is spoken: where its events belong, and how many characters of it are spoken by now."""

    where: JsonObject
    characters: int = 0


class Speaker:
    """Speaks for one response. `say` sends the events of sound, `ask` has a text spoken, and `failed` is called once where that
    fails. `begin` runs what speaks as a task of the connection."""

    def __init__(
        self,
        model: str,
        speech: Speech,
        say: Callable[[SpokenPart, bytes], Awaitable[None]],
        ask: AskForSpeech,
        failed: Callable[[], None],
        begin: Callable[[Coroutine[object, object, None]], "asyncio.Task[None]"],
    ) -> None:
        self._model, self._speech = model, speech
        self._say, self._ask, self._failed, self._begin = say, ask, failed, begin
        self._sentences = Sentences()
        self._part: SpokenPart | None = None
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._given_up = Disconnect()
        self._silent = False  # it has failed, or was stopped
        self._rest = b""

    def hear(self, where: JsonObject, text: str) -> None:
        """More of the text of the part that is open."""
        if self._silent:
            return
        if self._part is None:
            self._part = SpokenPart(where)
        for sentence in self._sentences.more(text):
            self._waiting.put_nowait(sentence)
        self._go_on()

    async def finish(self) -> None:
        """The text of the part is complete: return once all of it is spoken."""
        for sentence in self._sentences.last():
            self._waiting.put_nowait(sentence)
        self._go_on()
        while self._task is not None:
            await asyncio.wait([self._task])
        part, self._part = self._part, None
        if part is not None and self._rest and not self._silent:
            await self._say(part, self._rest)
        self._rest = b""

    def stop(self) -> None:
        """Say nothing more."""
        self._silent = True
        self._given_up.happened()

    def _go_on(self) -> None:
        if self._task is None and not self._silent and not self._waiting.empty():
            self._task = self._begin(self._speak())

    async def _speak(self) -> None:
        try:
            while not self._waiting.empty() and not self._silent:
                text = self._waiting.get_nowait()
                if self._part is not None:
                    self._part.characters += len(text)
                if not await self._ask(self._request(text), self._sound, self._given_up) and not self._silent:
                    self._silent = True
                    self._failed()
        finally:
            self._task = None

    def _request(self, text: str) -> Callable[[Incoming], SpeechRequest]:
        def decode(incoming: Incoming) -> SpeechRequest:
            return SpeechRequest(speaking_of(incoming, self._model, text, self._speech), self._speech)

        return decode

    async def _sound(self, data: bytes) -> None:
        """More sound: whole pieces are told, the rest waits for more."""
        part = self._part
        if part is None or self._silent:
            return
        data = self._rest + data
        end = len(data) // _PIECE * _PIECE
        self._rest = data[end:]
        for at in range(0, end, _PIECE):
            if self._silent:
                return
            await self._say(part, data[at : at + _PIECE])
