"""Carries one session over a call (edge): its events by a channel and to those who listen in, its sound by a voice.

To the session the carrier is the client of a WebSocket: what the caller says comes as `input_audio_buffer.append`, and the sound
of answers is played, in its own time, where a client of a WebSocket would be sent it. So it is the carrier that knows what was
played: it tells of that by `output_audio_buffer`, stops when the caller begins to speak, and has the session cut what was not
heard. Above: the calls. Below: what waits to be played, the outbox.
"""

import asyncio
import base64
import binascii
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from smg_core.apis.realtime.outbox import Outbox
from smg_core.apis.realtime.wire.effective import phone_law, settings_at
from smg_core.apis.realtime.wire.events import SessionIds, error_frame, written
from smg_core.apis.realtime.wire.g711 import FromPhone, ToPhone
from smg_core.apis.realtime.wire.playing import Playing
from smg_core.errors import Conflict, InvalidRequest, Overloaded, PayloadTooLarge, SmgError
from smg_core.http.scope import AsgiMessage, Header
from smg_core.http.websocket import Received
from smg_core.json_types import JsonObject

__all__ = ["CallCarrier", "ListensIn"]

_SOUND, _CUT = "sound of the call", "what was not heard"  # the ids of the carrier's own events
_CLEAR = "output_audio_buffer.clear"
_LISTENERS = 8
_PLAYED_BYTES = 10 * 60 * 48_000  # of sound that waits to be played: ten minutes
_EVENT_BYTES = 256  # of memory that an event takes, whatever is in it
_HEARD = 125  # events of the caller's sound that wait while the session is held up: five seconds
_NORMAL, _SLOW = 1000, 1008  # why a connection is closed (RFC 6455, 7.4.1)


class ListensIn(Protocol):
    """The connection of one who listens in: a WebSocket that was accepted, or what stands for one of another process."""

    async def read(self) -> Received | None: ...
    async def send(self, text: str) -> int: ...
    async def close(self, code: int) -> None: ...


class _OfSession(msgspec.Struct):
    """What the carrier reads of an event that the session tells."""

    type: str = ""
    response_id: str = ""
    item_id: str = ""
    content_index: int = 0
    delta: str = ""


class _Named(msgspec.Struct):
    """The type and the id of an event of a client."""

    type: str = ""
    event_id: str | None = None


_OF_SESSION, _NAMED = msgspec.json.Decoder(_OfSession), msgspec.json.Decoder(_Named)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _part(text: str, name: str) -> JsonObject:
    """The object of this name in an event; an empty one where there is none, as another server may have it."""
    try:
        part = msgspec.json.decode(text, type=JsonObject).get(name)
    except _UNREADABLE:
        return {}
    return part if isinstance(part, dict) else {}


class _Channel:
    """The channel of the call, as an outbox has it. `send_text` returns False where the call is over."""

    def __init__(self, send_text: Callable[[str], Awaitable[bool]], failed: Callable[[SmgError], None]) -> None:
        self._send, self._failed = send_text, failed

    async def send(self, text: str) -> None:
        try:
            await self._send(text)
        except PayloadTooLarge as error:
            self._failed(error)


