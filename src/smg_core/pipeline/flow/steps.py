"""The steps that a flow may ask its driver to perform.

A flow decides about a whole response. It is a generator of frozen steps, so a test answers the steps from a list and needs no
event loop. A step has the type of its outcome as a parameter; `ask` returns the outcome with that type. Steps hold values only;
what must be opened, awaited or closed is in the step's performer. Tokens never pass through here.
"""

from collections.abc import Callable, Container, Generator
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from smg_core.events import Event
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import GenerationRequest
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import ProbeCall, Worker, WorkerRole

__all__ = [
    "Chosen",
    "Commitment",
    "Finish",
    "Flow",
    "Hedge",
    "PartFlow",
    "Placement",
    "Prepare",
    "Raced",
    "Select",
    "Step",
    "Stream",
    "Tell",
    "Together",
    "TriesLeft",
    "Wait",
    "ask",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Step(Struct, Generic[T_co], frozen=True):
    """Something to be done; its outcome has the type `T_co`."""


class Chosen(Struct, frozen=True):
    """A worker, the role it was chosen for, and the data-parallel rank that its engine is to use (None: the engine's choice).
    `reads`: the tokens of the prompt that it is expected to have to read. `probe`: the one that the call is, where it is one of
    the few that the worker gets while its breaker is half-open."""

    worker: Worker
    role: WorkerRole = "regular"
    rank: int | None = None
    reads: int = 0
    probe: ProbeCall | None = None

    def give_back(self) -> None:
        """Called when nothing comes of it any more, whether its outcome was told or not."""
        if self.probe is not None:
            self.probe.give_back()


class Placement(Struct, frozen=True):
    """Where a turn is to be computed: a worker for each role that was asked for, in that order. `encoders` are the workers that
    encode its media, one for each medium; empty where the engine that reads the prompt does that itself."""

    chosen: tuple[Chosen, ...]
    encoders: tuple[Chosen, ...] = ()

    @property
    def last(self) -> Chosen:
        """The worker that answers: of prefill and decode, decode."""
        return self.chosen[-1]

    @property
    def prefill(self) -> Chosen | None:
        """The worker that reads the prompt for the one that answers; None if that one does it all."""
        return self.chosen[0] if len(self.chosen) > 1 else None

    @property
    def parts(self) -> tuple[Chosen, ...]:
        """All that were chosen."""
        return (*self.chosen, *self.encoders)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.worker.name for each in self.parts)


class Prepare(Step[Prompted], frozen=True):
    """Render and tokenise the request for its model, or for `model` where that is to answer in its place."""

    request: GenerationRequest
    model: str = ""


class Select(Step[Placement], frozen=True):
    """Choose a ready worker for each of `roles`, none of those named in `exclude`, and only among workers whose engines can do
    what is asked. Without `roles`, those that the model's workers are there for: prefill and decode, or one worker for all.
    `attempt` counts from 1. `received`: the turn is to go on behind so many tokens, which only an engine that takes ids, and has
    room for them, can do. `spare`: what is asked could be left, so it takes no worker that is to be left alone for a while, and
    one that has just begun no more often than its share. `suspects` are pairs of a prefill and a decode worker that have failed
    together: none of them is chosen if there are others, else those of one kind alone, else two that have not failed together.
    `note`: what was done before a worker could be chosen, for the record of the decision. Raises the refusal when no engine can
    do it, and NoWorker."""

    prompted: Prompted
    exclude: frozenset[str] = frozenset()
    attempt: int = 1
    roles: tuple[WorkerRole, ...] = ()
    received: int | None = None
    spare: bool = False
    suspects: frozenset[tuple[str, str]] = frozenset()
    note: str = ""


