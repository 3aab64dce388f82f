"""A session of the Realtime API, in front of one of Gemini Live: what its client says becomes messages of that server's, what the
server says becomes events.

The two differ, and something is lost; docs/realtime.md has the list. What has no meaning there is refused by name, and changes
nothing. The server has no responses, only turns: a response begins when the client asks for one, or when the server begins to
answer what it has heard, and ends with the turn, a call, or an interruption. Pure: ids are an argument. Above: the socket. Below:
the settings, the response.
"""

from collections.abc import Callable, Mapping, Sequence

import attrs
import msgspec

from smg_core.engines.realtime.live_items import LiveItems
from smg_core.engines.realtime.live_response import LiveCall, LiveResponse, LiveUsage, live_event
from smg_core.engines.realtime.live_settings import changed_settings, first_settings, setup_of, update_of
from smg_core.engines.realtime.live_wire import LiveContent, LiveEvent, LiveMessage, LiveTranscription
from smg_core.errors import InvalidRequest, SmgError
from smg_core.json_types import Json, JsonObject
from smg_core.wire.errors import responses_error
from smg_core.wire.json_text import encode_object

__all__ = ["LiveTranslation", "Translated"]

_HELD_BYTES = 16 << 20
"""Messages of sound that wait for its commit: as much as one event of the API may bring, and what is around it."""


@attrs.frozen
class Translated:
    """What becomes of a message: the `setup` that has to be answered before anything else is sent, messages `to_server`, and
    events `to_client`."""

    to_server: Sequence[bytes] = ()
    to_client: Sequence[bytes] = ()
    setup: bytes = b""


_REFUSED = {
    "conversation.item.retrieve": "items are not kept here, and its server shows none",
    "conversation.item.delete": "its server takes no item back",
    "conversation.item.truncate": "its server itself keeps what was sent until it was interrupted",
    "output_audio_buffer.clear": "there is no buffer of sound that goes out over a WebSocket",
}


