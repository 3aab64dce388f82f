"""Attacks on HTTP itself: framing, browsers, logs, and connections that are kept for nothing.

Each returns what it saw as one line of the page, and raises Breach where its bound was not held.
"""

import contextlib
import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any

import attrs
from attacked import CHAT, Stage, answer_of, chat, connected, exchange, get, hold, post, request, wait_for

__all__ = ["WIRE", "Scene"]

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAARAAAAAAAIAAAAA")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def upgrade(stage: Stage) -> str:
    """h2c, whole and with its body in a packet of its own; a body that is a request; websocket."""
    served = stage.gateway()
    whole = post(served.port, chat(), *UPGRADE, "connection: close")
    hold(whole.status == 200, f"h2c with a body: {whole.status}")
    for headers in (UPGRADE, ("connection: upgrade", "upgrade: websocket")):
        with connected(served.port, request(CHAT, SMUGGLED, headers).removesuffix(SMUGGLED)) as client:
            time.sleep(0.3)  # so that the body comes in a packet of its own
            client.sendall(SMUGGLED)
            client.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: client.recv(65536), b""))
        hold(received.count(b"HTTP/1.1 ") == 1, "a body was read as a request")
        hold(answer_of(received, 0).status == 400, f"a body that is no JSON: {received[:60]!r}")
    return "200 with the body intact; a body that is a request is never read as one"


def framing(stage: Stage) -> str:
    """No host, two, a coding by HTTP/1.0, codings that nobody knows, a body in brotli."""
    served = stage.gateway()
    plain = request(CHAT, chat())
    cases = {
        "no Host": (plain.replace(b"host: localhost\r\n", b""), 400),
        "two Hosts": (plain.replace(b"host:", b"host: x\r\nhost:"), 400),
        "Transfer-Encoding by HTTP/1.0": (plain.replace(b"HTTP/1.1", b"HTTP/1.0\r\ntransfer-encoding: chunked"), 400),
        "gzip, chunked": (plain.replace(b"content-length", b"transfer-encoding: gzip, chunked\r\nx"), 501),
        "a length and chunks": (plain.replace(b"content-type", b"transfer-encoding: chunked\r\ncontent-type"), 400),
        "br": (plain.replace(b"content-type", b"content-encoding: br\r\ncontent-type"), 415),
    }
    for name, (sent, status) in cases.items():
        answer = exchange(served.port, sent)
        hold(answer.status == status, f"{name}: {answer.status}")
    return "; ".join(f"{name}: {status}" for name, (_, status) in cases.items())


def half_closed(stage: Stage) -> str:
    """A client that shuts its sending side before its answer has begun."""
    served = stage.gateway()
    with connected(served.port, request(CHAT, chat(max_tokens=8))) as client:
        client.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    hold(b" 200 OK" in received and b"chat.completion" in received, f"no answer: {received[:80]!r}")
    return "200 and the whole answer"


def heads(stage: Stage) -> str:
    """Date, request ids and what browsers may read, also of small answers; a long path is not repeated."""
    served = stage.gateway("--server-cors-origins", "https://a.example")
    for path in ("/v1/models", "/health", "/nowhere"):
        answer = get(served.port, path, "origin: https://a.example", "x-request-id: trace-1")
        hold(answer.header("date"), f"{path} has no date")
        hold(answer.header("x-request-id") == "trace-1", f"{path} has no request id")
        hold("x-request-id" in answer.header("access-control-expose-headers"), f"{path} exposes no request id")
    long = get(served.port, "/" + "a" * 60_000)
    hold(long.status == 404 and len(long.body) < 1000, f"a path of 60 kB: {len(long.body)} bytes")
    return f"all there; a path of 60 kB costs an answer of {len(long.body)} bytes"


