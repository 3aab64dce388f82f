"""Requests about recordings, the words spoken in them, and the speaking of a text.

Part of the vocabulary: a decoder puts it into `GenerationRequest.transcription`, beside the recording itself in the messages.
An engine that has a call for it is asked by that; of a model that takes sound the words in the messages ask the same. Pure.
"""

from typing import Literal

from msgspec import Struct

__all__ = ["SoundFormat", "Speech", "Transcription", "TranscriptionFormat"]

TranscriptionFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]


class Transcription(Struct, frozen=True):
    """`translate`: into English. `language` is that of the recording (ISO 639-1), `prompt` what came before, or words that may
    occur. `format` is how the answer is written, `granularities` what times it has ("word", "segment"). `filename` is the
    client's name for the recording, from whose end servers tell how it is encoded; `media_type` is what the client says that
    is. `detects`: the language is asked for, and nothing else; `part`: of which part of the recording, from 0, and how many parts
    there are, where a model reads it so."""

    translate: bool = False
    language: str | None = None
    prompt: str | None = None
    format: TranscriptionFormat = "json"
    granularities: tuple[str, ...] = ()
    filename: str = "file"
    media_type: str = ""
    detects: bool = False
    part: tuple[int, ...] | None = None

    @property
    def piecemeal(self) -> bool:
        """Whether it is one question of several about a recording, for an engine that is sent what was prepared here."""
        return self.detects or self.part is not None

    @property
    def timed(self) -> bool:
        """Whether the answer has times, which only an engine made for this can give."""
        return self.format not in ("json", "text") or bool(self.granularities)


SoundFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


class Speech(Struct, frozen=True):
    """How the text of a message is spoken: by a `voice`, in a `format` ("pcm": 16 bits a sample, little end first, 24 kHz), at a
    `speed` (1: its own), as the `instructions` say. None: the engine's own. Its answer is the sound, in blocks of the kind
    "speech"."""

    voice: str | None = None
    format: SoundFormat = "mp3"
    speed: float | None = None
    instructions: str | None = None
