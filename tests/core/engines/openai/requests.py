"""Requests for generation as hypothesis draws them: everything that Chat Completions has a word for."""

from typing import Any

import hypothesis.strategies as st
from msgspec.structs import replace

from smg_core.apis.chat.decode import ORIGIN
from smg_core.request import (
    Audio,
    ChoiceFormat,
    CustomTool,
    File,
    FunctionTool,
    GenerationRequest,
    GrammarFormat,
    Image,
    JsonFormat,
    MediaSource,
    Message,
    Opaque,
    Reasoning,
    ReasoningSettings,
    Refusal,
    RegexFormat,
    Sampling,
    SchemaFormat,
    StructuralTagFormat,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolResult,
    Video,
)

NAMES = st.text("abcXYZ_-09", min_size=1, max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FULL_TEXTS = TEXTS.filter(bool)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=3)
MARKS = st.sampled_from(
    [
        None,
        {"mode": "explicit"},
        {"mode": "explicit", "ttl": "30m"},
        {"type": "ephemeral"},
        {"type": "ephemeral", "ttl": "1h"},
    ]
)
URLS = st.sampled_from(["https://a.example/x", "http://a.example/y", "data:image/png;base64,AAAA"])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


plain_texts = st.builds(Text, TEXTS)
texts = st.builds(Text, TEXTS, MARKS)
images = st.builds(
    Image, st.builds(MediaSource, url=URLS), st.sampled_from(["auto", "low", "high", "original"]), cache=MARKS
)
videos = st.builds(Video, st.builds(MediaSource, url=URLS))
far_sounds = st.builds(Audio, st.builds(MediaSource, url=URLS))
sounds = st.builds(
    lambda kind, mark: Audio(MediaSource(url=f"data:audio/{kind};base64,AAAA"), kind, mark),
    st.sampled_from(["wav", "mp3"]),
    MARKS,
)
file_sources = st.builds(MediaSource, file_id=NAMES) | st.just(MediaSource(url="data:application/pdf;base64,AAAA"))
files = st.builds(File, file_sources, maybe(NAMES), cache=MARKS)
media = texts | images | videos | far_sounds | sounds | files
calls = st.builds(ToolCall, NAMES, NAMES, TEXTS, st.booleans())
opaque = st.builds(Opaque, NAMES, st.binary(max_size=6) | TEXTS.map(str.encode))
refusals = st.builds(Refusal, FULL_TEXTS)


@st.composite
def assistant_turns(draw: st.DrawFn) -> Message:
    parts: list[Any] = draw(st.lists(st.builds(Reasoning, FULL_TEXTS), max_size=1))
    parts += draw(st.lists(opaque, max_size=2))
    called = draw(st.lists(calls, max_size=2))
    is_text = draw(st.booleans())
    if is_text:
        said = draw(TEXTS)
        parts += [Text(said)] if said or not called else []
        parts += draw(st.lists(refusals, max_size=1))
    else:
        parts += draw(st.lists(media | refusals | st.builds(Reasoning, FULL_TEXTS), max_size=3))
    return Message("assistant", (*parts, *called), draw(maybe(NAMES)), is_text)