class LiveTranslation:
    """One session, called `session` where its client sees it, of a model that is `model_there` at the server."""

    def __init__(self, session: str, model_there: str, names: Callable[[str], str]) -> None:
        self._model_there, self._names = model_there, names
        self._settings = first_settings(session, model_there)
        self._conversation = f"conv_{session.removeprefix('sess_')}"
        self._items = LiveItems(names)
        self._began = False
        self._handle = ""
        self._response: LiveResponse | None = None
        self._muted = False  # what the server still says is of a turn that was cancelled
        self._turn_open = False  # the end of a turn that was interrupted is still to come
        self._usage: LiveUsage | None = None  # told after the end of a response
        self._held: list[bytes] = []  # sound that is not committed
        self._held_size = 0
        self._heard_ms = self._written_ms = 0  # of sound: all, and that by the end of the last transcription
        self._committed = False  # sound was, and is not answered
        self._speech: str | None = None  # the item of the speech under way
        self._writing: tuple[str, list[str]] | None = None  # the item whose words come in, and they
        self._routes: Mapping[str, Callable[[LiveEvent], Translated]] = {
            "session.update": self._update,
            "conversation.item.create": self._create,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "response.create": self._respond,
            "response.cancel": self._cancel,
        }

    @property
    def can_go_on(self) -> bool:
        """Whether another connection may go on with this session."""
        return bool(self._handle) and self._response is None

    def opened(self) -> list[bytes]:
        """What a client is told first."""
        conversation = {"id": self._conversation, "object": "realtime.conversation"}
        return [
            self._event("session.created", session=self._settings),
            self._event("conversation.created", conversation=conversation),
        ]

    def setup_again(self) -> bytes:
        """The first message of a connection that goes on with the session."""
        self._speech, self._committed, self._muted, self._turn_open = None, False, False, False
        return encode_object({"setup": setup_of(self._settings, self._model_there, self._handle)})

    # ------------------------------------------------------------------------------------------------ from the client

    def sent(self, event: LiveEvent) -> Translated:
        """An event of the client."""
        try:
            if event.fault is not None:
                raise event.fault
            route = self._routes.get(event.kind)
            if route is None:
                raise _not_there(event.kind)
            return route(event)
        except SmgError as error:
            error_body = msgspec.json.decode(responses_error(error))["error"]
            own = event.fields.get("event_id")
            about = own if isinstance(own, str) else None
            return Translated(to_client=[self._event("error", error={**error_body, "event_id": about})])

    def _begun(self, *to_server: JsonObject | bytes, to_client: Sequence[bytes] = ()) -> Translated:
        """Messages to a server that has its setup, before them where it has not."""
        setup = b"" if self._began else encode_object({"setup": setup_of(self._settings, self._model_there)})
        self._began = True
        messages = [each if isinstance(each, bytes) else encode_object(each) for each in to_server]
        return Translated(messages, to_client, setup)

    def _update(self, event: LiveEvent) -> Translated:
        made = changed_settings(self._settings, event.fields.get("session"))
        update = update_of(self._settings, made) if self._began else None
        self._settings = made
        events = [self._event("session.updated", session=made)]
        return Translated([] if update is None else [encode_object(update)], events)

    def _create(self, event: LiveEvent) -> Translated:
        before = self._items.last
        item = self._items.take(event.fields.get("item"), event.fields.get("previous_item_id"), event.size)
        return Translated(
            to_client=[
                self._event("conversation.item.added", previous_item_id=before, item=item),
                self._event("conversation.item.done", previous_item_id=before, item=item),
            ]
        )

    # ---------------------------------------------------------------------------------------------------------- sound

    @property
    def _finds_turns(self) -> bool:
        """Whether the server finds the turns of the user."""
        return self._heard["turn_detection"] is not None

    @property
    def _heard(self) -> JsonObject:
        audio = self._settings["audio"]
        heard = audio["input"] if isinstance(audio, dict) else {}
        return heard if isinstance(heard, dict) else {}

    def _append(self, event: LiveEvent) -> Translated:
        sound = event.sound
        self._heard_ms += event.sound_ms
        if self._finds_turns:
            waited = [*self._held, sound]
            self._empty()
            return self._begun(*waited)
        if self._held_size + len(sound) > _HELD_BYTES:
            raise InvalidRequest(
                f"At most {_HELD_BYTES} bytes of sound wait for their commit.", param="audio", code="session_too_large"
            )
        self._held.append(sound)
        self._held_size += len(sound)
        return Translated()

    def _commit(self, event: LiveEvent) -> Translated:
        if self._finds_turns:
            return self._begun({"realtimeInput": {"audioStreamEnd": True}}, to_client=self._turn_ends())
        if not self._held:
            raise InvalidRequest(
                "Error committing input audio buffer: the buffer is empty.", code="input_audio_buffer_commit_empty"
            )
        start: list[JsonObject] = [] if self._committed else [{"realtimeInput": {"activityStart": {}}}]
        sound = list(self._held)
        self._empty()
        self._committed = True
        return self._begun(*start, *sound, to_client=self._joined(self._names("item_")))

    def _clear(self, event: LiveEvent) -> Translated:
        if self._finds_turns:
            raise _not_there("input_audio_buffer.clear", "its server has the sound already")
        self._empty()
        return Translated(to_client=[self._event("input_audio_buffer.cleared")])

    def _empty(self) -> None:
        self._held.clear()
        self._held_size = 0

    def _turn_begins(self) -> list[bytes]:
        """The user speaks, as far as can be told."""
        if self._speech is not None:
            return []
        id = self._speech = self._names("item_")
        return [
            *self._all_written(),
            self._event("input_audio_buffer.speech_started", audio_start_ms=self._heard_ms, item_id=id),
        ]

    def _turn_ends(self) -> list[bytes]:
        """The user has spoken: what was said becomes an item."""
        lines = self._turn_begins()
        id, self._speech = self._speech or "", None
        lines.append(self._event("input_audio_buffer.speech_stopped", audio_end_ms=self._heard_ms, item_id=id))
        return lines + self._joined(id)

    def _joined(self, id: str) -> list[bytes]:
        """An item of what was said, whose words may come later."""
        before = self._items.joined(id)
        lines: list[bytes] = []
        if self._heard["transcription"] is not None and (self._writing is None or self._writing[0] != id):
            lines, self._writing = self._all_written(), (id, [])
        item = {
            "id": id,
            "object": "realtime.item",
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        return [
            *lines,
            self._event("input_audio_buffer.committed", previous_item_id=before, item_id=id),
            self._event("conversation.item.added", previous_item_id=before, item=item),
            self._event("conversation.item.done", previous_item_id=before, item=item),
        ]

    def _wrote(self, transcription: LiveTranscription) -> list[bytes]:
        """More of the words of the user."""
        lines = self._turn_begins() if self._finds_turns and self._writing is None else []
        if self._writing is None:
            self._writing = (self._speech or self._names("item_"), [])
        id, words = self._writing
        if transcription.text:
            words.append(transcription.text)
            kind = "conversation.item.input_audio_transcription.delta"
            lines.append(self._event(kind, item_id=id, content_index=0, delta=transcription.text))
        return [*lines, *(self._all_written() if transcription.finished else ())]

    def _all_written(self) -> list[bytes]:
        """The words of the user are complete."""
        if self._writing is None:
            return []
        (id, words), self._writing = self._writing, None
        usage = {"type": "duration", "seconds": (self._heard_ms - self._written_ms) / 1000}
        self._written_ms = self._heard_ms
        kind = "conversation.item.input_audio_transcription.completed"
        return [self._event(kind, item_id=id, content_index=0, transcript="".join(words).strip(), usage=usage)]

    # ------------------------------------------------------------------------------------------------------ responses

    def _respond(self, event: LiveEvent) -> Translated:
        if (active := self._response) is not None:
            raise InvalidRequest(
                f"Conversation already has an active response in progress: {active.id}. Wait until it is finished.",
                code="conversation_already_has_active_response",
            )
        metadata = _checked_response(event.fields.get("response"), self._settings["output_modalities"])
        turns, answers = self._items.waiting()
        speaks, self._committed = self._committed, False
        messages: list[JsonObject] = []
        if turns or not (answers or speaks):
            content: JsonObject = {"turnComplete": not (answers or speaks)}
            messages.append({"clientContent": {**content, **({"turns": turns} if turns else {})}})
        if answers:
            messages.append({"toolResponse": {"functionResponses": answers}})
        if speaks:
            messages.append({"realtimeInput": {"activityEnd": {}}})
        return self._begun(*messages, to_client=[self._begin(metadata)])

    def _begin(self, metadata: Json = None) -> bytes:
        settings = self._settings
        response = self._response = LiveResponse(
            self._names("resp_"),
            self._names,
            settings["output_modalities"] == ["audio"],
            self._conversation,
            self._items.last,
            metadata,
            settings["max_output_tokens"],
        )
        return response.created()

    def _cancel(self, event: LiveEvent) -> Translated:
        response, named = self._response, event.fields.get("response_id")
        if response is None or named not in (None, response.id):
            raise InvalidRequest("Cancellation failed: no active response found.", code="response_cancel_not_active")
        self._muted = True
        return self._begun(
            {"clientContent": {"turnComplete": False}}, to_client=self._end("cancelled", "client_cancelled")
        )

    def _end(self, status: str, reason: str | None = None) -> list[bytes]:
        response, self._response = self._response, None
        if response is None:
            return []
        response.usage = response.usage or self._usage
        self._usage = None
        lines = response.ended(status, reason)
        self._items.last = response.after
        return lines

    # ------------------------------------------------------------------------------------------------ from the server

    def received(self, message: LiveMessage) -> list[bytes]:
        """The events that a message of the server becomes."""
        lines: list[bytes] = []
        resumption = message.session_resumption_update
        if resumption is not None:
            self._handle = resumption.new_handle if resumption.resumable else ""
        if message.voice_activity is not None:
            lines += self._activity(message.voice_activity.voice_activity_type)
        if message.usage_metadata is not None:
            self._count(message.usage_metadata)
        if (content := message.server_content) is not None:
            lines += self._content(content)
        if (calls := message.tool_call) is not None and not self._muted:
            lines += self._called(calls.function_calls)
        if (cancelled := message.tool_call_cancellation) is not None:
            self._items.forget(cancelled.ids)
        return lines

    def _activity(self, kind: str) -> list[bytes]:
        if kind == "ACTIVITY_START":
            return self._turn_begins()
        return self._turn_ends() if kind == "ACTIVITY_END" and self._speech is not None else []

    def _count(self, usage: LiveUsage) -> None:
        if self._response is not None:
            self._response.usage = usage
        else:
            self._usage = usage

    def _content(self, content: LiveContent) -> list[bytes]:
        lines: list[bytes] = []
        if content.input_transcription is not None and self._heard["transcription"] is not None:
            lines += self._wrote(content.input_transcription)
        if not self._muted:
            lines += self._answered(content)
        if content.interrupted:
            lines += self._turn_begins() if self._finds_turns and not self._muted else []
            lines += self._end("cancelled", "turn_detected") if not self._muted else []
            self._muted, self._turn_open = False, True
        if content.turn_complete:
            lines += self._completed(content.turn_complete_reason)
        return lines

    def _completed(self, why: str) -> list[bytes]:
        """A turn is over: the one of the response, or one that was given up before."""
        response = self._response
        if self._muted or response is None or (self._turn_open and not response.has_content):
            self._muted = self._turn_open = False
            return []
        self._turn_open = False
        refused = why not in ("", "TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT")
        ended = self._end(*(("incomplete", "content_filter") if refused else ("completed",)))
        return [*self._all_written(), *ended]

    def _answered(self, content: LiveContent) -> list[bytes]:
        """The events of what the model says in a message."""
        lines: list[bytes] = []
        for part in content.model_turn.parts if content.model_turn is not None else ():
            blob = part.inline_data
            if blob is not None and blob.data and blob.mime_type.startswith("audio/"):
                lines += self._more(audio=blob.data)
            elif part.text and not part.thought:
                lines += self._more(text=part.text)
        if (transcription := content.output_transcription) is not None and transcription.text:
            lines += self._more(transcript=transcription.text)
        return lines

    def _more(self, *, text: str = "", audio: str = "", transcript: str = "") -> list[bytes]:
        """The events of more content, before them those of a response that the server begins by itself. What an answer does not
        consist of is left out: text beside sound, sound beside text."""
        lines = self._under_way()
        response = self._response
        if response is None or response.spoken is bool(text):
            return lines
        self._turn_open = False
        return [*lines, *(response.sounded(audio) if audio else response.add_text(text or transcript))]

    def _under_way(self) -> list[bytes]:
        """The beginning of a response, where none is under way: the server answers what it has heard."""
        if self._response is not None:
            return []
        heard = self._turn_ends() if self._finds_turns else []
        return [*heard, self._begin()]

    def _called(self, calls: Sequence[LiveCall]) -> list[bytes]:
        """The model calls functions, with which the response ends."""
        lines = self._under_way()
        response = self._response
        if response is None:
            return lines
        named = [call if call.id else LiveCall(call.name, self._names("call_"), call.args) for call in calls]
        self._items.asked(named)
        self._turn_open = False
        return [*lines, *response.called(named), *self._all_written(), *self._end("completed")]

    def _event(self, kind: str, **fields: object) -> bytes:
        return live_event(self._names, kind, **fields)


def _not_there(kind: str, why: str = "") -> InvalidRequest:
    why = why or _REFUSED.get(kind, "")
    if not why:
        return InvalidRequest(f"Invalid value: '{kind[:80]}'.", param="type", code="invalid_value")
    return InvalidRequest(f"'{kind}' cannot be translated for this model: {why}.", param="type", code="unsupported")


def _checked_response(asked: Json, modalities: Json) -> Json:
    """The metadata of a `response.create`. Raises InvalidRequest for what would be of this response alone."""
    if asked is None:
        return None
    if not isinstance(asked, dict):
        raise InvalidRequest("Invalid type for 'response': expected an object.", param="response", code="invalid_type")
    alike = {"conversation": "auto", "output_modalities": modalities}
    for name, value in asked.items():
        if name == "metadata" or value is None or (name in alike and value == alike[name]):
            continue
        raise InvalidRequest(
            f"'response.{name[:80]}' cannot be translated for this model: its server takes it for the session alone.",
            param=f"response.{name[:80]}",
            code="unsupported",
        )
    metadata = asked.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidRequest("Invalid type for 'response.metadata'.", param="response.metadata", code="invalid_type")
    return metadata
