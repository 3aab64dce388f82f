"""The contents of a whole answer, and whether its fields agree with each other. Pure. Every reader takes an object of the right
shape."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import msgspec

from smg_simulator.conform.shapes import shape_faults

__all__ = [
    "READERS",
    "AnswerContents",
    "chat_usage_faults",
    "gemini_usage_faults",
    "generated_contents",
    "is_json_object",
]


@attrs.frozen
class AnswerContents:
    """The contents of an answer, whatever its API: its text, the arguments of its calls as JSON, the number of its logprobs, and
    whether it was cut off."""

    text: str = ""
    calls: tuple[str, ...] = ()
    logprobs: int = 0
    cut: bool = False


def is_json_object(text: str) -> bool:
    """Whether `text` is the JSON of an object."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False


def chat_usage_faults(usage: Mapping[str, Any]) -> Iterator[str]:
    """Whether the counts of a Chat answer add up."""
    if usage["prompt_tokens"] + usage["completion_tokens"] != usage["total_tokens"]:
        yield "usage.total_tokens is not the sum of prompt_tokens and completion_tokens"
    if not usage["prompt_tokens"]:
        yield "usage.prompt_tokens is 0"


def _chat(answer: dict[str, Any], faults: list[str]) -> AnswerContents:
    faults += chat_usage_faults(answer["usage"])
    choice = answer["choices"][0]
    calls = choice["message"].get("tool_calls") or []
    if choice["finish_reason"] == "tool_calls" and not calls:
        faults.append("finish_reason is tool_calls without a call")
    logprobs = (choice.get("logprobs") or {}).get("content") or []
    arguments = tuple(call["function"]["arguments"] for call in calls)
    return AnswerContents(
        choice["message"]["content"] or "", arguments, len(logprobs), choice["finish_reason"] == "length"
    )


def _response(answer: dict[str, Any], faults: list[str]) -> AnswerContents:
    usage = answer["usage"]
    if usage["input_tokens"] + usage["output_tokens"] != usage["total_tokens"]:
        faults.append("usage.total_tokens is not the sum of input_tokens and output_tokens")
    if not usage["input_tokens"]:
        faults.append("usage.input_tokens is 0")
    if answer["status"] not in ("completed", "incomplete"):
        faults.append(f"the response has the status {answer['status']}")
    contents = AnswerContents(cut=answer["status"] == "incomplete")
    for item in answer["output"]:
        wrong = shape_faults(f"responses {item['type']}", item)
        faults += wrong
        if item["type"] == "function_call" and not wrong:
            contents = attrs.evolve(contents, calls=(*contents.calls, item["arguments"]))
        for part in item.get("content") or [] if item["type"] == "message" and not wrong else []:
            part_faults = shape_faults(f"responses {part['type']}", part)
            faults += part_faults
            if part["type"] == "output_text" and not part_faults:
                logprobs = contents.logprobs + len(part.get("logprobs") or [])
                contents = attrs.evolve(contents, text=contents.text + part["text"], logprobs=logprobs)
    return contents


def _message(answer: dict[str, Any], faults: list[str]) -> AnswerContents:
    contents = AnswerContents(cut=answer["stop_reason"] == "max_tokens")
    for block in answer["content"]:
        wrong = shape_faults(f"messages {block['type']}", block)
        faults += wrong
        if block["type"] == "text" and not wrong:
            contents = attrs.evolve(contents, text=contents.text + block["text"])
        if block["type"] == "tool_use" and not wrong:
            contents = attrs.evolve(contents, calls=(*contents.calls, msgspec.json.encode(block["input"]).decode()))
    usage = answer["usage"]
    if not usage["input_tokens"] + (usage.get("cache_read_input_tokens") or 0):
        faults.append("usage has no input tokens")
    if (answer["stop_reason"] == "tool_use") != bool(contents.calls) and not contents.cut:
        faults.append(f"stop_reason is {answer['stop_reason']} with {len(contents.calls)} calls")
    return contents


def _completion(answer: dict[str, Any], faults: list[str]) -> AnswerContents:
    faults += chat_usage_faults(answer["usage"])
    choice = answer["choices"][0]
    logprobs = choice.get("logprobs") or {}
    return AnswerContents(
        choice["text"], (), len(logprobs.get("token_logprobs") or []), choice["finish_reason"] == "length"
    )


def _generated(answer: dict[str, Any], faults: list[str]) -> AnswerContents:
    faults += gemini_usage_faults(answer["usageMetadata"])
    return generated_contents(answer["candidates"][0])


def generated_contents(candidate: Mapping[str, Any]) -> AnswerContents:
    """The contents of one candidate of generateContent, or of a chunk of it."""
    parts = (candidate.get("content") or {}).get("parts") or []
    calls = [
        msgspec.json.encode(part["functionCall"].get("args", {})).decode() for part in parts if "functionCall" in part
    ]
    text = "".join([part.get("text") or "" for part in parts if not part.get("thought")])
    chosen = (candidate.get("logprobsResult") or {}).get("chosenCandidates") or []
    return AnswerContents(text, tuple(calls), len(chosen), candidate.get("finishReason") == "MAX_TOKENS")


def gemini_usage_faults(usage: Mapping[str, Any]) -> Iterator[str]:
    """Whether the counts of an answer of generateContent add up."""
    parts = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")
    if sum(usage.get(name) or 0 for name in parts) != usage["totalTokenCount"]:
        yield "usageMetadata.totalTokenCount is not the sum of its parts"
    if not usage["promptTokenCount"]:
        yield "usageMetadata.promptTokenCount is 0"


def _interaction(answer: dict[str, Any], faults: list[str]) -> AnswerContents:
    usage = answer["usage"]
    parts = ("total_input_tokens", "total_output_tokens", "total_thought_tokens", "total_tool_use_tokens")
    if sum(usage.get(name) or 0 for name in parts) != usage["total_tokens"]:
        faults.append("usage.total_tokens is not the sum of its parts")
    if not usage["total_input_tokens"]:
        faults.append("usage.total_input_tokens is 0")
    texts, calls = list[str](), list[str]()
    for step in answer["steps"]:
        wrong = shape_faults(f"interactions {step['type']}", step)
        faults += wrong
        if step["type"] == "function_call" and not wrong:
            calls.append(msgspec.json.encode(step["arguments"]).decode())
        elif step["type"] == "model_output" and not wrong:
            texts += [part.get("text") or "" for part in step["content"]]
    status = answer["status"]
    if (status == "requires_action") != bool(calls) and status != "incomplete":
        faults.append(f"the status is {status} with {len(calls)} calls")
    return AnswerContents("".join(texts), tuple(calls), 0, status == "incomplete")


READERS: Mapping[str, tuple[str, Callable[[dict[str, Any], list[str]], AnswerContents]]] = {
    "chat": ("chat", _chat),
    "responses": ("ended response", _response),
    "messages": ("message", _message),
    "completions": ("completion", _completion),
    "generate_content": ("generated content", _generated),
    "interactions": ("interaction", _interaction),
}
"""Each API with the shape of its whole answers, and with what reads one of that shape and adds what is wrong to a list."""
