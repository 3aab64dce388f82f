"""The routes of Google's Interactions API: create, read, follow, cancel and delete (edge).

The same routes stand under `/v1`, `/v1beta` and `/v1alpha`; under the first the usual wire revision is that of steps, under the
others the earlier one. Every id is looked up among those of the caller's tenant; another's is as if it did not exist. Above:
app.stateful_routes. Below: the handler of APIs, the background, the history.
"""

from collections.abc import Mapping
from functools import partial

import attrs

from smg_core.apis.google.answer_types import GeminiError
from smg_core.apis.interactions.answer_types import InteractionAnswer, InteractionEvent
from smg_core.apis.interactions.api import background_interactions, interactions_api
from smg_core.apis.interactions.decode import InteractionRequest, Revision, revision_of
from smg_core.apis.interactions.memory import InteractionMemory
from smg_core.apis.interactions.object import rendered_interaction
from smg_core.apis.interactions.records import INTERACTION_PREFIX, interaction_of
from smg_core.apis.interactions.resume import interaction_event
from smg_core.apis.interactions.trials import TRIALS
from smg_core.apis.interactions.types import InteractionBody
from smg_core.background.api import BackgroundApi
from smg_core.background.service import BackgroundService, background_service
from smg_core.errors import NotFound
from smg_core.history.store.base import StoredResponse
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec
from smg_core.stored.answers import StoredHandlers
from smg_core.wire.errors import gemini_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC"]

_REVISIONS: tuple[tuple[str, Revision], ...] = (("v1", "steps"), ("v1beta", "legacy"), ("v1alpha", "legacy"))


_STREAM = "text/event-stream"

_ASKED: JsonObject = {"model": "MODEL", "input": "Hello"}

_FOUND = OperationResponse(200, "The interaction.", InteractionAnswer)


def _operation(name: str, summary: str, *answers: OperationResponse, body: object = None) -> Operation:
    examples = {"whole": _ASKED, "stream": {**_ASKED, "stream": True}} if body is not None else {}
    return Operation(name, summary, "interactions", body, answers, examples, error=GeminiError)


INTERACTIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/interactions"): _operation(
        "createInteraction",
        "Answer in the words of Google's Interactions API; the interaction is kept and can be continued.",
        _FOUND,
        OperationResponse(200, "The events.", InteractionEvent, _STREAM),
        body=InteractionBody,
    ),
    ("GET", "/interactions/{id}"): _operation("getInteraction", "An interaction that is kept, or its events.", _FOUND),
    ("DELETE", "/interactions/{id}"): _operation(
        "deleteInteraction", "Forget an interaction.", OperationResponse(200, "Nothing.", JsonObject)
    ),
    ("POST", "/interactions/{id}/cancel"): _operation(
        "cancelInteraction", "End an interaction that is made in the background.", _FOUND
    ),
}
"""The routes, by method and pattern below the version."""


def interaction_routes(
    services: Services, background: BackgroundService, api: BackgroundApi[InteractionRequest]
) -> list[Route[Endpoint]]:
    """The routes, over `gateway`; `background` has what is made there, by the row `api`."""
    found: list[Route[Endpoint]] = []
    log_bytes, detach = services.live.config.responses.log_bytes, partial(background.create, api)
    for version, usual in _REVISIONS:
        made = interactions_api(usual, services.clock.time, api.memory, log_bytes)
        stored = _Interactions(services, background, api, usual)
        one = "/interactions/{id}"
        rows: tuple[tuple[str, str, Handler], ...] = (
            ("POST", "/interactions", Inference(services, made, detach)),
            ("GET", one, stored.retrieve),
            ("DELETE", one, stored.delete),
            ("POST", f"{one}/cancel", stored.cancel),
        )
        for method, pattern, handler in rows:
            about = INTERACTIONS[method, pattern]
            own = attrs.evolve(about, name=f"{about.name}_{version}")
            reads_json = pattern == "/interactions"
            found.append(
                Route(
                    method, f"/{version}{pattern}", Endpoint(handler, "interactions", reads_json=reads_json, about=own)
                )
            )
    return found


class _Interactions(StoredHandlers):
    """Interactions by their ids, where requests that name no revision are of the `usual` one."""

    def __init__(
        self, services: Services, background: BackgroundService, api: BackgroundApi[InteractionRequest], usual: Revision
    ) -> None:
        super().__init__(services)
        self._background, self._api, self._usual = background, api, usual

    async def _found(self, exchange: Exchange) -> StoredResponse:
        id = exchange.path_values["id"]
        known = id.startswith(INTERACTION_PREFIX)
        found = await self._services.running.history.response(exchange.caller.tenant, id) if known else None
        if found is None:
            raise NotFound(f"Interaction not found: {id[:100]}")
        return found

    async def retrieve(self, exchange: Exchange) -> None:
        """GET /interactions/{id}: the object, or the events behind `last_event_id` where the query has `stream=true`."""
        query = exchange.query
        revision = revision_of(exchange.headers, self._usual)
        found = await self._found(exchange)
        if query.get("stream", ("false",))[-1] == "true":
            last = query.get("last_event_id", ("",))[-1]
            after = interaction_event(last, found.id) if last else -1
            await self._background.resume(self._api, exchange, found.id, after)
            return
        with_input = query.get("include_input", ("false",))[-1] == "true"
        size = len(found.body) + len(found.output) + (len(found.input) if with_input else 0)
        await self.answer_long(
            exchange, size, lambda: rendered_interaction(interaction_of(found, with_input=with_input), revision)
        )

    async def delete(self, exchange: Exchange) -> None:
        """DELETE /interactions/{id}"""
        found = await self._found(exchange)
        await self._background.delete((exchange.caller.tenant, found.id))
        await self.answer(exchange, {})

    async def cancel(self, exchange: Exchange) -> None:
        """POST /interactions/{id}/cancel: an interaction that has ended stays what it is."""
        revision = revision_of(exchange.headers, self._usual)
        found = await self._found(exchange)
        found = await self._background.cancel(self._api, (exchange.caller.tenant, found.id), found)
        size = len(found.body) + len(found.output)
        await self.answer_long(exchange, size, lambda: rendered_interaction(interaction_of(found), revision))


def _routes(context: ApiContext) -> list[Route[Endpoint]]:
    services = context.services
    now, memory = services.clock.time, InteractionMemory(services)
    api = interactions_api("steps", now, memory, services.live.config.responses.log_bytes)
    kept, background = background_interactions(api, memory, now), background_service(services)
    background.offer(kept)
    return interaction_routes(services, background, kept)


SPEC = ApiSpec(
    (ApiName("interactions"),),
    {"interactions": "Interactions"},
    _routes,
    (EnvelopeRule("/v1/interactions", gemini_error),),
    TRIALS,
)
