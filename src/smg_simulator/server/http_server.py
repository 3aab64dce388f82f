"""The HTTP server of the embedded engine, on a port of their own: vLLM's, SGLang's, llama.cpp's, and pictures (edge).

Waits and sends. What is answered is decided by the engine and by the codecs of the dialects. Above: whoever makes a
`SimulatedEngine` that is to have them. HTTP/1.1 with chunked answers; what a client may send is bounded.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from itertools import count
from typing import Any, NoReturn, Protocol
from urllib.parse import parse_qs

import grpc

from smg_core.engines.base import EngineRequest
from smg_core.errors import SmgError
from smg_core.wire.multipart import FormReader
from smg_simulator.answers.pictures import picture_events, picture_object
from smg_simulator.codecs.base import EngineState
from smg_simulator.codecs.llamacpp import LlamaCppServerCodec
from smg_simulator.codecs.sglang_http import SglangHttpServerCodec, aborted_id, server_info
from smg_simulator.codecs.vllm_http import VllmHttpServerCodec, VllmTokensServerCodec, aborted_ids, model_list
from smg_simulator.engine.adapters import LoadedAdapter
from smg_simulator.engine.clockwork import Clockwork
from smg_simulator.engine.engine import EngineCore, SimulatorConfig
from smg_simulator.engine.refusal import Refused
from smg_simulator.server.listeners import take_no_more

__all__ = ["EngineHttpServer", "engine_http_server"]

_MOST_HEAD = 64 * 1024
_MOST_BODY = 512 * 1024 * 1024
_STATUSES = {
    "INVALID_ARGUMENT": 400,
    "OUT_OF_RANGE": 400,
    "NOT_FOUND": 404,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_WEIGHTS = (
    *("/collective_rpc", "/init_weight_transfer_engine", "/start_weight_update", "/update_weights"),
    *("/finish_weight_update", "/shutdown_weight_transfer_engine", "/update_weights_from_disk"),
    *("/init_weights_update_group", "/begin_weight_update", "/update_weights_from_distributed"),
    *("/end_weight_update", "/destroy_weights_update_group"),
)
_PICTURES = ("/v1/images/generations", "/v1/images/edits")
_FORM_FIELDS = 64
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_OBJECT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


class _Engine(Protocol):
    """What it needs of the engine that it serves."""

    config: SimulatorConfig
    engine: EngineCore
    healthy: bool
    traces: Any

    def state(self) -> EngineState: ...

    async def generate(self, codec: Any, message: bytes, context: Any) -> None: ...

    def abort_named(self, wanted: set[str]) -> int: ...

    def emptied(self) -> bool: ...

    def profiled(self, *, start: bool) -> bool: ...

    clockwork: Clockwork
    requests: deque[EngineRequest]

    @property
    def active(self) -> int: ...


class _Ended(Exception):
    """The call ends with an error, of which `code` is gRPC's name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Context:
    """A call in flight, in the place of grpcio's context."""

    def __init__(self, writer: asyncio.StreamWriter, headers: dict[str, str], codec: Any) -> None:
        self.begun = False
        self._codec = codec
        self._writer = writer
        self._headers = headers

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._headers.items())

    async def write(self, message: bytes) -> None:
        """Send one event, or a piece of the whole answer; nothing for an empty message."""
        if not message:
            return
        streams = self._codec.streams
        if not self.begun:
            self.begun = True
            self._writer.write(_STREAM if streams else _OBJECT)
        event = b"data: " + message + b"\n\n" if streams else message
        self._writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        try:
            await self._writer.drain()
        except OSError:
            raise asyncio.CancelledError from None  # the client has left, which grpcio tells in this way

    async def abort(self, code: grpc.StatusCode, message: str) -> NoReturn:
        raise _Ended(code.name, message)


def engine_http_server(listen: str) -> "Callable[[_Engine], EngineHttpServer]":
    """The argument `http_server` of a `SimulatedEngine` that listens for HTTP at `listen` too, "host:port"."""
    return lambda engine: EngineHttpServer(engine, listen)


