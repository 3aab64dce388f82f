"""CPU of one streamed answer before each kind of outside provider, beside one before a plain server of Chat Completions.

    python bench/providers.py                       200 answers of 200 pieces for each kind, seven rounds in turn
    python bench/providers.py --kinds bedrock azure

The providers are one other process that says the same answer in each format; CPU is that of this process, which has the gateway
and a client that reads the stream without looking at it. The best round counts, since other processes only add. The goal is 1.15
of the server of Chat Completions.
"""

import argparse
import asyncio
import base64
import json
import os
import struct
import subprocess
import sys
import time
import zlib
from typing import Any

import attrs

from smg_core import Config, Gateway
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.workers.settings import WorkersConfig
from smg_core.workers.worker import WorkerSpec

MODEL = "claude-opus-4-6"
SERVER = """import asyncio, base64, sys
answers = {path: base64.b64decode(data) for path, data in (each.split(" ") for each in sys.stdin.read().split("\\n") if each)}
async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode()
            lines = head.lower().split("\\r\\n")
            length = next((line.partition(":")[2] for line in lines if line.startswith("content-length")), "0")
            await reader.readexactly(int(length))
            name = next((each for each in answers if each in head.split(" ")[1]), None)
            if name is None:
                body = b'{"object":"list","data":[{"id":"MODEL","max_input_tokens":200000,"max_tokens":64000}],"id":"MODEL"}'
                writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\n")
                writer.write(b"content-length: %d\\r\\n\\r\\n" % len(body))
                writer.write(body)
                continue
            kind, _, body = answers[name].partition(b"\\n")
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-type: %b\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n" % kind)
            for piece in body.split(b"<cut>"):
                if piece:
                    writer.write(b"%x\\r\\n%b\\r\\n" % (len(piece), piece))
                    await writer.drain()
                    await asyncio.sleep(0)
            writer.write(b"0\\r\\n\\r\\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
""".replace("MODEL", MODEL)


def sse(events: list[dict[str, Any] | str], *, named: bool = False) -> bytes:
    """Events of a stream, with marks between those that come apart."""
    texts = [each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in events]
    names = [f"event: {each['type']}\n" if named and isinstance(each, dict) else "" for each in events]
    return b"<cut>".join(f"{name}data: {text}\n\n".encode() for name, text in zip(names, texts, strict=True))


def chat(pieces: int) -> bytes:
    """An answer of Chat Completions."""
    plain = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def chunk(delta: dict[str, Any], end: str | None = None) -> dict[str, Any]:
        return {**plain, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}

    counts = {"prompt_tokens": 9, "completion_tokens": pieces, "total_tokens": 9 + pieces}
    last = {**plain, "choices": [], "usage": counts}
    said: list[dict[str, Any] | str] = [chunk({"content": " word"}) for _ in range(pieces)]
    return sse([*said, chunk({}, "stop"), last, "[DONE]"])


def messages(pieces: int) -> list[dict[str, Any]]:
    """The events of an answer of Messages."""
    counts = {"input_tokens": 9, "output_tokens": 1}
    return [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "usage": counts}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}}
            for _ in range(pieces)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": pieces}},
        {"type": "message_stop"},
    ]


def frame(kind: str, body: dict[str, Any]) -> bytes:
    """One event of AWS's event stream."""
    payload = json.dumps(body, separators=(",", ":")).encode()
    named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    block = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in named.items()
    )
    prelude = struct.pack(">II", 16 + len(block) + len(payload), len(block))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + block + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def converse(pieces: int) -> bytes:
    """An answer of Converse."""
    delta = {"contentBlockIndex": 0, "delta": {"text": " word"}, "p": "abcdefghijklm"}
    usage = {"inputTokens": 9, "outputTokens": pieces, "totalTokens": 9 + pieces}
    return b"<cut>".join(
        [
            frame("messageStart", {"role": "assistant"}),
            *(frame("contentBlockDelta", delta) for _ in range(pieces)),
            frame("contentBlockStop", {"contentBlockIndex": 0}),
            frame("messageStop", {"stopReason": "end_turn"}),
            frame("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}),
        ]
    )


def invoked(pieces: int) -> bytes:
    """An answer of Messages by InvokeModel."""
    events = (json.dumps(each, separators=(",", ":")).encode() for each in messages(pieces))
    return b"<cut>".join(frame("chunk", {"bytes": base64.b64encode(each).decode(), "p": "abc"}) for each in events)


def answers(pieces: int) -> dict[str, bytes]:
    """What the providers say, by a part of the path that they are asked at."""
    stream, framed = b"text/event-stream\n", b"application/vnd.amazon.eventstream\n"
    return {
        "/chat/completions": stream + chat(pieces),
        "/messages": stream + sse(list(messages(pieces)), named=True),
        "/converse-stream": framed + converse(pieces),
        "/invoke-with-response-stream": framed + invoked(pieces),
    }


KINDS = {
    "openai-strict": CredentialSpec(key="k"),
    "azure": CredentialSpec(key="k"),
    "mistral": CredentialSpec(key="k"),
    "anthropic": CredentialSpec(key="k"),
    "bedrock": CredentialSpec(kind="aws"),
    "bedrock-anthropic": CredentialSpec(kind="aws"),
}
FIRST = "openai-strict"


@attrs.define
class Kind:
    """The best round of one kind, in CPU seconds of an answer."""

    name: str
    best: float = 1e9


async def measure(kind: Kind, port: int, count: int) -> None:
    """One round."""
    config = Config(workers=WorkersConfig(health_interval_s=3600.0))
    chosen = KINDS[kind.name]
    credential = None if kind.name == FIRST else chosen
    url = f"http://127.0.0.1:{port}"
    spec = WorkerSpec(url, dialect=kind.name, model=MODEL, credential=credential, region="eu-west-1")
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "max_completion_tokens": 999,
    }
    async with Gateway([spec], config=config) as gateway:
        await gateway.ready()
        import httpx

        async with gateway.http_client(httpx, base_url="http://gateway", timeout=60) as http:
            for warm in (True, False):
                begun = time.process_time()
                for _ in range(20 if warm else count):
                    answer = await http.post("/v1/chat/completions", json=body)
                    if answer.status_code != 200 or b"[DONE]" not in answer.content:
                        raise SystemExit(f"{kind.name}: {answer.status_code} {answer.text[:300]}")
            kind.best = min(kind.best, (time.process_time() - begun) / count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--pieces", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "an-example"}
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if server.stdin is None or server.stdout is None:
        raise SystemExit("the providers have no pipes")
    try:
        said = "\n".join(f"{path} {base64.b64encode(data).decode()}" for path, data in answers(asked.pieces).items())
        server.stdin.write(said)
        server.stdin.close()
        port = int(server.stdout.readline())
        kinds = [Kind(name) for name in dict.fromkeys([FIRST, *asked.kinds])]
        for _ in range(asked.rounds):
            for kind in kinds:
                asyncio.run(measure(kind, port, asked.count))
    finally:
        server.kill()
        server.wait()
    for kind in kinds:
        print(f"{kind.name:>18}: {kind.best * 1e6:8.0f} us an answer, {kind.best / kinds[0].best:5.2f} of the first")


if __name__ == "__main__":
    main()
