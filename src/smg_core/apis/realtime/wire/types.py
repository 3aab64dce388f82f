"""The settings of a Realtime session and its client events, as msgspec reads them.

A field that a type does not have is refused by name. UNSET is what a client did not say: it changes nothing, where null may turn
something off. Pure. Above: the session. Below: msgspec.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from smg_core.json_types import JsonObject

__all__ = [
    "SUPPORTED_VALUES",
    "ItemCreate",
    "ItemNamed",
    "ItemTruncate",
    "NoFields",
    "ResponseCancel",
    "ResponseCreate",
    "ResponsePatch",
    "SessionPatch",
    "SessionUpdate",
    "SoundAppend",
    "TranscriptionPatch",
]


class _Wire(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Base of what has no keys but its own."""


_Id = Annotated[str, Meta(min_length=1, max_length=256)]
_EventId = Annotated[str, Meta(max_length=512)]


class _SoundFormat(_Wire):
    """How sound is encoded; `rate` is in samples a second."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | UnsetType = UNSET


class NoiseReduction(_Wire):
    """TakenEvent and echoed; nothing here reduces noise."""

    type: Literal["near_field", "far_field"] | UnsetType | None = UNSET
    strength: float | UnsetType | None = UNSET


class InputTranscription(_Wire):
    """Which model writes down what the user says."""

    model: Annotated[str, Meta(max_length=256)] | UnsetType | None = UNSET
    language: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    prompt: Annotated[str, Meta(max_length=8192)] | UnsetType | None = UNSET
    delay: str | UnsetType | None = UNSET
    keywords: list[str] | UnsetType | None = UNSET
    languages: list[str] | UnsetType | None = UNSET


class TurnDetection(_Wire):
    """When a turn of the user begins and ends. Times are in milliseconds."""

    type: Literal["server_vad", "semantic_vad"]
    threshold: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType | None = UNSET
    silence_duration_ms: Annotated[int, Meta(ge=1, le=60_000)] | UnsetType | None = UNSET
    create_response: bool | UnsetType | None = UNSET
    interrupt_response: bool | UnsetType | None = UNSET
    idle_timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] | UnsetType | None = UNSET
    eagerness: Literal["low", "medium", "high", "auto"] | UnsetType | None = UNSET


class SoundInput(_Wire):
    """What comes from the microphone."""

    format: _SoundFormat | UnsetType | None = UNSET
    transcription: InputTranscription | UnsetType | None = UNSET
    turn_detection: TurnDetection | UnsetType | None = UNSET
    noise_reduction: NoiseReduction | UnsetType | None = UNSET


class VoiceId(_Wire):
    """A voice by its id."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]


_Voice = Annotated[str, Meta(min_length=1, max_length=256)] | VoiceId


class SoundOutput(_Wire):
    """What goes to the loudspeaker."""

    format: _SoundFormat | UnsetType | None = UNSET
    voice: _Voice | UnsetType | None = UNSET
    speed: Annotated[float, Meta(ge=0.25, le=1.5)] | UnsetType = UNSET


class SoundPatch(_Wire):
    """Settings of sound in both directions."""

    input: SoundInput | UnsetType = UNSET
    output: SoundOutput | UnsetType = UNSET


class ResponseSound(_Wire):
    """Settings of the sound of one response."""

    output: SoundOutput | UnsetType = UNSET


