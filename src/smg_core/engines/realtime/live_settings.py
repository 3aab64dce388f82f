"""The settings of a session of Gemini Live: as its client changes and knows them, and as the server is told them.

Settings are those of the Realtime API. What the server has no word for is refused by its path; what it has another word for is
said so, and what is lost with that is in the documentation. A setup is said once: later the server takes other instructions and
tools, and nothing else. Pure. Above: the translation. Below: the decoding of wire types.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.request import EFFORT_TOKENS
from smg_core.wire.decoding import explained

__all__ = ["changed_settings", "first_settings", "object_at", "setup_of", "update_of"]

SOUND_RATE = 24_000
_USUAL_SPEED, _MIDDLE = 1.0, 0.5  # the speed and the threshold that need no word
_MOST_TOOLS = 512
_OPENAI_VOICES = frozenset({"alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "shimmer", "verse"})
"""Voices that only their own vendor has: the server's usual one speaks for each. Clients name one without being asked."""
_EAGERNESS = {"low": "END_SENSITIVITY_LOW", "high": "END_SENSITIVITY_HIGH"}
_PCM: JsonObject = {"type": "audio/pcm", "rate": SOUND_RATE}
_VAD: JsonObject = {
    "type": "server_vad",
    "threshold": _MIDDLE,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_SEMANTIC: JsonObject = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}
_DEEP = ("audio", "input", "output")


class _Form(Struct, forbid_unknown_fields=True):
    type: str
    rate: int | None = None


class _Detection(Struct, forbid_unknown_fields=True):
    type: Literal["server_vad", "semantic_vad"]
    threshold: float | None = None
    prefix_padding_ms: int | None = None
    silence_duration_ms: int | None = None
    idle_timeout_ms: int | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    eagerness: Literal["low", "medium", "high", "auto"] | None = None


class _InputPatch(Struct, forbid_unknown_fields=True):
    format: _Form | UnsetType | None = UNSET
    transcription: JsonObject | UnsetType | None = UNSET
    noise_reduction: JsonObject | UnsetType | None = UNSET
    turn_detection: _Detection | UnsetType | None = UNSET


class _OutputPatch(Struct, forbid_unknown_fields=True):
    format: _Form | UnsetType | None = UNSET
    voice: str | JsonObject | UnsetType | None = UNSET
    speed: float | UnsetType | None = UNSET


class _AudioPatch(Struct, forbid_unknown_fields=True):
    input: _InputPatch | UnsetType | None = UNSET
    output: _OutputPatch | UnsetType | None = UNSET


class _Function(Struct):
    type: str
    name: str = ""
    description: str | None = None
    parameters: JsonObject | None = None


class _Reasoning(Struct, forbid_unknown_fields=True):
    effort: str | None = None


class _Patch(Struct, forbid_unknown_fields=True):
    """What a client may say of a session."""

    type: Literal["realtime"]
    model: str | UnsetType | None = UNSET
    output_modalities: list[Literal["text", "audio"]] | UnsetType | None = UNSET
    instructions: str | UnsetType | None = UNSET
    tools: list[JsonObject] | UnsetType | None = UNSET
    tool_choice: str | JsonObject | UnsetType | None = UNSET
    max_output_tokens: int | Literal["inf"] | UnsetType | None = UNSET
    parallel_tool_calls: bool | UnsetType | None = UNSET
    reasoning: _Reasoning | UnsetType | None = UNSET
    tracing: str | JsonObject | UnsetType | None = UNSET
    truncation: str | JsonObject | UnsetType | None = UNSET
    prompt: JsonObject | UnsetType | None = UNSET
    include: list[str] | UnsetType | None = UNSET
    audio: _AudioPatch | UnsetType | None = UNSET


_VALUES: Mapping[str, tuple[str, ...]] = {
    "session.type": ("realtime",),
    "session.output_modalities": ("text", "audio"),
    "session.audio.input.turn_detection.type": ("server_vad", "semantic_vad"),
    "session.audio.input.turn_detection.eagerness": ("low", "medium", "high", "auto"),
}


def first_settings(id: str, model: str) -> JsonObject:
    """The settings of a session of which its client has said nothing."""
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": id,
        "model": model,
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "parallel_tool_calls": True,
        "reasoning": None,
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "include": None,
        "audio": {
            "input": {
                "format": dict(_PCM),
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": dict(_VAD),
            },
            "output": {"format": dict(_PCM), "voice": None, "speed": _USUAL_SPEED},
        },
    }