class EngineHttpServer:
    """Listens at `listen` ("host:port"; port 0: any that is free) for `engine`."""

    def __init__(self, engine: _Engine, listen: str) -> None:
        self._engine = engine
        self._host, _, port = listen.rpartition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._tasks = count()  # numbers of requests that bring no id
        self._short: dict[tuple[str, str], Callable[[bytes], bytes]] = {
            ("GET", "/v1/models"): lambda _: model_list(engine.engine.model_info(), engine.engine.adapters),
            ("GET", "/get_server_info"): lambda _: server_info(engine.state()),
            ("POST", "/abort_request"): lambda body: self._abort({aborted_id(body)}),
            ("POST", "/inference/v1/abort_requests"): lambda body: self._abort(aborted_ids(body)),
            ("POST", "/flush_cache"): lambda _: self._done(engine.emptied(), "requests are in flight"),
            ("POST", "/reset_prefix_cache"): lambda _: self._done(engine.emptied(), "requests are in flight"),
            ("POST", "/start_profile"): lambda _: self._done(engine.profiled(start=True), "a profile is being taken"),
            ("POST", "/stop_profile"): lambda _: self._done(engine.profiled(start=False), "no profile is being taken"),
        }
        self._short |= {("POST", path): partial(self._weights, path) for path in _WEIGHTS}
        for prefix in ("/v1", ""):  # vLLM's, and SGLang's
            self._short["POST", f"{prefix}/load_lora_adapter"] = partial(self._load_adapter, prefix)
            self._short["POST", f"{prefix}/unload_lora_adapter"] = partial(self._unload_adapter, prefix)
        for path in ("/wake_up", "/resume_memory_occupation"):
            self._short["POST", path] = self._wake
        self._short["POST", "/release_memory_occupation"] = self._sleep
        self._short["POST", "/sleep"] = self._sleep
        self._short["GET", "/is_sleeping"] = lambda _: json.dumps(
            {"is_sleeping": engine.clockwork.pausing.asleep}
        ).encode()
        for path in ("/resume", "/continue_generation"):
            self._short["POST", path] = self._resume
        self._codecs: dict[str, Callable[[], Any]] = {
            "/v1/completions": lambda: VllmHttpServerCodec(engine.config.model),
            "/inference/v1/generate": lambda: VllmTokensServerCodec(engine.config.model),
            "/generate": lambda: SglangHttpServerCodec(incremental=engine.config.incremental_streaming),
            "/completion": lambda: LlamaCppServerCodec(f"task-{next(self._tasks)}", engine.engine.vocabulary.decode),
        }

    @property
    def url(self) -> str:
        """The worker URL to give a gateway."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Start to listen; again on the same port after `stop`. Raises OSError when the address is taken."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=_MOST_HEAD)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening; calls in flight are cut."""
        if self._server is None:
            return
        server, self._server = self._server, None
        await take_no_more(server)
        tasks = list(self._open)
        for task, writer in self._open.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._open.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        early: bytes | None = (
            b""  # what came of the next request while this one was answered; None: the client has left
        )
        try:
            while early is not None:
                head = early + await reader.readuntil(b"\r\n\r\n")
                line, *fields = head.decode("latin-1").split("\r\n")[:-2]
                headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
                length = int(headers.get("content-length", "0"))
                if length > _MOST_BODY:
                    return
                body = await reader.readexactly(length)
                method, path, _ = line.split(" ")
                early = await self._until_gone(reader, self._answer(method, path, headers, body, writer))
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # whoever called has left, or speaks no HTTP
        finally:
            writer.transport.abort()

    async def _until_gone(self, reader: asyncio.StreamReader, answering: Coroutine[Any, Any, bool]) -> bytes | None:
        """Wait for the answer; one whose client leaves is cancelled. Returns what came of the next request meanwhile, None where
        there will be none."""
        task = asyncio.ensure_future(answering)
        watch = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and not watch.result():
                return None
            goes_on = await task
            return (watch.result() if watch.done() else b"") if goes_on else None
        finally:
            task.cancel()
            watch.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)

    async def _answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        if traced := {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}:
            self._engine.traces.append((path, traced))
        key = self._engine.config.api_key
        if key and headers.get("authorization") != f"Bearer {key}":
            return await _respond(writer, 401, _error(f"the credential {headers.get('authorization')!r} is not valid"))
        if method == "POST" and path in self._codecs:
            return await self._generate(self._codecs[path](), headers, body, writer)
        if method == "POST" and path in _PICTURES:
            return await _pictures(headers, body, writer)
        if (method, path) == ("GET", "/health"):
            return await _respond(writer, 200 if self._engine.healthy else 503, b"")
        path, _, query = path.partition("?")
        answer = self._short.get((method, path))
        try:
            if method == "POST" and path in ("/pause", "/pause_generation"):
                return await _respond(writer, 200, await self._pause(path, query, body))
            if answer is None:
                return await _respond(writer, 404, _error("there is no such path"))
            return await _respond(writer, 200, answer(body))
        except Refused as refusal:
            return await _respond(writer, _STATUSES.get(refusal.code, 500), _error(refusal.message))

    async def _generate(self, codec: Any, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> bool:
        context = _Context(writer, headers, codec)
        try:
            await self._engine.generate(codec, body, context)
        except _Ended as ended:
            if context.begun:
                return False  # the connection is cut
            return await _respond(writer, _STATUSES.get(ended.code, 500), _error(ended.message))
        for message in codec.ending(headers.get("x-request-id", "")):
            await context.write(message)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _load_adapter(self, prefix: str, body: bytes) -> bytes:
        asked = json.loads(body)
        name = asked.get("lora_name", "")
        new = LoadedAdapter(name, name, asked.get("lora_path", ""), bool(asked.get("pinned")))
        return self._answer_words(
            prefix, self._engine.engine.adapters.load(new), f"LoRA adapter '{name}' added successfully."
        )

    def _unload_adapter(self, prefix: str, body: bytes) -> bytes:
        name = json.loads(body).get("lora_name", "")
        refusal = self._engine.engine.adapters.unload(name, name)
        return self._answer_words(prefix, refusal, f"LoRA adapter '{name}' removed successfully.")

    def _answer_words(self, prefix: str, refusal: str, done: str) -> bytes:
        """What vLLM says in words, and SGLang with an object."""
        if refusal:
            raise Refused(refusal)
        return done.encode() if prefix else json.dumps({"success": True, "error_message": ""}).encode()

    def _sleep(self, body: bytes) -> bytes:
        if self._engine.active:
            raise Refused("requests are in flight")
        self._engine.clockwork.pausing.asleep = True
        self._engine.emptied()
        return b""

    def _wake(self, body: bytes) -> bytes:
        self._engine.clockwork.pausing.asleep = False
        return b""

    def _abort(self, named: set[str]) -> bytes:
        self._engine.abort_named(named)
        return b""

    def _resume(self, body: bytes) -> bytes:
        self._engine.clockwork.pausing.resume()
        return b'{"status":"resumed"}'

    def _weights(self, path: str, body: bytes) -> bytes:
        self._engine.clockwork.pausing.weights.append((path, body))
        return b'{"success":true,"message":"done"}'

    async def _pause(self, path: str, query: str, body: bytes) -> bytes:
        """Pause as the two servers do, each with its words for what becomes of requests that run."""
        if path == "/pause":
            mode = parse_qs(query).get("mode", ["abort"])[0]
            modes = {each: each for each in ("abort", "wait", "keep")}
        else:
            mode = json.loads(body or b"{}").get("mode", "abort")
            modes = {"abort": "abort", "in_place": "keep", "retract": "retract"}
        if mode not in modes:
            raise Refused(f"there is no mode {mode!r}")
        pausing = self._engine.clockwork.pausing
        pausing.mode = modes[mode]
        if mode == "abort":
            self._engine.abort_named({each.id for each in self._engine.requests})
        elif mode == "wait" and self._engine.active:
            idle = asyncio.Event()
            pausing.when_idle(idle.set)
            await idle.wait()
        return b'{"status":"paused"}'

    def _done(self, done: bool, otherwise: str) -> bytes:
        if not done:
            raise Refused(otherwise)
        return b"Done.\n"


async def _pictures(headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> bool:
    """Answer a request for pictures: as JSON, or as a form where some are to be changed."""
    given: list[bytes] = []
    try:
        if headers.get("content-type", "").startswith("multipart/"):
            form = FormReader(
                headers["content-type"],
                lambda _: None,
                most=_FORM_FIELDS,
                most_bytes=_MOST_HEAD,
                files={"image", "image[]", "mask"},
            )
            form.feed(body)
            form.end()
            asked: dict[str, Any] = dict(form.fields)
            given = [bytes(each.data) for each in form.uploads]
        else:
            asked = json.loads(body)
        if asked.get("stream") not in (True, "true"):
            return await _respond(writer, 200, picture_object(asked, given))
        events = picture_events(asked, given)
    except (Refused, SmgError, ValueError) as error:
        return await _respond(writer, 400, _error(str(error)))
    writer.write(_STREAM)
    for each in events:
        event = b"data: " + each + b"\n\n"
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _respond(writer: asyncio.StreamWriter, status: int, body: bytes) -> bool:
    kind = "application/json" if body[:1] in (b"{", b"[") else "text/plain"
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    writer.write(f"{line}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return True


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "BadRequestError"}}).encode()