class ReasoningPatch(_Wire):
    """How much the model reasons."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | UnsetType | None = UNSET


class TracingPatch(_Wire):
    """TakenEvent and echoed; traces are configured by the operator."""

    workflow_name: str | UnsetType = UNSET
    group_id: str | UnsetType = UNSET
    metadata: JsonObject | UnsetType = UNSET


class TokenLimits(_Wire):
    """How many tokens of conversation a response reads at most, behind its instructions."""

    post_instructions: Annotated[int, Meta(ge=1)] | UnsetType = UNSET


class RetentionRatio(_Wire):
    """How much of a conversation stays when it does not fit any more."""

    type: Literal["retention_ratio"]
    retention_ratio: Annotated[float, Meta(ge=0, le=1)]
    token_limits: TokenLimits | UnsetType | None = UNSET


_Instructions = str | UnsetType
_MaxTokens = Annotated[int, Meta(ge=1)] | Literal["inf"] | UnsetType
_Modalities = Annotated[list[Literal["text", "audio"]], Meta(min_length=1, max_length=2)] | UnsetType
_Tools = list[JsonObject] | UnsetType
_Choice = Literal["none", "auto", "required"] | JsonObject | UnsetType
_Included = list[Literal["item.input_audio_transcription.logprobs"]] | UnsetType | None


class SessionPatch(_Wire):
    """What `session.update` says of a session that answers."""

    type: Literal["realtime"]
    model: Annotated[str, Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    output_modalities: _Modalities = UNSET
    instructions: _Instructions = UNSET
    tools: _Tools = UNSET
    tool_choice: _Choice = UNSET
    max_output_tokens: _MaxTokens = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    reasoning: ReasoningPatch | UnsetType | None = UNSET
    audio: SoundPatch | UnsetType = UNSET
    tracing: Literal["auto"] | TracingPatch | UnsetType | None = UNSET
    truncation: Literal["auto", "disabled"] | RetentionRatio | UnsetType = UNSET
    prompt: JsonObject | UnsetType | None = UNSET
    include: _Included = UNSET


class TranscriptionInput(_Wire):
    """Settings of the sound of a session that only transcribes."""

    input: SoundInput | UnsetType = UNSET


class TranscriptionPatch(_Wire):
    """What `session.update` says of a session that only transcribes."""

    type: Literal["transcription"]
    audio: TranscriptionInput | UnsetType = UNSET
    include: _Included = UNSET


class ResponsePatch(_Wire):
    """What a `response.create` says otherwise than its session."""

    conversation: Literal["auto", "none"] | UnsetType = UNSET
    input: list[JsonObject] | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType | None = UNSET
    output_modalities: _Modalities = UNSET
    instructions: _Instructions = UNSET
    tools: _Tools = UNSET
    tool_choice: _Choice = UNSET
    max_output_tokens: _MaxTokens = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    reasoning: ReasoningPatch | UnsetType | None = UNSET
    audio: ResponseSound | UnsetType = UNSET
    prompt: JsonObject | UnsetType | None = UNSET


# --------------------------------------------------------------------------------------------------------- client events


class _ClientEvent(_Wire, kw_only=True):
    """What every event of a client has."""

    type: str
    event_id: _EventId | None = None


class NoFields(_ClientEvent, kw_only=True):
    """An event that says all by its type."""


class SessionUpdate(_ClientEvent, kw_only=True):
    """`session` stays as it came: what may be in it depends on its type."""

    session: JsonObject


class ItemCreate(_ClientEvent, kw_only=True):
    """`previous_item_id` is "root" for the front; without it the item comes last."""

    item: JsonObject
    previous_item_id: _Id | None = None


class ItemNamed(_ClientEvent, kw_only=True):
    """An event about one item."""

    item_id: _Id


class ItemTruncate(_ClientEvent, kw_only=True):
    """What was played of a spoken item."""

    item_id: _Id
    content_index: Annotated[int, Meta(ge=0)]
    audio_end_ms: Annotated[int, Meta(ge=0)]


class SoundAppend(_ClientEvent, kw_only=True):
    """`audio` is base64."""

    audio: str


class ResponseCreate(_ClientEvent, kw_only=True):
    response: JsonObject | None = None


class ResponseCancel(_ClientEvent, kw_only=True):
    response_id: _Id | None = None


SUPPORTED_VALUES: dict[str, tuple[str, ...]] = {
    "session.type": ("realtime", "transcription"),
    "session.output_modalities[]": ("text", "audio"),
    "session.tool_choice": ("none", "auto", "required"),
    "session.truncation": ("auto", "disabled"),
    "session.reasoning.effort": ("none", "minimal", "low", "medium", "high", "xhigh"),
    "session.audio.input.format.type": ("audio/pcm", "audio/pcmu", "audio/pcma"),
    "session.audio.output.format.type": ("audio/pcm", "audio/pcmu", "audio/pcma"),
    "session.audio.input.turn_detection.type": ("server_vad", "semantic_vad"),
    "response.conversation": ("auto", "none"),
    "response.output_modalities[]": ("text", "audio"),
    "response.tool_choice": ("none", "auto", "required"),
}
"""For errors: the values that a field takes, by its path without indexes."""