def changed_settings(settings: JsonObject, patch: object) -> JsonObject:
    """The settings with what a `session.update` says. Raises InvalidRequest and UnsupportedParameter; nothing is changed then."""
    if not isinstance(patch, dict):
        raise InvalidRequest(
            "Missing required parameter: 'session'.", param="session", code="missing_required_parameter"
        )
    read = explained(_without_nulls(patch), _Patch, "session", _VALUES)
    plain: JsonObject = msgspec.to_builtins(read)
    plain.pop("model", None)  # looked at before: it is the model of the session
    made = _merged(settings, plain)
    _check(made)
    return made


_STATED_BY_NULL = frozenset(
    {
        "tracing",
        "reasoning",
        "prompt",
        "include",
        "transcription",
        "turn_detection",
        "noise_reduction",
        "format",
        "voice",
    }
)
"""The settings that null takes away. Any other that is null was not said."""


def _without_nulls(patch: JsonObject) -> JsonObject:
    return {
        name: _without_nulls(value) if name in _DEEP and isinstance(value, dict) else value
        for name, value in patch.items()
        if value is not None or name in _STATED_BY_NULL
    }


def _merged(settings: JsonObject, plain: JsonObject) -> JsonObject:
    made = dict(settings)
    for name, value in plain.items():
        before = made.get(name)
        if name in _DEEP and isinstance(value, dict) and isinstance(before, dict):
            made[name] = _merged(before, value)
        elif name == "turn_detection" and isinstance(value, dict):
            base = _VAD if value["type"] == "server_vad" else _SEMANTIC
            made[name] = {**base, **{key: each for key, each in value.items() if each is not None}}
        elif name == "format":
            made[name] = dict(_PCM) if value is None or value == {"type": "audio/pcm", "rate": None} else value
        else:
            made[name] = value
    return made


# ------------------------------------------------------------------------------------------------------ what cannot be said


def _check(settings: JsonObject) -> None:
    """Raise where the server has no word for what the settings say."""
    heard, spoken = object_at(settings, "audio", "input"), object_at(settings, "audio", "output")
    modalities = settings["output_modalities"]
    if not isinstance(modalities, list) or len(modalities) != 1:
        raise _wrong("output_modalities", "Either ['audio'] or ['text'] can be asked for.")
    for side, form in (("input", heard.get("format")), ("output", spoken.get("format"))):
        if form != _PCM:
            raise _unsupported(f"audio.{side}.format", "pcm16 at 24 kHz is all that its server is sent here")
    if spoken.get("speed") not in (None, _USUAL_SPEED):
        raise _unsupported("audio.output.speed")
    detection = object_at(heard, "turn_detection")
    if detection.get("create_response") is False:
        raise _unsupported("audio.input.turn_detection.create_response", "its server answers each turn that it finds")
    if detection.get("idle_timeout_ms") is not None:
        raise _unsupported("audio.input.turn_detection.idle_timeout_ms")
    for name in ("prompt", "include"):
        if settings[name]:
            raise _unsupported(name)
    if settings["parallel_tool_calls"] is False:
        raise _unsupported("parallel_tool_calls")
    if settings["truncation"] not in ("auto", "disabled"):
        raise _unsupported("truncation", "it is 'auto' or 'disabled'")
    if settings["tool_choice"] not in ("auto", "none"):
        raise _unsupported("tool_choice", "it is 'auto' or 'none'")
    _check_numbers(settings)
    _check_tools(settings["tools"])


def _check_numbers(settings: JsonObject) -> None:
    most = settings["max_output_tokens"]
    if isinstance(most, int) and most < 1:
        raise _wrong("max_output_tokens", "Expected 1 or more, or 'inf'.")
    effort = object_at(settings, "reasoning").get("effort")
    if effort is not None and effort not in EFFORT_TOKENS:
        raise _wrong("reasoning.effort", f"Supported values are: {', '.join(map(repr, EFFORT_TOKENS))}.")
    silence = object_at(settings, "audio", "input", "turn_detection").get("silence_duration_ms")
    if isinstance(silence, int) and silence < 0:
        raise _wrong("audio.input.turn_detection.silence_duration_ms", "Expected 0 or more.")


def _check_tools(tools: Json) -> None:
    listed = tools if isinstance(tools, list) else []
    if len(listed) > _MOST_TOOLS:
        raise _wrong("tools", f"There are at most {_MOST_TOOLS}.")
    for place, tool in enumerate(listed):
        read = explained(tool, _Function, f"session.tools[{place}]", {})
        if read.type != "function":
            raise _unsupported(f"tools[{place}]", "its server is told of functions alone")
        if not read.name:
            raise _wrong(f"tools[{place}].name", "A function has a name.")