def browsers(stage: Stage) -> str:
    """Simple requests of a foreign page, and a name that was made to point here."""
    served = stage.gateway()
    kinds = {
        kind: post(served.port, chat(), f"content-type: {kind}").status
        for kind in ("text/plain", "", "multipart/form-data")
    }
    rebound = post(served.port, chat(), "host: attacker.example", "origin: https://evil.example").status
    hold(set(kinds.values()) == {415}, f"content types: {kinds}")
    hold(rebound == 403, f"a foreign host: {rebound}")
    return f"text/plain, none and forms: 415; a foreign Host: {rebound}"


def forged_logs(stage: Stage) -> str:
    """Line breaks, escapes and NUL wherever a client's words come into the log."""
    forged = "x\r\n2026-11-22 ERROR smg.server: forged\x1b[31m\u2028\x00\x85"
    for form in ("text", "json"):
        served = stage.gateway("--log-format", form)
        before = len(served.logged())
        post(served.port, chat(model=forged))
        get(served.port, "/%0d%0aERROR%20forged%1b%5b31m%c2%85")
        post(served.port, chat(), "x-request-id: forged\x1b[31m")
        exchange(served.port, b"GET /\x1b[31mforged HTTP/1.1\r\nhost: x\r\n\r\n")
        lines = served.wait_until_logged("/v1/chat/completions", before, times=2).splitlines(keepends=False)
        hold(not [line for line in lines if CONTROL.search(line)], "a control character is in the log")
        hold(not [line for line in lines if "forged" in line and "smg.access" not in line], "a line was forged")
    return "no line and no control character of a client's, as text and as JSON"


def every_route(stage: Stage) -> str:
    """A line for each request, whatever it was, with the status that its client saw."""
    served = stage.gateway("--server-parse-routes")
    parse = json.dumps({"text": "x", "parser": "hermes"}).encode()
    sent = {
        "/v1/models": request("/v1/models", None),
        "/nowhere": request("/nowhere", None),
        "/parse/reasoning": request("/parse/reasoning", parse),
        "/v1/chat/completions": request(CHAT, b"{", ("x-request-id: my-trace",)),
        "/liveness": b"GET /liveness HTTP/1.1\r\n\r\n",
    }
    before = len(served.logged())
    statuses = {path: exchange(served.port, asked).status for path, asked in sent.items()}
    lines = served.wait_until_logged("smg.access", before, times=len(sent)).splitlines()
    for path, status in statuses.items():
        found = [line for line in lines if f"path={path} " in line and f"status={status} " in line]
        hold(found and "peer=127.0.0.1" in found[0], f"no line of {path} with {status}: {lines}")
    hold(any("client_request_id=my-trace" in line for line in lines), "the client's request id is not in the log")
    return f"{len(statuses)} of {len(statuses)}: " + ", ".join(f"{path} {status}" for path, status in statuses.items())


def connections(stage: Stage) -> str:
    """More connections than are taken, by a client that says nothing on them."""
    served = stage.gateway("--server-connections", "200")
    idle = [socket.create_connection(("127.0.0.1", served.port), timeout=30) for _ in range(200)]
    try:
        served.wait_until_logged("connections are open")
        over = get(served.port, "/liveness")
        hold(over.status == 503, f"one over the bound: {over.status}")
    finally:
        for each in idle:
            each.close()
    wait_for(lambda: get(served.port, "/liveness").status == 200, "connections that were closed are still counted")
    return "a warning in the log, then 503; 200 once the others have gone"


def silent(stage: Stage) -> str:
    """Half a head; a body that drips."""
    served = stage.gateway("--server-header-timeout-s", "1")
    with connected(served.port, b"POST /v1/chat/completions HTTP/1.1\r\nhost: loc") as client:
        began = time.monotonic()
        head = answer_of(client.recv(65536), 0).status
        waited = time.monotonic() - began
    with connected(served.port, request(CHAT, chat()).replace(b"content-length: ", b"content-length: 1")) as client:
        began, received = time.monotonic(), b""
        client.settimeout(0.2)
        while not received and time.monotonic() - began < 20:
            with contextlib.suppress(ConnectionError):
                client.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                received = client.recv(65536)
        drip, dripped = answer_of(received, 0).status, time.monotonic() - began
    hold((head, drip) == (408, 408), f"half a head: {head}; a body that drips: {drip}")
    return f"408 after {waited:.1f} s and {dripped:.1f} s, where the setting was 1 s"


