"""The Realtime API over a WebSocket (edge): one session, its events in and out, and a task for each response that is made.

What an event changes and how it is answered is the session's (`wire.session`); here it is read, and what it begins is run: a
response is the exchange that the same request would be by HTTP, with its own admission, limits, time-outs, traces and account. A
response that is cancelled gives up its engine before its end is told. Above: the routes. Below: the session, the socket session,
the handler of requests.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NoReturn

import attrs
import msgspec

from smg_core.apis.realtime.keeping import KeptConversation, begin_kept, open_kept
from smg_core.apis.realtime.outbox import Outbox
from smg_core.apis.realtime.relay import PeerSession, open_peer, relay, relayed_handler
from smg_core.apis.realtime.settings import RealtimeConfig
from smg_core.apis.realtime.speaker import Speaker, SpokenPart
from smg_core.apis.realtime.wire.beta import BETA_HEADER, beta_refused
from smg_core.apis.realtime.wire.effective import (
    Abilities,
    changed,
    checked_patch,
    defaults,
    settings_at,
    transcription_defaults,
)
from smg_core.apis.realtime.wire.encode import error_object
from smg_core.apis.realtime.wire.events import ClientEvent, SessionIds, error_frame, read_event
from smg_core.apis.realtime.wire.hearing import wav_of
from smg_core.apis.realtime.wire.relayed import RelayedRequest
from smg_core.apis.realtime.wire.session import Begun, Said, SessionBounds, TakenEvent
from smg_core.apis.realtime.wire.spoken import SpokenSession
from smg_core.apis.realtime.wire.turns import ResponseTurn, begins_with, decode_turn, first_kept
from smg_core.apis.realtime.wire.types import ItemCreate
from smg_core.apis.realtime.wire.vad import levels_of
from smg_core.apis.responses.flow import respond_to
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.speech.routes import SPEAKING
from smg_core.apis.speech.wire import SpeechRequest
from smg_core.apis.transcriptions.routes import TRANSCRIPTIONS
from smg_core.apis.transcriptions.wire import TranscriptionRequest, asking_for_words
from smg_core.errors import InternalError, InvalidRequest, MethodNotAllowed, PromptTooLong, SmgError, StoreFailed
from smg_core.events import Usage
from smg_core.http.exchange import Exchange
from smg_core.http.scope import AsgiMessage, Disconnect, Send
from smg_core.http.websocket import WebSocket
from smg_core.identity.client_secrets import SECRET_PREFIX, ClientSecret, open_secret
from smg_core.json_types import JsonObject
from smg_core.pipeline.flow.flow import Terms
from smg_core.pipeline.flow.steps import Flow
from smg_core.pipeline.flow.summaries import Shorten
from smg_core.request import Caller, Message
from smg_core.serving.api import Api
from smg_core.serving.inference import DECODED_INLINE, Inference
from smg_core.serving.services import Services
from smg_core.serving.socket_session import SocketSession, answer_frame, exchange_of_frame
from smg_core.speech import Speech, Transcription
from smg_core.tools.opening import hosted_kinds
from smg_core.wire.base import Incoming
from smg_core.wire.errors import responses_error

__all__ = ["RealtimeSocket", "realtime_api"]

NAME = SUBPROTOCOL = "realtime"


@attrs.frozen
class _Handlers:
    """What answers the requests of all sessions: `answers` the responses, `writer` transcriptions, `voice` speech, `relayed` the
    responses that other servers make."""

    answers: Inference[ResponsesRequest]
    writer: Inference[TranscriptionRequest]
    voice: Inference[SpeechRequest]
    relayed: Inference[RelayedRequest]


def realtime_api() -> Api[ResponsesRequest]:
    """The row of the API, without what each response has of its own."""

    def of_none(decoded: ResponsesRequest, created: int) -> NoReturn:
        raise AssertionError("a response of a session has an encoder of its own")

    return Api(
        name=NAME,
        id_prefix="resp_",
        decode=lambda incoming: decode_turn(incoming, "", ""),
        stream=of_none,
        whole=of_none,
        error=responses_error,
        told_in_stream=(503,),
    )


class RealtimeSocket:
    """`GET /v1/realtime` with an upgrade to a WebSocket."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handlers = _Handlers(
            Inference(services, realtime_api()),
            Inference(services, TRANSCRIPTIONS),
            Inference(services, SPEAKING),
            relayed_handler(services),
        )

    async def __call__(self, exchange: Exchange) -> None:
        if not isinstance(exchange, WebSocket):
            raise MethodNotAllowed("There are only WebSockets here.")
        services = self._services
        name, value = BETA_HEADER
        if value in exchange.headers.get(name, ""):
            raise beta_refused()
        secret = self._secret(exchange)
        kind = self._kind(exchange, secret)
        model = self._model(exchange, secret) if kind == "realtime" else ""
        settings = services.live.config.realtime
        peer = None if not model else await self._peer_of(model, exchange.caller)
        id = exchange.take_id(services.ids, "sess_")
        exchange.always.append(services.request_ids.header(exchange.name))
        if peer is not None:
            if _store_asked(exchange) or exchange.query.get("conversation"):
                await peer.socket.close()
                raise InvalidRequest(
                    "The conversation of this model is its own server's, which keeps none here.",
                    param="store",
                    code="unsupported_parameter",
                )
            begins_with = None if secret is None else secret.session
            await relay(services, exchange, self._handlers.relayed, peer, model, id, begins_with, SUBPROTOCOL)
            return
        kept = await self._kept(exchange, kind, settings)
        session = self._session(id, kind, model, exchange.caller, settings, secret, kept)
        await exchange.accept(SUBPROTOCOL)
        outbox = Outbox(exchange, settings.waiting_bytes)
        sockets = SocketSession[ClientEvent](
            services, exchange, lifetime_s=settings.session_s, most=settings.frame_bytes, send=outbox.send
        )
        talk = _Talk(services, exchange, self._handlers, session, sockets, outbox)
        if kept is not None:
            kept.failed = talk.not_kept
            outbox.before = partial(kept.keep, session.conversation)
        outbox.put(session.opened())
        try:
            await sockets.run(talk)
        finally:
            if kept is not None:
                await kept.keep(session.conversation)

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

    async def _peer_of(self, model: str, caller: Caller) -> PeerSession | None:
        """A session at a server that has those of this model itself; None where there is none such. Raises what kept it from
        being opened."""
        services = self._services
        name = services.lookup.served_or_refused(model, caller).name
        if not any(facts.realtime for facts in services.registry.kinds(name)):
            return None
        return await open_peer(services, name)

    def _secret(self, exchange: WebSocket) -> ClientSecret | None:
        """The client secret that the handshake comes with; None where it is another credential. Its sessions may outlive it.
        Raises AuthenticationFailed."""
        credential = exchange.credential
        if credential is None or not credential.text.startswith(SECRET_PREFIX):
            return None
        secret = open_secret(self._services.running.sealer, credential.text, self._services.clock.time())
        exchange.caller, exchange.identify = secret.caller, None
        return secret

    def _kind(self, exchange: WebSocket, secret: ClientSecret | None) -> str:
        """Whether the session answers, or only transcribes ("transcription"). Raises InvalidRequest."""
        intent = next(iter(exchange.query.get("intent", ())), "realtime" if secret is None else secret.kind)
        if intent not in ("realtime", "transcription"):
            raise InvalidRequest(
                "Invalid value for 'intent'. Supported values are: 'realtime', 'transcription'.",
                param="intent",
                code="invalid_value",
            )
        if secret is not None and intent != secret.kind:
            raise InvalidRequest(f"The client secret is for sessions of type '{secret.kind}'.", param="intent")
        return intent

    def _model(self, exchange: WebSocket, secret: ClientSecret | None) -> str:
        """The model that the handshake or its secret names. Raises InvalidRequest where none is named, or another than the
        secret is for, and ModelNotFound."""
        asked = next(iter(exchange.query.get("model", ())), "")
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
        secret: ClientSecret | None,
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
            hosted=hosted_kinds(config.mcp, NAME),
            writes_down=lambda name: bool(name) and lookup.served(name, caller) is not None,
        )
        expires_at = int(services.clock.time() + settings.session_s)
        answers = kind == "realtime"
        begins_with = defaults(id, model, expires_at, abilities) if answers else transcription_defaults(id, expires_at)
        if secret is not None:
            begins_with = changed(begins_with, checked_patch(secret.session, begins_with, abilities))
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


