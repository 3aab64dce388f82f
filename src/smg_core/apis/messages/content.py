"""The system prompt and the messages of a Messages request as `Message` records.

A turn of the user may hold results of tools, which models read as turns of their own: they come first, in the order sent,
whatever stood before them. Documents and search results are text to a model, with their title and source. Blocks that a
provider's own tools wrote, and blocks of unknown types, become a short text or nothing; they are never an error. For each part,
its place in the body is kept, so that an error behind the decoder can name it.

Pure. Above: messages. Below: the wire types, documents, request.
"""

from collections.abc import Sequence
from itertools import islice

import attrs
import msgspec

from smg_core.apis.messages import types as wire
from smg_core.apis.messages.built_in import result_texts
from smg_core.apis.messages.compaction import summary_text
from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.request import (
    File,
    Image,
    MediaSource,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from smg_core.sources import CITE_HOW, CitableSource, mark_of_source, unmarked
from smg_core.wire.decoding import brief, check_depth, explained
from smg_core.wire.documents import document_text, faulty, inline_file
from smg_core.wire.settings import LimitsConfig

__all__ = ["BILLING", "Conversation", "Place", "check_calls", "mark_of"]

BILLING = "x-anthropic-billing-header:"
"""How the first block of Claude Code's system prompt begins. It is no instruction, and what is in it changes from request to
request: in front of a prompt it would make every cache of prefixes useless."""

_NAMED = 16  # calls that an error names
_FILE_ID = 256  # characters

Place = tuple[int, int]
"""Where a part was read from: the index of the message (-1: the system prompt) and of the block in it (-1: a plain string)."""


def _invalid(at: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, param=at)


@attrs.define
class _Turn:
    """A turn that is being put together."""

    role: Role
    parts: list[Part]
    is_text: bool

    def message(self) -> Message:
        return Message(self.role, tuple(self.parts), content_is_text=self.is_text)


def _without_billing(text: str) -> str:
    """A block of the system prompt without the line that Claude Code puts before it. Proxies join blocks: the rest is kept."""
    return text.partition("\n")[2].lstrip("\n") if text.startswith(BILLING) else text


def _upload(block: JsonObject, at: str) -> str:
    id = block.get("file_id")
    if not isinstance(id, str) or not 0 < len(id) <= _FILE_ID:
        raise InvalidRequest(f"{at}.container_upload.file_id: Input should be a valid string", param=f"{at}.file_id")
    return id


class Conversation:
    """The turns of one request, as they are read. `places` has the place of each part of each message; `referred` the names of
    tools that a tool search found, `called` those of tools that were called; `sources` are what the answer may cite, `uploads`
    the ids of files that are put into the container of its code."""

    def __init__(self, limits: LimitsConfig, *, drop_billing: bool) -> None:
        self.places: list[list[Place]] = []
        self._turns: list[_Turn] = []
        self.referred: set[str] = set()
        self.called: set[str] = set()
        self.sources: list[CitableSource] = []
        self.uploads: dict[str, None] = {}
        self._search_results = 0
        self._depth = limits.json_depth
        self._drop_billing = drop_billing

    # ---------------------------------------------------------------------------------------------------------- turns

    def messages(self) -> list[Message]:
        """The turns that were read."""
        return [turn.message() for turn in self._turns]

    def system(self, prompt: str | list[wire.TextBlock] | None) -> None:
        """The system prompt: its blocks are one text, each two apart by an empty line."""
        if prompt is None:
            return
        texts = [prompt] if isinstance(prompt, str) else [block.text for block in prompt]
        if self._drop_billing:
            texts = [_without_billing(text) for text in texts]
        if any(texts):
            self._turn("system", [Text("\n\n".join(filter(None, texts)))], [(-1, -1)], is_text=True)

    def message(self, message: wire.MessageWire, number: int) -> None:
        """The next message of the body."""
        content = message.content
        if message.role == "system":
            texts = [content] if isinstance(content, str) else [_text_of(block) for block in content]
            if any(texts):
                self._turn("system", [Text("\n\n".join(filter(None, texts)))], [(number, -1)], is_text=True)
        elif isinstance(content, str):
            self._join(message.role, [Text(content)], [(number, -1)], is_text=True)
        elif message.role == "assistant":
            self._assistant(content, number)
        else:
            self._user(content, number)

    def _turn(self, role: Role, parts: list[Part], places: list[Place], *, is_text: bool = False) -> None:
        self._turns.append(_Turn(role, parts, is_text))
        self.places.append(places)

    def _join(self, role: Role, parts: list[Part], places: list[Place], *, is_text: bool = False) -> None:
        """A turn, joined with the one before where both are of one role."""
        last = self._turns[-1] if self._turns else None
        if last is None or last.role != role:
            self._turn(role, parts, places, is_text=is_text)
            return
        last.parts += parts
        last.is_text = False
        self.places[-1] += places

    def _user(self, blocks: Sequence[wire.BlockWire], number: int) -> None:
        results: list[Part] = []
        content: list[Part] = []
        result_places: list[Place] = []
        places: list[Place] = []
        for order, block in enumerate(blocks):
            at = f"messages[{number}].content[{order}]"
            if isinstance(block, wire.CompactionBlock):
                if block.content:
                    results, content, result_places, places = [], [], [], []
                    self._compacted(block, (number, order))
            elif isinstance(block, wire.ToolResultBlock):
                results.append(self._result(block, at))
                result_places.append((number, order))
            elif part := self._part(block, at):
                content.append(part)
                places.append((number, order))
        if results:
            self._results(results, result_places)
        if content:
            is_text = all(type(part) is Text and part.cache is None for part in content) and len(content) == 1
            self._join("user", content, places, is_text=is_text)

    def _results(self, results: list[Part], places: list[Place]) -> None:
        """Results, before what the user said in the same turn."""
        if self._turns and self._turns[-1].role == "user":
            turn, where = self._turns.pop(), self.places.pop()
            self._join("tool", results, places)
            self._turns.append(turn)
            self.places.append(where)
        else:
            self._join("tool", results, places)

    def _assistant(self, blocks: Sequence[wire.BlockWire], number: int) -> None:
        parts: list[Part] = []
        places: list[Place] = []
        for order, block in enumerate(blocks):
            at = f"messages[{number}].content[{order}]"
            part: Part | None
            match block:
                case wire.ToolUseBlock():
                    check_depth((block.input,), self._depth, f"{at}.input")
                    arguments = msgspec.json.encode(block.input).decode()
                    self.called.add(block.name)
                    part = ToolCall(block.id, block.name, arguments, cache=mark_of(block.cache_control))
                case wire.ThinkingBlock():
                    part = Reasoning(block.thinking, seal=block.signature.encode())
                case wire.RedactedThinkingBlock():
                    part = Reasoning("", seal=block.data.encode(), visible=False)
                case wire.CompactionBlock():
                    if block.content:
                        parts, places = [], []
                        self._compacted(block, (number, order))
                    continue
                case wire.TextBlock() | wire.OtherBlock():
                    part = self._part(block, at)
                case _:
                    raise _invalid(
                        at, f"`{block.__struct_config__.tag}` blocks are not permitted in assistant messages"
                    )
            if part is not None:
                parts.append(part)
                places.append((number, order))
        if not parts and blocks and isinstance(blocks[-1], wire.CompactionBlock):
            return
        is_text = len(parts) == 1 and isinstance(parts[0], Text)
        self._join("assistant", parts, places, is_text=is_text)

    def _compacted(self, block: wire.CompactionBlock, place: Place) -> None:
        """Put a summary, in a turn of the user, in place of all that was read but the system prompt."""
        kept = 1 if self.places and self.places[0] == [(-1, -1)] else 0
        del self._turns[kept:], self.places[kept:]
        self._turn("user", [Text(summary_text(block.content or ""), mark_of(block.cache_control))], [place])

    # ---------------------------------------------------------------------------------------------------------- parts

    def _part(self, block: wire.BlockWire, at: str) -> Part | None:
        """A block of content; None for one that says nothing to a model."""
        match block:
            case wire.TextBlock():
                return Text(block.text, mark_of(block.cache_control)) if block.text else None
            case wire.ImageBlock():
                return Image(_source(block.source), cache=mark_of(block.cache_control))
            case wire.DocumentBlock():
                return _document(block, at)
            case wire.SearchResultBlock():
                return Text(self._search_result(block), mark_of(block.cache_control))
            case wire.ToolReferenceBlock():
                self.referred.add(block.tool_name)
                return Text(f"Tool found: {block.tool_name}", mark_of(block.cache_control))
            case wire.OtherBlock():
                _check_server_tool(block.block, at)
                if block.block.get("type") == "container_upload":
                    self.uploads[_upload(block.block, at)] = None
                text = _words_of_block(block.block)
                return Text(text) if text else None
        raise _invalid(at, f"`{block.__struct_config__.tag}` blocks are not permitted in user messages")

    def _search_result(self, block: wire.SearchResultBlock) -> str:
        """A result of a search of the client's. Where it is to be cited, each of its texts is a source with a mark of its own."""
        texts = [each.text for each in block.content]
        source_text = ""
        if block.citations is not None and block.citations.enabled:
            source_text = "" if self.sources else f"{CITE_HOW}\n"
            before = len(self.sources)
            place = self._search_results
            self.sources += [
                CitableSource("result", block.source, block.title, text, result=place, part=order)
                for order, text in enumerate(texts)
            ]
            texts = [f"{mark_of_source(number)} {unmarked(text)}" for number, text in enumerate(texts, before + 1)]
        self._search_results += 1
        text = "\n\n".join(texts)
        head = f"<source>{block.source}</source>\n<title>{block.title}</title>"
        return f"{source_text}<search_result>\n{head}\n{text}\n</search_result>"

    def _result(self, block: wire.ToolResultBlock, at: str) -> ToolResult:
        content = block.content
        if content is None or isinstance(content, str):
            parts: list[Part] = [Text(content)] if content else []
        else:
            found = [self._part(each, f"{at}.content[{order}]") for order, each in enumerate(content)]
            parts = [part for part in found if part is not None]
        return ToolResult(block.tool_use_id, tuple(parts), block.is_error is True, cache=mark_of(block.cache_control))


def mark_of(found: wire.CacheControl | None) -> JsonObject | None:
    """A breakpoint as the request's records have it."""
    return None if found is None else {name: value for name, value in found.items() if isinstance(value, str)}


def _check_server_tool(block: JsonObject, at: str) -> None:
    """Refuse a call, or a result, of a tool that a server ran, if what tells it apart from others is of a wrong type."""
    kind = str(block.get("type"))
    if kind.endswith("_tool_use"):
        explained(block, wire.ServerToolUse, at)
    elif kind.endswith("_tool_result"):
        explained(block, wire.ServerToolResult, at)


def _text_of(block: wire.BlockWire) -> str:
    return block.text if isinstance(block, wire.TextBlock) else ""


def _source(source: wire.Base64Source | wire.UrlSource | wire.FileSource) -> MediaSource:
    match source:
        case wire.Base64Source():
            return MediaSource(url=f"data:{source.media_type};base64,{source.data}")
        case wire.UrlSource():
            return MediaSource(url=source.url)
    return MediaSource(file_id=source.file_id)


def _document(block: wire.DocumentBlock, at: str) -> Part:
    """A document as text; one that is no text is a file, which a model may take or not."""
    if block.citations is not None and block.citations.enabled:
        raise _invalid(f"{at}.citations.enabled", "Citations cannot be given on this server.")
    source = block.source
    if isinstance(source, wire.TextSource):
        text = source.data
    elif isinstance(source, wire.ContentSource):
        content = source.content
        if not isinstance(content, str):
            if any(not isinstance(each, wire.TextBlock) for each in content):
                fault = _invalid(f"{at}.source.content", "Only text is taken inside a document.")
                return File(faulty(fault), cache=mark_of(block.cache_control), title=block.title, context=block.context)
            content = "\n\n".join(_text_of(each) for each in content)
        text = content
    else:
        found = _source(source)
        read = inline_file(found.url, f"{at}.source.data") if found.url is not None else found
        if isinstance(read, MediaSource):
            return File(read, cache=mark_of(block.cache_control), title=block.title, context=block.context)
        text = read
    return Text(document_text(text, block.title, block.context), mark_of(block.cache_control))


def _words_of_block(block: JsonObject) -> str:
    """What a block of a provider's tools says to another model: its call, or the texts of its result."""
    kind = block.get("type")
    if not isinstance(kind, str):
        return ""
    if kind.endswith("_tool_use"):
        return f"[{block.get('name')} {msgspec.json.encode(block.get('input')).decode()}]"
    content = block.get("content")
    if kind.endswith("_tool_result") and isinstance(content, str):
        return content
    if not kind.endswith("_tool_result") or not isinstance(content, list):
        return ""
    if kind == "web_search_tool_result":
        return "\n\n".join(result_texts(content))
    texts = [each.get("text") or each.get("title") for each in content if isinstance(each, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


# ------------------------------------------------------------------------------------------------------------- order


def check_calls(messages: Sequence[wire.MessageWire]) -> None:
    """Raise InvalidRequest for a result without its call in the turn before, and for a call without its result in the turn
    after. Messages of one role that follow one another are one turn; those of the system count for nothing."""
    open_calls: dict[str, int] = {}
    role = ""
    for number, message in enumerate(messages):
        if message.role == "system":
            continue
        blocks = [] if isinstance(message.content, str) else message.content
        if message.role == "user":
            _check_results(blocks, number, open_calls)
        elif role == "user" and open_calls:
            raise _unanswered(open_calls)
        if message.role == "assistant":
            for order, block in enumerate(blocks):
                if isinstance(block, wire.ToolUseBlock):
                    if block.id in open_calls:
                        raise _invalid(f"messages[{number}].content[{order}].id", "`tool_use` ids must be unique")
                    open_calls[block.id] = number
        role = message.role
    if open_calls:
        raise _unanswered(open_calls)


def _check_results(blocks: Sequence[wire.BlockWire], number: int, open_calls: dict[str, int]) -> None:
    for order, block in enumerate(blocks):
        if isinstance(block, wire.ToolResultBlock) and open_calls.pop(block.tool_use_id, None) is None:
            raise _invalid(
                f"messages[{number}].content[{order}]",
                f"unexpected `tool_use_id` found in `tool_result` blocks: {brief(block.tool_use_id)}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message.",
            )


def _unanswered(open_calls: dict[str, int]) -> InvalidRequest:
    first = min(open_calls.values())
    named = ", ".join(brief(each) for each in islice(open_calls, _NAMED))
    return _invalid(
        f"messages[{first}]",
        f"`tool_use` ids were found without `tool_result` blocks immediately after: {named}. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.",
    )
