"""Providers of Chat Completions: what each is sent of a request, what it is not, and what it is told of its answers."""

import json
from typing import Any

import pytest

from smg_core.engines.connections.vendor_urls import VENDOR_URLS
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.kinds.providers import PROVIDER_KINDS
from smg_core.engines.openai.events import ChatDecoder
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.chat.body import write_chat
from smg_core.engines.vendors.chat.format import ChatFormat
from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES
from smg_core.engines.vendors.chat.refusals import chat_refusal
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import UnsupportedParameter
from smg_core.events import Usage
from smg_core.origin import Origin
from smg_core.request import (
    FunctionTool,
    GenerationRequest,
    JsonFormat,
    Message,
    Part,
    Reasoning,
    ReasoningSettings,
    Sampling,
    SchemaFormat,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
)

HI = (Message("user", (Text("Hi"),), content_is_text=True),)
WEATHER = FunctionTool("get_weather", "The weather", {"type": "object", "properties": {}})
CITY = FunctionTool("get_city")


def asked(name: str, messages: tuple[Message, ...] = HI, **fields: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The body as it is sent, and what it loses."""
    losses = Losses()
    request = GenerationRequest("r", "m", messages, **fields)
    return json.loads(
        write_chat(request, "vendor-model", CHAT_PROFILES[name], SentNames(64), losses).body
    ), losses.found


def tried(name: str, **fields: Any) -> tuple[set[str], str | None]:
    """The fields that are sent, or what is refused."""
    try:
        return set(asked(name, **fields)[0]), None
    except UnsupportedParameter as error:
        return set(), error.param


def assistant(*parts: Part) -> Message:
    return Message("assistant", parts)


LOOP = (
    *HI,
    assistant(Reasoning("Hm"), ToolCall("call_0123456789", "get_weather", "{}")),
    Message("tool", (ToolResult("call_0123456789", (Text("sunny"),)),)),
)


@pytest.mark.parametrize("name", CHAT_PROFILES)
def test_every_provider_is_sent_a_plain_question_by_its_own_name_of_the_model(name: str) -> None:
    body, lost = asked(name)
    usage = {"stream_options": {"include_usage": True}} if CHAT_PROFILES[name].usage_asked else {}
    messages = [{"role": "user", "content": "Hi"}]
    assert body == {"model": "vendor-model", "messages": messages, "stream": True, **usage}
    assert not lost


@pytest.mark.parametrize("name", CHAT_PROFILES)
def test_every_provider_is_sent_nothing_that_it_does_not_take(name: str) -> None:
    profile = CHAT_PROFILES[name]
    known = set(profile.takes) | set(profile.renamed.values()) | {"thinking", "reasoning", "reasoning_effort"}
    for field, value in {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.1,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
        "repetition_penalty": 1.1,
        "seed": 1,
        "stop": ("a",),
        "logit_bias": {1: 1.0},
        "n": 2,
        "logprobs": 1,
        "max_tokens": 9,
        "min_tokens": 2,
        "ignore_eos": True,
        "stop_token_ids": (1,),
    }.items():
        sent, refused = tried(name, sampling=Sampling(**{field: value}))
        assert refused in (None, f"sampling.{field}")
        assert sent <= known, field
    for extra in ("safetySettings", "provider"):
        assert tried(name, extra={extra: {"a": 1}})[1] == (None if extra in profile.takes else f"extra.{extra}")


@pytest.mark.parametrize("name", CHAT_PROFILES)
def test_the_bound_on_tokens_has_the_name_that_the_provider_knows(name: str) -> None:
    for bounds in ((), ("max_tokens",), ("max_completion_tokens",), ("max_completion_tokens", "max_tokens")):
        body, _ = asked(name, sampling=Sampling(max_tokens=9), origin=Origin("chat", bounds=bounds))
        found = {each for each in ("max_tokens", "max_completion_tokens") if each in body}
        own = CHAT_PROFILES[name].bound
        assert found == ({own} if own else set(bounds or ("max_completion_tokens",)))
        assert {body[each] for each in found} == {9}


def test_a_body_that_needs_no_change_keeps_the_bytes_of_the_client() -> None:
    written = (
        b'{"messages" : [{"content":"Hi","role":"user"}], "model":"m","stream":true, "temperature":0.50, '
        b'"stream_options":{"include_usage":true}}'
    )
    request = GenerationRequest("r", "m", HI, sampling=Sampling(temperature=0.5), written=written)
    for name in ("azure", "xai", "openrouter", "together", "fireworks", "deepseek"):
        assert write_chat(request, "m", CHAT_PROFILES[name], SentNames(64), Losses()).body == written
    renamed = write_chat(request, "vendor-model", CHAT_PROFILES["azure"], SentNames(64), Losses()).body
    assert b'"temperature":0.50' in renamed
    assert b'[{"content":"Hi","role":"user"}]' in renamed


def test_mistral_has_ids_of_nine_letters_and_its_own_words() -> None:
    choice = ToolChoice("required")
    body, lost = asked("mistral", LOOP, tools=(WEATHER,), tool_choice=choice, sampling=Sampling(seed=3, max_tokens=9))
    call, result = body["messages"][1]["tool_calls"][0], body["messages"][2]
    assert call["id"] == result["tool_call_id"]
    assert len(call["id"]) == 9
    assert call["id"].isalnum()
    assert (body["tool_choice"], body["random_seed"], body["max_tokens"]) == ("any", 3, 9)
    assert "seed" not in body
    assert set(lost) == {"reasoning"}
    own = (
        assistant(ToolCall("abcDEF123", "get_weather", "{}")),
        Message("tool", (ToolResult("abcDEF123", (Text("x"),)),)),
    )
    kept, _ = asked("mistral", (*HI, *own), tools=(WEATHER,))
    assert kept["messages"][1]["tool_calls"][0]["id"] == "abcDEF123"
    ended, _ = asked("mistral", (*HI, assistant(Text("Hel"))), continue_final_message=True, add_generation_prompt=False)
    assert ended["messages"][-1]["prefix"] is True
    assert "continue_final_message" not in ended


@pytest.mark.parametrize(
    ("name", "field"),
    [("deepseek", "reasoning_content"), ("openrouter", "reasoning"), ("fireworks", "reasoning_content")],
)
def test_reasoning_goes_back_in_the_field_that_the_provider_reads(name: str, field: str) -> None:
    body, lost = asked(name, LOOP, tools=(WEATHER,))
    assert body["messages"][1][field] == "Hm"
    assert not lost


@pytest.mark.parametrize(
    ("name", "reasoning", "sent", "lost"),
    [
        ("deepseek", ReasoningSettings(effort="high"), {"thinking": {"type": "enabled"}}, {"effort"}),
        ("deepseek", ReasoningSettings(enabled=False), {"thinking": {"type": "disabled"}}, set()),
        ("deepseek", ReasoningSettings(budget_tokens=900), {"thinking": {"type": "enabled"}}, {"budget_tokens"}),
        ("openrouter", ReasoningSettings(effort="max"), {"reasoning": {"effort": "xhigh"}}, {"effort"}),
        ("openrouter", ReasoningSettings(enabled=False), {"reasoning": {"effort": "none"}}, set()),
        ("together", ReasoningSettings(enabled=False), {"reasoning": {"enabled": False}}, set()),
        ("together", ReasoningSettings(effort="low"), {"reasoning_effort": "low"}, set()),
        ("groq", ReasoningSettings(effort="minimal"), {"reasoning_effort": "low"}, {"effort"}),
        ("xai", ReasoningSettings(effort="high"), {"reasoning_effort": "high"}, set()),
        ("cohere", ReasoningSettings(effort="low"), {"reasoning_effort": "high"}, {"effort"}),
        ("azure", ReasoningSettings(effort="minimal"), {"reasoning_effort": "minimal"}, set()),
    ],
)
def test_how_much_to_reason_is_said_as_each_provider_knows_it(
    name: str, reasoning: ReasoningSettings, sent: dict[str, Any], lost: set[str]
) -> None:
    body, found = asked(name, reasoning=reasoning)
    assert {key: value for key, value in body.items() if key in ("thinking", "reasoning", "reasoning_effort")} == sent
    assert set(found) == lost


def test_a_subset_of_tools_is_sent_as_these_tools_alone_where_there_is_no_word_for_it() -> None:
    choice = ToolChoice("auto", (ToolKey("get_city"),))
    for name in CHAT_PROFILES:
        body, lost = asked(name, tools=(WEATHER, CITY), tool_choice=choice)
        if CHAT_PROFILES[name].subset:
            assert body["tool_choice"]["type"] == "allowed_tools"
            assert len(body["tools"]) == 2
        else:
            assert [each["function"]["name"] for each in body["tools"]] == ["get_city"]
            assert set(lost) == {"allowed_tools"}


def test_groq_gets_no_nulls_and_no_zero() -> None:
    body, _ = asked("groq", LOOP, tools=(WEATHER,), sampling=Sampling(temperature=0.0))
    assert "content" not in body["messages"][1]
    assert body["temperature"] == 1e-8


def test_deepseek_gets_text_as_a_string() -> None:
    body, _ = asked("deepseek", (Message("user", (Text("One "), Text("two"))),))
    assert body["messages"][0]["content"] == "One two"


@pytest.mark.parametrize(
    ("name", "param", "fields"),
    [
        ("groq", "messages[0].name", {"messages": (Message("user", (Text("Hi"),), name="me"),)}),
        ("groq", "sampling.logprobs", {"sampling": Sampling(logprobs=2)}),
        ("groq", "sampling.n", {"sampling": Sampling(n=2)}),
        ("mistral", "sampling.logprobs", {"sampling": Sampling(logprobs=2)}),
        ("mistral", "reasoning.effort", {"reasoning": ReasoningSettings(effort="low")}),
        ("xai", "sampling.presence_penalty", {"sampling": Sampling(presence_penalty=0.5)}),
        ("deepseek", "response_format", {"response_format": SchemaFormat({"type": "object"})}),
        (
            "deepseek",
            "tool_choice",
            {"tools": (WEATHER,), "tool_choice": ToolChoice("required"), "reasoning": ReasoningSettings(effort="low")},
        ),
        ("cohere", "sampling.top_p", {"sampling": Sampling(top_p=1.0)}),
        ("cohere", "sampling.frequency_penalty", {"sampling": Sampling(frequency_penalty=-1.0)}),
        ("together", "tool_choice.parallel", {"tools": (WEATHER,), "tool_choice": ToolChoice(parallel=False)}),
        ("xai", "reasoning", {"reasoning": ReasoningSettings(enabled=False)}),
        ("azure", "sampling.top_k", {"sampling": Sampling(top_k=3)}),
        (
            "openrouter",
            "continue_final_message",
            {"messages": (*HI, assistant(Text("Hel"))), "continue_final_message": True, "add_generation_prompt": False},
        ),
    ],
)
def test_what_a_provider_does_not_take_is_refused_by_name(name: str, param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        asked(name, **fields)
    assert caught.value.param == param


def test_json_is_asked_of_deepseek_and_hints_are_left_out() -> None:
    assert asked("deepseek", response_format=JsonFormat())[0]["response_format"] == {"type": "json_object"}
    body, lost = asked("mistral", user="me", metadata={"a": "b"})
    assert not {"user", "metadata"} & set(body)
    assert set(lost) == {"user", "metadata"}


# ------------------------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            '"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16,"prompt_cache_hit_tokens":3}',
            Usage(7, 9, 3),
        ),
        ('"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}}', Usage(7, 9)),
        (
            '"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":21,"completion_tokens_details":{"reasoning_tokens":5}}',
            Usage(7, 14, 0, 5),
        ),
        (
            '"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16,"completion_tokens_details":{"reasoning_tokens":5}}',
            Usage(7, 9, 0, 5),
        ),
    ],
    ids=["DeepSeek", "Groq", "xAI", "OpenAI"],
)
def test_counts_are_read_where_the_provider_writes_them(usage: str, expected: Usage) -> None:
    decoder = ChatDecoder("r", 1, EnginesConfig(), set(), calls="c")
    events = decoder.feed(
        f'data: {{"choices":[{{"index":0,"delta":{{"content":"Hi"}},"finish_reason":"stop"}}],{usage}}}\n\n'.encode()
    )
    events += decoder.feed(b": keep-alive\n\n\n\ndata: [DONE]\n\n")
    assert decoder.error is None
    assert events[-1] == expected


@pytest.mark.parametrize(
    ("name", "status", "body", "expected"),
    [
        (
            "azure",
            400,
            {
                "error": {
                    "code": "content_filter",
                    "message": "x",
                    "innererror": {"code": "ResponsibleAIPolicyViolation"},
                }
            },
            "ContentFiltered",
        ),
        ("azure", 404, {"error": {"code": "DeploymentNotFound", "message": "x"}}, "ProviderLacksModel"),
        ("azure", 400, {"error": {"code": "OperationNotSupported", "message": "x"}}, "ProviderLacksModel"),
        ("azure", 401, {"error": {"code": "401", "message": "wrong key"}}, "ProviderRefused"),
        ("xai", 400, {"code": "invalid-argument", "error": "bad field"}, "EngineRejected"),
        ("mistral", 422, {"detail": [{"loc": ["body", "x"], "msg": "extra"}]}, "EngineRejected"),
        ("deepseek", 402, {"error": {"message": "Insufficient Balance"}}, "ProviderUnfunded"),
        (
            "openrouter",
            403,
            {"error": {"code": 403, "message": "flagged", "metadata": {"raw": "no"}}},
            "ContentFiltered",
        ),
        ("openrouter", 429, {"error": {"code": 429, "message": "slow"}}, "ProviderLimited"),
        ("groq", 498, {"error": {"message": "capacity"}}, "WorkerBusy"),
        ("together", 500, "plain text", "ProviderFailed"),
        ("cohere", 400, {"message": "too many tokens"}, "EngineRejected"),
        ("xai", 429, {"error": {"code": "insufficient_quota", "message": "x"}}, "ProviderUnfunded"),
        (
            "fireworks",
            400,
            [{"error": {"code": "context_length_exceeded", "message": "maximum context length"}}],
            "EngineRejected",
        ),
    ],
)
def test_a_refusal_is_of_the_class_that_it_means(name: str, status: int, body: Any, expected: str) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    error = ChatFormat(CHAT_PROFILES[name]).refusal(HttpReply(status, {}, text.encode()))
    assert type(error).__name__ == expected
    assert chat_refusal(HttpReply(status, {}, b"\xff"), name) is not None


# ---------------------------------------------------------------------------------------------------------- addresses


def test_azure_has_deployments_in_its_path_or_the_model_in_its_body() -> None:
    request = GenerationRequest("r", "m", HI)
    classic = ChatFormat(CHAT_PROFILES["azure"], "2024-10-21")
    asked_classic = classic.ask(request, "my gpt", EnginesConfig())
    assert (
        classic.usual_path + asked_classic.path
        == "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"
    )
    newer = ChatFormat(CHAT_PROFILES["azure"])
    asked_newer = newer.ask(request, "my-gpt", EnginesConfig())
    assert newer.usual_path + asked_newer.path == "/openai/v1/chat/completions"
    assert json.loads(asked_newer.body)["model"] == "my-gpt"


def test_every_profile_is_a_kind_with_an_address_or_one_for_each_customer() -> None:
    kinds = {each.name for each in PROVIDER_KINDS}
    assert set(CHAT_PROFILES) <= kinds
    assert {name for name in CHAT_PROFILES if name not in VENDOR_URLS} == {"azure"}
    assert set(VENDOR_URLS) <= kinds