class CallCarrier:
    """The carrier of the call `id`. `send` takes a message for the channel of the call, `most` bytes of clients' events wait to
    be read, and `waiting` bytes for each of those who are told."""

    def __init__(self, id: str, send: Callable[[str], Awaitable[bool]], most: int, waiting: int) -> None:
        self.accepted: asyncio.Future[list[Header]] = asyncio.get_running_loop().create_future()
        self._names = SessionIds(id.removeprefix("rtc_"))
        self._most, self._waiting = most, waiting
        self._outbox = Outbox(_Channel(send, self._untold), waiting)
        self._listeners: dict[ListensIn, Outbox] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._incoming: deque[AsgiMessage] = deque()
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._held = 0  # bytes of clients' events that wait
        self._heard = 0  # events of the caller's sound that wait
        self._begun = self._over = False
        self._playing = Playing(_PLAYED_BYTES)
        self._session: JsonObject = {}
        self._to_phone: ToPhone | None = None
        self._from_phone: dict[str, FromPhone] = {}
        self._deaf = False  # since the session takes no sound

    # ---------------------------------------------------------------------------------------- what the session is sent

    async def receive(self) -> AsgiMessage:
        """The next message of the client that the carrier is to the session."""
        if not self._begun:
            self._begun = True
            return {"type": "websocket.connect"}
        while not self._incoming and not self._over:
            self._arrived.clear()
            await self._arrived.wait()
        if self._over:
            return {"type": "websocket.disconnect", "code": _NORMAL, "reason": ""}
        message = self._incoming.popleft()
        if message.pop("own", False):
            self._heard -= 1
        else:
            self._held -= len(message.get("text") or message.get("bytes") or "") + _EVENT_BYTES
            self._room.set()
        return message

    def from_client(self, data: str | bytes) -> None:
        """A message of a client. One that sends faster than is read, or than it reads itself, for long, is left."""
        if self._outbox.waiting > self._most + 2 * self._waiting:
            self.end()
            return
        if isinstance(data, str) and _CLEAR in data and self._cleared(data):
            return
        if len(data) > self._most:
            self._untold(PayloadTooLarge(f"The event is over the limit of {self._most} bytes."))
            return
        self._held += len(data) + _EVENT_BYTES
        if self._held > 2 * self._most:
            self.end()
        self._put({"type": "websocket.receive", "text" if isinstance(data, str) else "bytes": data})

    def heard(self, sound: bytes) -> None:
        """More of what the caller says, as pcm16 at 24 kHz."""
        if self._deaf or self._heard >= _HEARD or not self._session:
            return
        sound = sound if self._to_phone is None else self._to_phone.encoded(sound)
        self._heard += 1
        self._own("input_audio_buffer.append", _SOUND, audio=base64.b64encode(sound).decode())

    def _own(self, kind: str, id: str, **fields: object) -> None:
        self._put({"type": "websocket.receive", "text": written(kind, id, **fields).decode(), "own": True})

    def _put(self, message: AsgiMessage) -> None:
        self._incoming.append(message)
        self._arrived.set()

    def _cleared(self, data: str) -> bool:
        """Whether a message asks for what is played to be cleared, which is done."""
        try:
            event = _NAMED.decode(data)
        except _UNREADABLE:
            return False
        if event.type != _CLEAR:
            return False
        if not self._playing:
            error = InvalidRequest("No sound is on its way to the caller.", code="output_audio_buffer_empty")
            self._tell(error_frame(error, self._names("event_"), event.event_id))
        self._cut()
        return True

    # ----------------------------------------------------------------------------------------- what the session says

    async def send(self, message: AsgiMessage) -> None:
        """Take a message of the session; returns once there is room for more."""
        kind = message["type"]
        if kind == "websocket.accept":
            if not self.accepted.done():
                self.accepted.set_result(list(message.get("headers", ())))
        elif kind == "websocket.close":
            await self.all_sent()
            self.end()
        elif kind == "websocket.send":
            self._take(message["text"])
            await self._outbox.room()

    def _take(self, text: str) -> None:
        try:
            event = _OF_SESSION.decode(text)
        except _UNREADABLE:  # another server's, which its client may understand
            event = _OfSession()
        match event.type:
            case "response.output_audio.delta":
                self._play(event)
                return
            case "session.created" | "session.updated":
                self._know(_part(text, "session"))
            case "response.created":
                self._begin(_part(text, "response"))
            case "error":
                passed_on = self._of_a_client(text)
                if passed_on is not None:
                    self._tell(passed_on)
                return
        self._tell(text.encode())
        if event.type == "input_audio_buffer.speech_started" and self._interrupts:
            self._cut()
        elif event.type == "response.done":
            id = str(_part(text, "response").get("id") or "")
            self._from_phone.pop(id, None)
            self._stopped(self._playing.end(id))

    def _know(self, session: JsonObject) -> None:
        """The session has these settings now."""
        self._session, self._deaf = session, False
        law = phone_law(session, "input")
        self._to_phone = None if law is None else ToPhone(law)

    @property
    def _interrupts(self) -> bool:
        detection = settings_at(self._session, "audio", "input", "turn_detection") or {}
        return detection.get("interrupt_response") is not False

    def _begin(self, response: JsonObject) -> None:
        law = phone_law(response, "output")
        if law is not None:
            self._from_phone[str(response.get("id"))] = FromPhone(law)

    def _of_a_client(self, text: str) -> bytes | None:
        """An error as it is told: of one about the carrier's own events, that the session takes no sound, once."""
        error = _part(text, "error")
        about = error.get("event_id")
        if about == _CUT or (about == _SOUND and self._deaf):
            return None
        if about == _SOUND:
            self._deaf = True
            return written("error", self._names("event_"), error={**error, "event_id": None})
        return text.encode()

    def _tell(self, line: bytes) -> None:
        """Tell all clients of an event."""
        self._outbox.put([line])
        for socket, outbox in list(self._listeners.items()):
            outbox.put([line])
            if outbox.full:
                self._leave(socket, _SLOW)

    def _untold(self, error: SmgError) -> None:
        """Tell an error that is about no event of a client that is known."""
        self._outbox.put([error_frame(error, self._names("event_"), None)])

    async def all_sent(self) -> None:
        """Return once all that was said has left."""
        await self._outbox.sent()

    # --------------------------------------------------------------------------------------------------- what is played

    def _play(self, event: _OfSession) -> None:
        try:
            sound = base64.b64decode(event.delta, validate=True)
        except (binascii.Error, ValueError):
            return
        phone = self._from_phone.get(event.response_id)
        sound = sound if phone is None else phone.pcm(sound)
        if self._playing.put(event.response_id, event.item_id, event.content_index, sound):
            self._tell_of("started", event.response_id)

    def play(self) -> bytes:
        """The next 20 ms of what is played."""
        sound, over = self._playing.take()
        self._stopped(over)
        return sound

    def _stopped(self, responses: list[str]) -> None:
        for response in responses:
            self._tell_of("stopped", response)

    def _tell_of(self, what: str, response: str) -> None:
        self._tell(written(f"output_audio_buffer.{what}", self._names("event_"), response_id=response))

    def _cut(self) -> None:
        """Stop what is played; what the caller has not heard is no part of the conversation."""
        cut = self._playing.cut()
        for response in dict.fromkeys(each.response for each in cut):
            self._tell_of("cleared", response)
        for each in cut:
            self._heard += 1
            self._own(
                "conversation.item.truncate",
                _CUT,
                item_id=each.item,
                content_index=each.content_index,
                audio_end_ms=each.played_ms,
            )

    # -------------------------------------------------------------------------------------------------- who listens in

    async def join(self, socket: ListensIn) -> None:
        """Have a connection that was accepted hear all that is told, and say what its client wishes, until either is over."""
        outbox = self._listeners[socket] = Outbox(socket, self._waiting)
        if self._session:
            outbox.put([written("session.created", self._names("event_"), session=self._session)])
        try:
            while (message := await socket.read()) is not None:
                data = bytes(message.encoded())
                self.from_client(data.decode("utf-8", "replace") if message.text else data)
                while self._held > self._waiting and not self._over:
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._listeners.pop(socket, None)

    def check_joins(self) -> None:
        """Raise Conflict where as many listen in as may, and Overloaded where the call is over."""
        if self._over:
            raise Overloaded("The call is over.")
        if len(self._listeners) >= _LISTENERS:
            raise Conflict(f"At most {_LISTENERS} connections listen to a call.", code="too_many_connections")

    def _leave(self, socket: ListensIn, code: int) -> None:
        """Close the connection of one who listens in, once what waits for it has left; at once where it is too slow."""
        outbox = self._listeners.pop(socket, None)
        if outbox is None:
            return

        async def close() -> None:
            if code == _NORMAL:
                await outbox.sent()
            await socket.close(code)

        task = asyncio.get_running_loop().create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # ------------------------------------------------------------------------------------------------------------- end

    def end(self) -> None:
        """The call is over: the session is left, and so is who listens in."""
        self._over = True
        self._arrived.set()
        self._room.set()
        for socket in list(self._listeners):
            self._leave(socket, _NORMAL)
