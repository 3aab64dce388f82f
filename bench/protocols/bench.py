"""What the chat wire costs: decoding a small and a large request, encoding one text delta, reading it back.

Usage: python bench/protocols/bench.py [--repeat N]. Prints the least time of N runs in microseconds, which on a busy machine is
the figure least wrong.
"""

import argparse
import json
import timeit
from collections.abc import Callable

import msgspec

from smg_core.apis.chat.decode import decode_chat
from smg_core.apis.chat.encode import ChatStreamEncoder, ChatWholeEncoder
from smg_core.events import Done, Finished, TextDelta, TokenLogprob, Usage
from smg_core.sse import SseReader
from smg_core.wire.base import Incoming

SMALL = {
    "model": "sim",
    "messages": [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is the capital of France?"},
    ],
    "stream": True,
    "max_tokens": 100,
    "temperature": 0.7,
}


def large() -> dict[str, object]:
    """About 48 KB: 28 messages and 8 tools of 8 parameters each."""
    parameter = {"type": "string", "description": "the value of it " * 4, "enum": ["a", "b"]}
    schema = {"type": "object", "properties": {f"p{n}": parameter for n in range(8)}, "required": ["p1"]}
    tools = [
        {
            "type": "function",
            "function": {"name": f"tool_{n}", "description": "does a thing " * 20, "parameters": schema},
        }
        for n in range(8)
    ]
    turns = [{"role": ("user", "assistant")[n % 2], "content": "some words of text " * 65} for n in range(27)]
    return {**SMALL, "messages": [{"role": "system", "content": "s" * 1000}, *turns], "tools": tools}


def measure(name: str, call: Callable[[], object], repeat: int) -> None:
    timer = timeit.Timer(call)
    count = max(1, int(0.02 / max(min(timer.repeat(3, 5)) / 5, 1e-7)))
    print(f"{name:<44} {min(timer.repeat(repeat, count)) / count * 1e6:8.2f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    small, big = json.dumps(SMALL).encode(), json.dumps(large()).encode()
    plain = msgspec.json.Decoder().decode
    measure("decode a small chat", lambda: decode_chat(Incoming(small, request_id="r")), repeat)
    measure("  parse alone, untyped", lambda: plain(small), repeat)
    measure(f"decode a chat of {len(big) / 1000:.0f} KB", lambda: decode_chat(Incoming(big, request_id="r")), repeat)
    measure("  parse alone, untyped", lambda: plain(big), repeat)

    request = decode_chat(Incoming(small, request_id="r"))
    encoder = ChatStreamEncoder(request, 1, "chatcmpl-1")
    word, foreign = [TextDelta(0, " hello")], [TextDelta(0, " héllo")]
    scored = [TextDelta(0, " hello", (TokenLogprob(" hello", b" hello", -0.5),))]
    frame = encoder.encode([TextDelta(0, "open")]) and encoder.encode(word)
    reader = SseReader()
    measure("encode one text delta", lambda: encoder.encode(word), repeat)
    measure("encode one text delta beyond ASCII", lambda: encoder.encode(foreign), repeat)
    measure("encode one text delta with logprobs", lambda: encoder.encode(scored), repeat)
    measure("a new encoder and its first chunk", lambda: ChatStreamEncoder(request, 1, "c").encode(word), repeat)
    measure("read one frame back", lambda: reader.feed(frame), repeat)

    answer = [word[0]] * 100 + [Finished(0, "stop"), Usage(10, 100), Done()]

    def whole() -> bytes:
        writer = ChatWholeEncoder(request, 1, "chatcmpl-1")
        writer.add(answer)
        return writer.body()

    measure("a whole answer of 100 deltas", whole, repeat)


if __name__ == "__main__":
    main()
