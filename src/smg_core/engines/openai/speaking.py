"""Requests to a server with OpenAI's route for speech, and its answer: sound, which is passed on as it comes.

Pure. Above: asking. Sources: OpenAI's API reference; vLLM-Omni's and Kokoro's servers, which have the same route.
"""

from smg_core.errors import EngineGarbled, SmgError
from smg_core.events import Event, Finished, OpaqueBlock
from smg_core.request import GenerationRequest
from smg_core.speech import Speech
from smg_core.wire.json_text import encode_body

__all__ = ["SPEECH", "SoundDecoder", "write_speech"]

SPEECH = "speech"
"""The kind of the blocks that are sound."""


def write_speech(request: GenerationRequest, asked: Speech, model: str) -> bytes:
    """The body for a request to speak the text of its messages."""
    text = "".join(message.text for message in request.messages)
    fields: dict[str, object] = {"model": model, "input": text, "response_format": asked.format}
    wishes = {"voice": asked.voice, "speed": asked.speed, "instructions": asked.instructions}
    return encode_body(fields | {name: value for name, value in wishes.items() if value is not None})


class SoundDecoder:
    """Reads one answer. As `ChatDecoder`; it is over where the body ends."""

    finished = False
    """Nothing in the sound says that it is complete."""

    def __init__(self) -> None:
        self.done = False
        self.error: SmgError | None = None
        self._sounded = False

    def feed(self, data: bytes) -> list[Event]:
        """The next bytes of the sound."""
        if not data or self.done or self.error is not None:
            return []
        self._sounded = True
        return [OpaqueBlock(0, SPEECH, data)]

    def end(self) -> list[Event]:
        """The end of the sound; an error where there was none."""
        if self.done or self.error is not None:
            return []
        if not self._sounded:
            self.error = EngineGarbled("The engine made no sound.")
            return []
        self.done = True
        return [Finished(0, "stop")]

    def whole(self, body: bytes) -> list[Event]:
        """All of the sound at once."""
        return [*self.feed(body), *self.end()]

    def fail(self, error: SmgError) -> list[Event]:
        """Give up because of `error`."""
        self.error = error
        return []