def _wrong(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for 'session.{name}'. {why}", param=f"session.{name}", code="invalid_value")


def _unsupported(name: str, why: str = "") -> UnsupportedParameter:
    rest = f": {why}" if why else ""
    return UnsupportedParameter(f"'session.{name}' cannot be translated for this model{rest}.", param=f"session.{name}")


# ---------------------------------------------------------------------------------------------------- what the server is told


def setup_of(settings: JsonObject, model_there: str, handle: str = "") -> JsonObject:
    """The first message to the server; with the `handle` of a session that is gone on with."""
    generation: JsonObject = {
        "responseModalities": [str(each).upper() for each in _list(settings["output_modalities"])]
    }
    if isinstance(settings["max_output_tokens"], int):
        generation["maxOutputTokens"] = settings["max_output_tokens"]
    effort = object_at(settings, "reasoning").get("effort")
    if isinstance(effort, str):
        generation["thinkingConfig"] = {"thinkingBudget": EFFORT_TOKENS[effort]}
    voice = object_at(settings, "audio", "output").get("voice")
    name = voice.get("id") if isinstance(voice, dict) else voice
    if isinstance(name, str) and name and name not in _OPENAI_VOICES:
        generation["speechConfig"] = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": name}}}
    setup: JsonObject = {"model": model_there, "generationConfig": generation, **_context(settings)}
    setup["realtimeInputConfig"] = _turns(object_at(settings, "audio", "input"))
    setup["sessionResumption"] = {"handle": handle} if handle else {}
    if settings["truncation"] == "auto":
        setup["contextWindowCompression"] = {"slidingWindow": {}}
    if object_at(settings, "audio", "input").get("transcription") is not None:
        setup["inputAudioTranscription"] = {}
    if settings["output_modalities"] == ["audio"]:
        setup["outputAudioTranscription"] = {}
    return setup


def _context(settings: JsonObject) -> JsonObject:
    """What the server may be told anew: instructions and tools."""
    fields: JsonObject = {}
    if settings["instructions"]:
        fields["systemInstruction"] = {"parts": [{"text": settings["instructions"]}]}
    if settings["tools"] and settings["tool_choice"] == "auto":
        fields["tools"] = [{"functionDeclarations": [_declared(tool) for tool in _list(settings["tools"])]}]
    return fields


def _declared(tool: Json) -> JsonObject:
    read = msgspec.convert(tool, _Function)
    declaration: JsonObject = {"name": read.name}
    if read.description:
        declaration["description"] = read.description
    if read.parameters:
        declaration["parametersJsonSchema"] = {"type": "object", **read.parameters}
    return declaration


def _turns(heard: JsonObject) -> JsonObject:
    """How the server finds the turns of a user."""
    detection = heard.get("turn_detection")
    if not isinstance(detection, dict):
        return {"automaticActivityDetection": {"disabled": True}}
    found: JsonObject = {}
    threshold = detection.get("threshold")
    if isinstance(threshold, int | float) and threshold != _MIDDLE:
        found["startOfSpeechSensitivity"] = f"START_SENSITIVITY_{'LOW' if threshold > _MIDDLE else 'HIGH'}"
    if "silence_duration_ms" in detection:
        found["silenceDurationMs"] = detection["silence_duration_ms"]
    if (ending := _EAGERNESS.get(str(detection.get("eagerness")))) is not None:
        found["endOfSpeechSensitivity"] = ending
    settings: JsonObject = {"automaticActivityDetection": found}
    if detection.get("interrupt_response") is False:
        settings["activityHandling"] = "NO_INTERRUPTION"
    return settings


def update_of(before: JsonObject, after: JsonObject) -> JsonObject | None:
    """What a server that was told `before` is told of the change to `after`; None for nothing. Raises UnsupportedParameter for
    what it takes in its setup alone."""
    there, wanted = setup_of(before, ""), setup_of(after, "")
    fixed = [name for name in sorted({*there, *wanted}) if there.get(name) != wanted.get(name)]
    fields: JsonObject = {}
    for name in fixed:
        if name == "systemInstruction":
            fields[name] = wanted.get(name, {"parts": [{"text": ""}]})
        elif name == "tools":
            fields[name] = {"tools": wanted.get(name, [])}
        else:
            raise UnsupportedParameter(
                "This change cannot be made once the session has begun at its server, which was told what it has to know of the "
                f"session before ({name}). Its instructions and tools can.",
                param="session",
            )
    return {"contextUpdate": fields} if fields else None


def object_at(settings: JsonObject, *names: str) -> JsonObject:
    """The object at this path of the settings, an empty one where there is none."""
    value: Json = settings
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
