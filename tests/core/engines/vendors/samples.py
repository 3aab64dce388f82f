"""A request for each concept of the table of providers, and the request beside it that lacks the concept."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from smg_core.request import (
    Audio,
    ChoiceFormat,
    File,
    FunctionTool,
    GenerationRequest,
    HostedTool,
    Image,
    JsonFormat,
    MediaSource,
    Message,
    Part,
    Reasoning,
    ReasoningSettings,
    Refusal,
    RegexFormat,
    Sampling,
    SchemaFormat,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
    Video,
)
from smg_core.sealing.carried import Carried, carrying

__all__ = ["PLAIN", "originals", "sample"]

PICTURE = Image(MediaSource(data=b"\x89PNG", media_type="image/png"))
OBJECT: Mapping[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
STRICT = {**OBJECT, "additionalProperties": False}
TOOL = FunctionTool("get_weather", "The weather", OBJECT)
MARK = {"type": "ephemeral"}


def user(*parts: Part) -> Message:
    return Message("user", parts or (Text("Hi"),))


def talk(*messages: Message, **fields: Any) -> GenerationRequest:
    return GenerationRequest("r1", "m", messages or (user(),), **fields)


def with_tools(**fields: Any) -> GenerationRequest:
    return talk(tools=fields.pop("tools", (TOOL,)), **fields)


def called(result: ToolResult | None = None, *before: Part, arguments: str = '{"city":"Paris"}') -> GenerationRequest:
    call = ToolCall("call_1", "get_weather", arguments)
    result = result or ToolResult("call_1", (Text("sunny"),), name="get_weather")
    return talk(user(), Message("assistant", (*before, call)), Message("tool", (result,)), tools=(TOOL,))


def originals(model: str) -> Mapping[str, Carried]:
    """What each provider's model gives with its reasoning."""
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
    return {
        "bedrock": Carried(
            "bedrock", "", model, "thought", b'{"reasoningText":{"text":"Let me see","signature":"c2ln"}}'
        ),
        "azure": Carried("azure", "", model, "thought", b"{}"),
        "anthropic": Carried("anthropic", "", model, "thought", msgspec.json.encode(thinking)),
        "gemini": Carried("gemini", "", model, "call:call_1", b"c2ln"),
        "openai-responses": Carried("openai", "", model, "thought", msgspec.json.encode(item)),
    }


PLAIN = talk()
_PDF = MediaSource(data=b"%PDF-", media_type="application/pdf")
_ARGUMENTS_OF_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "max_tokens": {"max_tokens": 4096},
    "temperature": {"temperature": 0.0},
    "hot": {"temperature": 1.5},
    "top_p": {"top_p": 0.0},
    "top_k": {"top_k": 5},
    "min_p": {"min_p": 0.1},
    "repetition_penalty": {"repetition_penalty": 1.1},
    "penalties": {"frequency_penalty": 0.0, "presence_penalty": 0.0},
    "seed": {"seed": 0},
    "stop": {"stop": ("END",)},
    "n": {"n": 2},
    "logprobs": {"logprobs": 2},
    "logit_bias": {"logit_bias": {1: 1.0}},
}
_BOUNDED = {**STRICT, "properties": {"city": {"type": "string", "maxLength": 9}}}

