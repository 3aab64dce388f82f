"""The models that are served and the policies that route their requests, at the admin door (edge).

Above: admin.app. Below: the registry and the policies.
"""

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.admin.control_types import ModelRow, ModelRows, PolicyRow, PolicyRows
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.serving.services import Services

__all__ = ["MODELS", "POLICIES", "model_routes"]

NEEDED = "admin.models"


MODELS = admin_operation("adminModels", "The models that are served, and who serves them.", "models", None, ModelRows)

POLICIES = admin_operation("adminPolicies", "The routing policies in use.", "routing", None, PolicyRows)


def model_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The routes, over the models of `gateway`."""

    async def models(exchange: Exchange) -> None:
        rows = [_row(services, services.models[name]) for name in sorted(services.models)]
        await respond_json(services, exchange, ModelRows(rows))

    async def policies(exchange: Exchange) -> None:
        rows = [
            PolicyRow(model, role, policy.name, services.registry.ready_count(model, role))  # type: ignore[arg-type]  # policies are made for roles
            for model, role, policy in services.policies.in_use()
        ]
        await respond_json(services, exchange, PolicyRows(rows))

    return (
        Route("GET", "/admin/models", Endpoint(models, NEEDED, about=MODELS)),
        Route("GET", "/admin/policies", Endpoint(policies, NEEDED, about=POLICIES)),
    )


def _row(services: Services, model: ServedModel) -> ModelRow:
    workers = services.registry.of(model.name)
    return ModelRow(
        name=model.name,
        primary=model.primary or model.name,
        adapter=model.adapter,
        root=model.root,
        context_length=model.context_length,
        vocabulary=model.vocab_size,
        parser="" if model.parser is None else model.parser.name,
        media=sorted(model.media.kinds) if model.media is not None else [],
        engine_input="chat" if model.tokenizer is None else "ids",
        workers=[each.name for each in workers],
        ready=sum(each.state == "ready" for each in workers),
    )
