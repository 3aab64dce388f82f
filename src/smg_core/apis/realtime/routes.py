"""The routes of the Realtime API (edge): sessions over a WebSocket, or a call by WebRTC.

What answers them is loaded with the first connection. Above: apis.ALL. Below: the connection.
"""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from smg_core.apis.realtime.wire.beta import beta_refused
from smg_core.errors import NotFound, NotImplementedHere
from smg_core.extras import needs
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


_CALL_OPERATION = Operation(
    "createRealtimeCall",
    "A session over a call by WebRTC. The body is the offer (application/sdp), or multipart/form-data: sdp, session.",
    "realtime",
    None,
    (OperationResponse(201, "The answer to the offer; the header Location names the call.", None, "application/sdp"),),
)
_HANG_UP_OPERATION = Operation("hangUpRealtimeCall", "Ends a call.", "realtime", None, ())
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


class _LateCall(_Late):
    """The same of what calls by WebRTC need, which are there where the operator has named ports, and the package is."""

    async def __call__(self, exchange: Exchange) -> None:
        if not self._services.live.config.realtime.udp_ports:
            raise NotImplementedHere(
                "This server takes no calls by WebRTC (realtime.udp_ports); open a session by a WebSocket at /v1/realtime.",
                code="unsupported",
            )
        if self._made is None and find_spec("aiortc") is None:
            raise NotImplementedHere(needs("A call by WebRTC", "aiortc"), code="unsupported")
        await super().__call__(exchange)


class _Sockets:
    """WebSockets: a session of its own each, or one that joins the session of a call."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sessions = _Late(services, "socket", "RealtimeSocket")
        self._listening = _Late(services, "calls", "ListenHandler")

    async def __call__(self, exchange: Exchange) -> None:
        if not exchange.query.get("call_id"):
            await self._sessions(exchange)
        elif self._services.live.config.realtime.udp_ports and find_spec("aiortc") is not None:
            await self._listening(exchange)
        else:
            raise NotFound("This server has no such call.", param="call_id", code="call_id_not_found")


async def _beta(exchange: Exchange) -> None:
    """What only the beta of this API had."""
    raise beta_refused()


async def _no_sip(exchange: Exchange) -> None:
    """What is done with a call that came in by SIP."""
    raise NotImplementedHere("This server takes no calls by SIP, so there is none to answer.", code="unsupported")


async def _no_translations(exchange: Exchange) -> None:
    """Sessions that translate."""
    raise NotImplementedHere("This server has no sessions that translate.", code="unsupported")


_REFUSED: Sequence[tuple[str, str, Handler, str]] = (
    ("POST", "/v1/realtime/sessions", _beta, "createRealtimeBetaSession"),
    ("POST", "/v1/realtime/transcription_sessions", _beta, "createRealtimeBetaTranscriptionSession"),
    ("POST", "/v1/realtime/calls/{call_id}/accept", _no_sip, "acceptRealtimeCall"),
    ("POST", "/v1/realtime/calls/{call_id}/reject", _no_sip, "rejectRealtimeCall"),
    ("POST", "/v1/realtime/calls/{call_id}/refer", _no_sip, "referRealtimeCall"),
    ("POST", "/v1/realtime/translations/client_secrets", _no_translations, "createRealtimeTranslationClientSecret"),
    (WEBSOCKET, "/v1/realtime/translations", _no_translations, "realtimeTranslation"),
)
"""Routes of the vendor's API that are refused by name, with the name of each in a description."""


def _refused_operation(method: str, name: str, refused: Handler) -> Operation | None:
    """The description of a route that is refused; None for a WebSocket, of which OpenAPI knows nothing."""
    if method == WEBSOCKET:
        return None
    return Operation(name, f"Refused: {(refused.__doc__ or '').strip()}", "realtime", None, ())


def realtime_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes of Realtime."""
    services = context.services
    secrets = _Late(services, "secrets", "ClientSecretsHandler")
    calls, ends = _LateCall(services, "calls", "CallHandler"), _LateCall(services, "calls", "HangUpHandler")
    made = Endpoint(secrets, "realtime", reads_json=True, about=_SECRETS_OPERATION)
    return (
        Route(WEBSOCKET, "/v1/realtime", Endpoint(_Sockets(services), "realtime")),
        Route("POST", "/v1/realtime/client_secrets", made),
        Route("POST", "/v1/realtime/calls", Endpoint(calls, "realtime", about=_CALL_OPERATION)),
        Route("POST", "/v1/realtime/calls/{call_id}/hangup", Endpoint(ends, "realtime", about=_HANG_UP_OPERATION)),
        *(
            Route(method, path, Endpoint(refused, "realtime", about=_refused_operation(method, name, refused)))
            for method, path, refused, name in _REFUSED
        ),
    )


SPEC = ApiSpec(
    (ApiName("realtime"),),
    {"realtime": "Realtime: sessions over a WebSocket or a call"},
    realtime_routes,
    (EnvelopeRule("/v1/realtime", openai_error),),
)
