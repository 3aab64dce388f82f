"""Values of a wrong type, in every API: those that say what kind of object it is are refused as every other, at the leaf, in the
words of JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.gateway.conftest import in_process

pytestmark = pytest.mark.anyio

CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
GEMINI, INTERACTIONS = "/v1beta/models/sim:generateContent", "/v1/interactions"
USER = {"role": "user", "content": "Hello"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}


def text(said: str, kind: str = "text", **more: Any) -> dict[str, Any]:
    return {"type": kind, "text": said, **more}


def message(role: str, *content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(content)}


BODIES: list[tuple[str, dict[str, Any]]] = [
    (
        CHAT,
        {
            "messages": [
                {"role": "system", "content": [text("a", **CACHED)]},
                {"role": "developer", "content": "x"},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "r"}], "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": [text("a")]},
                {"role": "assistant", "content": "x", "opaque_blocks": [{"type": "t", "data": "d"}]},
                {"role": "user", "content": [text("a", prompt_cache_breakpoint={"mode": "explicit"})]},
            ],
            "tools": [
                {"type": "function", "function": FUNCTION},
                {"type": "custom", "custom": {"name": "g", "format": {"type": "text"}}},
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
        },
    ),
    (
        CHAT,
        {
            "messages": [USER],
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        },
    ),
    (
        CHAT,
        {
            "messages": [USER],
            "response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}},
            "thinking": {"type": "disabled"},
            "prompt_cache_options": {"mode": "implicit"},
        },
    ),
    (CHAT, {"messages": [USER], "functions": [FUNCTION], "function_call": "none"}),
    (COMPLETIONS, {"prompt": "x", "response_format": {"type": "json_object"}, "stop": ["a"], "best_of": 1}),
    (
        RESPONSES,
        {
            "input": [
                message("user", text("a", "input_text", prompt_cache_breakpoint={"mode": "explicit"})),
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [text("s", "summary_text")],
                    "content": [text("t", "reasoning_text")],
                },
                message("assistant", text("a", "output_text"), {"type": "refusal", "refusal": "n"}),
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"},
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": [text("o", "input_text")],
                    "status": "completed",
                },
                {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x", "status": "completed"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "x", "status": "completed"},
                {"type": "tool_search_call", "call_id": "t1", "arguments": {}, "execution": "client"},
                {
                    "type": "tool_search_output",
                    "call_id": "t1",
                    "tools": [{"type": "function", **FUNCTION, "name": "found"}],
                    "execution": "client",
                },
                {"type": "configuration_update", "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}},
                {
                    "type": "additional_tools",
                    "tools": [{"type": "function", **FUNCTION, "name": "more"}],
                    "role": "developer",
                },
                {"role": "developer", "content": "x"},
            ],
            "tools": [
                {"type": "function", **FUNCTION},
                {"type": "custom", "name": "g", "format": {"type": "text"}},
                {"type": "namespace", "name": "n", "tools": [{"type": "function", **FUNCTION}]},
                {"type": "web_search"},
            ],
            "tool_choice": {"type": "function", "name": "f"},
            "text": {"format": {"type": "json_schema", "name": "p", "schema": SCHEMA}},
        },
    ),
    (
        RESPONSES,
        {
            "input": [
                {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
                {"type": "local_shell_call", "call_id": "l1", "status": "completed", "action": {"type": "exec"}},
                {"type": "local_shell_call_output", "id": "l2", "output": "x"},
                {"type": "apply_patch_call", "call_id": "a1", "operation": {"type": "delete_file", "path": "p"}},
                {"type": "apply_patch_call_output", "call_id": "a1", "status": "completed"},
                {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}},
                {
                    "type": "shell_call_output",
                    "call_id": "s1",
                    "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
                },
                {"type": "computer_call", "call_id": "p1", "action": {"type": "screenshot"}},
                {"type": "computer_call_output", "call_id": "p1", "output": {"type": "computer_screenshot"}},
                {"type": "mcp_list_tools", "server_label": "s", "tools": []},
                {"type": "mcp_call", "id": "m1", "server_label": "s", "name": "n", "arguments": "{}"},
                {"role": "user", "content": "x"},
            ],
            "tools": [{"type": "function", **FUNCTION}],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            "context_management": [{"type": "compaction", "compact_threshold": 100_000}],
            "prompt_cache_options": {"mode": "implicit"},
        },
    ),
    (
        MESSAGES,
        {
            "system": [text("s", **CACHED)],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        text("a", **CACHED),
                        {
                            "type": "document",
                            "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                            **CACHED,
                        },
                        {"type": "document", "source": {"type": "content", "content": [text("i")]}},
                        {"type": "search_result", "source": "s", "title": "t", "content": [text("z")], **CACHED},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "t", "signature": ""},
                        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                        {
                            "type": "web_search_tool_result",
                            "tool_use_id": "srvtoolu_1",
                            "content": [{"type": "web_search_result", "url": "u", "title": "t"}],
                        },
                        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, **CACHED},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("r", **CACHED)], **CACHED}
                    ],
                },
            ],
            "tools": [{"name": "f", "type": "custom", "input_schema": SCHEMA, **CACHED}],
            "tool_choice": {"type": "tool", "name": "f"},
            "cache_control": {"type": "ephemeral"},
        },
    ),
    (
        MESSAGES,
        {
            "messages": [USER],
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "context_management": {
                "edits": [
                    {
                        "type": "clear_tool_uses_20250919",
                        "trigger": {"type": "input_tokens", "value": 100_000},
                        "keep": {"type": "tool_uses", "value": 3},
                        "clear_at_least": {"type": "input_tokens", "value": 5},
                    }
                ]
            },
        },
    ),
    (MESSAGES, {"messages": [USER], "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    (
        GEMINI,
        {
            "contents": [
                {"role": "user", "parts": [{"text": "a"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]},
            ],
            "systemInstruction": {"role": "system", "parts": [{"text": "s"}]},
            "tools": [{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING"}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "generationConfig": {"temperature": 1.0, "responseModalities": ["TEXT"]},
        },
    ),
    (
        INTERACTIONS,
        {
            "input": [
                {"type": "user_input", "content": [text("a")]},
                {"type": "thought", "summary": [text("s")]},
                {"type": "model_output", "content": [text("a")]},
                {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}},
                {"type": "function_result", "call_id": "c", "result": [text("x")]},
            ],
            "tools": [{"type": "function", **FUNCTION}, {"type": "google_search"}],
            "generation_config": {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["f"]}}},
        },
    ),
    (
        INTERACTIONS,
        {
            "input": [{"role": "user", "content": "x"}],
            "response_format": {"type": "text", "mime_type": "application/json", "schema": SCHEMA},
            "generation_config": {"tool_choice": "auto"},
        },
    ),
    (INTERACTIONS, {"input": text("a")}),
]
"""Bodies that are answered, with every kind of object that an API tells apart."""
KINDS = (
    "type",
    "role",
    "mode",
    "execution",
    "ttl",
    "behavior",
    "tool_choice",
    "function_call",
    "cache_control",
    "input",
)
"""Fields that say what an object is, or how it is meant; `input` of a call says with what."""
FREE = ("parameters", "schema", "input_schema", "args", "response", "arguments")
"""Fields of free form."""
VALUES: list[Any] = [5, 1.5, True, "x", ["x"], {"a": 1}, None]
PYTHON = re.compile(r"NoneType|\b(dict|str|int|list|bool|float|tuple|None|True|False)\b|<class|Traceback")


def json_kind(value: Any) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value in a body, by its place, but those below a field of free form."""
    if at:
        yield at, value
    if at and at[-1] in FREE:
        return
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in entries:
        yield from places(each, (*at, key))


