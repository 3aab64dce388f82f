"""Attacks that make a gateway work: bodies, texts, schemas and nested JSON that cost more to read than to send.

Each is sent to two processes: one whose event loop has a timer, which shows time and memory, and one on asyncio's loop, which
shows what each callback took. Figures are held to `CALLBACK`, `LATE`, `DURING` and `AFTER`.
"""

import gzip
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from attacked import CHAT, MIB, Answer, Served, Stage, chat, exchange, hold, post, request

__all__ = ["AFTER", "ATTEMPTS", "CALLBACK", "DURING", "LATE", "WORK", "Work"]

CALLBACK = 0.050  # CPU seconds of one callback of the event loop
LATE = 0.100  # seconds that a timer of the event loop is late, on a machine that does nothing else
DURING, AFTER = 200.0, 30.0  # MiB over idle, while an attack is answered and once it has been
ATTEMPTS = 3  # at the most, while a time is over its bound: what others do on the machine is no property of the gateway
IDLE = 0.3  # seconds that the watch is left alone before an attack and after it
SETTINGS = ("--server-parse-routes",)

Send = Callable[[int], Answer]


@attrs.frozen
class Work:
    """`says`: what is in the answer, which shows that the attack has come to where its bound stands. `chat`: the gateway is
    before a server of Chat Completions, which takes the request as it is."""

    key: str
    name: str
    bound: str
    send: Send
    status: int
    says: str = ""
    settings: tuple[str, ...] = SETTINGS
    chat: bool = False

    def play(self, stage: Stage) -> tuple[str, ...]:
        """The figures of a row: bytes sent, answer, seconds, callback, late, memory. Raises Breach."""
        counted = stage.gateway(*self.settings, watch="callbacks", chat=self.chat)
        timed = stage.gateway(*self.settings, chat=self.chat)
        callback = self._callback(counted)
        seconds, late, during, after = self._timed(timed)
        for _ in range(ATTEMPTS - 1):
            if callback > CALLBACK:
                callback = min(callback, self._callback(counted))
            if late > LATE:
                again = self._timed(timed)
                seconds, late, during, after = (
                    min(seconds, again[0]),
                    min(late, again[1]),
                    *map(max, (during, after), again[2:]),
                )
        hold(callback <= CALLBACK, f"a callback of {callback * 1000:.0f} ms")
        hold(late <= LATE, f"the timer was {late * 1000:.0f} ms late")
        hold(during <= DURING, f"{during:.0f} MiB over idle")
        hold(after <= AFTER, f"{after:.0f} MiB over idle once it was over")
        times = f"{seconds:.2f} s", f"{callback * 1000:.0f} ms", f"{max(late, 0) * 1000:.0f} ms"
        return str(self.status), *times, f"{max(during, 0):.0f} MiB", f"{max(after, 0):.0f} MiB"

    def _asked(self, port: int) -> Answer:
        answer = self.send(port)
        hold(answer.status == self.status, f"status {answer.status}: {answer.body[:300]!r}")
        hold(self.says.encode() in answer.body, f"the answer says nothing of {self.says!r}: {answer.body[:300]!r}")
        return answer

    def _callback(self, served: Served) -> float:
        time.sleep(IDLE)
        served.reset()
        self._asked(served.port)
        time.sleep(IDLE)
        return served.callback

    def _timed(self, served: Served) -> tuple[float, float, float, float]:
        """Seconds, lateness, MiB over idle at most and in the end."""
        time.sleep(IDLE)
        idle = served.resident()
        served.reset()
        seconds = self._asked(served.port).seconds
        time.sleep(IDLE)
        late, most = served.late, served.resident("VmHWM")
        return seconds, late, most - idle, served.settled(idle + AFTER) - idle


def sent(body: bytes, *headers: str, path: str = CHAT) -> Send:
    return lambda port: post(port, body, *headers, path=path)


