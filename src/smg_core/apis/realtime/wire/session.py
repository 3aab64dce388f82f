"""One session: what its client's events change, and the events that answer them.

`take` goes by the table `states.CLIENT`: how an event is answered depends on whether a response is made in the conversation. What
has to be done besides (begin a response, end one) is returned, for the connection to do. The items of a response join the
conversation when the events that tell them leave (`leaving`), so that conversation and client never differ. Pure: ids and times
are arguments. Above: the connection. Below: the tables, the conversation, the settings, the encoder.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar

import attrs
import msgspec

from smg_core.apis.realtime.wire.conversation import Conversation
from smg_core.apis.realtime.wire.effective import (
    Abilities,
    changed,
    checked_patch,
    for_response,
    phone_law,
    public_settings,
    settings_at,
)
from smg_core.apis.realtime.wire.encode import (
    CONVERSATION_EVENT,
    END_EVENT,
    RealtimeEncoder,
    Status,
    Voiced,
    ended_response,
    error_object,
)
from smg_core.apis.realtime.wire.events import ClientEvent, SessionIds, written
from smg_core.apis.realtime.wire.items import Item, item_given, made_item, reference_of
from smg_core.apis.realtime.wire.limits_left import limits_left
from smg_core.apis.realtime.wire.states import CLIENT, SessionState
from smg_core.apis.realtime.wire.turns import ResponseTurn, turn_of
from smg_core.apis.realtime.wire.types import (
    ItemCreate,
    ItemNamed,
    ItemTruncate,
    ResponseCancel,
    ResponseCreate,
    SessionUpdate,
)
from smg_core.errors import Conflict, InternalError, InvalidRequest, SmgError
from smg_core.events import Usage
from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import too_many
from smg_core.wire.json_text import encode_object

__all__ = ["Begun", "RealtimeSession", "SessionBounds", "SoundSent", "TakenEvent", "Utterance", "no_sound"]


class _ConversationLine(msgspec.Struct):
    """An event of the conversation as the encoder writes it."""

    type: str
    event_id: str
    item: JsonObject


_CONVERSATION_LINE = msgspec.json.Decoder(_ConversationLine)


@attrs.frozen
class SessionBounds:
    """How much a session holds: items, bytes of them and its settings, responses at once outside of the conversation, and turns
    that are written down at once."""

    items: int
    kept_bytes: int
    responses: int
    transcriptions: int = 8


@attrs.define(eq=False)
class Begun:
    """A response under way. `encoder` is what has made its events so far; `cut` once its end was asked for, and why. `turn` is
    what it reads, None where words of it are still written down; `reads` says it then. `ended` once
    its end was told."""

    id: str
    turn: ResponseTurn | None
    reads: Callable[[], ResponseTurn]
    voiced: Voiced
    encoder: RealtimeEncoder
    cut: str | None = None
    ended: bool = False

    def encode_anew(self) -> RealtimeEncoder:
        """The encoder of another try, of which the client has seen nothing."""
        self.encoder = RealtimeEncoder(self.voiced)
        return self.encoder


@attrs.frozen
class TakenEvent:
    """The answer to an event: lines to send, a response to begin, those to end, and what was said and is to be written down."""

    lines: Sequence[bytes] = ()
    begin: Begun | None = None
    cancel: Sequence[Begun] = ()
    write_down: "Sequence[Utterance]" = ()


@attrs.frozen
class Utterance:
    """What the user has said in an item, and by which model it is written down; `language` and `prompt` are the client's."""

    item_id: str
    sound: bytes
    model: str
    language: str | None = None
    prompt: str | None = None


@attrs.define
class SoundSent:
    """How many bytes of sound of an item were told, and of how many characters of its text they are, about."""

    BYTES_A_MS: ClassVar[int] = 48
    size: int = 0
    characters: int = 0

    @property
    def milliseconds(self) -> int:
        """How long the sound is."""
        return self.size // self.BYTES_A_MS

    def characters_by(self, milliseconds: int) -> int:
        """The characters that were heard after so long, as if all took the same time."""
        return self.characters * milliseconds * self.BYTES_A_MS // self.size if self.size else 0


