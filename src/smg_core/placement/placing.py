"""The workers allowed and preferred for a request by placement, and the refusal without any.

Pure. Above: the pipeline's Select step and pooled work, which ask before a policy does. Below: rules, the records of workers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from smg_core.errors import NoWorker
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.placement.rules import LabelTerm, PlacedRequest, PlacementRule
from smg_core.request import Caller
from smg_core.routing.simple import pressure
from smg_core.workers.candidate import LEAST_WEIGHT, MOST_WEIGHT, CandidateRecord
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerRole, WorkerSpec

__all__ = ["Placing", "Wishes", "near"]

CODE = "no_placement"
LONGEST_QUOTE = 200
"""Characters that a refusal shows of the labels that it is about."""
KEPT = 1024
"""Sets of wishes for which the workers that fit are kept; a client may choose what a header says."""


class Placed(Protocol):
    """A worker, as far as placement looks at it."""

    @property
    def spec(self) -> WorkerSpec: ...

    @property
    def record(self) -> CandidateRecord: ...


W = TypeVar("W", bound=Placed)
LabelTerms = tuple[LabelTerm, ...]


class Wishes(Struct, frozen=True):
    """What the rules say of one request. `required` its workers have; `reserved` are the labels of workers that are others', each
    set of which keeps a worker out. `preferred` and `weighed` have the labels of each such rule in order. `lines` are the rules
    that `required` comes from; `given`: a part of it was in a header of the client."""

    required: LabelTerms = ()
    reserved: tuple[LabelTerms, ...] = ()
    preferred: tuple[tuple[LabelTerms, PlacementRule], ...] = ()
    weighed: tuple[tuple[LabelTerms, PlacementRule], ...] = ()
    lines: tuple[str, ...] = ()
    given: bool = False

    @property
    def part(self) -> str:
        """What tells requests that are placed alike from others, for policies; "" where no rule says anything."""
        kinds = (self.required,), self.reserved, (terms for terms, _ in self.preferred)
        lines = [f"{kind} {_text(terms)}" for kind, found in enumerate(kinds) for terms in found if terms]
        return "; ".join((*lines, *(f"{_text(terms)} by={rule.by:g}" for terms, rule in self.weighed)))

    def take(self, worker: Placed) -> bool:
        """Whether such a request may be sent to the worker."""
        labels = dict(worker.spec.labels)
        return _all_fit(self.required, labels) and not any(_all_fit(each, labels) for each in self.reserved)

    def weigh(self, workers: Sequence[Placed], records: Sequence[CandidateRecord]) -> tuple[CandidateRecord, ...]:
        """The records of workers as a policy is to be shown them."""
        return tuple([_weighed(self, *each) for each in zip(workers, records, strict=True)])

    def refusal(self, model: str, near: int, retry_after: float) -> NoWorker:
        """The error where no worker that is ready fits. `near`: how many of those that are not ready do."""
        labels = _text(self.required)
        labels = labels if len(labels) <= LONGEST_QUOTE else labels[: LONGEST_QUOTE - 3] + "..."
        where = f"with {labels}" if labels else "that is not reserved for others"
        given = labels if self.given else ""
        if near:
            return NoWorker(
                f"No worker for the model '{model}' {where} is ready.",
                code=CODE,
                outside_text=given,
                retry_after=retry_after,
            )
        return NoWorker(
            f"This request has to be placed on a worker {where}, and the model '{model}' has none.",
            code=CODE,
            outside_text=given,
            should_retry=False,
        )


class Placing:
    """The rules of one gateway. Which workers fit is kept for each set of wishes, until the workers are others."""

    def __init__(self, rules: Sequence[PlacementRule]) -> None:
        self._rules = tuple(rules)
        self._isolated = tuple([(rule, rule.reserved) for rule in rules if rule.verb == "isolate"])
        self._kept: dict[tuple[LabelTerms, tuple[LabelTerms, ...]], tuple[object, object]] = {}

    def wishes(self, caller: Caller, model: ServedModel, api: str, headers: Mapping[str, str]) -> Wishes:
        """What the rules say of a request of `caller` for `model`, which came through this API."""
        names = tuple(dict.fromkeys(each for each in (model.name, model.primary, model.adapter) if each))
        asked = PlacedRequest(caller.tenant, caller.principal, names, api, headers)
        required: list[LabelTerm] = []
        preferred, weighed = [], []
        lines, given = [], False
        foreign = dict(self._isolated)
        for rule in self._rules:
            terms = rule.terms_for(asked)
            if terms is None:
                continue
            if rule.verb == "prefer":
                preferred.append((terms, rule))
            elif rule.verb == "weigh":
                weighed.append((terms, rule))
            else:
                required += terms
                foreign.pop(rule, None)
                lines.append(rule.line)
                given = given or rule.takes_header
        return Wishes(tuple(required), tuple(foreign.values()), tuple(preferred), tuple(weighed), tuple(lines), given)

    def fitting(self, wishes: Wishes, workers: tuple[W, ...]) -> tuple[W, ...]:
        """Those of `workers` that the request may be sent to."""
        if not wishes.required and not wishes.reserved:
            return workers
        key = wishes.required, wishes.reserved
        kept = self._kept.get(key)
        if kept is not None and kept[0] is workers:
            return kept[1]  # type: ignore[return-value]  # made of these workers
        found = tuple([each for each in workers if wishes.take(each)])
        if len(self._kept) >= KEPT:
            self._kept.clear()
        self._kept[key] = workers, found
        return found

    def of(self, prompted: Prompted) -> Wishes:
        """What the rules say of the request of a prompt."""
        request = prompted.request
        api = request.origin.api if request.origin is not None else ""
        return self.wishes(request.caller, prompted.model, api, request.headers)

    def taking(
        self, prompted: Prompted, workers: tuple[Worker, ...], role: WorkerRole, registry: Registry
    ) -> tuple[Worker, ...]:
        """Those of `workers`, which are ready, that the request may be sent to. Raises NoWorker where there are none."""
        return self.placed(self.of(prompted), prompted.request.model, workers, role, registry)

    def placed(
        self, wishes: Wishes, model: str, workers: tuple[Worker, ...], role: WorkerRole, registry: Registry
    ) -> tuple[Worker, ...]:
        """As `taking`, of a request with these wishes for the model called `model`."""
        found = self.fitting(wishes, workers)
        if not found:
            raise wishes.refusal(model, near(wishes, registry.of(model), role), registry.retry_after)
        return found

    def favoured(self, wishes: Wishes, workers: tuple[W, ...]) -> tuple[tuple[W, ...], str]:
        """Those of `workers` among which a policy is to choose, and in words why. For each preference in turn those that have its
        labels, while one of them has fewer requests than the least loaded other one and the spill together."""
        lines = [*wishes.lines]
        if wishes.reserved:
            lines.append("not on workers that are reserved for others")
        for terms, rule in wishes.preferred:
            fits = [_all_fit(terms, dict(each.spec.labels)) for each in workers]
            inside = tuple([each for each, fit in zip(workers, fits, strict=True) if fit])
            outside = [each for each, fit in zip(workers, fits, strict=True) if not fit]
            if not inside or not outside:
                lines.append(f"{rule.line}: {len(inside)} of {len(workers)} are so")
            elif _least(inside) < _least(outside) + rule.spill:
                lines.append(f"{rule.line}: one of the {len(inside)} of {len(workers)} that are so")
                workers = inside
            else:
                lines.append(
                    f"{rule.line}: any of {len(workers)}, since the {len(inside)} that are so have too many requests"
                )
        lines += [rule.line for _, rule in wishes.weighed]
        return workers, "; ".join(lines)


def near(wishes: Wishes, workers: Iterable[Worker], role: WorkerRole) -> int:
    """How many of `workers`, in any state, a request with these wishes may be sent to in this role."""
    return sum(each.role in (role, "regular") and wishes.take(each) for each in workers)


def _weighed(wishes: Wishes, worker: Placed, record: CandidateRecord) -> CandidateRecord:
    """A worker's record with the weight that the rules give it."""
    labels = dict(worker.spec.labels)
    weight = record.weight
    for terms, rule in wishes.weighed:
        if _all_fit(terms, labels):
            weight *= rule.by
    return record if weight == record.weight else replace(record, weight=min(MOST_WEIGHT, max(LEAST_WEIGHT, weight)))


def _least(workers: Iterable[Placed]) -> float:
    return min(pressure(each.record) for each in workers)


def _all_fit(terms: LabelTerms, labels: dict[str, str]) -> bool:
    return all(term.fits(labels) for term in terms)


def _text(terms: LabelTerms) -> str:
    return " ".join(term.text for term in terms)
