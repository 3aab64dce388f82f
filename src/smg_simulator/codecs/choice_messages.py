"""The messages of one choice of an answer, in one dialect.

Decides which tokens go into which message, and when the closing one is due; pure. Above: server.grpc_server, which calls `step`
when tokens are due. Below: a `ServerCodec` writes the messages.
"""

from collections.abc import Sequence

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_simulator.codecs.base import ChoiceSlice, ServerCodec
from smg_simulator.engine.engine import Choice, EngineCore

__all__ = ["ChoiceMessages"]


class ChoiceMessages:
    """Makes the messages of `choice`, which is number `index` of the answer to `request`. `cached` prompt tokens were found
    in the prefix cache. `sent` counts the tokens of all steps so far; without streaming they go into the closing message."""

    def __init__(
        self, engine: EngineCore, codec: ServerCodec, request: EngineRequest, choice: Choice, index: int, cached: int
    ) -> None:
        self.choice = choice
        self.index = index
        self.sent = 0
        self.done = False
        self._engine = engine
        self._codec = codec
        self._request = request
        self._cached = cached
        self._before: tuple[int, int] = (0, 0)
        self._pauses = list(choice.pauses)

    def pause(self) -> float:
        """The seconds to wait before the next step; each pause of the script is told once."""
        seconds = 0.0
        while self._pauses and self._pauses[0][0] <= self.sent:
            seconds += self._pauses.pop(0)[1]
        return seconds

    def step(self, tokens: int) -> list[bytes]:
        """The messages of one step: a chunk of at most `tokens` tokens (or of the script's next piece), and after the last
        token the closing message."""
        start = self.sent
        end = self._end_of_step(start, tokens)
        self.sent = end
        self._before = (start, end)
        out = (
            [self._codec.chunk(self._request.id, self._piece(start, end))]
            if self._request.stream and end > start
            else []
        )
        if end >= len(self.choice.ids):
            self.done = True
            out += self._close(self.choice.finish, self.choice.matched)
        return out

    def abort(self) -> list[bytes]:
        """The messages that end the choice now: an empty chunk when it is streamed, and the closing message."""
        self.done = True
        self._before = (self.sent, self.sent)
        chunk = self._codec.chunk(self._request.id, self._piece(self.sent, self.sent)) if self._request.stream else b""
        closing = self._close("abort", None)
        return [chunk, *closing] if chunk else closing

    def _end_of_step(self, start: int, tokens: int) -> int:
        total = len(self.choice.ids)
        if self.choice.ends:
            return min(total, next((end for end in self.choice.ends if end > start), total))
        return min(total, start + tokens, *[at for at, _ in self._pauses[:1]])

    def _piece(self, start: int, end: int) -> ChoiceSlice:
        asked = self._request.sampling
        prompt_rows: Sequence[EngineLogprob | None] = ()
        if asked.prompt_logprobs is not None and start == 0:
            prompt_rows = self._engine.prompt_logprobs(self._request.input_ids, asked.prompt_logprobs)
        return ChoiceSlice(
            self.index,
            self.choice.ids[start:end],
            prompt_tokens=len(self._request.input_ids),
            cached_tokens=self._cached,
            completion_tokens=end,
            logprobs=() if asked.logprobs is None else self._engine.logprobs(self.choice, start, end, asked.logprobs),
            prompt_logprobs=prompt_rows,
        )

    def _close(self, finish: str, matched: str | int | None) -> list[bytes]:
        whole = self._codec.repeats_all or not self._request.stream
        start, end = (0, self.sent) if whole else self._before
        piece = self._piece(start, end)
        return self._codec.complete(
            self._request.id,
            piece,
            finish=finish,
            matched=matched,
            streamed=self._request.stream,
            kv_transfer=self._request.kv_transfer,
        )