class RealtimeSession:
    """One session of a client. `settings` are those in effect, and `names` makes its ids."""

    def __init__(
        self, settings: JsonObject, conversation_id: str, names: SessionIds, abilities: Abilities, bounds: SessionBounds
    ) -> None:
        self.settings = settings
        self.names = names
        self.conversation = Conversation(bounds.items, bounds.kept_bytes)
        self._conversation_id = conversation_id
        self.abilities = abilities
        self.bounds = bounds
        self.settings_size = 0
        self.unwritten: set[str] = set()
        """The items whose words are not written down yet, and that the model cannot read before."""
        self.sounds: dict[str, SoundSent] = {}
        self.active: Begun | None = None
        self.aside: dict[str, Begun] = {}

    @property
    def state(self) -> SessionState:
        """Whether a response is made in the conversation."""
        return "free" if self.active is None else "busy"

    def event(self, kind: str, **fields: object) -> bytes:
        """An event of this session."""
        return written(kind, self.names("event_"), **fields)

    def opened(self) -> list[bytes]:
        """What a client is told first."""
        conversation = {"id": self._conversation_id, "object": "realtime.conversation"}
        lines = [self.event("session.created", session=public_settings(self.settings))]
        if self.settings["type"] == "realtime":
            lines.append(self.event("conversation.created", conversation=conversation))
        before: str | None = None
        for item in self.conversation.all():
            lines += self.whole_item_events(item, before)
            before = item.id
        return lines

    def take(self, event: ClientEvent) -> TakenEvent:
        """Answer an event. Raises SmgError, which the client is told; nothing has changed then."""
        if event.fault is not None:
            raise event.fault
        row = CLIENT[event.kind, self._state_for(event)]
        if row.refused:
            raise _refusal(row.refused, self.active)
        return self._answer(event)

    def _answer(self, event: ClientEvent) -> TakenEvent:
        match event.fields:
            case SessionUpdate() as fields:
                return self._update(fields)
            case ItemCreate() as fields:
                return self._create(fields)
            case ItemTruncate() as fields:
                return self._truncate(fields)
            case ItemNamed() as fields if event.kind == "conversation.item.delete":
                return self._delete(fields)
            case ItemNamed() as fields:
                return self._retrieve(fields)
            case ResponseCreate() as fields:
                return self._respond(fields)
            case ResponseCancel() as fields:
                return self._cancel(fields)
        return self.hear(event)

    def hear(self, event: ClientEvent, levels: Sequence[float] | None = None) -> TakenEvent:
        """Answer an event of sound. Raises InvalidRequest where none is taken."""
        raise no_sound()

    def _state_for(self, event: ClientEvent) -> SessionState:
        """The state that an event meets: one about a response outside of the conversation does not care for the one in it."""
        fields = event.fields
        if isinstance(fields, ResponseCreate) and (fields.response or {}).get("conversation") == "none":
            return "free"
        if isinstance(fields, ResponseCancel):
            return "busy" if self._cancelled_by(fields) else "free"
        return self.state

    # -------------------------------------------------------------------------------------------------------- settings

    def _update(self, fields: SessionUpdate) -> TakenEvent:
        plain = checked_patch(fields.session, self.settings, self.abilities)
        before, asked = (settings_at(each, "audio", "output") or {} for each in (self.settings, plain))
        if self.sounds and asked.get("voice", before.get("voice")) != before.get("voice"):
            raise InvalidRequest(
                "Cannot update a conversation's voice if assistant audio is present.",
                param="session.audio.output.voice",
                code="cannot_update_voice",
            )
        made = changed(self.settings, plain)
        size = len(encode_object(made))
        if size > self.settings_size and size + self.conversation.size > self.bounds.kept_bytes:
            raise InvalidRequest(
                f"A session holds at most {self.bounds.kept_bytes} bytes.", param="session", code="session_too_large"
            )
        self.settings, self.settings_size = made, size
        return TakenEvent([self.event("session.updated", session=public_settings(made))])

    # ----------------------------------------------------------------------------------------------------------- items

    def _create(self, fields: ItemCreate) -> TakenEvent:
        return self.join(fields, self.item_of(fields, self.names))

    def item_of(self, fields: ItemCreate, make_id: Callable[[str], str]) -> Item:
        """The item that an event brings, with ids of `make_id`. Changes nothing. Raises InvalidRequest."""
        self._only_realtime()
        return item_given(
            fields.item, "item", make_id, hears=self.abilities.hears, law=phone_law(self.settings, "input")
        )

    def join(self, fields: ItemCreate, item: Item) -> TakenEvent:
        """Put the item of an event into the conversation. Raises InvalidRequest."""
        self._check_joins(item)
        self.conversation.check_room(item, self.settings_size)
        before = self.conversation.insert(item, fields.previous_item_id)
        return TakenEvent(self.whole_item_events(item, before))

    def _check_joins(self, item: Item) -> None:
        """Raise InvalidRequest for an output without its call, and an answer without its question."""
        if item.kind == "function_call_output" and item.call_id not in self.conversation.call_ids:
            raise InvalidRequest(
                f"Tool call ID '{item.call_id[:80]}' not found in conversation.",
                param="item.call_id",
                code="item_not_found",
            )
        if item.kind == "mcp_approval_response":
            asked = [each for each in self.conversation.all() if each.asks == item.asks]
            if not any(each.kind == "mcp_approval_request" for each in asked):
                raise InvalidRequest(
                    f"Approval request '{item.asks[:80]}' not found in conversation.",
                    param="item.approval_request_id",
                    code="item_not_found",
                )
            if len(asked) > 1:
                raise InvalidRequest(
                    f"Approval request '{item.asks[:80]}' has been answered.", param="item.approval_request_id"
                )

    def whole_item_events(self, item: Item, before: str | None) -> list[bytes]:
        """The events of an item that joins the conversation complete."""
        whole = msgspec.Raw(item.as_json)
        return [
            self.event("conversation.item.added", previous_item_id=before, item=whole),
            self.event("conversation.item.done", previous_item_id=before, item=whole),
        ]

    def _retrieve(self, fields: ItemNamed) -> TakenEvent:
        item = self.conversation.get(fields.item_id)
        return TakenEvent([self.event("conversation.item.retrieved", item=msgspec.Raw(item.as_json))])

    def _delete(self, fields: ItemNamed) -> TakenEvent:
        self.conversation.delete(fields.item_id)
        self.sounds.pop(fields.item_id, None)
        return TakenEvent([self.event("conversation.item.deleted", item_id=fields.item_id)])

    def _truncate(self, fields: ItemTruncate) -> TakenEvent:
        """What was played of a spoken item stays. Raises InvalidRequest for an item that is not spoken by the assistant."""
        item = self.conversation.get(fields.item_id)
        body = item.body()
        content = body.get("content")
        parts = content if isinstance(content, list) else []
        part = parts[fields.content_index] if fields.content_index < len(parts) else None
        if body.get("role") != "assistant" or not isinstance(part, dict) or part.get("type") != "output_audio":
            raise InvalidRequest(
                "Only the sound of an assistant's message can be truncated.",
                param="content_index" if body.get("role") == "assistant" else "item_id",
                code="invalid_value",
            )
        heard = self.sounds.get(item.id, SoundSent())
        if fields.audio_end_ms > heard.milliseconds:
            raise InvalidRequest(
                f"Audio content of {heard.milliseconds}ms is already shorter than {fields.audio_end_ms}ms",
                param="audio_end_ms",
                code="invalid_value",
            )
        kept = heard.characters_by(fields.audio_end_ms)
        part = {**part, "transcript": str(part.get("transcript") or "")[:kept]}
        cut = made_item({**body, "content": [part]})
        self.conversation.replace(attrs.evolve(cut, hidden=item.hidden))
        self.sounds[item.id] = SoundSent(fields.audio_end_ms * SoundSent.BYTES_A_MS, kept)
        return TakenEvent(
            [
                self.event(
                    "conversation.item.truncated",
                    item_id=item.id,
                    content_index=fields.content_index,
                    audio_end_ms=fields.audio_end_ms,
                )
            ]
        )

    # ------------------------------------------------------------------------------------------------------- responses

    def _respond(self, fields: ResponseCreate) -> TakenEvent:
        self._only_realtime()
        settings, alone = for_response(fields.response or {}, self.settings, self.abilities)
        return self.begin(settings, alone)

    def begin(self, settings: JsonObject, alone: JsonObject) -> TakenEvent:
        """Begin a response by these settings. `alone` is what was said of it alone. Raises InvalidRequest and Conflict."""
        inside = alone.get("conversation") != "none"
        if not inside and len(self.aside) >= self.bounds.responses:
            raise Conflict(
                f"At most {self.bounds.responses} responses are made at once outside of the conversation.",
                code="too_many_active_responses",
            )
        if inside:
            self.conversation.check_more(self.settings_size)
        given, metadata = alone.get("input"), alone.get("metadata")
        items = self._given(given) if isinstance(given, list) else None
        reads = partial(self._read, settings, items, metadata if isinstance(metadata, dict) else None)
        turn = None if self.unwritten else reads()
        id = self.names("resp_")
        response = _response_object(id, settings, self._conversation_id if inside else None, metadata)
        voiced = Voiced(response, self.names, inside, settings["output_modalities"] == ["audio"])
        begun = Begun(id, turn, reads, voiced, RealtimeEncoder(voiced))
        if inside:
            self.active = begun
        else:
            self.aside[id] = begun
        return TakenEvent([self.event("response.created", response=response)], begin=begun)

    def _read(self, settings: JsonObject, items: list[Item] | None, metadata: JsonObject | None) -> ResponseTurn:
        """What a response reads: these items as they are now, None for the conversation."""
        known = None if items is None else [self.conversation.newest(each) for each in items]
        return turn_of(settings, self.conversation.read() if known is None else known, metadata)

    def _given(self, given: Sequence[Json]) -> list[Item]:
        """The items that a response reads in place of the conversation. Raises InvalidRequest."""
        if len(given) > self.bounds.items:
            raise too_many("response.input", len(given), self.bounds.items, "items")
        items: list[Item] = []
        for place, each in enumerate(given):
            at = f"response.input[{place}]"
            if not isinstance(each, dict):
                raise InvalidRequest(f"Invalid type for '{at}': expected an object.", param=at, code="invalid_type")
            reference = reference_of(each, at)
            items.append(
                self.conversation.get(reference, f"{at}.id")
                if reference is not None
                else item_given(each, at, self.names, hears=self.abilities.hears, law=phone_law(self.settings, "input"))
            )
        return items

    def _cancelled_by(self, fields: ResponseCancel) -> list[Begun]:
        """The responses that this event cancels."""
        if fields.response_id is None:
            named = [self.active]
        else:
            named = [each for each in self.under_way if each.id == fields.response_id]
        return [each for each in named if each is not None and each.cut is None]

    @property
    def under_way(self) -> list[Begun]:
        """All responses that have not ended."""
        return [*([self.active] if self.active is not None else ()), *self.aside.values()]

    def _cancel(self, fields: ResponseCancel) -> TakenEvent:
        cancelled = self._cancelled_by(fields)
        return TakenEvent([line for each in cancelled for line in self.cut(each, "client_cancelled")], cancel=cancelled)

    def cut(self, begun: Begun, reason: str) -> list[bytes]:
        """The lines that close what a response has open, since it ends here for this reason; it takes no more events."""
        begun.cut = reason
        rest = begun.encoder.cut()
        if begun.voiced.spoken:  # it is not over before all of it is spoken
            rest = b"".join(line for line in rest.splitlines(keepends=True) if not line.startswith(END_EVENT))
        return self.leaving(begun, rest)

    def over(self, begun: Begun, error: JsonObject | None = None, usage: Usage | None = None) -> list[bytes]:
        """The last lines of a response, of which nothing more comes; none where it has told its end itself."""
        lines: list[bytes] = []
        if begun.cut is None and not begun.ended:
            lines += self.leaving(begun, begun.encoder.cut())
        if not begun.ended:
            status: Status = "failed" if begun.cut is None else "cancelled"
            if status == "failed" and error is None:
                error = error_object(InternalError("The gateway failed on this response."))
            response = ended_response(
                begun.voiced.response, status, begun.encoder.output, reason=begun.cut, error=error, usage=usage
            )
            lines.append(self.event("response.done", response=response))
        self._forget(begun)
        return lines

    def _forget(self, begun: Begun) -> None:
        self.aside.pop(begun.id, None)
        if self.active is begun:
            self.active = None

    # --------------------------------------------------------------------------------------------- lines of a response

    def leaving(self, begun: Begun, lines: bytes) -> list[bytes]:
        """The lines of a response's encoder as they leave. Those of the conversation get their place in it, and change it; with
        the last one the response is over."""
        begun.encoder.sent(lines)
        events = [
            self._placed(begun, line) if line.startswith(CONVERSATION_EVENT) else line
            for line in lines.splitlines()
            if line.startswith(b"{")  # what a plugin has ended is told at the end of the response
        ]
        if events and events[-1].startswith(END_EVENT):
            begun.ended = True
            self._forget(begun)
        return events

    def _placed(self, begun: Begun, line: bytes) -> bytes:
        fields = _CONVERSATION_LINE.decode(line)
        item = made_item(fields.item, begun.encoder.hidden.get(str(fields.item["id"]), ""))
        done = fields.type == "conversation.item.done"
        before = self.conversation.replace(item) if done else self.conversation.insert(item)
        return written(fields.type, fields.event_id, previous_item_id=before, item=fields.item)

    def spoken(self, begun: Begun, where: JsonObject, audio: str, size: int, characters: int) -> list[bytes]:
        """The event of more sound of a response, which are so many bytes; `characters` of the item's text are spoken by then."""
        if begun.cut is not None or begun.ended:
            return []
        if begun.voiced.in_conversation:
            sound = self.sounds.setdefault(str(where["item_id"]), SoundSent())
            sound.size += size
            sound.characters = characters
        return [self.event("response.output_audio.delta", **where, delta=audio)]

    def limit_events(self, headers: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
        """The event of what is left of limits, by the headers of the answer; none where they say nothing of that."""
        limits = limits_left(headers)
        return [self.event("rate_limits.updated", rate_limits=limits)] if limits else []

    def _only_realtime(self) -> None:
        if self.settings["type"] != "realtime":
            raise InvalidRequest("A transcription session makes no responses and takes no items.", code="invalid_event")


def no_sound() -> InvalidRequest:
    """The error for sound that nobody here understands."""
    return InvalidRequest(
        "No sound is taken here: there is no worker that writes down what is said.",
        param="type",
        code="unsupported_content",
    )


def _response_object(id: str, settings: JsonObject, conversation: str | None, metadata: Json) -> JsonObject:
    audio = settings["audio"]
    output = audio.get("output") if isinstance(audio, dict) else None
    voice = {name: output.get(name) for name in ("format", "voice")} if isinstance(output, dict) else {}
    response: JsonObject = {
        "object": "realtime.response",
        "id": id,
        "status": "in_progress",
        "status_details": None,
        "output": [],
        "conversation_id": conversation,
        "output_modalities": settings["output_modalities"],
        "max_output_tokens": settings["max_output_tokens"],
        "audio": {"output": voice},
        "usage": None,
        "metadata": metadata,
    }
    return response


def _refusal(code: str, active: Begun | None) -> SmgError:
    """The error for an event that cannot be taken in this state."""
    if code == "conversation_already_has_active_response":
        id = "" if active is None else active.id
        message = f"Conversation already has an active response in progress: {id}. Wait until the response is finished."
        return InvalidRequest(message, code=code)
    if code == "response_cancel_not_active":
        return InvalidRequest("Cancellation failed: no active response found.", code=code)
    return InvalidRequest("There is no buffer of sound that goes out over a WebSocket.", param="type", code=code)