class TriesLeft(Struct, frozen=True):
    """What may follow a call if its worker is lost: `retries` tries from the beginning, and `migrations` that go on behind what
    has come, as far as `settings` let those differ; none of the workers named in `exclude`, and of `suspects` as in `Select`."""

    exclude: frozenset[str] = frozenset()
    retries: int = 0
    migrations: int = 0
    settings: WorkersConfig = WorkersConfig()
    suspects: frozenset[tuple[str, str]] = frozenset()


class Stream(Step[Turn], frozen=True):
    """Send the prompt to the chosen worker and pass its output to the client; done when the turn is over. An error is not raised
    but is in `Turn.error`.

    `ends`: the response ends with this turn; if False, the `Finished` of its choices are held back, for a flow that goes on with
    another turn. `keep`: keep the output in `Turn.outputs`. `resumable`: keep the ids, so that another call can continue the turn
    (`keep` does so too). `visible`: the client gets the output; if False, only the flow does, by
    `keep`, though its tokens are in the client's `Usage`. `continues` is a turn that failed or was cut short, and is resumable:
    this one continues it and has the outputs of both. If that is not possible (`Turn.reader` is None, or the chosen engine speaks
    chat), the failed turn's error is raised. `prefill` is the worker that reads the prompt first, if `chosen` only decodes;
    `encoders` are those that encode the media for it, one for each.
    `hosted` are the names of tools that run here: the flow gets their calls, by `keep`, and the client does not.
    `after` is what the flow does if the worker is lost: a call after which nothing may follow is not ended for that.
    """

    prompted: Prompted
    chosen: Chosen
    attempt: int = 1
    ends: bool = True
    keep: bool = False
    continues: Turn | None = None
    prefill: Chosen | None = None
    encoders: tuple[Chosen, ...] = ()
    visible: bool = True
    hosted: Container[str] = frozenset()
    resumable: bool = False
    after: TriesLeft = TriesLeft()

    @property
    def parts(self) -> tuple[Chosen, ...]:
        """All that take part in the call; the one that answers is the first."""
        return (self.chosen, *((self.prefill,) if self.prefill is not None else ()), *self.encoders)


class Raced(Struct, frozen=True):
    """How a turn ended for which two workers may have been asked. `stream` is the step, and `placement` the place, of the call
    whose `turn` this is; `others` are the workers of the other call, where there was one."""

    turn: Turn
    stream: Stream
    placement: Placement
    others: frozenset[str] = frozenset()


class Hedge(Step[Raced], frozen=True):
    """As `stream`, which begins an answer that leaves whole at `placement`; and where the answer is late, the same of a second
    worker, none of those named in `exclude`. The first whole answer counts, and the other call is given up. `settings` say when
    it is late, and how many second calls there may be."""

    stream: Stream
    placement: Placement
    exclude: frozenset[str]
    settings: RoutingConfig


class Tell(Step[None], frozen=True):
    """Pass `events` to the client that no engine has made, between two turns: whole blocks."""

    events: tuple[Event, ...]


class Finish(Step[None], frozen=True):
    """End the response, complete. `turn` is its last turn; its `Finished` events are sent now if they were held back."""

    turn: Turn


class Together(Step[Turn], frozen=True):
    """Run `flows` at the same time, at most `at_once` of them; each is called with a part of the answer. The resulting turn has
    the usage of all; their choices have ended in their parts. Raises the error of the first that fails; the path in its `param`
    then begins with `requests[i].`, where i is the flow's index."""

    flows: "tuple[PartFlow, ...]"
    at_once: int = 1


class Wait(Step[None], frozen=True):
    """Let `seconds` pass."""

    seconds: float


Flow = Generator[Step[object], Any, T]


class Commitment(Protocol):
    """Tells whether the first byte has gone out; an `Answer` is one."""

    @property
    def committed(self) -> bool: ...


PartFlow = Callable[[Commitment], Flow[object]]
"""Makes the flow of one part of an answer, given that part."""


def ask(step: Step[T]) -> Generator[Step[T], T, T]:
    """`outcome = yield from ask(step)`: the step's outcome, with its type."""
    return (yield step)
