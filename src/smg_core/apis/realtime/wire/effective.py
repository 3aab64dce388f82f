"""The settings in effect for a session: its defaults, what a client changes, and what is told of them.

Settings are kept as the JSON object that is told. A change is read as its type, checked as a whole, and merged: what it does not
name stays, and null or an empty value takes away. Pure. Above: the session. Below: the wire types, the tools of Responses.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import attrs
import msgspec
from msgspec import UNSET, Struct

from smg_core.apis.realtime.wire.g711 import LAWS, Law
from smg_core.apis.realtime.wire.types import SUPPORTED_VALUES, ResponsePatch, SessionPatch, TranscriptionPatch
from smg_core.apis.realtime.wire.vad import Detector, EnergyVad
from smg_core.apis.responses.wire.mcp import HIDDEN
from smg_core.apis.responses.wire.tools import read_tool_choice, read_tools
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.wire.decoding import explained, no_kind
from smg_core.wire.fields import read_metadata
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "Abilities",
    "changed",
    "checked_patch",
    "defaults",
    "for_response",
    "phone_law",
    "public_settings",
    "settings_at",
    "transcription_defaults",
]

SAMPLE_RATE = 24_000
PHONE_RATE = 8000
_VAD: JsonObject = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_SEMANTIC_VAD: JsonObject = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}
_PCM: JsonObject = {"type": "audio/pcm", "rate": SAMPLE_RATE}
_TOOL_KINDS = ("function", "mcp")
_DEEP = frozenset({"audio", "input", "output"})
"""Objects of which a change names the fields that it changes; any other value is replaced as a whole."""


def _no_writer(model: str) -> bool:
    return False


@attrs.frozen
class Abilities:
    """What can be done for a session: `speaks`, there is a worker that makes speech; `hears`, the model takes sound; `hosted` are
    the kinds of tools that run here; `writes_down` says whether a model of this name is here to write down what is said;
    `limits` bound what is read; `detector` makes what finds speech."""

    limits: LimitsConfig
    speaks: bool = False
    hears: bool = False
    hosted: frozenset[str] = frozenset()
    writes_down: Callable[[str], bool] = _no_writer
    detector: Callable[[float, int], Detector] = EnergyVad


def _input() -> JsonObject:
    return {"format": dict(_PCM), "transcription": None, "noise_reduction": None, "turn_detection": dict(_VAD)}


def defaults(id: str, model: str, expires_at: int, abilities: Abilities) -> JsonObject:
    """The settings of a session of `model` of which its client has said nothing."""
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": id,
        "model": model,
        "expires_at": expires_at,
        "output_modalities": ["audio" if abilities.speaks else "text"],
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
            "input": _input(),
            "output": {"format": dict(_PCM), "voice": "alloy", "speed": 1.0},
        },
    }


def transcription_defaults(id: str, expires_at: int) -> JsonObject:
    """The settings of a session that only transcribes."""
    return {
        "type": "transcription",
        "object": "realtime.transcription_session",
        "id": id,
        "expires_at": expires_at,
        "include": None,
        "audio": {"input": _input()},
    }


def public_settings(settings: JsonObject) -> JsonObject:
    """The settings as they are told: of a server of tools without what lets one in."""
    tools = settings.get("tools")
    if not isinstance(tools, list):
        return settings
    public_tools: list[Json] = [
        {name: value for name, value in tool.items() if name not in HIDDEN} if isinstance(tool, dict) else tool
        for tool in tools
    ]
    return {**settings, "tools": public_tools}


# --------------------------------------------------------------------------------------------------------------- a change


_NULLABLE = frozenset(
    {"tracing", "reasoning", "prompt", "include", "input", "metadata"}
    | {"transcription", "turn_detection", "noise_reduction", "format", "voice"}
)
"""The settings that null takes away. Any other that is null was not said: clients write down all that they know of."""


def _without_nulls(patch: JsonObject) -> JsonObject:
    """A change without what says nothing."""
    return {
        name: _without_nulls(value) if name in _DEEP and isinstance(value, dict) else value
        for name, value in patch.items()
        if value is not None or name in _NULLABLE
    }


def checked_patch(patch: JsonObject, now: JsonObject, abilities: Abilities, at: str = "session") -> JsonObject:
    """`patch`, a change of the settings `now`, where it can be made. Raises InvalidRequest and UnsupportedParameter."""
    patch = _without_nulls(patch)
    kind = patch.get("type")
    if not isinstance(kind, str):
        raise no_kind(patch, at)
    if kind not in ("realtime", "transcription"):
        raise _wrong(f"{at}.type", f"Supported values are: {', '.join(map(repr, SUPPORTED_VALUES['session.type']))}.")
    if kind != now["type"]:
        raise _wrong(f"{at}.type", f"This is a session of type '{now['type']}', and that does not change.")
    if kind == "transcription":
        read: Struct = explained(patch, TranscriptionPatch, at, SUPPORTED_VALUES)
    else:
        parsed = explained(patch, SessionPatch, at, SUPPORTED_VALUES)
        if parsed.model is not UNSET and parsed.model != now["model"]:
            raise _wrong(f"{at}.model", "The model of a session does not change.")
        if isinstance(parsed.truncation, Struct) and parsed.truncation.token_limits:
            raise _unsupported(f"{at}.truncation.token_limits")
        read = parsed
    plain = _plain(read)
    _check_shared(plain, now, abilities, at)
    return plain


def for_response(patch: JsonObject, session: JsonObject, abilities: Abilities) -> tuple[JsonObject, JsonObject]:
    """The settings of one response, those of the session with what `patch` says, and what it says of the response alone: its
    conversation, input and metadata. Raises InvalidRequest and UnsupportedParameter."""
    read = explained(_without_nulls(patch), ResponsePatch, "response", SUPPORTED_VALUES)
    plain = _plain(read)
    if plain.get("metadata"):
        read_metadata(msgspec.convert(plain["metadata"], dict[str, str]), abilities.limits)
    alone: JsonObject = {name: plain.pop(name) for name in ("conversation", "input", "metadata") if name in plain}
    _check_shared(plain, session, abilities, "response")
    return changed(session, plain), alone


def _check_shared(plain: JsonObject, now: JsonObject, abilities: Abilities, at: str) -> None:
    """Check what sessions and responses have alike."""
    if plain.get("prompt") is not None:
        raise _unsupported(f"{at}.prompt")
    _check_modalities(plain.get("output_modalities"), abilities, f"{at}.output_modalities")
    if "tools" in plain or "tool_choice" in plain or "parallel_tool_calls" in plain:
        _check_tools({**now, **plain}, abilities, at)
    audio = plain.get("audio")
    for side in ("input", "output"):
        settings = audio.get(side) if isinstance(audio, dict) else None
        form = settings.get("format") if isinstance(settings, dict) else None
        if isinstance(form, dict):
            _check_format(form, f"{at}.audio.{side}.format")
        turns = settings.get("turn_detection") if isinstance(settings, dict) else None
        if isinstance(turns, dict) and turns.get("idle_timeout_ms") is not None:
            raise _unsupported(f"{at}.audio.input.turn_detection.idle_timeout_ms")


def _check_modalities(asked: Json, abilities: Abilities, at: str) -> None:
    if not isinstance(asked, list):
        return
    if len(asked) > 1:
        raise _wrong(at, "Either ['audio'] or ['text'] can be asked for, not both.")
    if asked == ["audio"] and not abilities.speaks:
        raise _wrong(at, "No speech is made for this model here; ask for ['text'].")


def _check_tools(settings: JsonObject, abilities: Abilities, at: str) -> None:
    tools = settings["tools"]
    listed = [(f"{at}.tools[{place}]", tool) for place, tool in enumerate(tools if isinstance(tools, list) else ())]
    objects: list[tuple[str, JsonObject]] = [(where, tool) for where, tool in listed if isinstance(tool, dict)]
    for where, tool in objects:
        if not isinstance(tool.get("type"), str):
            raise no_kind(tool, where)
        if tool["type"] not in _TOOL_KINDS:
            raise _wrong(f"{where}.type", f"Supported values are: {', '.join(map(repr, _TOOL_KINDS))}.")
    read = read_tools(objects, abilities.limits, 0, abilities.hosted)
    choice, parallel = settings.get("tool_choice"), settings.get("parallel_tool_calls")
    if isinstance(choice, str | dict):
        read_tool_choice(choice, parallel if isinstance(parallel, bool) else None, read)


def _check_format(form: Mapping[str, Json], at: str) -> None:
    rate = SAMPLE_RATE if form["type"] == "audio/pcm" else PHONE_RATE
    if form.get("rate", rate) != rate:
        raise _wrong(f"{at}.rate", f"The only rate of {form['type']} is {rate}.")


def settings_at(settings: JsonObject, *names: str) -> JsonObject | None:
    """The object at this path of the settings; None where there is none, or it is null."""
    value: Json = settings
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def phone_law(settings: JsonObject, side: Literal["input", "output"]) -> Law | None:
    """The law by which sound of that side is encoded; None where it is pcm16."""
    form = settings_at(settings, "audio", side, "format") or {}
    return next((law for law in LAWS if law == form.get("type")), None)


def _wrong(param: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for '{param}'. {why}", param=param, code="invalid_value")


def _unsupported(param: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported on this server.", param=param)


def _plain(read: Struct) -> JsonObject:
    """What was said, as plain JSON: without what was not."""
    plain: JsonObject = msgspec.to_builtins(read)
    return plain


def changed(settings: JsonObject, plain: JsonObject) -> JsonObject:
    """The settings with a checked change."""
    made = dict(settings)
    for name, value in plain.items():
        before = made.get(name)
        if name in _DEEP and isinstance(value, dict) and isinstance(before, dict):
            made[name] = changed(before, value)
        elif name == "turn_detection" and isinstance(value, dict):
            base = _VAD if value["type"] == "server_vad" else _SEMANTIC_VAD
            made[name] = {**base, **{key: each for key, each in value.items() if each is not None or key not in base}}
        elif name == "format":
            made[name] = dict(_PCM) if value is None or value == {"type": "audio/pcm"} else value
        else:
            made[name] = value
    return made
