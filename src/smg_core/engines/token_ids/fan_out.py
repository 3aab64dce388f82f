"""One request for several choices as a call for each, for engines that give one choice a call.

Decides how the calls are made into one: which choice an output is of, and when the whole is over. Pure: it is pushed to by the
readers of the calls, and waits for nothing. Above: engines.token_ids.client, which starts the calls. The first error ends them
all, since a response is whole or failed.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from smg_core.engines.base import EngineOutput, EngineRequest, EngineSink
from smg_core.engines.calls import AnswerCall
from smg_core.errors import SmgError

__all__ = ["FanOut", "requests_of"]


def requests_of(request: EngineRequest) -> tuple[EngineRequest, ...]:
    """The requests of one choice each that `request` becomes. Their ids differ, and so do their seeds, or all choices would be
    the same."""
    seed = request.sampling.seed
    return tuple(
        replace(
            request,
            id=f"{request.id}-{index}" if index else request.id,
            sampling=replace(request.sampling, n=1, seed=None if seed is None else seed ^ index),
        )
        for index in range(request.sampling.n)
    )


class FanOut:
    """The `AnswerCall` of all calls of one request, one for each of `choices`, whose outputs go to `sink`. `on_end` is called
    when the engine has ended them all, or one has failed; `on_cancel` when the owner cancels or leaves before that. `on_left` is
    called before `on_end` where one has failed and others are cut: their engine may have to be told."""

    def __init__(
        self,
        choices: Iterable[int],
        sink: EngineSink[EngineOutput],
        on_end: Callable[[], object],
        on_cancel: Callable[[], object] = lambda: None,
        on_left: Callable[[], object] = lambda: None,
    ) -> None:
        self._sink = sink
        self._on_end, self._on_cancel, self._on_left = on_end, on_cancel, on_left
        self._open = set(choices)
        self._calls: list[AnswerCall] = []
        self._over = False
        self._paused = False

    def branch(self, index: int) -> EngineSink[EngineOutput]:
        """Where the call for choice `index` pushes."""
        return _Branch(self, index)

    def attach(self, call: AnswerCall) -> None:
        """Take a call that was started; its outputs may have come already."""
        if self._over:
            call.cancel()
            return
        self._calls.append(call)
        if self._paused:
            call.pause()

    # ------------------------------------------------------------------------------------------- pushed by the branches

    def push(self, index: int, outputs: Sequence[EngineOutput]) -> None:
        """New tokens of choice `index`, which its own call knows as choice 0."""
        if self._over:
            return
        for each in outputs:
            each.index = index
        self._sink.push(outputs)

    def closed(self, index: int, error: SmgError | None) -> None:
        """The call for choice `index` is over, or could not be started."""
        if self._over:
            return
        self._open.discard(index)
        if error is not None or not self._open:
            if self._open:
                self._on_left()
            self._stop()
            self._on_end()
            self._sink.closed(error)

    # ------------------------------------------------------------------------------------------------- told by the owner

    def cancel(self) -> None:
        if not self._over:
            self._on_cancel()
        self._stop()

    def leave(self) -> None:
        if not self._over:
            self._on_cancel()
        self._over = True
        calls, self._calls = self._calls, []
        for call in calls:
            call.leave()

    def _stop(self) -> None:
        self._over = True
        calls, self._calls = self._calls, []
        for call in calls:
            call.cancel()

    def pause(self) -> None:
        self._paused = True
        for call in self._calls:
            call.pause()

    def resume(self) -> None:
        self._paused = False
        for call in self._calls:
            call.resume()


class _Branch:
    """The sink of one choice's call."""

    __slots__ = ("_fan", "_index")

    def __init__(self, fan: FanOut, index: int) -> None:
        self._fan = fan
        self._index = index

    def push(self, outputs: Sequence[EngineOutput]) -> None:
        self._fan.push(self._index, outputs)

    def closed(self, error: SmgError | None) -> None:
        self._fan.closed(self._index, error)
