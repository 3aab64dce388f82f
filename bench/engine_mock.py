"""An engine that costs as little as possible: the vLLM dialect, the same text for every request, as fast as asked.

    python bench/engine_mock.py PORT FOLDER [--batch N] [--trace FILE] [--http PORT] [--plain] [--chunks]

A Generate call streams `max_tokens` ids, N a message. One that asks for no stream gets all ids in the closing message, as
vLLM's servicers answer it; with `--chunks` it gets them in pieces all the same. The request's `seed`, or its `top_k`, is the
pause between two messages in microseconds, so one engine serves paced and flooded loads at once. FOLDER holds the tokenizer
whose ids are sent; they decode to prose with the characters that are hard to cut (umlauts, CJK, emoji). A gateway rightly
keeps half a character back, which looks like a pause; with `--plain` every token is text by itself.

With `--trace`, every finished call appends `seed longest_gap duration` to FILE (seconds): what the engine itself took,
for the benchmarks that ask what a gateway adds. With `--http`, the same tokens are also served over HTTP: as chat completions,
for peers that cannot speak gRPC, and as completions with token ids, which are written as vLLM writes them.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TextIO

import grpc
import uvicorn
import uvloop
from smg_grpc_proto.generated import vllm_engine_pb2 as pb
from smg_grpc_proto.generated import vllm_engine_pb2_grpc as rpc
from tokenizers import Tokenizer

PROSE = (
    "A harbour pilot never owns the ship. She comes aboard, reads the wind, says where to turn, and leaves "
    'again before the quay. Her log says {"depth": 11.4, "berth": "Övelgönne"}, then 港に着いた, then 🚢. '
) * 4


PLAIN = "The tide table hangs by the door. It is wrong by nine minutes, and everyone knows which nine. " * 8


class Engine(rpc.VllmEngineServicer):  # type: ignore[misc]
    """What a gateway asks of one worker, answered without a model."""

    def __init__(
        self, folder: Path, batch: int, trace: TextIO | None, prose: str = PROSE, *, chunks: bool = False
    ) -> None:
        self.folder = str(folder)
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.ids: list[int] = tokenizer.encode(prose, add_special_tokens=False).ids
        self.words = [tokenizer.decode([each]) for each in self.ids]
        self.vocabulary = tokenizer.get_vocab_size()
        self.batch = batch
        self.chunks = chunks
        self.trace = trace

    def take(self, wanted: int) -> list[int]:
        return (self.ids * (wanted // len(self.ids) + 1))[:wanted]

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the contract's name
        asked = request.sampling_params
        wanted, pause = asked.max_tokens or 100, (asked.seed or asked.top_k) / 1e6
        prompt, ids = len(request.tokenized.input_ids), self.take(wanted)
        began = before = time.monotonic()
        longest = 0.0
        if not request.stream and not self.chunks:
            await asyncio.sleep(pause * wanted)
        for start in range(0, wanted, self.batch) if request.stream or self.chunks else ():
            now = time.monotonic()
            longest, before = max(longest, now - before), now
            piece = ids[start : start + self.batch]
            chunk = pb.GenerateStreamChunk(token_ids=piece, prompt_tokens=prompt, completion_tokens=start + len(piece))
            yield pb.GenerateResponse(chunk=chunk)
            if pause:
                await asyncio.sleep(pause)
        if self.trace:
            self.trace.write(f"{request.sampling_params.seed} {longest:.6f} {time.monotonic() - began:.6f}\n")
        done = pb.GenerateComplete(
            output_ids=ids, finish_reason="length", prompt_tokens=prompt, completion_tokens=wanted
        )
        yield pb.GenerateResponse(complete=done)

    async def HealthCheck(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.HealthCheckResponse(healthy=True, message="ok")

    async def Abort(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.AbortResponse()

    async def GetModelInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.GetModelInfoResponse(
            model_path=self.folder,
            tokenizer_path=self.folder,
            served_model_name="mock",
            is_generation=True,
            max_context_length=131_072,
            max_req_input_len=131_072,
            vocab_size=self.vocabulary,
            model_type="qwen2",
            architectures=["Qwen2ForCausalLM"],
            eos_token_ids=[2],
        )

    async def GetServerInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.GetServerInfoResponse(server_type="vllm-grpc")

    async def GetLoads(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.GetLoadsResponse(dp_rank_count=1, loads=[pb.SchedulerLoad()])


class HttpSide:
    """The same tokens over HTTP (ASGI): chat completion chunks, and completions of token ids."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if scope["method"] == "GET":
            await self.told(send, self.models())
            return
        asked = json.loads(body or b"{}")
        wanted, pause = asked.get("max_tokens") or 100, (asked.get("seed") or 0) / 1e6
        if "prompt" in asked:
            await self.stream(send, self.completion(asked["prompt"], wanted), pause)
        elif asked.get("stream"):
            counted = (asked.get("stream_options") or {}).get("include_usage", False)
            await self.stream(send, self.chat(wanted, counted=counted), pause)
        else:
            await self.whole(send, self.words(wanted), pause)

    def words(self, wanted: int) -> list[str]:
        return (self.engine.words * (wanted // len(self.engine.words) + 1))[:wanted]

    def models(self) -> dict[str, object]:
        """What `GET /v1/models` tells; `GET /health` gets it too, of which the status alone is looked at."""
        model = {"id": "mock", "object": "model", "root": self.engine.folder, "max_model_len": 131_072}
        return {"object": "list", "data": [model]}

    def chat(self, wanted: int, *, counted: bool) -> Iterator[dict[str, object]]:
        """The chunks of a chat completion. The prompt's tokens are a fixed number: nobody has made ids of it here."""
        head = {"id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
        for word in self.words(wanted):
            yield {**head, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
        if counted:
            yield {**head, "choices": [], "usage": usage(100, wanted)}

    def completion(self, prompt: list[int], wanted: int) -> Iterator[dict[str, object]]:
        """The chunks of a completion with token ids, of which the first repeats the ids of the prompt, as vLLM's does."""
        head = {"id": "cmpl-mock", "object": "text_completion", "created": 1, "model": "mock"}
        repeated: list[int] | None = prompt
        for order, (token, word) in enumerate(zip(self.engine.take(wanted), self.words(wanted), strict=True), 1):
            ended = "length" if order == wanted else None
            choice = {"index": 0, "text": word, "logprobs": None, "finish_reason": ended, "stop_reason": None}
            yield {**head, "choices": [{**choice, "prompt_token_ids": repeated, "token_ids": [token]}], "usage": None}
            repeated = None
        yield {**head, "choices": [], "usage": usage(len(prompt), wanted)}

    async def stream(self, send: Any, chunks: Iterator[dict[str, object]], pause: float) -> None:
        await self.start(send, b"text/event-stream")
        for chunk in chunks:
            event = b"data: " + json.dumps(chunk).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
            if pause and chunk["choices"]:
                await asyncio.sleep(pause)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def whole(self, send: Any, words: list[str], pause: float) -> None:
        await asyncio.sleep(pause * len(words))
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        answer = {"id": "chatcmpl-mock", "object": "chat.completion", "created": 1, "model": "mock"}
        await self.told(send, {**answer, "choices": [choice], "usage": usage(100, len(words))})

    async def told(self, send: Any, value: dict[str, object]) -> None:
        await self.start(send, b"application/json")
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})

    @staticmethod
    async def start(send: Any, kind: bytes) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def serve(port: int, engine: Engine, http_port: int | None) -> None:
    server = grpc.aio.server()
    rpc.add_VllmEngineServicer_to_server(engine, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("ready", flush=True)
    if http_port is None:
        await server.wait_for_termination()
    else:
        config = uvicorn.Config(HttpSide(engine), host="127.0.0.1", port=http_port, log_level="warning")
        await uvicorn.Server(config).serve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--http", type=int)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--chunks", action="store_true")
    args = parser.parse_args()
    trace = args.trace.open("a", buffering=1) if args.trace else None
    engine = Engine(args.folder, args.batch, trace, PLAIN if args.plain else PROSE, chunks=args.chunks)
    uvloop.install()
    asyncio.run(serve(args.port, engine, args.http))


if __name__ == "__main__":
    main()
