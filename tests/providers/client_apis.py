"""The five public APIs as clients use them: how each asks a case, and where its answers have text, calls and reasoning."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from smg_core.sse import SseReader

__all__ = ["APIS", "PDF", "PICTURE", "SCHEMA", "ClientApi"]

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PICTURE = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
        "0000000049454e44ae426082"
    )
).decode()
PDF = base64.b64encode(b"%PDF-1.4 a test").decode()
WEATHER = {"name": "get_weather", "description": "The weather of a city", "parameters": SCHEMA}
Json = dict[str, Any]


@attrs.frozen
class ClientApi:
    """One API. `fields` are what a case adds to the body of a plain question; `text`, `calls` and `finish` read a whole answer;
    `piece` the text of one event of a stream. `again` is the body that answers the calls of an answer, reasoning and all."""

    path: str
    plain: Callable[[], Json]
    fields: Mapping[str, Json]
    text: Callable[[Json], str]
    calls: Callable[[Json], list[tuple[str, Json]]]
    finish: Callable[[Json], str]
    piece: Callable[[Json], str]
    again: Callable[[Json, Json], Json]
    error: Callable[[Json], str]
    streams_at: str = ""

    def body(self, case: str) -> Json:
        """The body that asks for `case`."""
        plain = self.plain()
        extra = json.loads(json.dumps(self.fields.get(case, {})))
        return {**plain, **extra}

    def asked(self, body: Json, *, stream: bool) -> tuple[str, Json]:
        """The path and the body of a request for a stream, or for a whole answer."""
        if not stream:
            return self.path, body
        return (self.streams_at, body) if self.streams_at else (self.path, {**body, "stream": True})

    def pieces(self, content: bytes) -> str:
        """The text of a stream."""
        data = [each.data for each in SseReader().feed(content) if each.data != "[DONE]"]
        return "".join(self.piece(event) for event in map(json.loads, data) if "error" not in event)


# -------------------------------------------------------------------------------------------------------------- Chat


def _chat_again(body: Json, answer: Json) -> Json:
    message = answer["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": each["id"], "content": "sunny"} for each in message["tool_calls"]]
    return {**body, "messages": [*body["messages"], message, *results]}


_CHAT_TOOLS = [{"type": "function", "function": WEATHER}]
_CHAT = ClientApi(
    "/v1/chat/completions",
    lambda: {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    {
        "tool": {"tools": _CHAT_TOOLS},
        "forced": {"tools": _CHAT_TOOLS, "tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        "parallel": {"tools": _CHAT_TOOLS},
        "json": {
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
        },
        "picture": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
                    ],
                }
            ]
        },
        "pdf": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {
                            "type": "file",
                            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
                        },
                    ],
                }
            ]
        },
        "thinking": {"reasoning_effort": "medium"},
        "thinking_tool": {"reasoning_effort": "medium", "tools": _CHAT_TOOLS},
    },
    lambda answer: answer["choices"][0]["message"]["content"] or "",
    lambda answer: [
        (each["function"]["name"], json.loads(each["function"]["arguments"]))
        for each in answer["choices"][0]["message"].get("tool_calls") or ()
    ],
    lambda answer: answer["choices"][0]["finish_reason"],
    lambda event: "".join(each["delta"].get("content") or "" for each in event.get("choices", ())),
    _chat_again,
    lambda body: body["error"]["message"],
)

# ---------------------------------------------------------------------------------------------------------- Messages


def _messages_again(body: Json, answer: Json) -> Json:
    results = [
        {"type": "tool_result", "tool_use_id": each["id"], "content": "sunny"}
        for each in answer["content"]
        if each["type"] == "tool_use"
    ]
    turns = [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": results}]
    return {**body, "messages": [*body["messages"], *turns]}


_MESSAGES_TOOLS = [{"name": "get_weather", "description": WEATHER["description"], "input_schema": SCHEMA}]
_MESSAGES = ClientApi(
    "/v1/messages",
    lambda: {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]},
    {
        "tool": {"tools": _MESSAGES_TOOLS},
        "forced": {"tools": _MESSAGES_TOOLS, "tool_choice": {"type": "tool", "name": "get_weather"}},
        "parallel": {"tools": _MESSAGES_TOOLS},
        "json": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        "picture": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
                    ],
                }
            ]
        },
        "pdf": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                        },
                        {"type": "text", "text": "What is this?"},
                    ],
                }
            ]
        },
        "thinking": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        "thinking_tool": {"thinking": {"type": "enabled", "budget_tokens": 2048}, "tools": _MESSAGES_TOOLS},
    },
    lambda answer: "".join(each.get("text", "") for each in answer["content"]),
    lambda answer: [(each["name"], each["input"]) for each in answer["content"] if each["type"] == "tool_use"],
    lambda answer: answer["stop_reason"],
    lambda event: event.get("delta", {}).get("text") or "",
    _messages_again,
    lambda body: body["error"]["message"],
)

# --------------------------------------------------------------------------------------------------------- Responses


def _responses_again(body: Json, answer: Json) -> Json:
    asked = [{"type": "message", "role": "user", "content": body["input"]}]
    results = [
        {"type": "function_call_output", "call_id": each["call_id"], "output": "sunny"}
        for each in answer["output"]
        if each["type"] == "function_call"
    ]
    return {**body, "input": [*asked, *answer["output"], *results]}


_RESPONSES_TOOLS = [{"type": "function", **WEATHER}]
_SEALED = {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "medium"}}
_RESPONSES = ClientApi(
    "/v1/responses",
    lambda: {"model": "m", "input": "Hi", "store": False},
    {
        "tool": {"tools": _RESPONSES_TOOLS},
        "forced": {"tools": _RESPONSES_TOOLS, "tool_choice": {"type": "function", "name": "get_weather"}},
        "parallel": {"tools": _RESPONSES_TOOLS},
        "json": {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}}},
        "picture": {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is this?"},
                        {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
                    ],
                }
            ]
        },
        "pdf": {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is this?"},
                        {
                            "type": "input_file",
                            "filename": "a.pdf",
                            "file_data": f"data:application/pdf;base64,{PDF}",
                        },
                    ],
                }
            ]
        },
        "thinking": _SEALED,
        "thinking_tool": {**_SEALED, "tools": _RESPONSES_TOOLS},
    },
    lambda answer: "".join(
        part.get("text", "") for each in answer["output"] if each["type"] == "message" for part in each["content"]
    ),
    lambda answer: [
        (each["name"], json.loads(each["arguments"])) for each in answer["output"] if each["type"] == "function_call"
    ],
    lambda answer: (answer["incomplete_details"] or {}).get("reason") or answer["status"],
    lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
    _responses_again,
    lambda body: body["error"]["message"],
)

# --------------------------------------------------------------------------------------------------- generateContent


def _gemini_parts(answer: Json) -> list[Json]:
    return answer["candidates"][0].get("content", {}).get("parts", [])


def _gemini_again(body: Json, answer: Json) -> Json:
    results = [
        {"functionResponse": {"name": each["functionCall"]["name"], "response": {"output": "sunny"}}}
        | ({"id": each["functionCall"]["id"]} if False else {})
        for each in _gemini_parts(answer)
        if "functionCall" in each
    ]
    for result, part in zip(results, [each for each in _gemini_parts(answer) if "functionCall" in each], strict=True):
        if "id" in part["functionCall"]:
            result["functionResponse"]["id"] = part["functionCall"]["id"]
    turns = [answer["candidates"][0]["content"], {"role": "user", "parts": results}]
    return {**body, "contents": [*body["contents"], *turns]}


_GEMINI_TOOLS = [{"functionDeclarations": [WEATHER]}]
_THINKING = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 2048, "includeThoughts": True}}}
_GEMINI = ClientApi(
    "/v1beta/models/m:generateContent",
    lambda: {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    {
        "tool": {"tools": _GEMINI_TOOLS},
        "forced": {
            "tools": _GEMINI_TOOLS,
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}},
        },
        "parallel": {"tools": _GEMINI_TOOLS},
        "json": {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
        "picture": {
            "contents": [
                {
                    "role": "user",
                    "parts": [{"text": "What is this?"}, {"inlineData": {"mimeType": "image/png", "data": PICTURE}}],
                }
            ]
        },
        "pdf": {
            "contents": [
                {
                    "role": "user",
                    "parts": [{"text": "What is this?"}, {"inlineData": {"mimeType": "application/pdf", "data": PDF}}],
                }
            ]
        },
        "thinking": _THINKING,
        "thinking_tool": {**_THINKING, "tools": _GEMINI_TOOLS},
    },
    lambda answer: "".join(each.get("text", "") for each in _gemini_parts(answer) if not each.get("thought")),
    lambda answer: [
        (each["functionCall"]["name"], each["functionCall"]["args"])
        for each in _gemini_parts(answer)
        if "functionCall" in each
    ],
    lambda answer: answer["candidates"][0]["finishReason"],
    lambda event: "".join(
        part.get("text", "")
        for each in event["candidates"]
        for part in each.get("content", {}).get("parts", ())
        if not part.get("thought")
    ),
    _gemini_again,
    lambda body: body["error"]["message"],
    "/v1beta/models/m:streamGenerateContent?alt=sse",
)

# ------------------------------------------------------------------------------------------------------ Interactions


def _interactions_again(body: Json, answer: Json) -> Json:
    results = [
        {"type": "function_result", "call_id": each["id"], "name": each["name"], "result": "sunny"}
        for each in answer["outputs"]
        if each["type"] == "function_call"
    ]
    turns = [
        {"role": "user", "content": body["input"]},
        {"role": "model", "content": answer["outputs"]},
        {"role": "user", "content": results},
    ]
    return {**body, "input": turns}


_INTERACTIONS_TOOLS = [{"type": "function", **WEATHER}]
_LEVEL = {"generation_config": {"thinking_level": "medium", "thinking_summaries": "auto"}}
_INTERACTIONS = ClientApi(
    "/v1beta/interactions",
    lambda: {"model": "m", "input": "Hi", "store": False},
    {
        "tool": {"tools": _INTERACTIONS_TOOLS},
        "forced": {
            "tools": _INTERACTIONS_TOOLS,
            "generation_config": {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}}},
        },
        "parallel": {"tools": _INTERACTIONS_TOOLS},
        "json": {"response_format": SCHEMA, "response_mime_type": "application/json"},
        "picture": {
            "input": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "data": PICTURE, "mime_type": "image/png"},
            ]
        },
        "pdf": {
            "input": [
                {"type": "text", "text": "What is this?"},
                {"type": "document", "data": PDF, "mime_type": "application/pdf"},
            ]
        },
        "thinking": _LEVEL,
        "thinking_tool": {**_LEVEL, "tools": _INTERACTIONS_TOOLS},
    },
    lambda answer: "".join(each.get("text", "") for each in answer["outputs"] if each["type"] == "text"),
    lambda answer: [(each["name"], each["arguments"]) for each in answer["outputs"] if each["type"] == "function_call"],
    lambda answer: answer["status"],
    lambda event: event.get("delta", {}).get("text") or "" if event.get("delta", {}).get("type") == "text" else "",
    _interactions_again,
    lambda body: body["error"]["message"],
)

APIS: Mapping[str, ClientApi] = {
    "Chat Completions": _CHAT,
    "Messages": _MESSAGES,
    "Responses": _RESPONSES,
    "generateContent": _GEMINI,
    "Interactions": _INTERACTIONS,
}
"""Every API by its name."""