_SAMPLES: Mapping[str, GenerationRequest] = {
    "text": talk(user(Text("Bonjour"))),
    "system_front": talk(Message("system", (Text("Be brief."),)), user()),
    "system_later": talk(user(), Message("assistant", (Text("Yes"),)), Message("system", (Text("Be brief."),)), user()),
    "assistant_first": talk(Message("assistant", (Text("Yes"),)), user()),
    "assistant_last": talk(user(), Message("assistant", (Text("Yes"),))),
    "message_name": talk(Message("user", (Text("Hi"),), name="Ann")),
    "empty_text": talk(user(Text("Hi"), Text(""))),
    "image": talk(user(PICTURE)),
    "image_url": talk(user(Image(MediaSource(url="https://x.example/a.png", media_type="image/png")))),
    "audio": talk(user(Audio(MediaSource(data=b"RIFF"), format="wav"))),
    "video": talk(user(Video(MediaSource(data=b"mp4", start_s=1.0, end_s=2.0, fps=2.0)))),
    "pdf": talk(user(File(_PDF))),
    "text_file": talk(
        user(File(MediaSource(data=b"a,b", media_type="text/csv"), filename="a.csv"), File(MediaSource(text="Log")))
    ),
    "other_file": talk(user(File(MediaSource(data=b"PK", media_type="application/zip"), filename="a.zip"))),
    "file_title": talk(user(File(_PDF, title="Report"))),
    "file_citations": talk(user(File(_PDF, citations=True))),
    "file_id": talk(user(File(MediaSource(file_id="file-1")))),
    "refusal": talk(user(), Message("assistant", (Refusal("No."),)), user()),
    "calls": called(),
    "unsigned_calls": called(),
    "bad_arguments": called(arguments="[1"),
    "long_name": with_tools(tools=(FunctionTool("x" * 140, parameters=OBJECT), FunctionTool("get weather"))),
    "namespace": talk(
        user(),
        Message("assistant", (ToolCall("call_1", "get", "{}", namespace="weather"),)),
        Message("tool", (ToolResult("call_1", (Text("sunny"),)),)),
        tools=(FunctionTool("get", parameters=OBJECT, namespace="weather"),),
    ),
    "result_value": called(ToolResult("call_1", (Text('{"a":1}'),), value={"a": 1})),
    "result_media": called(ToolResult("call_1", (Text("see"), PICTURE))),
    "is_error": called(ToolResult("call_1", (Text("no"),), is_error=True)),
    "hosted_tool": with_tools(tools=(HostedTool("web_search"),)),
    "choice_none": with_tools(tool_choice=ToolChoice("none")),
    "required": with_tools(tool_choice=ToolChoice("required")),
    "one_tool": with_tools(tool_choice=ToolChoice("required", (ToolKey("get_weather"),))),
    "required_thinking": with_tools(
        tool_choice=ToolChoice("required"), reasoning=ReasoningSettings(effort="low", visible="none")
    ),
    "parallel_off": with_tools(tool_choice=ToolChoice(parallel=False)),
    "deferred": with_tools(tools=(replace(TOOL, deferred=True),)),
    "tool_examples": with_tools(tools=(replace(TOOL, examples=({"city": "Rome"},)),)),
    "strict": with_tools(tools=(replace(TOOL, parameters=STRICT, strict=True),)),
    "schema": talk(response_format=SchemaFormat(STRICT)),
    "schema_keywords": talk(response_format=SchemaFormat(_BOUNDED)),
    "json": talk(response_format=JsonFormat()),
    "regex": talk(response_format=RegexFormat("a+")),
    "choice": talk(response_format=ChoiceFormat(("a", "b"))),
    **{name: talk(sampling=Sampling(**settings)) for name, settings in _ARGUMENTS_OF_SETTINGS.items()},
    "effort": talk(reasoning=ReasoningSettings(effort="low")),
    "budget": talk(reasoning=ReasoningSettings(budget_tokens=2048)),
    "reasoning_off": talk(reasoning=ReasoningSettings(enabled=False)),
    "visible": talk(reasoning=ReasoningSettings(effort="low", visible="summary")),
    "cache": talk(user(Text("Hi", cache=MARK))),
    "many_marks": talk(user(*(Text(str(number), cache=MARK) for number in range(5)))),
    "cache_key": talk(cache_key="k"),
    "verbosity": talk(verbosity="low"),
    "user": talk(user="ann"),
    "metadata": talk(metadata={"a": "b"}),
    "service_tier": talk(service_tier="default"),
    "extra": talk(extra={"web_search_options": {}}),
}


def sample(concept: str, kind: str, model: str) -> GenerationRequest:
    """The request that has the concept, before the provider of this kind."""
    if concept == "own_reasoning":
        return called(None, Reasoning("", carried=carrying(originals(model)[kind])))
    if concept == "foreign_reasoning":
        return called(None, Reasoning("Hm", carried=carrying(Carried("another", "", "x", "thought", b"{}"))))
    request = _SAMPLES[concept]
    if kind == "gemini" and concept in ("calls", "namespace", "result_value", "result_media", "is_error"):
        signature = Reasoning("", carried=carrying(originals(model)[kind]))
        asked, spoken, *rest = request.messages
        return replace(request, messages=(asked, replace(spoken, parts=(signature, *spoken.parts)), *rest))
    return request