def listed(field: str, item: bytes, count: int) -> bytes:
    """A chat request in which `field` is a list of so many items, as JSON that no encoder has to make."""
    return b'{"model":"sim","messages":[{"role":"user","content":"a"}],"max_tokens":2,"%b":{"a":[%b]}}' % (
        field.encode(),
        b",".join([item] * count),
    )


def messages(item: bytes, count: int) -> bytes:
    return b'{"model":"sim","max_tokens":2,"messages":[%b]}' % b",".join([item] * count)


def entries(field: str, count: int) -> bytes:
    return chat()[:-1] + b',"%b":{%b}}' % (
        field.encode(),
        b",".join(b'"%d":1' % number for number in range(count)),
    )


def schema(value: Mapping[str, Any]) -> bytes:
    return chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": value}})


def properties(count: int, pattern: str | None = None) -> dict[str, Any]:
    """A schema of so many properties; each has a pattern of its own if one is given."""
    kind = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            f"p{n}": kind if pattern is None else kind | {"pattern": f"{pattern}x{n}"} for n in range(count)
        },
    }


def called(arguments: str) -> bytes:
    """A request whose history holds a call with these arguments."""
    function = {"name": "f", "arguments": arguments}
    call = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]}
    asked = [{"role": "user", "content": "Hi"}, call, {"role": "tool", "tool_call_id": "a", "content": "x"}]
    return chat(messages=asked)


def opaque(data: str) -> bytes:
    thought = {"role": "assistant", "content": "x", "opaque_blocks": [{"type": "thinking", "data": data}]}
    return chat(messages=[thought, {"role": "user", "content": "x"}])


def parse(text: str, parser: str = "pythonic") -> bytes:
    tool = {"function": {"name": "f", "parameters": {"properties": {"a": {"type": "object"}}}}}
    return json.dumps({"text": text, "parser": parser, "tools": [tool]}).encode()


def doubled(depth: int) -> dict[str, Any]:
    """A schema that is 2 to the power of `depth` when its references are written out."""
    steps: dict[str, Any] = {
        f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(depth)
    }
    return {"$defs": {**steps, f"a{depth}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def in_chunks(body: bytes, size: int) -> Send:
    """The body in chunks of `size` bytes."""
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    frames = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = request(CHAT, b"", ("transfer-encoding: chunked",)).replace(b"content-length: 0\r\n", b"")
    return lambda port: exchange(port, head + frames)


def beside_two(body: bytes, innocent: bytes) -> Send:
    """Two large requests, and once both are under way a short one, whose answer is returned."""

    def send(port: int) -> Answer:
        large = [threading.Thread(target=post, args=(port, body)) for _ in range(2)]
        for each in large:
            each.start()
        answer = post(port, innocent)
        for each in large:
            each.join()
        return answer

    return send


def half_sent(bodies: int, size: int) -> Send:
    """So many bodies of `size` bytes less the last at once, then one request whole, whose answer is returned."""
    head = request(CHAT, b"", (f"content-length: {size}",))

    def send(port: int) -> Answer:
        piece, briefly = head + b" " * (size - 1), {"seconds": 4.0}
        started = [threading.Thread(target=exchange, args=(port, piece), kwargs=briefly) for _ in range(bodies)]
        for each in started:
            each.start()
        for each in started:
            each.join()
        return post(port, chat())

    return send


RESPONSES, MESSAGES, COMPLETIONS = "/v1/responses", "/v1/messages", "/v1/completions"
CONVERSATIONS, GENERATE = "/v1/conversations", "/v1beta/models/sim:generateContent"
ASKED: Mapping[str, dict[str, Any]] = {
    RESPONSES: {"model": "sim", "max_output_tokens": 2, "input": "Hi"},
    MESSAGES: {"model": "sim", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]},
    COMPLETIONS: {"model": "sim", "max_tokens": 1, "prompt": "Hi"},
    GENERATE: {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 2}},
    CONVERSATIONS: {},
    "/tokenize": {"model": "sim"},
    "/detokenize": {"model": "sim"},
}
USER = {"type": "message", "role": "user", "content": "Hi"}


