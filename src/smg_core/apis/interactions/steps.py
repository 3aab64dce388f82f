"""The steps of Interactions: those of a request as they are stored, and what they come to as `Message` records.

An input is a text, contents, steps, or turns of the earlier revision; stored are steps alone. Thoughts, output and calls that
follow each other are one turn of the model. A result belongs to the call of its id, which must have come before it. A call of a
server's tool (MCP) and its result are in the prompt where both are there; steps of other tools that servers run say nothing to
the model. Thoughts with a signature are opened from that, whatever summary stands beside
it.

Pure. Above: interactions. Below: the wire types, request.
"""

from collections.abc import Sequence

import attrs
import msgspec

from smg_core.apis.google.mcp import repeated_call, repeated_result
from smg_core.apis.google.proto_json import proto_value, refuse_no_string
from smg_core.apis.google.values import PartDetail, inline_address, media_of_type, result_text, signature_bytes
from smg_core.apis.interactions.types import (
    FunctionCallStep,
    FunctionResultStep,
    InteractionTurn,
    McpCallStep,
    McpResultStep,
    MediaContent,
    ModelOutputStep,
    TextContent,
    ThoughtStep,
    UserInputStep,
)
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.request import (
    Audio,
    File,
    Image,
    MediaSource,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from smg_core.wire.decoding import brief, check_depth, too_many
from smg_core.wire.documents import faulty, kept_file_key
from smg_core.wire.settings import LimitsConfig

__all__ = ["PREVIOUS", "PlacedStep", "ReadSteps", "placed_steps", "read_steps"]

PREVIOUS = "previous_interaction_id"
"""The field of the body that steps of earlier interactions come from."""
_MEDIA = ("image", "audio", "video", "document")
_CONTENTS = ("text", *_MEDIA)
_STEPS = ("user_input", "model_output", "thought", "function_call", "function_result")
_HOSTED = frozenset(
    f"{name}_{end}"
    for name in (
        "code_execution",
        "file_search",
        "google_maps",
        "google_search",
        "mcp_server_tool",
        "processing",
        "retrieval",
        "tool_search",
        "url_context",
    )
    for end in ("call", "result")
)
"""Steps of tools that servers run. A replay of them is taken and says nothing to the model."""
_DETAILS: dict[str | None, PartDetail] = {"low": "low", "high": "high", "ultra_high": "original"}
_encode = msgspec.json.Encoder().encode


@attrs.frozen
class PlacedStep:
    """A step, the field of the body that it stands in, and those of its contents."""

    step: JsonObject
    place: str
    contents: tuple[str, ...] = ()


@attrs.frozen
class ReadSteps:
    """The messages; `places` has the field of the body for each part of each of them."""

    messages: tuple[Message, ...]
    places: tuple[tuple[str, ...], ...]


# ----------------------------------------------------------------------------------------------- what is stored of a request


def placed_steps(given: str | JsonObject | Sequence[JsonObject], limits: LimitsConfig) -> list[PlacedStep]:
    """The steps that an input is, as they are stored. Raises InvalidRequest for what is none."""
    if isinstance(given, str):
        return [_joined("user_input", [{"type": "text", "text": given}], ["input"], "input")]
    entries = [(given, "input")] if isinstance(given, dict) else [(e, f"input[{i}]") for i, e in enumerate(given)]
    if len(entries) > limits.messages:
        raise too_many("input", len(entries), limits.messages, "steps")
    found: list[PlacedStep] = []
    loose: list[tuple[JsonObject, str]] = []
    for entry, place in entries:
        if entry.get("type") in _CONTENTS:
            loose.append((entry, place))
            continue
        _put_loose(loose, "user_input", found)
        if "role" in entry and "type" not in entry:
            _put_turn(entry, place, found)
        else:
            found.append(_step(entry, place))
    _put_loose(loose, "user_input", found)
    return found


def _joined(kind: str, contents: list[JsonObject], places: Sequence[str], place: str) -> PlacedStep:
    return PlacedStep({"type": kind, "content": list(contents)}, place, tuple(places))


def _put_loose(loose: list[tuple[JsonObject, str]], kind: str, found: list[PlacedStep]) -> None:
    """Contents that stand by themselves are one step."""
    if loose:
        contents, places = [each for each, _ in loose], [place for _, place in loose]
        found.append(_joined(kind, contents, places, places[0]))
        loose.clear()


def _put_turn(entry: JsonObject, place: str, found: list[PlacedStep]) -> None:
    """The steps of a turn of the earlier revision."""
    turn = proto_value(entry, InteractionTurn, place)
    kind = "user_input" if turn.role == "user" else "model_output"
    loose: list[tuple[JsonObject, str]] = []
    for content, at in _content_list(turn.content, place):
        if content.get("type") in _CONTENTS:
            loose.append((content, at))
            continue
        _put_loose(loose, kind, found)
        found.append(_step(content, at))
    _put_loose(loose, kind, found)


def _content_list(content: str | list[JsonObject] | None, place: str) -> list[tuple[JsonObject, str]]:
    if isinstance(content, str):
        return [({"type": "text", "text": content}, f"{place}.content")]
    return [(each, f"{place}.content[{order}]") for order, each in enumerate(content or ())]


def _step(entry: JsonObject, place: str) -> PlacedStep:
    kind = entry.get("type")
    refuse_no_string(entry, place)
    if kind not in _STEPS and kind not in _HOSTED:
        known = ", ".join(map(repr, (*_CONTENTS, *_STEPS)))
        raise InvalidRequest(
            f"Invalid value at '{place}.type': {brief(repr(kind))} is none of {known}.", param=f"{place}.type"
        )
    for name in ("id", "call_id"):
        if entry.get(name) is not None and not isinstance(entry[name], str):
            at = f"{place}.{name}"
            raise InvalidRequest(f"Invalid value at '{at}': expected a string.", param=at)
    content = entry.get("content")
    if isinstance(content, str) and kind in ("user_input", "model_output"):
        return _joined(kind, [{"type": "text", "text": content}], [f"{place}.content"], place)
    places = [f"{place}.content[{order}]" for order in range(len(content))] if isinstance(content, list) else []
    return PlacedStep(dict(entry), place, tuple(places))


# ------------------------------------------------------------------------------------------------------------------ messages


def read_steps(earlier: Sequence[JsonObject], own: Sequence[PlacedStep], limits: LimitsConfig) -> ReadSteps:
    """The messages of the steps of `earlier` interactions and of a request's own. Raises `InvalidRequest` and
    `UnsupportedParameter` naming the field at fault."""
    if len(earlier) + len(own) > limits.messages:
        raise too_many("input", len(earlier) + len(own), limits.messages, "steps, with those of earlier interactions")
    reader = _Reader(limits)
    for step in earlier:
        content = step.get("content")
        reader.step(PlacedStep(step, PREVIOUS, (PREVIOUS,) * (len(content) if isinstance(content, list) else 0)))
    for placed in own:
        reader.step(placed)
    return reader.done()


class _Reader:
    """Reads steps in order."""

    def __init__(self, limits: LimitsConfig) -> None:
        self._limits = limits
        self._messages: list[Message] = []
        self._places: list[tuple[str, ...]] = []
        self._turn: list[Part] = []  # of the model
        self._turn_places: list[str] = []
        self._texts: list[str] = []  # that the turn's last part goes on with
        self._calls: dict[str, str] = {}  # names by id
        self._hosted: dict[str, ToolCall] = {}  # calls of servers' tools whose results have not come

    def step(self, placed: PlacedStep) -> None:
        """One step."""
        step, at = placed.step, placed.place
        match step.get("type"):
            case "user_input":
                user = proto_value(step, UserInputStep, at)
                self._end_turn()
                parts = self._parts(user.content, placed)
                if not parts:
                    raise InvalidRequest(f"{at}.content: the field is required", param=f"{at}.content")
                self._put("user", parts, placed.contents)
            case "model_output":
                output = proto_value(step, ModelOutputStep, at)
                for part, place in zip(self._parts(output.content, placed), placed.contents, strict=True):
                    self._say(part, place)
            case "thought":
                self._add(self._thought(proto_value(step, ThoughtStep, at), at), at)
            case "function_call":
                call = proto_value(step, FunctionCallStep, at)
                arguments = call.arguments or {}
                check_depth([arguments], self._limits.json_depth, f"{at}.arguments")
                self._calls[call.id] = call.name
                self._add(ToolCall(call.id, call.name, _encode(arguments).decode()), at)
            case "mcp_server_tool_call":
                ran = proto_value(step, McpCallStep, at)
                check_depth([ran.arguments], self._limits.json_depth, f"{at}.arguments")
                self._hosted[ran.id] = repeated_call(ran.id, ran.server_name, ran.name, ran.arguments)
            case "mcp_server_tool_result":
                self._ran(proto_value(step, McpResultStep, at), at)
            case "function_result":
                self._end_turn()
                self._result(proto_value(step, FunctionResultStep, at), at)

    def done(self) -> ReadSteps:
        """All that was read."""
        self._end_turn()
        return ReadSteps(tuple(self._messages), tuple(self._places))

    def _put(self, role: str, parts: Sequence[Part], places: Sequence[str]) -> None:
        visible = [part for part in parts if not isinstance(part, Reasoning | ToolCall)]
        one_text = len(visible) == 1 and isinstance(visible[0], Text)
        made = Message("user" if role == "user" else "assistant", tuple(parts), content_is_text=one_text)
        self._messages.append(made)
        self._places.append(tuple(places))

    def _end_turn(self) -> None:
        self._end_text()
        if self._turn:
            self._put("model", self._turn, self._turn_places)
        self._turn, self._turn_places = [], []

    # ------------------------------------------------------------------------------------------------------- model's turns

    def _add(self, part: Part | None, place: str) -> None:
        if part is not None:
            self._end_text()
            self._turn.append(part)
            self._turn_places.append(place)

    def _say(self, part: Part, place: str) -> None:
        """Texts that follow each other are one."""
        if isinstance(part, Text) and self._turn and isinstance(self._turn[-1], Text):
            self._texts.append(part.text)
        else:
            self._add(part, place)

    def _end_text(self) -> None:
        if self._texts and isinstance(last := self._turn[-1], Text):
            self._turn[-1] = Text(last.text + "".join(self._texts))
            self._texts.clear()

    def _thought(self, thought: ThoughtStep, at: str) -> Reasoning | None:
        if thought.signature is not None:
            return Reasoning("", seal=signature_bytes(thought.signature, f"{at}.signature"), visible=False)
        texts = [each.text for each in thought.summary or () if each.type == "text"]
        return Reasoning("".join(texts)) if texts else None

    # ------------------------------------------------------------------------------------------------------------- results

    def _result(self, result: FunctionResultStep, at: str) -> None:
        name = self._calls.get(result.call_id)
        if name is None:
            raise InvalidRequest(
                f"Invalid value at '{at}.call_id': no function call before it has the id \"{brief(result.call_id)}\".",
                param=f"{at}.call_id",
            )
        found = result.result
        check_depth([found], self._limits.json_depth, f"{at}.result")
        value = found if isinstance(found, dict) else None
        failed = result.is_error is True
        if isinstance(found, list):
            places = tuple(f"{at}.result[{order}]" for order in range(len(found)))
            entries = [each if isinstance(each, dict) else {"type": "text", "text": each} for each in found]
            content = tuple(self._parts(entries, PlacedStep({}, at, places)))
        elif value is not None:
            text, wrong = result_text(value)
            content, failed = (Text(text),), failed or wrong
        else:
            content = (Text(found if isinstance(found, str) else _encode(found).decode()),)
        part = ToolResult(result.call_id, content, is_error=failed, name=name, value=value)
        one_text = len(content) == 1 and isinstance(content[0], Text)
        self._messages.append(Message("tool", (part,), content_is_text=one_text))
        self._places.append((at,))

    def _ran(self, result: McpResultStep, at: str) -> None:
        """The result of a server's tool: its call is in the prompt now, and the result behind it."""
        call = self._hosted.pop(result.call_id, None)
        if call is None:
            return
        check_depth([result.result], self._limits.json_depth, f"{at}.result")
        self._add(call, at)
        self._end_turn()
        part = repeated_result(call, result.result, failed=result.is_error is True)
        self._messages.append(Message("tool", (part,), content_is_text=True))
        self._places.append((at,))

    # ------------------------------------------------------------------------------------------------------------ contents

    def _parts(self, contents: str | Sequence[JsonObject] | None, placed: PlacedStep) -> list[Part]:
        if isinstance(contents, str):
            return [Text(contents)]
        return [_part(each, place) for each, place in zip(contents or (), placed.contents, strict=True)]


def _part(content: JsonObject, at: str) -> Part:
    kind = content.get("type")
    if kind == "text":
        return Text(proto_value(content, TextContent, at).text)
    refuse_no_string(content, at)
    if kind not in _MEDIA:
        known = ", ".join(map(repr, _CONTENTS))
        raise InvalidRequest(
            f"Invalid value at '{at}.type': {brief(repr(kind))} is none of {known}.", param=f"{at}.type"
        )
    media = proto_value(content, MediaContent, at)
    if media.processing is not None:
        raise _unsupported(f"{at}.processing")
    source = _source(media, at)
    detail = _DETAILS.get(media.resolution, "auto")
    if media.mime_type is not None:
        made = media_of_type(
            media.mime_type, source, media.name, detail, f"{at}.{'uri' if media.data is None else 'data'}"
        )
        if isinstance(made, _KINDS[media.type]):
            return made
        raise InvalidRequest(
            f"Invalid value at '{at}.mime_type': {brief(repr(media.mime_type))} is no type of {media.type}.",
            param=f"{at}.mime_type",
        )
    match media.type:
        case "image":
            return Image(source, detail)
        case "audio":
            return Audio(source, None)
        case "video":
            return Video(source)
        case _:
            return File(source, media.name)


_KINDS: dict[str, tuple[type[Part], ...]] = {
    "image": (Image,),
    "audio": (Audio,),
    "video": (Video,),
    "document": (File, Text),
}


def _source(media: MediaContent, at: str) -> MediaSource:
    if (media.data is None) == (media.uri is None):
        raise InvalidRequest(f"Invalid value at '{at}': exactly one of data and uri may be set.", param=at)
    if media.data is not None:
        if media.mime_type is None:
            raise InvalidRequest(f"{at}.mime_type: the field is required beside data", param=f"{at}.mime_type")
        return MediaSource(url=inline_address(media.mime_type, media.data))
    uri = media.uri or ""
    if kept_file_key(uri) is not None:
        return MediaSource(file_id=uri, media_type=media.mime_type)
    if not uri.startswith(("https://", "http://", "data:")) or "generativelanguage.googleapis.com" in uri:
        return faulty(
            UnsupportedParameter(
                f"Invalid value at '{at}.uri': it is neither an address (https:) nor a file that is kept here.",
                param=f"{at}.uri",
            )
        )
    return MediaSource(url=uri)


def _unsupported(at: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Invalid value at '{at}': it is not supported on this server.", param=at)
