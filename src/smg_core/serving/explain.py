"""Makes the `Explanation` of one request, which its sender may read (edge).

Fills `wire.explain.Explanation` from a `Trace`: either of a request under way, for the response header, or of a
rehearsal, in which a request is prepared and routed but no engine is asked.
"""

from collections.abc import Callable
from typing import TypedDict

from smg_core.hooks import AttemptEnded, EncodeDone, Hedged, ToolCalled, WorkerPicked
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.steps import Select
from smg_core.pipeline.pooled.gathering import Pooled
from smg_core.request import GenerationRequest, PoolRequest
from smg_core.serving.services import Services
from smg_core.wire.explain import Explanation, Phase, TimelineEntry, explanation_header

__all__ = ["explanation", "pool_explained", "rehearsal"]


def explanation(services: Services, trace: Trace, prompts: int = 1) -> Explanation:
    """The explanation of what `trace` has seen so far. What has not happened yet is absent. Of a request with several `prompts`
    it is about the one that was prepared last, and says how many there are."""
    prompted = trace.prompted
    if prompted is None:
        raise ValueError("nothing has been prepared yet")
    model, encoded = prompted.model, prompted.encoded
    picked, encoding, hedged = trace.picked, trace.last(EncodeDone), trace.last(Hedged)
    prefill = _prefill_of(trace, picked)
    worker = services.registry.get(picked.worker) if picked is not None else None
    moved = trace.migrations
    notes = {"parser": model.parser.name if model.parser is not None else "none", "cache": encoded.level or "none"}
    if worker is not None:
        notes["dialect"] = worker.facts.dialect
    if hedged is not None:
        notes["hedge"] = hedged.outcome
    return Explanation(
        request_id=prompted.request.id,
        model=model.name,
        prompt=prompted.text or None,
        token_ids=prompted.ids,
        prompt_characters=encoded.characters,
        cached_characters=encoding.cached_characters if encoding is not None else None,
        worker=_placed(services, picked) if picked is not None else None,
        policy=picked.policy if picked is not None else None,
        role=picked.role if picked is not None and picked.role != "regular" else None,
        prefill_worker=_placed(services, prefill) if prefill is not None else None,
        encode_workers=_encoders_of(services, trace, picked),
        attempts=tuple(_label(services, name) for name in trace.workers),
        phases=tuple(Phase(name, seconds) for name, seconds in trace.phases()),
        timeline=_timeline(services, trace),
        notes=notes,
        **_reasons(prefill or picked),
        migrations=len(moved),
        prompts=prompts,
        inexact=tuple(dict.fromkeys(reason for each in moved for reason in each.inexact)),
    )


def pool_explained(services: Services, trace: Trace, request: PoolRequest, pooled: Pooled) -> str:
    """The header that explains a request for pooled work that is over: of each worker that served it one attempt, in the order in
    which they were first chosen."""
    picked, encoding = trace.last(WorkerPicked), trace.last(EncodeDone)
    explanation = Explanation(
        request_id=request.id,
        model=pooled.model.name,
        prompt_characters=encoding.characters if encoding is not None else 0,
        worker=_label(services, picked.worker) if picked is not None else None,
        policy=picked.policy if picked is not None else None,
        role=picked.role if picked is not None else None,
        attempts=tuple(_label(services, name) for name in trace.workers),
        phases=tuple(Phase(name, seconds) for name, seconds in trace.phases()),
        notes={"inputs": str(len(pooled.vectors)), "tokens": str(pooled.prompt_tokens)},
        why=(picked.why or None) if picked is not None else None,
    )
    return explanation_header(explanation, services.live.config.observability.explain_characters)


class _Reasons(TypedDict, total=False):
    """What the policy said of its choice, as fields of an Explanation."""

    why: str | None
    expected_cached_tokens: int | None
    basis: str | None


def _reasons(picked: WorkerPicked | None) -> _Reasons:
    """What the policy said of the worker that reads the prompt."""
    if picked is None:
        return {}
    cached, basis = picked.cached or (None, None)
    return {"why": picked.why or None, "expected_cached_tokens": cached, "basis": basis}


def _timeline(services: Services, trace: Trace) -> tuple[TimelineEntry, ...]:
    """The turns and the calls of a response with tools that ran here; empty for one without."""
    found: list[TimelineEntry] = []
    for moment in trace.moments:
        if isinstance(moment, AttemptEnded):
            name = _label(services, moment.worker)
            found.append(TimelineEntry("model", name, moment.seconds, moment.outcome, moment.at - trace.started))
        elif isinstance(moment, ToolCalled):
            name, at = f"{moment.server}.{moment.tool}", moment.at - trace.started
            found.append(TimelineEntry("tool", name, moment.seconds, moment.outcome, at))
    return tuple(found) if any(each.kind == "tool" for each in found) else ()


def _prefill_of(trace: Trace, picked: WorkerPicked | None) -> WorkerPicked | None:
    """The choice of the worker that reads the prompt for the one that was `picked` last, if that only decodes."""
    if picked is None or picked.role != "decode":
        return None
    found = _picked_in(trace, picked.attempt)
    return next((moment for moment in found if moment.role == "prefill"), None)


def _encoders_of(services: Services, trace: Trace, picked: WorkerPicked | None) -> tuple[str, ...]:
    """The workers that encode the media for the attempt of `picked`, each once."""
    found = () if picked is None else _picked_in(trace, picked.attempt)
    return tuple(dict.fromkeys(_placed(services, moment) for moment in found if moment.role == "encode"))


def _picked_in(trace: Trace, attempt: int) -> list[WorkerPicked]:
    """The choices of the latest attempt of that number: a response of several turns has one in each."""
    found: list[WorkerPicked] = []
    for moment in reversed(trace.moments):
        if isinstance(moment, WorkerPicked):
            if moment.attempt != attempt or (found and moment.role == found[0].role):
                break
            found.append(moment)
    return found[::-1]


def _placed(services: Services, picked: WorkerPicked) -> str:
    """A worker's name for clients, and the data-parallel rank where one was chosen: "gpu-0@1"."""
    label = _label(services, picked.worker)
    return label if picked.rank is None else f"{label}@{picked.rank}"


def _label(services: Services, name: str) -> str:
    """A worker's name for clients: the one that the operator gave it, or a number if its name is its address."""
    worker = services.registry.get(name)
    if worker is None:
        return "a worker that has left"
    return worker.spec.name or f"worker-{worker.row + 1}"


async def rehearsal(services: Services, decode: Callable[[], GenerationRequest]) -> Explanation:
    """Decode, prepare and route a request without asking an engine. Raises what the request would."""
    trace = Trace(services.clock.monotonic(), services.observer)
    prompted = await services.running.performers.preparing.prepare(decode(), trace)
    for each in services.running.performers.selecting.choose(Select(prompted), trace).parts:
        each.give_back()
    return explanation(services, trace)