def changed(body: dict[str, Any], at: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    made: Any = json.loads(json.dumps(body))  # what two places share is copied for each
    node = made
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return made  # type: ignore[no-any-return]


def written(at: tuple[str | int, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in at)[1:]


def taken(api: str, at: tuple[str | int, ...]) -> tuple[str, ...]:
    """The kinds of JSON values that the field of a kind is declared with, beside the one that it has."""
    if at == ("input",):
        return ("string", "array") + (("object",) if api == INTERACTIONS else ())
    if at == ("response_format", "type") and api == INTERACTIONS:
        return ("array",)  # of a schema, which stands here in the earlier revision
    if at[-1] in ("tool_choice", "function_call"):
        return ("string", "object") if api != MESSAGES else ("object",)
    return ()


def wrong(api: str, at: tuple[str | int, ...], value: Any) -> list[Any]:
    """Values of other kinds. Null stands for a field that was left out, in many places, and has no rule of its own."""
    right = (json_kind(value), "null", *taken(api, at))
    return [each for each in VALUES if json_kind(each) not in right]


def param_of(api: str, error: dict[str, Any]) -> str:
    if api == GEMINI:
        return str(error["details"][0]["fieldViolations"][0]["field"])
    quoted = re.search(r"'([^']*)'", error["message"])
    return str(error.get("param") or (quoted.group(1) if quoted else error["message"].split(":")[0]))


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, RESPONSES, MESSAGES, GEMINI, INTERACTIONS])
async def test_what_says_the_kind_of_an_object_is_refused_as_every_other_value_of_a_wrong_type(api: str) -> None:
    async with in_process() as house:
        for body in (body for path, body in BODIES if path == api):
            whole: dict[str, Any] = {"model": "sim", **body} if api != GEMINI else body
            if api == MESSAGES:
                whole["max_tokens"] = 2000
            answer = await house.http.post(api, json=whole)
            assert answer.status_code == 200, answer.text
            for at, value in places(body):
                if at[-1] not in KINDS or (at[-1] == "input" and json_kind(value) == "string"):
                    continue
                for given in wrong(api, at, value):
                    answer = await house.http.post(api, json=changed(whole, at, given))
                    assert answer.status_code == 400, (at, given)
                    error = answer.json()["error"]
                    assert "Invalid type for" in error["message"], (at, given, error)
                    assert "expected" in error["message"]
                    assert param_of(api, error).startswith(written(at)), (at, given, error)


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, RESPONSES, MESSAGES, GEMINI, INTERACTIONS])
async def test_no_error_calls_a_value_by_its_name_in_python(api: str) -> None:
    async with in_process() as house:
        refused = 0
        for body in (body for path, body in BODIES if path == api):
            whole: dict[str, Any] = {"model": "sim", **body} if api != GEMINI else body
            if api == MESSAGES:
                whole["max_tokens"] = 2000
            for order, (at, _) in enumerate(places(body)):
                for given in (None, (5, True, [], {})[order % 4]):
                    answer = await house.http.post(api, json=changed(whole, at, given))
                    assert answer.status_code in (200, 400), (at, given, answer.text)
                    if answer.status_code == 400:
                        refused += 1
                        assert not PYTHON.search(answer.json()["error"]["message"]), (at, given, answer.text)
        assert refused > 5


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("given", [5, 1.5, True, ["x"], {"a": 1}, None])
async def test_an_entry_of_a_map_is_named_with_its_name(given: Any) -> None:
    maps: list[tuple[str, dict[str, Any], str]] = [
        (CHAT, {"messages": [USER], "metadata": {"good": "x", "bad": given}}, "metadata.bad"),
        (CHAT, {"messages": [USER], "logit_bias": {"5": 1, "7": "x"}}, "logit_bias.7"),
        (RESPONSES, {"input": "x", "metadata": {"good": "x", "bad": given}}, "metadata.bad"),
        (RESPONSES, {"input": "x", "unknown": None, "metadata": {"good": "x", "bad": given}}, "metadata.bad"),
        (GEMINI, {"contents": [{"parts": [{"text": "x"}]}], "labels": {"good": "x", "bad": given}}, "labels.bad"),
        (INTERACTIONS, {"input": "x", "labels": {"good": "x", "bad": given}}, "labels.bad"),
    ]
    async with in_process() as house:
        for api, body, place in maps:
            answer = await house.http.post(api, json={"model": "sim", **body} if api != GEMINI else body)
            assert answer.status_code == 400
            assert param_of(api, answer.json()["error"]) == place, answer.text