def _store_asked(exchange: WebSocket) -> bool:
    """Whether the handshake asks for the conversation to be kept. Raises InvalidRequest."""
    asked = next(iter(exchange.query.get("store", ())), "false")
    if asked not in ("true", "false"):
        raise InvalidRequest("Invalid 'store': expected 'true' or 'false'.", param="store", code="invalid_value")
    return asked == "true"


@attrs.define(eq=False)
class _Running:
    """A response that is made. `sent` are the bytes of its events, `usage` its tokens once it is over."""

    begun: Begun
    disconnect: Disconnect = attrs.field(factory=Disconnect)
    sent: int = 0
    refused: JsonObject | None = None
    exchange: Exchange | None = None
    speaker: Speaker | None = None

    def give_up(self) -> None:
        """Free all that works on the response."""
        self.disconnect.happened()
        if self.speaker is not None:
            self.speaker.stop()

    @property
    def usage(self) -> Usage | None:
        """The tokens of the response; None where it was not admitted."""
        finished = None if self.exchange is None else self.exchange.finished
        if finished is None:
            return None
        return Usage(
            finished.prompt_tokens, finished.completion_tokens, finished.cached_tokens, finished.reasoning_tokens
        )


class _Talk:
    """The events of one session."""

    def __init__(
        self,
        services: Services,
        socket: WebSocket,
        handlers: _Handlers,
        session: SpokenSession,
        sockets: SocketSession[ClientEvent],
        outbox: Outbox,
    ) -> None:
        self._services, self._socket = services, socket
        self._handlers = handlers
        self._session = session
        self._sockets = sockets
        self._outbox = outbox
        self._running: dict[str, _Running] = {}
        self._home = ""  # the worker that had the last response
        self._writing: dict[str, Disconnect] = {}
        self._changed = asyncio.Event()  # that words were written down, or a response is not to be made
        self._has_left = False

    # ---------------------------------------------------------------------------------------------------------- events

    def read(self, data: bytes | bytearray) -> ClientEvent:
        return read_event(data, self._services.live.limits)

    async def take(self, frame: ClientEvent) -> None:
        if self._sockets.expired and frame.kind != "response.cancel":
            raise self.expired()
        self._do(await self._taken(frame), frame)
        await self._outbox.room()

    async def _taken(self, event: ClientEvent) -> TakenEvent:
        """The answer to an event; a large item is read, and the levels of much sound are taken, off the event loop. Raises
        SmgError."""
        session, sound, item = self._session, event.sound, event.fields
        run, tenant = self._services.running.executor.run, self._socket.caller.tenant
        if len(sound) > DECODED_INLINE:
            unjudged = session.unjudged(sound)
            levels = await run(lambda _: levels_of(unjudged), size=len(sound), caller=tenant)
            return session.hear(event, levels)
        if event.size > DECODED_INLINE and isinstance(item, ItemCreate):
            ids = {prefix: session.names(prefix) for prefix in ("item_", "call_")}
            read = await run(lambda _: session.item_of(item, ids.__getitem__), size=event.size, caller=tenant)
            return session.join(item, read)
        return session.take(event)

    def _do(self, taken: TakenEvent, about: ClientEvent) -> None:
        self._socket.count(self._outbox.put(taken.lines))
        for each in taken.cancel:
            self._running[each.id].give_up()
        if taken.begin is not None:
            running = self._running[taken.begin.id] = _Running(taken.begin)
            if taken.begin.voiced.spoken:
                running.speaker = self._speaker(running, about)
            self._sockets.begin(self._answer(running, about), about, lambda: self._over(running, about))
        for said in taken.write_down:
            writing = self._writing[said.item_id] = Disconnect()
            self._sockets.begin(self._write_down(said, writing), about, self._written)
        self._changed.set()

    def error(self, error: SmgError, id: str, about: ClientEvent | None) -> str:
        own = None if about is None else about.id
        return error_frame(error, self._session.names("event_"), own).decode()

    def expired(self) -> SmgError:
        return InvalidRequest("Your session hit the maximum duration.", code="session_expired")

    def left(self) -> None:
        self._has_left = True
        self._changed.set()
        for running in self._running.values():
            running.give_up()
        for writing in self._writing.values():
            writing.happened()

    def not_kept(self, error: SmgError) -> None:
        """Called when the conversation could not be kept."""
        told = StoreFailed(
            "The conversation could not be kept; it is tried again with the next change.", said=error.said
        )
        self._outbox.put([error_frame(told, self._session.names("event_"), None)])

    # ------------------------------------------------------------------------------------------------------- responses

    async def _answer(self, running: _Running, about: ClientEvent) -> None:
        """Make a response."""
        if not await self._sockets.permitted(about):
            return
        turn = await self._turn(running)
        if turn is None:
            return
        services, begun = self._services, running.begun
        handler = self._handlers.answers.with_api(self._api(begun, turn))

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": turn.body, "more_body": False}

        def told(error: SmgError, id: str) -> bytes:
            running.refused = error_object(error)
            return b""

        exchange, join = exchange_of_frame(
            services,
            self._socket,
            handler,
            receive,
            self._sender(running),
            disconnect=running.disconnect,
            written=told,
        )
        running.exchange = exchange
        exchange.request_id = begun.id
        await answer_frame(services, exchange, join, handler, lambda: running.sent)

    async def _turn(self, running: _Running) -> ResponseTurn | None:
        """What the response reads, once all of that is written down; None where it is not to be made any more."""
        begun = running.begun
        while self._session.unwritten and begun.cut is None and not self._has_left:
            self._changed.clear()
            await self._changed.wait()
        if begun.cut is not None or self._has_left:
            return None
        try:
            return begun.turn or begun.reads()
        except SmgError as error:
            running.refused = error_object(error)
            return None

    def _over(self, running: _Running, about: ClientEvent) -> None:
        """Called when the task of a response is done: its end is told, unless it has told that itself."""
        del self._running[running.begun.id]
        finished = None if running.exchange is None else running.exchange.finished
        if finished is not None and finished.worker and running.begun.voiced.in_conversation:
            self._home = finished.worker
        self._outbox.put(self._session.over(running.begun, running.refused, running.usage))
        following = self._session.next_response()
        if following is not None and not self._has_left and not self._sockets.expired:
            self._do(following, about)

    # ----------------------------------------------------------------------------------------------------------- words

    async def _write_down(self, said: Said, disconnect: Disconnect) -> None:
        """Have a model write down what the user has said, as a request for a transcription."""
        status, body = 0, b""

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: AsgiMessage) -> None:
            nonlocal status, body
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                body += message["body"]

        def decode(incoming: Incoming) -> TranscriptionRequest:
            asked = Transcription(
                language=said.language, prompt=said.prompt, filename="speech.wav", media_type="audio/wav"
            )
            return TranscriptionRequest(asking_for_words(incoming, said.model, wav_of(said.sound), asked), asked)

        handler = self._handlers.writer.with_api(attrs.evolve(TRANSCRIPTIONS, decode=decode))
        services, session = self._services, self._session
        exchange, join = exchange_of_frame(
            services, self._socket, handler, receive, send, disconnect=disconnect, written=lambda error, id: b""
        )
        try:
            await answer_frame(services, exchange, join, handler, lambda: 0)
        finally:
            lines = _written_lines(session, said, status, body)
            self._writing.pop(said.item_id, None)
            self._socket.count(self._outbox.put(lines))

    def _written(self) -> None:
        """Called when a transcription is over."""
        self._changed.set()

    # ------------------------------------------------------------------------------------------------ what is answered

    def _api(self, begun: Begun, turn: ResponseTurn) -> Api[ResponsesRequest]:
        """The row of the API for one response."""
        session = str(self._session.settings["id"])
        return attrs.evolve(
            realtime_api(),
            decode=lambda incoming: decode_turn(incoming, session, self._home),
            stream=lambda decoded, created: begun.encode_anew(),
            flow=lambda decoded, terms: self._flow(begun, turn, decoded, terms),
        )

    def _flow(self, begun: Begun, turn: ResponseTurn, decoded: ResponsesRequest, terms: Terms) -> Flow[object]:
        return respond_to(decoded, terms, self._shorten(begun, turn, decoded))

    def _shorten(self, begun: Begun, turn: ResponseTurn, decoded: ResponsesRequest) -> Shorten:
        """How a prompt is shortened that is too long; what is not read now, later responses do not read either."""
        gone = 0

        def shorten(messages: tuple[Message, ...], error: PromptTooLong) -> tuple[Message, ...] | None:
            nonlocal gone
            start = begins_with(messages, error, turn.retention)
            if start is None:
                return None
            leading = next(place for place, message in enumerate(messages) if message.role == "user")
            gone += start - leading
            first = first_kept(decoded, leading + gone, turn)
            if first is not None and begun.voiced.in_conversation:
                self._session.conversation.begin_at(first)
            return messages[:leading] + messages[start:]

        return shorten

    def _sender(self, running: _Running) -> Send:
        """Where the answer goes: its events to the client, and a refusal to the end of the response."""
        begun, status, refused = running.begun, 0, b""

        async def send(message: AsgiMessage) -> None:
            nonlocal status, refused
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == 200:
                    self._put(running, self._session.limits_told(message["headers"]))
                return
            if status != 200:
                refused += message["body"]
                if not message.get("more_body", False):
                    running.refused = _refusal(refused)
                return
            if begun.cut is None and running.speaker is not None:
                await self._speak(running, running.speaker, message["body"])
            elif begun.cut is None:
                self._put(running, self._session.leaving(begun, message["body"]))
            await self._outbox.room()

        return send

    async def _speak(self, running: _Running, speaker: Speaker, lines: bytes) -> None:
        """Send the events of a response that is spoken; those behind its sound once all of that has left."""
        begun, session = running.begun, self._session
        for line in lines.splitlines(keepends=True):
            if line.startswith(_SOUND_ENDS):
                await speaker.finish()
            if begun.cut is not None:
                return
            self._put(running, session.leaving(begun, line))
            if line.startswith(_TRANSCRIPT):
                told = _TRANSCRIPT_DELTA.decode(line)
                where: JsonObject = {
                    "response_id": begun.id,
                    "item_id": told.item_id,
                    "output_index": told.output_index,
                    "content_index": told.content_index,
                }
                speaker.hear(where, told.delta)

    def _speaker(self, running: _Running, about: ClientEvent) -> Speaker:
        """What speaks for a response."""
        output = settings_at(self._session.settings, "audio", "output") or {}
        voice, speed = output.get("voice"), output.get("speed")
        name = voice.get("id") if isinstance(voice, dict) else voice
        speech = Speech(
            name if isinstance(name, str) else None,
            "pcm",
            float(speed) if isinstance(speed, int | float) and speed != 1 else None,
        )

        async def say(part: SpokenPart, audio: str, size: int) -> None:
            self._put(running, self._session.spoken(running.begun, part.where, audio, size, part.characters))
            await self._outbox.room()

        def failed() -> None:
            error = InternalError("The speech of this response failed; the rest of it is text.", code="speech_failed")
            self._outbox.put([error_frame(error, self._session.names("event_"), None)])

        model = self._services.live.config.realtime.speech_model
        sockets = self._sockets
        return Speaker(model, speech, say, self._spoken, failed, lambda work: sockets.begin(work, about, lambda: None))

    async def _spoken(
        self,
        decode: Callable[[Incoming], SpeechRequest],
        sound: Callable[[bytes], Awaitable[None]],
        disconnect: Disconnect,
    ) -> bool:
        """Have a text spoken, as a request of its own; returns whether all of it was."""
        status, whole = 0, False

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: AsgiMessage) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = message["status"]
            elif status == 200:
                await sound(message["body"])
                whole = not message.get("more_body", False)

        handler = self._handlers.voice.with_api(attrs.evolve(SPEAKING, decode=decode))
        exchange, join = exchange_of_frame(
            self._services, self._socket, handler, receive, send, disconnect=disconnect, written=lambda error, id: b""
        )
        await answer_frame(self._services, exchange, join, handler, lambda: 0)
        return whole and exchange.finished is not None and exchange.finished.outcome == "ok"

    def _put(self, running: _Running, lines: list[bytes]) -> None:
        running.sent += self._outbox.put(lines)


_TRANSCRIPT, _SOUND_ENDS = (
    b'{"type":"response.output_audio_transcript.delta"',
    b'{"type":"response.output_audio.done"',
)


class _TranscriptDelta(msgspec.Struct):
    """More of a text that is to be spoken."""

    item_id: str
    output_index: int
    content_index: int
    delta: str


_TRANSCRIPT_DELTA = msgspec.json.Decoder(_TranscriptDelta)


class _Words(msgspec.Struct):
    """The answer to a request for a transcription."""

    text: str = ""
    usage: JsonObject | None = None


def _written_lines(session: SpokenSession, said: Said, status: int, body: bytes) -> list[bytes]:
    """What is told of a transcription with this answer; of one without any, that it failed."""
    if status == 200:
        words = msgspec.json.decode(body, type=_Words)
        return session.written_down(said, words.text, words.usage)
    error = _refusal(body) if body else error_object(InternalError("The transcription was given up."))
    return session.not_written_down(said, error)


class _Envelope(msgspec.Struct):
    """A refusal as its envelope tells it."""

    error: JsonObject


def _refusal(envelope: bytes) -> JsonObject:
    told = msgspec.json.decode(envelope, type=_Envelope).error
    return {name: told.get(name) for name in ("type", "code", "message")}
