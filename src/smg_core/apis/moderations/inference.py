"""Finds who moderates: a provider that has a route for that, or a classifier of the gateway (edge).

Above: routes. Below: the handler of pooled work, the engines.
"""

import msgspec
from msgspec.structs import replace

from smg_core.apis.moderations.wire import ModerationDecoded, moderations_api
from smg_core.apis.pooling.inference import PoolInference
from smg_core.engines.moderating import Moderates
from smg_core.errors import EngineGarbled, InvalidRequest, SmgError
from smg_core.http.exchange import Exchange
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.pooled.gathering import Pooled
from smg_core.request import Caller
from smg_core.serving.services import Services

__all__ = ["ModerationInference"]

_USUAL = "omni-moderation-latest"
"""The model that OpenAI's API takes where none is named."""


class _Moderated(Pooled, frozen=True):
    """What a provider has answered: the `body` of the answer."""

    body: bytes = b""


class ModerationInference(PoolInference[ModerationDecoded]):
    """Answers requests for moderations."""

    def __init__(self, services: Services) -> None:
        super().__init__(services, moderations_api(services.live.config.guardrails.harmless))

    def _with_model(self, decoded: ModerationDecoded, exchange: Exchange) -> ModerationDecoded:
        if decoded.request.model:
            return decoded
        return replace(decoded, request=replace(decoded.request, model=self._usual(exchange.caller)))

    def _usual(self, caller: Caller) -> str:
        """The model that is meant where none is named. Raises InvalidRequest where there are several, or none."""
        services = self._services
        names = [
            each
            for each in services.lookup.names(caller)
            if any("classify" in facts.pools for facts in services.registry.kinds(each))
        ]
        if _USUAL in names:
            return _USUAL
        served = {services.models[each].primary or services.models[each].name for each in names}
        if len(served) != 1:
            raise InvalidRequest(
                "Missing required parameter: 'model'.", param="model", code="missing_required_parameter"
            )
        return served.pop()

    async def _pooled(self, exchange: Exchange, decoded: ModerationDecoded, timeouts: Timeouts, trace: Trace) -> Pooled:
        services, request = self._services, decoded.request
        model = services.lookup.served_or_refused(request.model, request.caller)
        failure: SmgError | None = None
        for worker in services.registry.of(model.name):
            engine = worker.engine
            if worker.state != "ready" or not isinstance(engine, Moderates):
                continue
            try:
                answer = await engine.moderate({"input": decoded.given}, timeouts.request)
            except SmgError as error:
                if not error.another_worker_may_do:
                    raise
                failure = error
                continue
            if answer is not None:
                return _Moderated(model, (), 0, body=_named(answer, request.model))
        if failure is not None:
            raise failure
        decoded.check_classifiable()
        return await super()._pooled(exchange, decoded, timeouts, trace)

    async def _written(self, decoded: ModerationDecoded, pooled: Pooled) -> bytes:
        return pooled.body if isinstance(pooled, _Moderated) else await super()._written(decoded, pooled)


def _named(body: bytes, model: str) -> bytes:
    """The answer of a provider, with the name by which the model was asked for. Raises EngineGarbled for what is none."""
    try:
        answer = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = {}
    if "results" not in answer:
        raise EngineGarbled("The provider's answer is none to this request.", detail="moderations without results")
    answer["model"] = msgspec.Raw(msgspec.json.encode(model))
    return msgspec.json.encode(answer)
