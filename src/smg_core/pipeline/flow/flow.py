"""The flows every request goes through: `generate` makes one turn, `respond` makes a response of it.

`generate` prepares, selects, streams, and tries again elsewhere when an engine is lost or full: from the beginning while
nothing has come of the answer, else behind the tokens that have come (`tries` has the table). What cannot go on after the
commit point, the first byte sent to the client, ends with the error. A response is a flow around turns, and only the outermost
flow ends it: `respond` is the one with a single turn; a tool loop and history are others. When the client leaves or the gateway
shuts down, ClientGone or Draining is thrown into the flow at the step that it waits for; steps that the flow asks for after
that are still performed.

Decides whether to try again, where and after how long. The driver's performers do the work.
"""

import random
from collections.abc import Container, Sequence

from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import ClientGone, Draining, EngineRejected, InvalidRequest, ModelNotFound, SmgError
from smg_core.hooks import FellBack, Migrating, Observer, Retrying
from smg_core.pipeline.answer.turn import Turn
from smg_core.pipeline.flow.steps import (
    Commitment,
    Finish,
    Flow,
    Hedge,
    PartFlow,
    Placement,
    Prepare,
    Raced,
    Select,
    Stream,
    Together,
    Wait,
    ask,
)
from smg_core.pipeline.flow.tries import Tries
from smg_core.pipeline.output.continuing import within_vocabulary
from smg_core.pipeline.prompt.media_notes import all_noted, noted_earlier
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.settings import McpConfig
from smg_core.request import GenerationRequest
from smg_core.routing.model_choice import ModelChoice
from smg_core.routing.retry_budget import RetryBudgets
from smg_core.routing.settings import RoutingConfig
from smg_core.workers.settings import WorkersConfig

__all__ = [
    "Terms",
    "generate",
    "is_hedged",
    "prefilling",
    "reason_to_go_on",
    "respond",
    "respond_together",
    "retry_delay",
    "shadowed",
]


class Terms(Struct, frozen=True):
    """The inputs of a flow's decisions: whether the client has seen something, the settings of retries, randomness for
    their pauses, the observer, the bounds on tools that run here, the settings of workers: how often an answer may go on with
    another one; the budgets of retries; which models a name stands for (None: as `retries` say, without aliases); and whether a
    note may stand for a medium of an earlier turn that no engine takes."""

    answer: Commitment
    retries: RoutingConfig
    rng: random.Random
    observer: Observer
    tools: McpConfig = McpConfig()
    workers: WorkersConfig = WorkersConfig()
    budgets: RetryBudgets | None = None
    choice: ModelChoice | None = None
    notes: bool = False


def respond(request: GenerationRequest, terms: Terms) -> Flow[object]:
    """The response of one turn. Raises the error that the client is to see when that cannot be done."""
    request = request if request.generate else prefilling(request)
    return (
        _finished(request, terms)
        if terms.retries.fallbacks or terms.notes
        else _turn(request, "", terms, finishes=True)
    )


def _finished(request: GenerationRequest, terms: Terms) -> Flow[None]:
    turn = yield from generate(request, terms)
    yield Finish(turn)


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


def shadowed(request: GenerationRequest, model: str) -> Flow[Turn]:
    """A turn of `model` on a copy of a request, once, of a worker that can be spared. Its errors are in the turn, and what no
    engine was asked for is raised."""
    prompted = yield from ask(Prepare(request, model))
    placement = yield from ask(Select(prompted, spare=True))
    step = Stream(prompted, placement.last, prefill=placement.prefill, encoders=placement.encoders)
    turn = yield from ask(step)
    if turn.cut_short:
        turn = yield from ask(replace(step, continues=turn))
    return turn


def generate(
    request: GenerationRequest,
    terms: Terms,
    *,
    ends: bool = True,
    keep: bool = False,
    visible: bool = True,
    hosted: Container[str] = frozenset(),
) -> Flow[Turn]:
    """One turn of the model on `request`, from prepared to complete; of the next model of its chain where one cannot answer and
    the client has seen nothing. `ends`, `keep`, `visible` and `hosted` as in `Stream`. Raises what went wrong: with the first
    model, if none of the others can answer either."""
    if terms.notes:
        return _noting(request, replace(terms, notes=False), ends=ends, keep=keep, visible=visible, hosted=hosted)
    if not terms.retries.fallbacks:
        return _turn(request, "", terms, ends=ends, keep=keep, visible=visible, hosted=hosted)
    return _chained(request, terms, ends=ends, keep=keep, visible=visible, hosted=hosted)


def _noting(
    request: GenerationRequest, terms: Terms, *, ends: bool, keep: bool, visible: bool, hosted: Container[str]
) -> Flow[Turn]:
    """As `generate`, with notes in place of media of earlier turns that no engine of the model takes: what its files say is seen
    before, when the request is prepared."""
    while True:
        try:
            return (yield from generate(request, terms, ends=ends, keep=keep, visible=visible, hosted=hosted))
        except InvalidRequest as error:
            if terms.answer.committed or request.context_edits:  # edits move the messages that the error counts
                raise
            noted = noted_earlier(request, error)
            if noted is None and isinstance(error, EngineRejected):  # an engine does not say which one it rejects
                noted = all_noted(request)
            if noted is None:
                raise
            request = noted


