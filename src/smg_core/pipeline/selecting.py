"""Performs `Select`: finds a worker for each role a turn needs (edge).

Candidates are the ready workers of the model and role whose engines can do what the request asks; the policy of that model and
role picks one of them. Nothing waits here today; a queue in front of full workers would. Above: performers. Below: fit, routing,
workers.
"""

from collections.abc import Mapping

from smg_core.clock import Clock
from smg_core.errors import InternalError, NoWorker, SmgError
from smg_core.hooks import WorkerPicked
from smg_core.pipeline.driver import Run
from smg_core.pipeline.fit import fitted
from smg_core.pipeline.prompted import Prompted
from smg_core.pipeline.served import ServedModel
from smg_core.pipeline.steps import Chosen, Placement, Select
from smg_core.pipeline.trace import Trace
from smg_core.request import GenerationRequest
from smg_core.routing import Pick, Policies, RoutingContext
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerRole

__all__ = ["Selecting", "able"]


class Selecting:
    """The performer of `Select`: `registry` has the workers, `policies` choose. `models` are looked at to refuse a prompt whose
    model was replaced after it was made."""

    def __init__(
        self, *, registry: Registry, models: Mapping[str, ServedModel], policies: Policies, clock: Clock
    ) -> None:
        self._registry = registry
        self._models = models
        self._policies = policies
        self._clock = clock

    async def __call__(self, step: Select, run: Run) -> Placement:
        return self.choose(step, run.trace)

    def choose(self, step: Select, trace: Trace) -> Placement:
        """A worker for each role. Raises ModelNotFound, NoWorker, or the refusal if no engine can do what is asked."""
        if len(step.roles) == 1:
            return Placement((self._one(step, step.roles[0], trace),))
        return Placement(tuple([self._one(step, role, trace) for role in step.roles]))

    def _one(self, step: Select, role: WorkerRole, trace: Trace) -> Chosen:
        prompted = step.prompted
        request = prompted.request
        candidates = self._registry.candidates(request.model, step.exclude, role)
        self._refuse_outdated(prompted, candidates)
        try:
            if self._registry.uniform(request.model, role):
                fitted(prompted, candidates[0].facts)  # one speaks for all
            else:
                candidates = able(prompted, candidates)
        except SmgError:
            self._refuse_for_now(prompted, role)
            raise
        context = RoutingContext(
            request_id=request.id,
            model=request.model,
            input_ids=prompted.ids,
            headers=request.headers,
            cache_key=_own_key(request),
            cache_salt=prompted.salt or None,
            media_keys=prompted.media_keys,
        )
        policy = self._policies.of(prompted.model.primary or request.model, role)
        pick = policy.pick(candidates, context)
        if not isinstance(pick, Pick) or pick.worker not in candidates:
            raise InternalError(
                "The gateway failed to choose a worker.",
                detail=f"the policy {policy.name!r} answered {pick!r}, which is no Pick of one of the candidates",
            )
        worker = pick.worker
        trace.report(WorkerPicked(request.id, worker.name, policy.name, step.attempt, self._clock.monotonic()))
        return Chosen(worker, role, pick.rank)

    def _refuse_outdated(self, prompted: Prompted, candidates: tuple[Worker, ...]) -> None:
        """Raise NoWorker if the model has another tokenizer by now than the one that made the ids: its workers left and others
        joined after the prompt was made."""
        model = self._models.get(prompted.request.model)
        if model is prompted.model or model is None or model.tokenizer is prompted.model.tokenizer:
            return
        if prompted.model.tokenizer is not None and any(each.facts.door == "ids" for each in candidates):
            raise NoWorker(f"The model '{prompted.model.name}' was replaced meanwhile.", retry_after=1.0)

    def _refuse_for_now(self, prompted: Prompted, role: WorkerRole) -> None:
        """Raise NoWorker if a worker that is not reachable now could do what the ready ones cannot."""
        model = prompted.request.model
        away = [each for each in self._registry.of(model) if each.role == role and each.state == "unreachable"]
        try:
            able(prompted, tuple(away))
        except SmgError:
            return
        if away:
            self._registry.refuse(model)


def _own_key(request: GenerationRequest) -> str | None:
    """The client's routing key among those of its tenant, so that a guessed one does not lead to another tenant's worker."""
    key, tenant = request.cache_key, request.caller.tenant
    return key if key is None or not tenant else f"{len(tenant)}:{tenant}{key}"


def able(prompted: Prompted, candidates: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """The candidates whose engines can do what is asked; raises the refusal when none can."""
    found, refusal = [], None
    for worker in candidates:
        try:
            fitted(prompted, worker.facts)
        except SmgError as error:
            refusal = refusal or error
        else:
            found.append(worker)
    if not found and refusal is not None:
        raise refusal
    return tuple(found)