def unread(stage: Stage) -> str:
    """An answer that its client does not take."""
    served = stage.gateway("--timeouts-write-s", "1", "--limits-response-buffer-bytes", "4096")
    before = len(served.logged())
    asked = request(CHAT, chat(stream=True, max_tokens=32_000, ignore_eos=True, logprobs=True, top_logprobs=20))
    with connected(served.port, asked, small=True):
        # lines are written by a thread: that of an earlier request may come now
        served.wait_until_logged("outcome=client_gone", before, seconds=30)
    return "the connection is closed and its engine free; where the setting was 1 s"


def format_violation(stage: Stage) -> str:
    """A JSON format, which the engine is held to, with a stop string in the middle of the JSON."""
    served = stage.gateway()
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "named", "schema": schema}}
    answer = post(served.port, chat("hi", max_tokens=30, stop=["t"], response_format=wanted))
    hold(answer.status == 200 and answer.header("x-smg-format-violation"), f"{answer.status}: {answer.body[:200]!r}")
    return "200 with the text; `x-smg-format-violation` says what is wrong"


def allowed_tools(stage: Stage) -> str:
    """A tool that is not allowed, in mode auto: the prompt is that of a request that never named it."""
    served = stage.gateway()
    tools = [{"type": "function", "function": {"name": name}} for name in ("get_time", "get_weather")]
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "get_time"}}]}
    narrowed = post(
        served.port,
        chat("Use get_weather", tools=tools, tool_choice={"type": "allowed_tools", "allowed_tools": allowed}),
    )
    alone = post(served.port, chat("Use get_weather", tools=tools[:1]))
    counts = [json.loads(answer.body)["usage"]["prompt_tokens"] for answer in (narrowed, alone)]
    hold(counts[0] == counts[1], f"prompts of {counts} tokens")
    return f"both prompts have {counts[0]} tokens"


def custom_tools(stage: Stage) -> str:
    """A tool whose input is free text, forced."""
    served = stage.gateway()
    answer = post(
        served.port, chat(max_tokens=40, tools=[{"type": "custom", "custom": {"name": "note"}}], tool_choice="required")
    )
    hold(answer.status == 200, f"{answer.status}: {answer.body[:200]!r}")
    message = json.loads(answer.body)["choices"][0]["message"]
    hold(message["content"] is None, f"content beside a forced call: {message['content']!r}")
    hold(message["tool_calls"][0]["type"] == "custom", f"called as {message['tool_calls'][0]}")
    return "200 with `custom.input`, content null"


def extras(stage: Stage) -> str:
    """Fields that clients of other servers send, each at a value that changes nothing, and one that would."""
    neutral: dict[str, Any] = {
        "best_of": 1,
        "use_beam_search": False,
        "length_penalty": 1.0,
        "add_special_tokens": False,
    }
    strict, lenient = stage.gateway(), stage.gateway("--compat", "vllm")
    refused = {name: post(strict.port, chat(**{name: value})).status for name, value in neutral.items()}
    taken = {name: post(lenient.port, chat(**{name: value})).status for name, value in neutral.items()}
    beam = post(lenient.port, chat(use_beam_search=True)).status
    hold(set(refused.values()) == {400}, f"without the setting: {refused}")
    hold(set(taken.values()) == {200}, f"with the setting: {taken}")
    hold(beam == 400, f"a value that changes the answer: {beam}")
    return "400 without the setting, 200 with it; 400 where the value is not neutral"


