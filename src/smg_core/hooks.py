"""The moments a gateway reports, and who listens.

Rooms report frozen records to an `Observer`; metrics, traces and logs are observers that `server.runtime` wires in. A room
never imports a metrics library, and a record is made per request or per turn, never per token. Observers must not raise
and must not wait; what takes time belongs in a queue of their own.
"""

from typing import Protocol

from msgspec import Struct

__all__ = [
    "AttemptEnded",
    "EncodeDone",
    "ExchangeEnded",
    "FirstToken",
    "FormatBroken",
    "MediaLoaded",
    "Moment",
    "Observer",
    "Rendered",
    "RequestFinished",
    "RequestStarted",
    "Retrying",
    "SilentObserver",
    "WorkerPicked",
    "WorkerStateChanged",
    "fan_out",
]


class RequestStarted(Struct, frozen=True):
    """A request was decoded and admitted. `api` is "chat", "responses", ...; `at` is monotonic seconds."""

    request_id: str
    api: str
    model: str
    stream: bool
    at: float


class Rendered(Struct, frozen=True):
    """The prompt's text is written."""

    request_id: str
    at: float


class MediaLoaded(Struct, frozen=True):
    """The `count` media of the request were fetched, processed and placed in the prompt."""

    request_id: str
    count: int
    at: float


class EncodeDone(Struct, frozen=True):
    """The prompt is token ids. `cached_characters` of `characters` came from the tokenizer cache; `seconds` is the time since it
    was rendered; `prompt_tokens` counts the tokens that stand for media too. Reported once these are known."""

    request_id: str
    characters: int
    cached_characters: int
    prompt_tokens: int
    seconds: float
    at: float


class WorkerPicked(Struct, frozen=True):
    """A policy chose `worker` (its name, not its address) on try number `attempt`, from 1."""

    request_id: str
    worker: str
    policy: str
    attempt: int
    at: float


class FirstToken(Struct, frozen=True):
    """The first output has come, `seconds` after the request started. Reported once, of the first attempt that brought some."""

    request_id: str
    worker: str
    seconds: float
    at: float


class Retrying(Struct, frozen=True):
    """A worker failed before the first byte; another is tried after `delay` seconds."""

    request_id: str
    worker: str
    error: str
    delay: float


class AttemptEnded(Struct, frozen=True):
    """One call of one worker's engine is over, well or not. `outcome` is "ok", "abandoned" (the client left, or the gateway shuts
    down) or the error's class name, `detail` what the engine said of it, for the operator alone; `finish` says why its choices
    ended, in the order in which they did; `first_seconds` is the time from its start to the first output, None when there was
    none. `client_id` is the client's own name for the request, "" where it gave none."""

    request_id: str
    worker: str
    attempt: int
    outcome: str
    completion_tokens: int
    finish: tuple[str, ...]
    first_seconds: float | None
    seconds: float
    at: float
    detail: str = ""
    client_id: str = ""


class FormatBroken(Struct, frozen=True):
    """The text of choice `index` is not of the format that was asked for; `violation` says why. Or it was not, and is after it
    was `mended`. Reported when the call of the engine is over, of streams and whole answers alike."""

    request_id: str
    worker: str
    index: int
    violation: str
    mended: bool = False


class RequestFinished(Struct, frozen=True):
    """The response ended. `outcome` is "ok", "client_gone", the error's class name, or "error" for a
    fault of the gateway that nobody had foreseen; counts are tokens. `worker` is the one that
    served it last ("" when none was chosen), `attempts` how many engine calls it took, `first_seconds` the time to the first
    output, None when there was none, `finish` why the choices ended, in the order in which they did, `violations` how many
    choices broke their format, those that were mended included."""

    request_id: str
    api: str
    model: str
    outcome: str
    status: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    seconds: float
    worker: str = ""
    attempts: int = 0
    first_seconds: float | None = None
    finish: tuple[str, ...] = ()
    detail: str = ""
    client_id: str = ""
    violations: int = 0


class ExchangeEnded(Struct, frozen=True):
    """An HTTP request was answered, or given up, on whatever route, or refused before it had one. `peer` is the other end of its
    connection, `sent` the bytes of the answer's body, `outcome` as in RequestFinished, `finished` that moment where the request
    was one to a model. `method`, `path` and `client_id` are the client's words: whoever writes them escapes them."""

    peer: str
    method: str
    path: str
    status: int
    sent: int
    seconds: float
    outcome: str
    request_id: str = ""
    client_id: str = ""
    finished: RequestFinished | None = None


class WorkerStateChanged(Struct, frozen=True):
    """A worker went from one state to another, for example "ready" to "unreachable"."""

    worker: str
    before: str
    after: str
    reason: str


Moment = (
    RequestStarted
    | Rendered
    | MediaLoaded
    | EncodeDone
    | WorkerPicked
    | FirstToken
    | AttemptEnded
    | FormatBroken
    | Retrying
    | RequestFinished
    | ExchangeEnded
    | WorkerStateChanged
)


class Observer(Protocol):
    """Someone who wants to know."""

    def report(self, moment: Moment) -> None:
        """Take note of a moment; return at once, never raise."""
        ...


class SilentObserver:
    """Listens to nothing; the default."""

    __slots__ = ()

    def report(self, moment: Moment) -> None:
        pass


class _FanOut:
    __slots__ = ("_observers",)

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers

    def report(self, moment: Moment) -> None:
        for observer in self._observers:
            observer.report(moment)


def fan_out(*observers: Observer) -> Observer:
    """One observer that passes every moment to all of `observers`, in order."""
    if not observers:
        return SilentObserver()
    return observers[0] if len(observers) == 1 else _FanOut(observers)
