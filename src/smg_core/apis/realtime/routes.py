"""The routes of the Realtime API (edge): sessions over a WebSocket.

What answers them is loaded with the first connection. Above: apis.ALL. Below: the connection.
"""

import asyncio
from importlib import import_module

from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.exchange import Exchange
from smg_core.http.routes import WEBSOCKET, Route
from smg_core.json_types import JsonObject
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec
from smg_core.wire.errors import openai_error
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC"]


_SECRETS_OPERATION = Operation(
    "createRealtimeClientSecret",
    "A short-lived credential with which a browser may open Realtime sessions, with settings that are chosen here.",
    "realtime",
    JsonObject,
    (OperationResponse(200, "The secret, when it expires, and the settings of its sessions.", JsonObject),),
    {"whole": {"session": {"type": "realtime", "model": "MODEL"}}},
)


class _Late:
    """A handler of this name in this module, which is loaded when it is first called."""

    def __init__(self, services: Services, module: str, name: str) -> None:
        self._services = services
        self._module, self._name = module, name
        self._made: Handler | None = None

    async def __call__(self, exchange: Exchange) -> None:
        if self._made is None:
            module = await asyncio.to_thread(import_module, f"smg_core.apis.realtime.{self._module}")
            self._made = getattr(module, self._name)(self._services)
        await self._made(exchange)


def realtime_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes of Realtime."""
    services = context.services
    sessions, secrets = _Late(services, "socket", "RealtimeSocket"), _Late(services, "secrets", "ClientSecretsHandler")
    return (
        Route(WEBSOCKET, "/v1/realtime", Endpoint(sessions, "realtime")),
        Route(
            "POST",
            "/v1/realtime/client_secrets",
            Endpoint(secrets, "realtime", reads_json=True, about=_SECRETS_OPERATION),
        ),
    )


SPEC = ApiSpec(
    (ApiName("realtime"),),
    {"realtime": "Realtime: sessions over a WebSocket"},
    realtime_routes,
    (EnvelopeRule("/v1/realtime", openai_error),),
)