@pytest.mark.parametrize("given", ["x", [1], 5, None, True])
async def test_the_input_of_a_call_is_an_object(given: Any) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": given}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    turns = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    async with in_process() as house:
        answer = await house.http.post(MESSAGES, json={"model": "sim", "max_tokens": 5, "messages": turns})
    assert answer.status_code == 400
    assert "messages[1].content[0].input" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "config",
    [
        {"maxOutputTokens": "5", "topK": "40", "seed": "1", "candidateCount": "1", "temperature": "0.5", "topP": "0.9"},
        {"maxOutputTokens": "1e1"},
        {"maxOutputTokens": "5.0"},
        {"thinkingConfig": {"thinkingBudget": "100"}},
        {"responseLogprobs": True, "logprobs": "2"},
        {
            "responseMimeType": "application/json",
            "responseSchema": {
                "type": "OBJECT",
                "properties": {"a": {"type": "INTEGER", "minimum": "1", "maximum": "3"}},
            },
        },
    ],
)
async def test_numbers_of_google_may_be_texts(config: dict[str, Any]) -> None:
    async with in_process() as house:
        body = {"contents": [{"parts": [{"text": "x"}]}], "generationConfig": config}
        answer = await house.http.post(GEMINI, json=body)
        for wrong in ("x", "1,5", "0x5", " 5", "NaN", "5" * 40):
            refused = await house.http.post(GEMINI, json={**body, "generationConfig": {"maxOutputTokens": wrong}})
            assert refused.status_code == 400
    assert answer.status_code == 200, answer.text