def _chained(
    request: GenerationRequest, terms: Terms, *, ends: bool, keep: bool, visible: bool, hosted: Container[str]
) -> Flow[Turn]:
    """As `generate`, where names have models that are asked when their own cannot answer."""
    choice, first = terms.choice or ModelChoice(terms.retries), None
    chain = choice.chain(request)
    for model, following in zip(chain, (*chain[1:], ""), strict=True):
        try:
            return (yield from _turn(request, model, terms, ends=ends, keep=keep, visible=visible, hosted=hosted))
        except (ClientGone, Draining):
            raise
        except SmgError as error:
            first = first or error
            reason = reason_to_go_on(choice, request, model, error)
            if terms.answer.committed:
                raise
            if not following or not reason:
                raise first from None
            terms.observer.report(FellBack(request.id, model, following, reason))
    raise AssertionError("a chain has a model")


def reason_to_go_on(choice: ModelChoice, request: GenerationRequest, model: str, error: SmgError) -> str:
    """Why the model after `model` in the chain of `request` is asked after `error`; "" where it is not. That a model is unknown
    is no reason where the caller may not know of it."""
    hidden = isinstance(error, ModelNotFound) and not request.caller.grants.may_use(request.model, model)
    return "" if hidden else choice.goes_on(error)


def _turn(
    request: GenerationRequest,
    model: str,
    terms: Terms,
    *,
    ends: bool = True,
    keep: bool = False,
    visible: bool = True,
    hosted: Container[str] = frozenset(),
    finishes: bool = False,
) -> Flow[Turn]:
    """One turn of `model` ("": the one that the request names), tried again with other workers; it `finishes` the response."""
    prompted: Prompted = yield Prepare(request, model)
    budget = None if terms.budgets is None else terms.budgets.paid(prompted.model.name)
    tries = Tries(terms.retries.retries, terms.workers, budget)
    try:
        while True:
            placement: Placement = yield from _select(prompted, tries, terms.answer)
            if tries.failure is not None:
                _go_on(prompted, tries, placement, terms)
                tries.made(terms.observer)
            step = Stream(
                prompted,
                placement.chosen[-1],
                tries.number,
                ends,
                keep,
                continues=tries.going_on,
                prefill=placement.chosen[0] if len(placement.chosen) > 1 else None,
                encoders=placement.encoders,
                visible=visible,
                hosted=hosted,
                resumable=terms.workers.migrations > 0,
                after=tries.after,
            )
            if (terms.retries.hedge_after_s or terms.retries.hedge_percentile) and is_hedged(step, terms.retries):
                raced: Raced = yield Hedge(step, placement, tries.tried, terms.retries)
                turn, step, placement = raced.turn, raced.stream, raced.placement
                tries.asked_too(raced.others)
            else:
                turn = yield step
            if turn.cut_short:
                turn = yield replace(step, continues=turn)
            if turn.error is None:
                break
            if (easier := tries.eased(prompted, turn, placement)) is not None:
                prompted = easier
                continue
            if tries.failed_with(turn, turn.error, placement, committed=terms.answer.committed) == "end":
                raise turn.error
            delay = retry_delay(tries.retried, terms.retries, terms.rng)
            if tries.retried:
                tries.retrying = Retrying(prompted.request.id, tries.failed, type(turn.error).__name__, delay)
            if delay:
                yield Wait(delay)
    finally:
        if tries.failure is not None:
            tries.over()
    if finishes:
        yield Finish(turn)
    return turn


def is_hedged(step: Stream, settings: RoutingConfig) -> bool:
    """Whether a second worker may be asked for what `step` asks, if its answer is late: a short answer that leaves whole, of one
    turn that calls no tool here. One that goes on with another worker's tokens is not asked twice."""
    if not settings.hedge_after_s and not settings.hedge_percentile:
        return False
    request, bound = step.prompted.request, step.prompted.request.sampling.max_tokens
    whole = not request.stream and not request.background and step.continues is None
    alone = step.ends and step.visible and not step.keep and not step.hosted
    short = bound is not None and bound <= settings.hedge_tokens
    return whole and alone and short and step.prompted.ids.size <= settings.hedge_prompt_tokens


def _select(prompted: Prompted, tries: Tries, answer: Commitment) -> Flow[Placement]:
    """Where the next try is made. Raises the last failure where no worker is left: it says more."""
    received = tries.going_on.received if tries.going_on is not None and answer.committed else None
    try:
        placement: Placement = yield Select(
            prompted, tries.tried, tries.number, received=received, suspects=tries.suspects
        )
    except (ClientGone, Draining):
        raise
    except SmgError:
        if tries.failure is not None:
            raise tries.failure from None
        raise
    return placement


def _go_on(prompted: Prompted, tries: Tries, placement: Placement, terms: Terms) -> None:
    """See to it that a turn that goes on at `placement` may do so; it is begun again if it should not, and the client has seen
    nothing of it. Raises the failure if that is too late."""
    going_on, failure = tries.going_on, tries.failure
    if going_on is None or failure is None:
        return
    reasons = tries.differs(prompted, placement)
    trusted = within_vocabulary(going_on.reader, prompted.model.vocab_size)
    if not terms.answer.committed and (reasons or not trusted or not placement.last.worker.facts.takes_ids):
        tries.going_on = None
        return
    if not trusted or not tries.may_differ(reasons):
        raise failure
    worker, tokens = placement.last.worker.name, going_on.received
    terms.observer.report(Migrating(prompted.request.id, tries.failed, worker, type(failure).__name__, tokens, reasons))


def retry_delay(retry: int, settings: RoutingConfig, rng: random.Random) -> float:
    """Seconds before retry number `retry`, from 1. The first goes out at once, to another worker, and so does what goes on with
    an answer (0). For later ones a time that doubles with each retry is the maximum, and the pause is drawn between half of it
    and all of it."""
    if retry <= 1:
        return 0.0
    ceiling = min(settings.retry_most_s, settings.retry_s * 2.0 ** (retry - 2))
    return ceiling * (0.5 + 0.5 * rng.random())
