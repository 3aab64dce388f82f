"""What the fakes say to who asks for a whole answer: the same as in a stream, put together as one object."""

import json
from typing import Any

__all__ = ["asks_for_whole", "whole_of"]

Json = dict[str, Any]


def asks_for_whole(path: str, body: bytes) -> bool:
    """Whether a request for an answer asks for no stream."""
    return "stream" not in path and json.loads(body).get("stream") is not True


def whole_of(stream: bytes) -> bytes:
    """The answer that a stream of any of the formats tells."""
    events = [json.loads(each[6:]) for each in stream.decode().split("\n") if each.startswith("data: {")]
    kinds = {"chat.completion.chunk": _chat, "message_start": _messages, "response.created": _responses}
    first = events[0]
    whole = kinds.get(first.get("object") or first.get("type"), _gemini)(events)
    return json.dumps(whole, separators=(",", ":")).encode()


def _responses(events: list[Json]) -> Json:
    found: Json = events[-1]["response"]
    return found


def _messages(events: list[Json]) -> Json:
    message: Json = events[0]["message"]
    for event in events:
        match event["type"]:
            case "content_block_start":
                message["content"].append({**event["content_block"], "_": ""})
            case "content_block_delta":
                block, delta = message["content"][-1], event["delta"]
                for name in ("text", "thinking", "signature"):
                    block |= {name: block.get(name, "") + delta[name]} if name in delta else {}
                block["_"] += delta.get("partial_json", "")
                if "citation" in delta:
                    block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case "content_block_stop":
                block = message["content"][-1]
                said = block.pop("_")
                block |= {"input": json.loads(said)} if said else {}
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event.get("usage") or {}
    return message


def _gemini(events: list[Json]) -> Json:
    found: Json = {"candidates": []}
    for event in events:
        for each in event.get("candidates") or ():
            known = [one for one in found["candidates"] if one["index"] == each["index"]]
            if not known:
                found["candidates"].append({**each, "content": {"role": "model", "parts": []}})
            candidate = (known or found["candidates"])[-1 if not known else 0]
            candidate["content"]["parts"] += (each.get("content") or {}).get("parts", ())
            candidate |= {name: value for name, value in each.items() if name != "content"}
        found |= {name: value for name, value in event.items() if name != "candidates"}
    return found


def _chat(events: list[Json]) -> Json:
    found: Json = {**events[0], "object": "chat.completion", "choices": []}
    for event in events:
        for each in event.get("choices") or ():
            known = [one for one in found["choices"] if one["index"] == each["index"]]
            if not known:
                found["choices"].append({"index": each["index"], "message": {"role": "assistant", "content": None}})
            choice = (known or found["choices"])[-1 if not known else 0]
            _add(choice["message"], each["delta"])
            choice |= {"finish_reason": each["finish_reason"]}
        found |= {"usage": event["usage"]} if event.get("usage") else {}
    return found


def _add(message: Json, delta: Json) -> None:
    for name in ("content", "reasoning_content", "reasoning", "refusal"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for piece in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        if piece.get("id"):
            calls.append({**piece, "function": {**piece["function"]}})
        else:
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
