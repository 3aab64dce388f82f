"""The flows every request goes through: `generate` makes one turn, `respond` makes a response of it.

`generate` prepares, selects, streams, and tries again elsewhere while nothing has gone out. The commit point is the first byte
sent to the client: before it, a worker that is gone or full is excluded and another is chosen; after it, the error belongs to
the client. A response is a flow around turns, and only the outermost flow ends it: `respond` is the one with a single turn;
a tool loop and history are others. When the client leaves or the gateway shuts down, ClientGone or Draining
is thrown into the flow at the step that it waits for; steps that the flow asks for after that are still performed.

Decides whether to try again, where and after how long. The driver's performers do the work.
"""

import random
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import ClientGone, Draining, SmgError
from smg_core.hooks import Observer, Retrying
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.steps import Commitment, Finish, Flow, PartFlow, Prepare, Select, Stream, Together, Wait, ask
from smg_core.pipeline.turn import Turn
from smg_core.request import GenerationRequest
from smg_core.routing.settings import RoutingConfig

__all__ = ["Terms", "generate", "prefilling", "respond", "respond_together", "retry_delay"]


class Terms(Struct, frozen=True):
    """The inputs of a flow's decisions: whether the client has seen something, the settings of retries, randomness for
    their pauses, the observer, and the bounds on tools that run here."""

    answer: Commitment
    retries: RoutingConfig
    rng: random.Random
    observer: Observer
    tools: McpConfig = McpConfig()


def respond(request: GenerationRequest, terms: Terms) -> Flow[None]:
    """The response of one turn. Raises the error that the client is to see when that cannot be done."""
    turn = yield from generate(request if request.generate else prefilling(request), terms)
    yield from ask(Finish(turn))


def prefilling(request: GenerationRequest) -> GenerationRequest:
    """A `request` that is to fill the engine's cache and nothing else, as engines are asked it: for one token, since they make no
    fewer. The API's encoder leaves it out."""
    return replace(request, generate=True, sampling=replace(request.sampling, max_tokens=1, min_tokens=None))


def respond_together(requests: Sequence[GenerationRequest], at_once: int, terms: Terms) -> Flow[None]:
    """The response that several requests make together: one turn each, `at_once` of them at the same time."""

    def each(request: GenerationRequest) -> PartFlow:
        return lambda part: respond(request, replace(terms, answer=part))

    turn = yield from ask(Together(tuple([each(request) for request in requests]), at_once))
    yield from ask(Finish(turn))


def generate(
    request: GenerationRequest,
    terms: Terms,
    *,
    ends: bool = True,
    keep: bool = False,
    shown: bool = True,
    hosted: frozenset[str] = frozenset(),
) -> Flow[Turn]:
    """One turn of the model on `request`, from prepared to complete. `ends`, `keep`, `shown` and `hosted` as in `Stream`. Raises
    what went wrong."""
    prompted = yield from ask(Prepare(request))
    tried: frozenset[str] = frozenset()
    failure: SmgError | None = None
    attempts = terms.retries.retries + 1
    for attempt in range(1, attempts + 1):
        try:
            placement = yield from ask(Select(prompted, tried, attempt))
        except (ClientGone, Draining):
            raise
        except SmgError:
            if failure is not None:  # no worker is left: the last worker's error says more
                raise failure from None
            raise
        step = Stream(
            prompted,
            placement.last,
            attempt,
            ends,
            keep,
            prefill=placement.prefill,
            encoders=placement.encoders,
            shown=shown,
            hosted=hosted,
        )
        turn = yield from ask(step)
        if turn.cut_short:
            turn = yield from ask(replace(step, continues=turn))
        failure = turn.error
        if failure is None:
            return turn
        if not failure.another_worker_may_do or terms.answer.committed or attempt == attempts:
            break
        tried |= placement.names if turn.failed is None else {turn.failed}
        delay = retry_delay(attempt, terms.retries, terms.rng)
        terms.observer.report(
            Retrying(prompted.request.id, turn.failed or placement.last.worker.name, type(failure).__name__, delay)
        )
        if delay:
            yield from ask(Wait(delay))
    raise failure if failure is not None else AssertionError("there is one attempt at least")


def retry_delay(retry: int, settings: RoutingConfig, rng: random.Random) -> float:
    """Seconds before retry number `retry`, from 1. The first goes out at once, to another worker. For later ones a time that
    doubles with each retry is the maximum, and the pause is drawn between half of it and all of it."""
    if retry == 1:
        return 0.0
    ceiling = min(settings.retry_most_s, settings.retry_s * 2.0 ** (retry - 2))
    return ceiling * (0.5 + 0.5 * rng.random())
