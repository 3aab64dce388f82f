"""The events of one Realtime session (edge): read, answered, and what they begin is run, a task for each response that is made.

What an event changes and how it is answered is the session's (`wire.session`). A response is the exchange that the same request
would be by HTTP, with its own admission, limits, time-outs, traces and account; one that is cancelled gives up its engine before
its end is told. Above: the socket of sessions. Below: the session, the socket session, the handler of requests.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import NoReturn

import attrs
import msgspec

from smg_core.apis.realtime.outbox import Outbox
from smg_core.apis.realtime.speaker import Speaker, SpokenPart
from smg_core.apis.realtime.wire.effective import (
    phone_law,
    settings_at,
)
from smg_core.apis.realtime.wire.encode import error_object
from smg_core.apis.realtime.wire.events import ClientEvent, error_frame, read_event
from smg_core.apis.realtime.wire.g711 import ToPhone
from smg_core.apis.realtime.wire.hearing import wav_of
from smg_core.apis.realtime.wire.relayed import RelayedRequest
from smg_core.apis.realtime.wire.session import Begun, TakenEvent, Utterance
from smg_core.apis.realtime.wire.spoken import SpokenSession
from smg_core.apis.realtime.wire.turns import ResponseTurn, begins_with, decode_turn, first_kept
from smg_core.apis.realtime.wire.types import ItemCreate
from smg_core.apis.responses.flow import respond_to
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.speech.routes import SPEAKING
from smg_core.apis.speech.wire import SpeechRequest
from smg_core.apis.transcriptions.routes import TRANSCRIPTIONS
from smg_core.apis.transcriptions.wire import TranscriptionRequest, asking_for_words
from smg_core.errors import InternalError, InvalidRequest, PromptTooLong, SmgError
from smg_core.events import Usage
from smg_core.http.exchange import Exchange
from smg_core.http.scope import AsgiMessage, Disconnect, Send
from smg_core.http.websocket import WebSocket
from smg_core.json_types import JsonObject
from smg_core.pipeline.flow.flow import Terms
from smg_core.pipeline.flow.steps import Flow
from smg_core.pipeline.flow.summaries import Shorten
from smg_core.request import Message
from smg_core.serving.api import Api
from smg_core.serving.inference import DECODED_INLINE, Inference
from smg_core.serving.services import Services
from smg_core.serving.socket_session import SocketSession, answer_frame, exchange_of_frame
from smg_core.speech import Speech, Transcription
from smg_core.wire.base import Incoming
from smg_core.wire.errors import responses_error

__all__ = ["NAME", "SessionHandlers", "SessionTalk", "realtime_api"]

NAME = "realtime"


@attrs.frozen
class SessionHandlers:
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
        refusals_in_stream=(503,),
    )


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


class SessionTalk:
    """The events of one session."""

    def __init__(
        self,
        services: Services,
        socket: WebSocket,
        handlers: SessionHandlers,
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
        session, item = self._session, event.fields
        run, tenant = self._services.running.executor.run, self._socket.caller.tenant
        if len(event.sound) > DECODED_INLINE // 8 and phone_law(session.settings, "input") is not None:
            answer = event
            event = await run(lambda _: session.pcm(answer), size=len(event.sound), caller=tenant)
        else:
            event = session.pcm(event)
        sound = event.sound
        unjudged = session.unjudged(sound) if sound else b""
        if len(sound) > DECODED_INLINE or len(unjudged) > session.hearing.inline_bytes:
            levels = await run(lambda _: session.hearing.levels(unjudged), size=len(sound), caller=tenant)
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
        for utterance in taken.write_down:
            writing = self._writing[utterance.item_id] = Disconnect()
            self._sockets.begin(self._write_down(utterance, writing), about, self._written)
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
        self._outbox.put([error_frame(error, self._session.names("event_"), None)])

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

        def refused_frame(error: SmgError, id: str) -> bytes:
            running.refused = error_object(error)
            return b""

        exchange, join = exchange_of_frame(
            services,
            self._socket,
            handler,
            receive,
            self._sender(running),
            disconnect=running.disconnect,
            written=refused_frame,
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

    async def _write_down(self, utterance: Utterance, disconnect: Disconnect) -> None:
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
                language=utterance.language, prompt=utterance.prompt, filename="speech.wav", media_type="audio/wav"
            )
            return TranscriptionRequest(
                asking_for_words(incoming, utterance.model, wav_of(utterance.sound), asked), asked
            )

        handler = self._handlers.writer.with_api(attrs.evolve(TRANSCRIPTIONS, decode=decode))
        services, session = self._services, self._session
        exchange, join = exchange_of_frame(
            services, self._socket, handler, receive, send, disconnect=disconnect, written=lambda error, id: b""
        )
        try:
            await answer_frame(services, exchange, join, handler, lambda: 0)
        finally:
            lines = _written_lines(session, utterance, status, body)
            self._writing.pop(utterance.item_id, None)
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
                    self._put(running, self._session.limit_events(message["headers"]))
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
                delta = _TRANSCRIPT_DELTA.decode(line)
                where: JsonObject = {
                    "response_id": begun.id,
                    "item_id": delta.item_id,
                    "output_index": delta.output_index,
                    "content_index": delta.content_index,
                }
                speaker.hear(where, delta.delta)

    def _speaker(self, running: _Running, about: ClientEvent) -> Speaker:
        """What speaks for a response."""
        speed = (settings_at(self._session.settings, "audio", "output") or {}).get("speed")
        voice = (settings_at(running.begun.voiced.response, "audio", "output") or {}).get("voice")
        law = phone_law(running.begun.voiced.response, "output")
        phone = None if law is None else ToPhone(law)
        name = voice.get("id") if isinstance(voice, dict) else voice
        speech = Speech(
            name if isinstance(name, str) else None,
            "pcm",
            float(speed) if isinstance(speed, int | float) and speed != 1 else None,
        )

        async def say(part: SpokenPart, sound: bytes) -> None:
            audio = base64.b64encode(sound if phone is None else phone.encoded(sound)).decode()
            self._put(running, self._session.spoken(running.begun, part.where, audio, len(sound), part.characters))
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


def _written_lines(session: SpokenSession, utterance: Utterance, status: int, body: bytes) -> list[bytes]:
    """What is told of a transcription with this answer; of one without any, that it failed."""
    if status == 200:
        words = msgspec.json.decode(body, type=_Words)
        return session.written_down(utterance, words.text, words.usage)
    error = _refusal(body) if body else error_object(InternalError("The transcription was given up."))
    return session.not_written_down(utterance, error)


class _Envelope(msgspec.Struct):
    """A refusal as its envelope tells it."""

    error: JsonObject


def _refusal(envelope: bytes) -> JsonObject:
    refusal = msgspec.json.decode(envelope, type=_Envelope).error
    return {name: refusal.get(name) for name in ("type", "code", "message")}
