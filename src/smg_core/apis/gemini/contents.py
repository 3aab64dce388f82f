"""The contents of a generateContent request as `Message` records.

Decides how turns are put together: contents of one role that follow each other are one turn; results of calls come before what
the user says beside them, each as a turn of its own, as other APIs have them. Results are matched with calls by id, else by
name, else by order, since SDKs send no ids. Thoughts come before what follows from them; a signature is the sealed form of
them, and where there is one the text that the client repeats is not used. Calls without an id get one.

Pure. Above: gemini. Below: the wire types, request.
"""

import mimetypes
from collections import deque
from collections.abc import Sequence

import attrs
import msgspec

from smg_core.apis.gemini.types import (
    FileData,
    FunctionCallPart,
    FunctionResponsePart,
    GeminiContent,
    GeminiPart,
    InlineData,
)
from smg_core.apis.google.mcp import repeated_call
from smg_core.apis.google.values import PartDetail, inline_address, media_of_type, result_text, signature_bytes
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.request import (
    File,
    MediaSource,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from smg_core.wire.decoding import check_depth
from smg_core.wire.documents import faulty, kept_file_key
from smg_core.wire.settings import LimitsConfig

__all__ = ["GeminiConversation", "read_contents"]

_ROLES = {"user": "user", "function": "user", "tool": "user", "system": "user", "model": "model"}
_DETAILS: dict[str, PartDetail] = {
    "MEDIA_RESOLUTION_LOW": "low",
    "MEDIA_RESOLUTION_HIGH": "high",
    "MEDIA_RESOLUTION_ULTRA_HIGH": "original",
}
_encode = msgspec.json.Encoder().encode


@attrs.frozen
class GeminiConversation:
    """The messages; `places` has the field of the body for each part of each of them."""

    messages: tuple[Message, ...]
    places: tuple[tuple[str, ...], ...]


@attrs.define
class _Turn:
    """A turn that is being put together: its parts, and their fields in the body."""

    parts: list[Part] = attrs.field(factory=list)
    places: list[str] = attrs.field(factory=list)
    _sealed: int = 0  # so many parts stand before the last seal
    _more: list[str] = attrs.field(factory=list)  # texts that the last part goes on with

    def add(self, part: Part, place: str) -> None:
        self.end_text()
        self.parts.append(part)
        self.places.append(place)

    def say(self, text: str, place: str) -> None:
        """Add a text. Texts that follow each other are pieces of one, as streams bring them."""
        if self.parts and isinstance(self.parts[-1], Text):
            self._more.append(text)
        else:
            self.add(Text(text), place)

    def seal(self, reasoning: Reasoning, place: str) -> None:
        """Put sealed reasoning in the place of that which stands in the clear since the last seal, and which it has in it. What
        is sealed alone stands at the beginning of the turn if it is the first, else where it came."""
        self.end_text()
        since = self._sealed
        clear = [number for number in range(since, len(self.parts)) if isinstance(self.parts[number], Reasoning)]
        if clear:
            first, rest = clear[0], range(clear[0] + 1, len(self.parts))
            kept = [number for number in rest if not isinstance(self.parts[number], Reasoning)]
            self.parts[first:] = [reasoning, *(self.parts[number] for number in kept)]
            self.places[first:] = [place, *(self.places[number] for number in kept)]
        else:
            self.think(reasoning, place)
        self._sealed = len(self.parts)

    def think(self, reasoning: Reasoning, place: str) -> None:
        """Put the turn's first reasoning at the beginning of the turn; further reasoning stays where it came."""
        if any(isinstance(part, Reasoning) for part in self.parts):
            self.add(reasoning, place)
        else:
            self.parts.insert(0, reasoning)
            self.places.insert(0, place)

    def end_text(self) -> None:
        """Put the pieces of the last text together, all at once: there may be as many as a body has values."""
        if self._more and isinstance(last := self.parts[-1], Text):
            self.parts[-1] = Text(last.text + "".join(self._more))
            self._more.clear()


@attrs.define
class _Call:
    """A call of the conversation, and whether its result has come."""

    id: str
    answered: bool = False


@attrs.define
class _Calls:
    """The calls of the conversation, indexed so that a result is matched without a search through all of them."""

    count: int = 0
    _by_id: dict[str, _Call] = attrs.field(factory=dict)
    _by_name: dict[str, deque[_Call]] = attrs.field(factory=dict)
    _in_order: deque[_Call] = attrs.field(factory=deque)
    _latest: dict[str, deque[_Call]] = attrs.field(factory=dict)  # by name, of the model's last turn

    def begin_turn(self) -> None:
        """A turn of the model begins: results from now on are of its calls before they are of older ones."""
        self._latest = {}

    def add(self, id: str, name: str) -> None:
        call = _Call(id)
        self.count += 1
        self._by_id.setdefault(id, call)
        for calls in (self._by_name, self._latest):
            calls.setdefault(name, deque()).append(call)
        self._in_order.append(call)

    def answered(self, id: str | None, name: str) -> str:
        """The id of the call that a result answers: the call with the result's id, else the first call of its name without a
        result, of the model's last turn before older ones, else the first call without one. A result that answers no call keeps
        its own id."""
        known = self._by_id.get(id) if id else None
        named = known or _first_open(self._latest.get(name)) or _first_open(self._by_name.get(name))
        call = named or _first_open(self._in_order)
        if call is None:
            return id or f"call_{name}"
        call.answered = True
        return call.id


def _first_open(calls: deque[_Call] | None) -> _Call | None:
    while calls and calls[0].answered:
        calls.popleft()
    return calls[0] if calls else None


def read_contents(
    contents: Sequence[GeminiContent], system: GeminiContent | None, limits: LimitsConfig
) -> GeminiConversation:
    """The conversation, the system instruction first. Raises `InvalidRequest` and `UnsupportedParameter` naming a part."""
    reader = _Reader(limits)
    if system is not None:
        reader.system(system)
    for place, content in enumerate(contents):
        reader.content(content, f"contents[{place}]")
    return reader.done()


class _Reader:
    """Reads contents in order."""

    def __init__(self, limits: LimitsConfig) -> None:
        self._limits = limits
        self._messages: list[Message] = []
        self._places: list[tuple[str, ...]] = []
        self._role = ""
        self._turn = _Turn()
        self._thoughts: list[str] = []
        self._thought_place = ""
        self._calls = _Calls()
        self._turns = 0
        self._hosted: dict[str, ToolCall] = {}

    def system(self, content: GeminiContent) -> None:
        """The system instruction, which is text."""
        turn = _Turn()
        for order, part in enumerate(content.parts or ()):
            place = f"systemInstruction.parts[{order}]"
            _check_data(part, place)
            if part.text is None:
                raise InvalidRequest(f"Invalid value at '{place}': a system instruction is text.", param=place)
            if part.text:
                turn.add(Text(part.text), place)
        if not turn.parts:
            return
        self._put(Message("system", tuple(turn.parts), content_is_text=len(turn.parts) == 1), turn.places)

    def content(self, content: GeminiContent, place: str) -> None:
        """One content: a turn, or a part of the one before it."""
        role = _ROLES[content.role or "user"]
        if not content.parts:
            if role == "model":  # an answer that had nothing to show
                return
            raise InvalidRequest(f"{place}.parts: contents.parts must not be empty.", param=f"{place}.parts")
        if role != self._role:
            self._end_turn()
            self._role = role
            self._turns += 1
            if role == "model":
                self._calls.begin_turn()
        for order, part in enumerate(content.parts):
            at = f"{place}.parts[{order}]"
            if role == "model":
                self._model_part(part, at)
            else:
                self._user_part(part, at)

    def done(self) -> GeminiConversation:
        """All that was read."""
        self._end_turn()
        return GeminiConversation(tuple(self._messages), tuple(self._places))

    def _put(self, message: Message, places: Sequence[str]) -> None:
        self._messages.append(message)
        self._places.append(tuple(places))

    def _end_turn(self) -> None:
        self._end_thought()
        turn, self._turn = self._turn, _Turn()
        turn.end_text()
        if not turn.parts:
            return
        texts = [part for part in turn.parts if isinstance(part, Text)]
        if self._role == "model":
            visible = [part for part in turn.parts if not isinstance(part, Reasoning | ToolCall)]
            self._put(
                Message("assistant", tuple(turn.parts), content_is_text=len(texts) == len(visible) == 1), turn.places
            )
        else:
            self._put(
                Message("user", tuple(turn.parts), content_is_text=len(texts) == len(turn.parts) == 1), turn.places
            )

    # --------------------------------------------------------------------------------------------------- model's turns

    def _model_part(self, part: GeminiPart, at: str) -> None:
        _check_data(part, at)
        if part.thought and part.text is not None:
            if part.thought_signature is not None:
                self._sealed(part.thought_signature, at)
            else:
                self._thoughts.append(part.text)
                self._thought_place = self._thought_place or at
            return
        if part.thought_signature is not None:
            self._sealed(part.thought_signature, at)
        else:
            self._end_thought()
        if part.text:
            self._turn.say(part.text, at)
        elif part.function_call is not None:
            self._turn.add(self._call(part.function_call, at), at)
        elif self._ran(part, at):
            pass
        elif (media := self._media(part, at)) is not None:
            self._turn.add(media, at)
        elif part.text is None and part.thought_signature is None:
            raise _empty(at)

    def _ran(self, part: GeminiPart, at: str) -> bool:
        """Whether the part is of a call that ran here: the call, which waits for its result, or the result, with which both
        are put into the prompt."""
        if part.tool_call is not None:
            call = part.tool_call
            arguments, call_id = call.get("args"), call.get("id")
            if not isinstance(arguments, dict) or not isinstance(call_id, str):
                return False
            server, name = arguments.get("serverName"), arguments.get("name")
            if not isinstance(server, str) or not isinstance(name, str):
                return False
            given = arguments.get("arguments")
            check_depth([given], self._limits.json_depth, f"{at}.toolCall.args.arguments")
            self._hosted[call_id] = repeated_call(call_id, server, name, given)
            return True
        found = self._hosted.pop(str(part.tool_response.get("id")), None) if part.tool_response is not None else None
        if found is None or part.tool_response is None:
            return False
        response = part.tool_response.get("response")
        check_depth([response], self._limits.json_depth, f"{at}.toolResponse.response")
        text, failed = result_text(response if isinstance(response, dict) else {})
        self._turn.add(found, at)
        self._end_turn()
        self._put(Message("tool", (ToolResult(found.id, (Text(text),), failed),), content_is_text=True), [at])
        return True

    def _end_thought(self) -> None:
        if self._thoughts:
            self._turn.think(Reasoning("".join(self._thoughts)), self._thought_place)
            self._thoughts.clear()
            self._thought_place = ""

    def _sealed(self, signature: str, at: str) -> None:
        self._thoughts.clear()  # which it has in it
        self._thought_place = ""
        self._turn.seal(Reasoning("", seal=signature_bytes(signature, f"{at}.thoughtSignature"), visible=False), at)

    def _call(self, call: FunctionCallPart, at: str) -> ToolCall:
        arguments = call.args or {}
        check_depth([arguments], self._limits.json_depth, f"{at}.functionCall.args")
        identifier = call.id or f"call_{self._turns}_{self._calls.count}"
        self._calls.add(identifier, call.name)
        return ToolCall(identifier, call.name, _encode(arguments).decode())

    # ---------------------------------------------------------------------------------------------------- user's turns

    def _user_part(self, part: GeminiPart, at: str) -> None:
        _check_data(part, at)
        if part.function_response is not None:
            self._result(part.function_response, at)
        elif part.text is not None:
            self._turn.add(Text(part.text), at)
        elif (media := self._media(part, at)) is not None:
            self._turn.add(media, at)
        else:
            raise _empty(at)

    def _result(self, result: FunctionResponsePart, at: str) -> None:
        """A result, which is a turn of its own before what the user says in the same one."""
        if result.will_continue or result.scheduling not in (None, "SCHEDULING_UNSPECIFIED"):
            raise _unsupported(f"{at}.functionResponse.{'willContinue' if result.will_continue else 'scheduling'}")
        check_depth([result.response], self._limits.json_depth, f"{at}.functionResponse.response")
        text, failed = result_text(result.response)
        content: list[Part] = [Text(text)]
        for order, media in enumerate(result.parts or ()):
            place = f"{at}.functionResponse.parts[{order}]"
            held = GeminiPart(inline_data=media.inline_data, file_data=media.file_data)
            _check_data(held, place)
            read = self._media(held, place)
            if read is None:
                raise _empty(place)
            content.append(read)
        found = ToolResult(
            self._calls.answered(result.id, result.name),
            tuple(content),
            is_error=failed,
            name=result.name,
            value=result.response,
        )
        self._put(Message("tool", (found,), content_is_text=len(content) == 1), [at])

    # ----------------------------------------------------------------------------------------------------------- media

    def _media(self, part: GeminiPart, at: str) -> Part | None:
        """The media of a part, the text of code that Google's servers ran, or None."""
        if part.video_metadata is not None:
            raise _unsupported(f"{at}.videoMetadata")
        detail = (
            _DETAILS.get(part.media_resolution.level or "", "auto") if part.media_resolution is not None else "auto"
        )
        if part.inline_data is not None:
            return _inline(part.inline_data, detail, f"{at}.inlineData.data")
        if part.file_data is not None:
            return _file(part.file_data, detail, f"{at}.fileData")
        if part.executable_code is not None:
            return Text(part.executable_code.code)
        if part.code_execution_result is not None:
            return Text(part.code_execution_result.output or "")
        for name, value in (("toolCall", part.tool_call), ("toolResponse", part.tool_response)):
            if value is not None:
                raise _unsupported(f"{at}.{name}")
        return None


_DATA = {
    "text": "text",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
"""The fields of a part that hold data, with their names on the wire."""


def _check_data(part: GeminiPart, at: str) -> None:
    """Refuse a part with data in two fields: one of them would be lost."""
    found = [wire for name, wire in _DATA.items() if getattr(part, name) is not None]
    if len(found) > 1:
        raise InvalidRequest(
            f"Invalid value at '{at}' (oneof), oneof field 'data' is already set. Cannot set '{found[1]}'",
            param=f"{at}.{found[1]}",
        )


def _inline(media: InlineData, detail: PartDetail, at: str) -> Part:
    source = MediaSource(url=inline_address(media.mime_type, media.data))
    return media_of_type(media.mime_type, source, media.display_name, detail, at)


def _file(file: FileData, detail: PartDetail, at: str) -> Part:
    uri = file.file_uri
    if kept_file_key(uri) is not None:
        source = MediaSource(file_id=uri, media_type=file.mime_type)
        return media_of_type(file.mime_type or "", source, file.display_name, detail, f"{at}.fileUri")
    kind = file.mime_type or mimetypes.guess_type(uri.partition("?")[0])[0]
    if not uri.startswith(("https://", "http://", "data:")) or "generativelanguage.googleapis.com" in uri:
        fault: InvalidRequest = UnsupportedParameter(
            f"Invalid value at '{at}.fileUri': it is neither an address (https:) nor a file that is kept here.",
            param=f"{at}.fileUri",
        )
        return media_of_type(kind or "", faulty(fault), file.display_name, detail, f"{at}.fileUri")
    if kind is None:
        fault = InvalidRequest(f"{at}.mimeType: the field is required for this address.", param=f"{at}.mimeType")
        return File(faulty(fault), file.display_name)
    return media_of_type(kind, MediaSource(url=uri), file.display_name, detail, f"{at}.fileUri")


def _empty(at: str) -> InvalidRequest:
    return InvalidRequest(f"{at}.data: required oneof field 'data' must have one initialized field", param=f"{at}.data")


def _unsupported(at: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Invalid value at '{at}': it is not supported on this server.", param=at)