def parser_header(stage: Stage) -> str:
    """A client that chooses how its answer is read."""
    status = post(stage.gateway().port, chat(), "x-smg-parser: none").status
    hold(status == 400, f"taken without the setting: {status}")
    return "400 without the setting"


def too_many_tokens(stage: Stage) -> str:
    """More tokens than any prompt would leave room for."""
    error = post(stage.gateway().port, chat(max_tokens=100_000)).error
    hold(error["param"] == "max_tokens" and error["code"], f"{error}")
    return f"400, param {error['param']}, code {error['code']}"


def addresses(stage: Stage) -> str:
    """The explain header, where it is on, and off as it is by default."""
    shown = post(stage.gateway("--observability-explain").port, chat(), "x-smg-explain: 1").header("x-smg-explain")
    hidden = post(stage.gateway().port, chat(), "x-smg-explain: 1").header("x-smg-explain")
    hold(shown and not re.search(r"127\.0\.0\.1|grpc://", shown), f"explained as {shown}")
    hold(not hidden, "explained without the setting")
    return f"worker {json.loads(shown).get('worker', '')!r}; nothing without the setting"


def leaving(stage: Stage) -> str:
    """Requests that are under way when the gateway is told to leave, and a drain that is too short for them."""
    slow, _ = stage.simulate("--decode-rate", "20")
    served = stage.gateway("--server-drain-s", "1", engines=(slow,))
    with connected(served.port, request(CHAT, chat(stream=True, max_tokens=400, ignore_eos=True))) as client:
        client.recv(100)
        served.process.terminate()
        received = b"".join(iter(lambda: client.recv(65536), b""))
    status = served.process.wait(20)
    hold(b'"error"' in received, "the stream ended without a word")
    hold(not re.search(r" ERROR | CRITICAL |Traceback", served.logged()), "an ERROR in the log")
    hold(status == 0, f"exit status {status}")
    return "one error in band, exit status 0, nothing at ERROR"


@attrs.frozen
class Scene:
    """An attack that is told in a line."""

    key: str
    name: str
    bound: str
    act: Callable[[Stage], str]

    def play(self, stage: Stage) -> tuple[str, ...]:
        """The line. Raises Breach."""
        return (self.act(stage),)


WIRE = (
    Scene("H1", "an `Upgrade` that is not taken, with a body", "ignored as RFC 9110 7.8 says", upgrade),
    Scene("L2", "heads that two servers would read in two ways", "400, 415 or 501", framing),
    Scene("L3", "a client that has shut its sending side", "gets its answer", half_closed),
    Scene("L8", "heads of small answers", "Date, request id and CORS on every route", heads),
    Scene("M18", "a page in a browser", "`server.any_content_type`, `server.allowed_hosts`", browsers),
    Scene("M7", "control characters in names, paths and headers", "no line of the log is a client's", forged_logs),
    Scene("M5, M6", "one request to every kind of route", "`server.access_log` has a line for each", every_route),
    Scene("L13", "more connections than are taken", "`server.connections`", connections),
    Scene("L13", "half a head, and a body that drips", "`server.header_timeout_s`, `server.body_bytes_per_s`", silent),
    Scene("L13", "an answer that nobody reads", "`timeouts.write_s`", unread),
    Scene("L15", "SIGTERM under streams that take too long", "`server.drain_s`", leaving),
    Scene("M8", "`allowed_tools` in mode auto", "the tools are narrowed in every mode", allowed_tools),
    Scene("M9, L4", "a custom tool, forced", "called with free text", custom_tools),
    Scene("M17", "fields of vLLM at neutral values", "`server.compat`", extras),
    Scene("L9", "`x-smg-parser`", "`model.parser_header`", parser_header),
    Scene("L14", "more tokens than the context has", "the model's context", too_many_tokens),
    Scene("M10", "JSON mode and a stop string", "`structured.on_violation`", format_violation),
    Scene("M13", "`x-smg-explain`", "`observability.explain`; workers by a label", addresses),
)