def asked(path: str, **fields: Any) -> Send:
    """A request to an API, with these fields."""
    return sent(json.dumps(ASKED[path] | fields).encode(), path=path)


def numbers(path: str, count: int) -> Send:
    """A request to an API with so many numbers in a field that it does not have."""
    body = json.dumps(ASKED[path] or {"metadata": {}}).encode()
    return sent(b'%b,"x":[%b]}' % (body[:-1], b",".join([b"1"] * count)), path=path)


def nested(depth: int) -> Any:
    """An object that is so many levels deep."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def contents(*turns: tuple[str, dict[str, Any], int]) -> Send:
    """A generateContent of turns: the role, a part, and how often the turn has it."""
    made = [{"role": role, "parts": [part] * count} for role, part, count in turns]
    return asked(GENERATE, contents=made)


BODY = "`limits.body_bytes`, counted while it is read"
VALUES = "`limits.json_values`, counted in the bytes"
DEPTH = "`limits.json_depth`, before it is parsed"
CONTEXT = "the model's context x its longest token, before it is rendered"
SCHEMA = "`limits.schema_bytes`, before it is compiled"
LANES = "`tokenizer.encode_threads`, of which large work leaves one free"
LETTERS = 15_000_000
LINEAR = "`limits.json_values`; every walk over turns is linear"
CHOICES = "`limits.completion_choices`"
WRITTEN = "long requests are written off the event loop"

WORK = (
    Work(
        "H2",
        "20 million numbers as a template argument",
        BODY,
        sent(listed("chat_template_kwargs", b"1", 20_000_000)),
        413,
    ),
    Work("H2", "8 million numbers", VALUES, sent(listed("chat_template_kwargs", b"1", 8_000_000)), 400, "JSON values"),
    Work("H2", "as many numbers as are taken", VALUES, sent(listed("chat_template_kwargs", b"1", 99_000)), 200),
    Work("H2", "700,000 short keys", VALUES, sent(entries("chat_template_kwargs", 700_000)), 400, "JSON values"),
    Work("H2", "a million biased tokens", VALUES, sent(entries("logit_bias", 1_000_000)), 400, "JSON values"),
    Work(
        "H2",
        "400,000 text parts",
        VALUES,
        sent(chat(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}] * 400_000}])),
        400,
        "JSON values",
    ),
    Work(
        "H2",
        "400,000 messages with an unknown field",
        VALUES,
        sent(messages(b'{"role":"user","content":"a","x":1}', 400_000)),
        400,
        "JSON values",
    ),
    Work(
        "H2",
        "10,000 messages of 1 kB",
        CONTEXT,
        sent(messages(b'{"role":"user","content":"%b"}' % (b"word " * 200), 10_000)),
        400,
        "maximum context length",
    ),
    Work(
        "H2",
        "16 MB in chunks of 16 bytes",
        CONTEXT,
        in_chunks(chat("a" * 4_000_000), 16),
        400,
        "maximum context length",
    ),
    Work(
        "H2",
        "a gzip of 16 kB that inflates to 16 MB",
        CONTEXT,
        sent(gzip.compress(chat("a" * LETTERS)), "content-encoding: gzip"),
        400,
        "maximum context length",
    ),
    Work(
        "H2",
        "a gzip that inflates over the bound",
        BODY,
        sent(gzip.compress(bytes(1 << 27)), "content-encoding: gzip"),
        413,
    ),
    Work(
        "H2",
        "20 bodies of 16 MB that lack their last byte",
        "`limits.pending_body_bytes`, of all bodies together",
        half_sent(20, 16 * MIB),
        200,
    ),
    Work(
        "H3",
        "1.5 million characters for `/parse/function_call`",
        "`limits.parse_characters`; off without `server.parse_routes`",
        sent(parse("[f(a=(" * 250_000), path="/parse/function_call"),
        400,
        "text",
    ),
    Work(
        "H3",
        "as many characters as are taken",
        "`limits.parse_characters`; off without `server.parse_routes`",
        sent(parse("[f(a=(" * 43_000), path="/parse/function_call"),
        200,
    ),
    Work("H4", "a prompt of 15 million letters", CONTEXT, sent(chat("a" * LETTERS)), 400, "maximum context length"),
    Work("H4", "a prompt of 60 million letters", BODY, sent(chat("a" * 60_000_000)), 413),
    Work("H4", "10 million `<`", CONTEXT, sent(chat("<" * 10_000_000)), 400, "maximum context length"),
    Work(
        "H4",
        "a million spelled-out `<\\|im_end\\|>`",
        CONTEXT,
        sent(chat("<|im_end|>" * 1_000_000)),
        400,
        "maximum context length",
    ),
    Work(
        "H4",
        "a document of 15 million letters",
        CONTEXT,
        sent(chat(documents=[{"title": "a", "text": "b" * LETTERS}])),
        400,
        "maximum context length",
    ),
    Work(
        "H4",
        "500,000 letters, nearly as many as the context could take",
        CONTEXT,
        sent(chat("a b" * 170_000)),
        400,
        "maximum context length",
    ),
    Work(
        "H4", "a short prompt beside two of 8 MB", LANES, beside_two(chat("<" * 8_000_000), chat("word " * 8_000)), 200
    ),
    Work(
        "M3",
        "arguments nested a million levels deep",
        DEPTH,
        sent(called('{"a":' * 1_000_000 + "1" + "}" * 1_000_000)),
        400,
        "levels deep",
    ),
    Work(
        "M3",
        "arguments nested 330 levels deep",
        DEPTH,
        sent(called('{"a":' * 330 + "1" + "}" * 330)),
        400,
        "levels deep",
    ),
    Work("M3", "an opaque block nested 2,000 levels deep", DEPTH, sent(opaque("[" * 2000)), 400, "levels deep"),
    Work("M4", "10 million spaces", CONTEXT, sent(chat(" " * 10_000_000)), 400, "maximum context length"),
    Work("H2", "a schema of 100,000 properties", VALUES, sent(schema(properties(100_000))), 400, "JSON values"),
    Work("H2", "a schema of 6,000 properties", SCHEMA, sent(schema(properties(6_000))), 200),
    Work("H2", "a schema of 200 patterns of 300 `\\w`", SCHEMA, sent(schema(properties(200, r"\w{300}"))), 200),
    Work("H2", "a schema whose references double 30 times", SCHEMA, sent(schema(doubled(30))), 200),
    Work("H2", "a regular expression of 5 MB", SCHEMA, sent(chat(guided_regex="a" * 5_000_000)), 400, "guided_regex"),
    Work(
        "H2",
        "256 tools of 200 properties",
        VALUES,
        sent(
            chat(
                tools=[
                    {"type": "function", "function": {"name": f"f{n}", "parameters": properties(200)}}
                    for n in range(256)
                ]
            )
        ),
        400,
        "JSON values",
    ),
    Work(
        "M11",
        "as many tokens with 20 logprobs each as are taken, whole",
        "`limits.answer_bytes`",
        sent(chat(n=8, max_tokens=1200, ignore_eos=True, logprobs=True, top_logprobs=20)),
        200,
    ),
    Work(
        "M11",
        "64,000 tokens with 20 logprobs each, whole",
        "`limits.answer_bytes`, before a worker is asked",
        sent(chat(n=32, max_tokens=2000, ignore_eos=True, logprobs=True, top_logprobs=20)),
        400,
        "answer_too_large",
    ),
    *(
        Work("H2", f"8 million numbers for `{path}`", VALUES, numbers(path, 7_900_000), 400, "JSON values")
        for path in ASKED
    ),
    Work(
        "H2",
        "45,000 texts of 300 bytes in one turn of the model, generateContent",
        LINEAR,
        contents(("user", {"text": "a"}, 1), ("model", {"text": "b" * 300}, 45_000), ("user", {"text": "a"}, 1)),
        400,
        "exceeds the maximum",
    ),
    Work(
        "H2",
        "7,000 calls and 7,000 results that answer none, generateContent",
        LINEAR,
        contents(
            ("model", {"functionCall": {"name": "f"}}, 7_000),
            ("user", {"functionResponse": {"name": "g", "response": {}}}, 7_000),
        ),
        400,
        "exceeds the maximum",
    ),
    Work(
        "H2",
        "9,000 calls that were cut off, Responses",
        LINEAR,
        asked(
            RESPONSES,
            input=[
                USER,
                *(
                    {"type": "function_call", "call_id": f"{n}", "name": "f", "arguments": "{}", "status": "incomplete"}
                    for n in range(9_000)
                ),
                USER,
            ],
        ),
        200,
    ),
    Work(
        "H2",
        "10,000 references to items, Responses",
        "`limits.messages`",
        asked(RESPONSES, input=[{"type": "item_reference", "id": f"x{n}"} for n in range(10_000)]),
        400,
        "not found",
    ),
    Work(
        "H2",
        "9,900 sealed thoughts that do not open, Responses",
        "`limits.messages`",
        asked(
            RESPONSES,
            input=[USER, *[{"type": "reasoning", "summary": [], "encrypted_content": "A" * 1000}] * 9_900, USER],
        ),
        200,
    ),
    Work(
        "H2",
        "a replay of 15 MB that is kept and not read, Responses",
        "`limits.body_bytes`; what is kept is written off the event loop",
        asked(RESPONSES, input=[{"type": "web_search_call", "x": "a" * LETTERS}, USER]),
        200,
    ),
    Work(
        "H2",
        "an item of 15 MB for a conversation",
        "`limits.body_bytes`; what is kept is written off the event loop",
        asked(CONVERSATIONS, items=[{"type": "web_search_call", "x": "a" * LETTERS}]),
        200,
    ),
    Work(
        "H2",
        "10,000 messages of one role, Messages",
        LINEAR,
        asked(MESSAGES, messages=[{"role": "user", "content": "a"}] * 10_000),
        200,
    ),
    Work(
        "H2",
        "16,000 calls without results and with long ids, Messages",
        "an error names 16",
        asked(
            MESSAGES,
            messages=[
                {"role": "user", "content": "a"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": f"{n:0300}", "name": "f", "input": {}} for n in range(16_000)
                    ],
                },
                {"role": "user", "content": "a"},
            ],
        ),
        400,
        "were found without",
    ),
    Work(
        "M3",
        "a block of an unknown type 400 levels deep, Messages",
        DEPTH,
        asked(MESSAGES, messages=[{"role": "user", "content": [{"type": "zzz", "x": nested(400)}]}]),
        400,
        "nested too deeply",
    ),
    Work(
        "M3",
        "a search's arguments 400 levels deep, Responses",
        DEPTH,
        asked(RESPONSES, input=[{"type": "tool_search_call", "arguments": nested(400)}]),
        400,
        "nested too deeply",
    ),
    Work("H2", "10,000 prompts, Completions", CHOICES, asked(COMPLETIONS, prompt=["a"] * 10_000), 400, "too many"),
    Work(
        "H2", "1,024 prompts, Completions", CHOICES, asked(COMPLETIONS, prompt=[f"hello {n}" for n in range(1024)]), 200
    ),
    Work("H4", "1,000 texts, tokenize", CHOICES, asked("/tokenize", prompt=[f"hello {n}" for n in range(1000)]), 200),
    Work("H2", "99,000 ids, detokenize", VALUES, asked("/detokenize", tokens=[1] * 99_000), 200),
    Work(
        "H4",
        "a prompt of 15 million letters, for a server of Chat Completions",
        WRITTEN,
        sent(chat("a" * LETTERS)),
        400,
        chat=True,
    ),
    Work(
        "H2",
        "9,900 messages, for a server of Chat Completions",
        WRITTEN,
        sent(messages(b'{"role":"user","content":"a"}', 9_900)),
        400,
        chat=True,
    ),
    Work(
        "H2",
        "32,000 text parts, for a server of Chat Completions",
        WRITTEN,
        sent(chat(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}] * 32_000}])),
        200,
        chat=True,
    ),
)
