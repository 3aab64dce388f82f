"""A session that is spoken to: turns of sound, found or committed, their words, and the user who speaks while the model does.

What the user has said is an item without words at first. The model hears it where it takes sound; else it reads the words once
they are written down, and a response waits for them. Speech that begins ends the response under way, where the client wishes so.
Pure. Above: the connection. Below: the session, the hearing.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from smg_core.apis.realtime.wire.effective import Abilities, phone_law, settings_at
from smg_core.apis.realtime.wire.events import ClientEvent, SessionIds, error_frame
from smg_core.apis.realtime.wire.g711 import FromPhone
from smg_core.apis.realtime.wire.hearing import Heard, Hearing, wav_base64
from smg_core.apis.realtime.wire.items import Item, made_item
from smg_core.apis.realtime.wire.session import Begun, RealtimeSession, SessionBounds, TakenEvent, Utterance, no_sound
from smg_core.errors import InvalidRequest, SmgError
from smg_core.json_types import JsonObject
from smg_core.wire.json_text import encode_object

__all__ = ["SpokenSession"]

_BYTES_A_SECOND = 48_000
_UP = 6  # bytes of pcm16 for each of a telephone's


class SpokenSession(RealtimeSession):
    """One session of a client, with its sound."""

    def __init__(
        self, settings: JsonObject, conversation_id: str, names: SessionIds, abilities: Abilities, bounds: SessionBounds
    ) -> None:
        super().__init__(settings, conversation_id, names, abilities, bounds)
        self.hearing = Hearing(abilities.detector)
        self._phone: FromPhone | None = None
        self._speaking: str | None = None  # the item of the speech under way
        self._owes_response = False  # once the response under way is over
        self._written: set[str] = set()  # the items that are written down now

    @property
    def answers(self) -> bool:
        """Whether the session makes responses, or only transcribes."""
        return self.settings["type"] == "realtime"

    @property
    def _writer(self) -> JsonObject | None:
        """The setting of the model that writes down what is said; None where none is asked for, or it is not served here."""
        found = settings_at(self.settings, "audio", "input", "transcription")
        return found if found is not None and self.abilities.writes_down(str(found.get("model") or "")) else None

    @property
    def _hears(self) -> bool:
        """Whether the model itself takes what is said."""
        return self.answers and self.abilities.hears

    def pcm(self, event: ClientEvent) -> ClientEvent:
        """The event with its sound as pcm16 at 24 kHz. Takes time where it is a telephone's, and much."""
        law = phone_law(self.settings, "input")
        if law is None or not event.sound:
            return event
        self._check_room(_UP * len(event.sound))
        if self._phone is None or self._phone.law != law:
            self._phone = FromPhone(law)
        return replace(event, sound=self._phone.pcm(event.sound))

    def unjudged(self, sound: bytes) -> bytes:
        """The sound whose levels `hear` wants with an event that brings `sound`."""
        self._detect()
        return self.hearing.unjudged(sound)

    def _detect(self) -> None:
        """Have turns detected as the settings of now say. A session without sound needs no detector."""
        self.hearing.configure(settings_at(self.settings, "audio", "input", "turn_detection"))

    # ----------------------------------------------------------------------------------------------------------- sound

    def hear(self, event: ClientEvent, levels: Sequence[float] | None = None) -> TakenEvent:
        if not self._hears and self._writer is None:
            raise no_sound()
        self._detect()
        match event.kind:
            case "input_audio_buffer.append":
                return self._append(event.sound, levels)
            case "input_audio_buffer.commit":
                return self._commit()
        self.hearing.clear()
        self._speaking = None
        return TakenEvent([self.event("input_audio_buffer.cleared")])

    def _append(self, sound: bytes, levels: Sequence[float] | None) -> TakenEvent:
        self._check_room(len(sound))
        taken = [self._turn(each) for each in self.hearing.hear(sound, levels)]
        begun = [each.begin for each in taken if each.begin is not None]
        return TakenEvent(
            [line for each in taken for line in each.lines],
            begun[-1] if begun else None,
            [one for each in taken for one in each.cancel],
            [one for each in taken for one in each.write_down],
        )

    def _check_room(self, size: int) -> None:
        """Raise InvalidRequest where so many bytes more of sound are too much."""
        held = self.conversation.size + self.settings_size + self.hearing.size + size
        if held > self.bounds.kept_bytes:
            raise InvalidRequest(
                f"A session holds at most {self.bounds.kept_bytes} bytes; commit or clear the sound, or delete items.",
                param="audio",
                code="session_too_large",
            )

    def _turn(self, heard: Heard) -> TakenEvent:
        """What becomes of speech that has begun, or ended."""
        detection = settings_at(self.settings, "audio", "input", "turn_detection") or {}
        id = self._speaking or self.names("item_")
        if heard.sound is None:
            self._speaking = id
            lines = [self.event("input_audio_buffer.speech_started", audio_start_ms=heard.at_ms, item_id=id)]
            ended: list[Begun] = []
            if detection.get("interrupt_response") is not False and self.active is not None and self.active.cut is None:
                ended = [self.active]
                lines += self.cut(self.active, "turn_detected")
            return TakenEvent(lines, cancel=ended)
        self._speaking = None
        lines = [self.event("input_audio_buffer.speech_stopped", audio_end_ms=heard.at_ms, item_id=id)]
        try:
            committed = self._committed(heard.sound, id)
        except InvalidRequest as error:  # there is no room for it
            return TakenEvent([*lines, error_frame(error, self.names("event_"), None)])
        begin: Begun | None = None
        if self.answers and detection.get("create_response") is not False:
            self._owes_response = True
            following = self.next_response()
            begin, more = (None, ()) if following is None else (following.begin, following.lines)
            return TakenEvent([*lines, *committed.lines, *more], begin, (), committed.write_down)
        return TakenEvent([*lines, *committed.lines], begin, (), committed.write_down)

    def next_response(self) -> TakenEvent | None:
        """The response to what the user has said, once there is room for it; None while there is none to make."""
        if not self._owes_response or self.active is not None:
            return None
        self._owes_response = False
        try:
            return self.begin(self.settings, {})
        except SmgError as error:
            return TakenEvent([error_frame(error, self.names("event_"), None)])

    def _commit(self) -> TakenEvent:
        self._check_writers()
        id, self._speaking = self._speaking or self.names("item_"), None
        return self._committed(self.hearing.commit(), id)

    def _check_writers(self) -> None:
        """Raise InvalidRequest where as many turns are written down as may be at once."""
        if self._writer is not None and len(self._written) >= self.bounds.transcriptions:
            raise InvalidRequest(
                f"At most {self.bounds.transcriptions} turns are written down at once.", code="too_many_transcriptions"
            )

    def _committed(self, sound: bytes, id: str) -> TakenEvent:
        """The item of what the user has said. Raises InvalidRequest where there is no room for it."""
        self._check_writers()
        item = _unwritten_item(id, sound if self._hears else b"")
        self.conversation.check_room(item, self.settings_size)
        before = self.conversation.insert(item)
        lines = [self.event("input_audio_buffer.committed", previous_item_id=before, item_id=id)]
        lines += self.whole_item_events(item, before)
        writer = self._writer
        if writer is None:
            return TakenEvent(lines)
        self._written.add(id)
        if not self._hears:
            self.unwritten.add(id)
        language, prompt = (writer.get(name) for name in ("language", "prompt"))
        utterance = Utterance(
            id,
            sound,
            str(writer["model"]),
            language if isinstance(language, str) else None,
            prompt if isinstance(prompt, str) else None,
        )
        return TakenEvent(lines, write_down=[utterance])

    # ----------------------------------------------------------------------------------------------------------- words

    def written_down(self, utterance: Utterance, words: str, usage: JsonObject | None) -> list[bytes]:
        """The events of what was written down, which the item says from now on."""
        self._ended(utterance)
        if utterance.item_id in self.conversation:
            old = self.conversation.get(utterance.item_id)
            content: JsonObject = {"type": "input_audio", "transcript": words}
            item = made_item({"id": utterance.item_id, "type": "message", "role": "user", "content": [content]})
            if self._hears or not words.strip():
                item = Item(item.id, item.kind, item.as_json, old.for_model)
            self.conversation.replace(item)
        where = {"item_id": utterance.item_id, "content_index": 0}
        kind = "conversation.item.input_audio_transcription"
        counted = (
            usage if usage is not None else {"type": "duration", "seconds": len(utterance.sound) / _BYTES_A_SECOND}
        )
        return [
            *([self.event(f"{kind}.delta", **where, delta=words)] if words else ()),
            self.event(f"{kind}.completed", **where, transcript=words, usage=counted),
        ]

    def _ended(self, utterance: Utterance) -> None:
        self._written.discard(utterance.item_id)
        self.unwritten.discard(utterance.item_id)

    def not_written_down(self, utterance: Utterance, error: JsonObject) -> list[bytes]:
        """The event of what could not be written down: the item stays without words."""
        self._ended(utterance)
        kind = "conversation.item.input_audio_transcription.failed"
        return [self.event(kind, item_id=utterance.item_id, content_index=0, error=error)]


def _unwritten_item(id: str, sound: bytes) -> Item:
    """The item of sound whose words nobody knows yet; the model hears `sound`, where there is some."""
    content: JsonObject = {"type": "input_audio", "transcript": None}
    item = made_item({"id": id, "type": "message", "role": "user", "content": [content]})
    transcript = b""
    if sound:
        heard = {"type": "input_audio", "input_audio": {"data": wav_base64(sound), "format": "wav"}}
        transcript = encode_object({"type": "message", "role": "user", "content": [heard]})
    return Item(item.id, item.kind, item.as_json, transcript)