def turns(role: str, parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    written_as_text = st.builds(
        lambda text, name: Message(role, (text,), name, True),  # type: ignore[arg-type]
        plain_texts,
        maybe(NAMES),
    )
    written_as_parts = st.builds(
        lambda parts, name: Message(role, tuple(parts), name),  # type: ignore[arg-type]
        st.lists(parts, min_size=1, max_size=3),
        maybe(NAMES),
    )
    return written_as_text | written_as_parts


def _as_result(turn: Message, call_id: str) -> Message:
    return Message("tool", (ToolResult(call_id, turn.parts),), turn.name, turn.content_is_text)


messages = st.one_of(
    turns("system", texts),
    turns("developer", texts),
    turns("user", media),
    st.builds(_as_result, turns("tool", media), NAMES),
    assistant_turns(),
)
functions = st.builds(FunctionTool, NAMES, maybe(TEXTS), maybe(OBJECTS), maybe(st.booleans()))
customs = st.builds(CustomTool, NAMES, maybe(TEXTS)) | st.builds(
    CustomTool, NAMES, maybe(TEXTS), st.sampled_from(["lark", "regex"]), TEXTS
)
formats = st.one_of(
    st.just(TextFormat()),
    st.just(JsonFormat()),
    st.builds(SchemaFormat, OBJECTS, NAMES, maybe(TEXTS), st.booleans()),
    st.builds(RegexFormat, TEXTS),
    st.builds(GrammarFormat, TEXTS),
    st.builds(ChoiceFormat, st.lists(TEXTS, min_size=1, max_size=3).map(tuple)),
    st.builds(StructuralTagFormat, TEXTS),
)
BOUNDS = [("max_tokens",), ("max_completion_tokens", "max_tokens")]  # engines are always told the old name too
most_tokens = st.integers(100, 1000)
samplings = st.builds(
    Sampling,
    max_tokens=maybe(most_tokens),
    min_tokens=maybe(st.integers(0, 100)),
    temperature=maybe(st.floats(0, 2)),
    top_p=maybe(st.floats(0.01, 1)),
    top_k=maybe(st.just(-1) | st.integers(1, 100)),
    min_p=maybe(st.floats(0, 1)),
    frequency_penalty=maybe(st.floats(-2, 2)),
    presence_penalty=maybe(st.floats(-2, 2)),
    repetition_penalty=maybe(st.floats(0.1, 2)),
    seed=maybe(st.integers(-(2**63), 2**63 - 1)),
    stop=st.lists(FULL_TEXTS, max_size=2).map(tuple),
    stop_token_ids=st.lists(st.integers(0, 10), max_size=2).map(tuple),
    include_stop=st.booleans(),
    ignore_eos=st.booleans(),
    skip_special_tokens=st.booleans(),
    logit_bias=maybe(st.dictionaries(st.integers(0, 10), st.floats(-100, 100), max_size=2)),
    n=st.integers(1, 4),
    logprobs=maybe(st.integers(0, 20)),
)
reasonings = st.builds(
    ReasoningSettings,
    effort=maybe(st.sampled_from(["none", "low", "high"])),
    budget_tokens=maybe(st.integers(0, 100)),
    enabled=maybe(st.booleans()),
)


@st.composite
def chat_requests(draw: st.DrawFn) -> GenerationRequest:
    tools = tuple(draw(st.lists(functions | customs, max_size=3, unique_by=lambda tool: tool.name)))
    parallel = draw(maybe(st.booleans()))
    choices = [ToolChoice("auto", (), parallel), ToolChoice("none", (), parallel)]
    if tools:
        names = tuple(tool.key for tool in tools)
        choices += [ToolChoice("required", some, parallel) for some in ((), names[:1], names)]
        choices.append(ToolChoice("auto", names, parallel))
    continues = draw(st.booleans())
    sampling = draw(samplings)
    return GenerationRequest(
        id="chatcmpl-1",
        model=draw(NAMES),
        messages=tuple(draw(st.lists(messages, min_size=1, max_size=3))),
        tools=tools,
        tool_choice=draw(st.sampled_from(choices)),
        response_format=draw(formats),
        sampling=sampling,
        reasoning=draw(reasonings),
        stream=True,
        template_arguments=draw(st.dictionaries(st.sampled_from(["enable_thinking", "verbosity"]), JSON)),
        documents=tuple(draw(st.lists(OBJECTS, max_size=2))),
        add_generation_prompt=not continues and draw(st.booleans()),
        continue_final_message=continues,
        user=draw(maybe(FULL_TEXTS)),
        cache_key=draw(maybe(FULL_TEXTS)),
        cache_salt=draw(maybe(FULL_TEXTS)),
        service_tier=draw(maybe(st.sampled_from(["auto", "flex"]))),
        origin=replace(ORIGIN, bounds=() if sampling.max_tokens is None else draw(st.sampled_from(BOUNDS))),
        metadata=draw(st.dictionaries(NAMES, TEXTS, max_size=2)),
    )
