"""Shows guardrails what goes to a model: each text of a request, with masks put in the places that they name (edge).

The texts of one message are shown together, since the model reads them so; results of tools, arguments, documents and everything
else that becomes a part of the prompt each by itself. What guardrails cannot be shown is refused by name, unless they let it go
by. Above: `guarding`. Below: `asking`, `texts`, the request.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from smg_core.errors import GuardrailBlocked, UnsupportedParameter
from smg_core.guardrails.asking import AskedFor, RailAsking, spans_found
from smg_core.guardrails.guards import IdsDecoder
from smg_core.guardrails.records import GuardSpan
from smg_core.guardrails.texts import masked_parts, plain_json, with_masks
from smg_core.json_types import Json
from smg_core.request import (
    Audio,
    CustomTool,
    File,
    FunctionTool,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Part,
    PoolInput,
    PoolRequest,
    Reasoning,
    Refusal,
    SchemaFormat,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Video,
)

__all__ = ["GuardedPrompt"]

T = TypeVar("T")
_AT_ONCE = 16
"""Texts of one request that are shown at the same time."""
_WORD = re.compile(r"[\w.:|-]{0,128}", re.ASCII)
_IDS_INLINE = 4096
"""Ids that are decoded on the event loop."""


class GuardedPrompt:
    """One request. `known` says of a text whether it has passed a while ago, `passed` that it has now."""

    def __init__(
        self,
        rails: Sequence[RailAsking],
        asked: AskedFor,
        known: Callable[[str], bool],
        passed: Callable[[str], None],
        tokenizer: IdsDecoder | None,
    ) -> None:
        self._rails, self._asked, self._tokenizer = rails, asked, tokenizer
        self._known, self._passed = known, passed
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def of(self, request: GenerationRequest) -> GenerationRequest:
        """The request as guardrails leave it. Raises GuardrailBlocked, GuardrailFailed, and UnsupportedParameter for what they
        cannot be shown."""
        hears = request.transcription is not None  # whose words guardrails see when they are answered
        messages = await self._all([self._message(each, at, hears) for at, each in enumerate(request.messages)])
        changes: dict[str, Any] = {}
        if any(one is not other for one, other in zip(messages, request.messages, strict=True)):
            changes["messages"] = tuple(messages)
        if request.prompt is not None:
            changes |= await self._prompt(request)
        await self._further(request, changes)
        return replace(request, **changes, written=b"") if changes else request

    async def of_pooled(self, request: PoolRequest) -> PoolRequest:
        """The same of a request for pooled work."""
        inputs = await self._all([self._input(each, f"inputs[{at}]") for at, each in enumerate(request.inputs)])
        instruction = await self._text(request.instruction)
        if instruction == request.instruction and all(
            one is other for one, other in zip(inputs, request.inputs, strict=True)
        ):
            return request
        return replace(request, inputs=tuple(inputs), instruction=instruction)

    async def _all(self, each: Sequence[Awaitable[T]]) -> list[T]:
        """What all of them make; the first failure ends the others."""
        tasks = [asyncio.ensure_future(one) for one in each]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _spans(self, text: str) -> tuple[GuardSpan, ...]:
        if not text or self._known(text):
            return ()
        async with self._places:
            spans = await spans_found(self._rails, text, "input", self._asked)
        if not spans:
            self._passed(text)
        return spans

    async def _text(self, text: str) -> str:
        spans = await self._spans(text)
        return with_masks(text, spans) if spans else text

    async def _words(self, *names: str | None) -> None:
        """Names, in which no mask can stand: what is found there holds the request back."""
        for each in names:
            if each and await self._spans(each):
                raise GuardrailBlocked(self._rails[-1].rail.name, "input")

    async def _described(self, tool: FunctionTool | CustomTool) -> str | None:
        """The description of a tool, which is shown behind its names: in those no mask can stand."""
        names = f"{tool.namespace}.{tool.name}\n" if tool.namespace else f"{tool.name}\n"
        spans = await self._spans(names + (tool.description or ""))
        if not spans:
            return tool.description
        masked, left = masked_parts((names, tool.description or ""), spans)
        if masked != names:
            raise GuardrailBlocked(self._rails[-1].rail.name, "input")
        return left

    async def _value(self, value: T, kind: Any) -> T:
        """A value of JSON as it is left; one that a mask would break is held back."""
        text = msgspec.json.encode(value).decode()
        spans = await self._spans(text)
        if not spans:
            return value
        try:
            return cast("T", msgspec.json.decode(with_masks(text, spans), type=kind))
        except msgspec.DecodeError:
            raise GuardrailBlocked(self._rails[-1].rail.name, "input") from None

    async def _json_text(self, text: str, free: bool) -> str:
        """A text that is JSON, unless it is `free`."""
        plain = None if free else plain_json(text)
        readable = text if plain is None else plain
        spans = await self._spans(readable)
        if not spans:
            return text
        left = with_masks(readable, spans)
        if plain is not None and plain_json(left) is None:
            raise GuardrailBlocked(self._rails[-1].rail.name, "input")
        return left

    # ------------------------------------------------------------------------------------------------------- messages

    async def _message(self, message: Message, at: int, hears: bool) -> Message:
        parts = await self._parts(message.parts, f"messages[{at}].parts", hears)
        tools = await self._tools(message.tools)
        name = None if message.name is None else await self._text(message.name)
        if parts is message.parts and tools is message.tools and name == message.name:
            return message
        return replace(message, parts=parts, tools=tools, name=name)

    async def _parts(self, parts: tuple[Part, ...], at: str, hears: bool) -> tuple[Part, ...]:
        found = list(parts)
        texts = [number for number, part in enumerate(parts) if isinstance(part, Text)]
        given = [parts[number].text for number in texts]  # type: ignore[union-attr]
        spans = await self._spans("".join(given))
        if spans:
            for number, text in zip(texts, masked_parts(given, spans), strict=True):
                found[number] = replace(parts[number], text=text)
        for number, part in enumerate(parts):
            if not isinstance(part, Text):
                found[number] = await self._part(part, f"{at}[{number}]", hears)
        same = all(one is other for one, other in zip(found, parts, strict=True))
        return parts if same else tuple(found)

    async def _part(self, part: Part, at: str, hears: bool) -> Part:
        match part:
            case Reasoning() if part.text or part.summary:
                return await self._reasoning(part)
            case Refusal():
                return _with(part, text=await self._text(part.text))
            case ToolCall():
                await self._words(part.name, part.namespace, _odd(part.id))
                return _with(part, arguments=await self._json_text(part.arguments, part.custom))
            case ToolResult():
                return await self._result(part, at, hears)
            case File():
                return await self._file(part, at)
            case Image() | Audio() | Video() if not hears:
                await self._medium(part.source, at, isinstance(part, Image))
        return part

    async def _reasoning(self, part: Reasoning) -> Reasoning:
        text = await self._text(part.text)
        summary = tuple([await self._text(each) for each in part.summary])
        if text == part.text and summary == part.summary:
            return part
        return replace(part, text=text, summary=summary, seal=None, carried=None)

    async def _result(self, part: ToolResult, at: str, hears: bool) -> ToolResult:
        await self._words(part.name, _odd(part.call_id))
        content = await self._parts(part.content, f"{at}.content", hears)
        value = part.value
        if value is not None:
            value = await self._value(value, dict[str, Any])
        return part if content is part.content and value is part.value else replace(part, content=content, value=value)

    async def _file(self, part: File, at: str) -> File:
        if part.source.text is None:
            await self._medium(part.source, at, picture=False)
        text = None if part.source.text is None else await self._text(part.source.text)
        source = part.source if text == part.source.text else MediaSource(text=text, media_type=part.source.media_type)
        title, context = await self._text(part.title or ""), await self._text(part.context or "")
        return _with(part, source=source, title=title or part.title, context=context or part.context)

    async def _medium(self, source: MediaSource, at: str, picture: bool) -> None:
        """A picture for those guardrails that see such, and nothing for the others. Raises UnsupportedParameter."""
        url = source.url
        if url is None and source.data is not None and picture:
            url = await asyncio.to_thread(_data_url, source.data, source.media_type)
        for each in self._rails:
            if picture and url is not None and each.rail.pictures:
                await spans_found((each,), "", "input", self._asked, (url,))
            elif each.rail.unseen == "refuse":
                raise UnsupportedParameter(
                    f"The guardrail '{each.rail.name}' of this gateway cannot see what stands in '{at}', so it is refused.",
                    param=at,
                )

    # ------------------------------------------------------------------------------------------------- what else there is

    async def _prompt(self, request: GenerationRequest) -> dict[str, Any]:
        prompt = request.prompt
        if isinstance(prompt, str):
            left = await self._text(prompt)
            return {} if left == prompt else {"prompt": left}
        given = await self._decoded(prompt or (), "prompt")
        left = await self._text(given)
        return {} if left == given else {"prompt": left, "add_special_tokens": False}

    async def _input(self, given: PoolInput, at: str) -> PoolInput:
        if isinstance(given, str):
            left = await self._text(given)
            return given if left == given else left
        text = await self._decoded(given, at)
        left = await self._text(text)
        return given if left == text else left

    async def _decoded(self, ids: Sequence[int], at: str) -> str:
        """The text of token ids. Raises UnsupportedParameter where nobody here can read them."""
        tokenizer = self._tokenizer
        if tokenizer is None:
            raise UnsupportedParameter(
                f"The guardrail '{self._rails[0].rail.name}' of this gateway cannot read the token ids of '{at}'; send a text.",
                param=at,
            )
        if len(ids) <= _IDS_INLINE:
            return tokenizer.decode(ids, skip_special_tokens=False)
        return await asyncio.to_thread(tokenizer.decode, ids, skip_special_tokens=False)

    async def _further(self, request: GenerationRequest, changes: dict[str, Any]) -> None:
        """What else of a request may become a part of its prompt."""
        tools = await self._tools(request.tools)
        if tools is not request.tools:
            changes["tools"] = tools
        if request.documents:
            documents = tuple([await self._value(each, dict[str, Any]) for each in request.documents])
            if documents != request.documents:
                changes["documents"] = documents
        if request.template_arguments:
            arguments = await self._value(request.template_arguments, dict[str, Any])
            if arguments is not request.template_arguments:
                changes["template_arguments"] = arguments
        if request.sampling.suffix:
            suffix = await self._text(request.sampling.suffix)
            if suffix != request.sampling.suffix:
                changes["sampling"] = replace(request.sampling, suffix=suffix)
        if isinstance(request.response_format, SchemaFormat):
            schema = await self._value(request.response_format.schema, dict[str, Any])
            if schema is not request.response_format.schema:
                changes["response_format"] = replace(request.response_format, schema=schema)
        if request.template and await self._spans(request.template):
            raise GuardrailBlocked(self._rails[-1].rail.name, "input")

    async def _tools(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        if not tools:
            return tools
        found = await self._all([self._tool(each) for each in tools])
        return tools if all(one is other for one, other in zip(found, tools, strict=True)) else tuple(found)

    async def _tool(self, tool: Tool) -> Tool:
        match tool:
            case FunctionTool():
                parameters: Mapping[str, Json] | None = tool.parameters
                if parameters:
                    parameters = await self._value(parameters, dict[str, Any])
                description = await self._described(tool)
                examples = tool.examples and await self._value(tool.examples, tuple[dict[str, Any], ...])
                return _with(tool, parameters=parameters, description=description, examples=examples)
            case CustomTool():
                description = await self._described(tool)
                grammar = await self._text(tool.grammar or "")
                return _with(tool, description=description, grammar=grammar or tool.grammar)
        return tool


S = TypeVar("S", bound=msgspec.Struct)


def _with(record: S, **fields: object) -> S:
    """The record with these fields: itself, where it has them."""
    changed = {name: value for name, value in fields.items() if getattr(record, name) is not value}
    changed = {name: value for name, value in changed.items() if getattr(record, name) != value}
    return replace(record, **changed) if changed else record


def _odd(id: str) -> str | None:
    """An id that may be more than one, and stands in some prompts: those that are a word are not shown, since all differ."""
    return None if _WORD.fullmatch(id) else id


def _data_url(data: bytes, media_type: str | None) -> str:
    """A picture as an address that has it."""
    from base64 import b64encode

    return f"data:{media_type or 'image/png'};base64,{b64encode(data).decode()}"
