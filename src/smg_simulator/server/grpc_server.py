"""The embedded engine as a gRPC server that speaks every dialect on one port (edge).

Waits and sends. The content of answers is decided by engine.engine, their timing by engine.clockwork, faults by
engine.faults, and the form of messages by the codecs of the dialects. Above: cli and testing. Use it as a context manager:

    async with SimulatedEngine(SimulatorConfig(), listen="127.0.0.1:0") as engine:
        engine.target, engine.model_folder

grpc.health.v1 is answered too. Every record it keeps for tests is bounded by `SimulatorConfig.keep_requests`.
"""

import asyncio
import hashlib
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import attrs
import grpc
import grpc.aio

from smg_core.engines.base import EngineRequest
from smg_core.engines.loads import RankLoad
from smg_simulator.answers.faults import Fault, Faults
from smg_simulator.answers.replies import Reply
from smg_simulator.codecs.all_codecs import server_codecs
from smg_simulator.codecs.base import EngineState, FullServerCodec, ServerCodec
from smg_simulator.codecs.choice_messages import ChoiceMessages
from smg_simulator.engine.clockwork import Clockwork, Ticket
from smg_simulator.engine.engine import EngineCore, Plan, SimulatorConfig
from smg_simulator.engine.kv_feed import Changes, CursorLost, KvFeed
from smg_simulator.engine.model_folder import MODEL_FOLDER, read_vocabulary, tokenizer_archive
from smg_simulator.engine.refusal import Refused
from smg_simulator.engine.shared_memory import namespace, read_shared
from smg_simulator.engine.timer import SystemTimer, Timer
from smg_simulator.server.embedding import Embedding
from smg_simulator.server.encode_worker import EncodeWorker, end_call, refuse_generate
from smg_simulator.server.kv_exchange import KvExchange
from smg_simulator.server.listeners import GrpcListener, Witness
from smg_simulator.server.restarts import Restarts
from smg_simulator.server.small_services import ControlService, HealthService

__all__ = ["SimulatedEngine"]

_CHUNK_OF_ARCHIVE = 64 * 1024
_GARBAGE = b"\xff\xff\xff\xff this is no message"


@attrs.define(eq=False)
class _GenerateCall:
    """One Generate call in flight. `cached` prompt tokens were in the prefix cache, `sent` tokens have been written; `wake`
    is the future that it waits for, if it waits. `unheard`: what it changes in the prefix cache is not told."""

    request: EngineRequest
    fault: Fault | None
    ticket: Ticket
    cached: int
    aborted: bool = False
    unheard: bool = False
    sent: int = 0
    wake: asyncio.Future[None] | None = None

    def wake_up(self) -> None:
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)


class _HttpServer(Protocol):
    """What an engine listens with beside gRPC; it is started, stopped and restarted with it."""

    @property
    def url(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class SimulatedEngine:
    """An engine without a model. `listen` is "host:port" (port 0: any that is free) or "unix:///path"; `http_server`
    makes what else it listens with (`http_server.engine_http_server`).

    For tests: `requests` (received ones, newest last), `aborted` (ids of requests that were aborted, or whose client went
    away), `traces` (paths and headers of calls that name a trace), `active` (in flight), `healthy` (the answer to health
    checks; may be set), `probed_by` (the connections that these came over), `profiling`, and `counters`: "requests",
    "refused", "finished", "tokens", "faults", "aborts", "cancelled", "restarts", "subscribers" (to KV events), and "stalled"
    (in a stall just now).
    """

    def __init__(
        self,
        config: SimulatorConfig | None = None,
        listen: str = "127.0.0.1:0",
        *,
        timer: Timer | None = None,
        http_server: "Callable[[SimulatedEngine], _HttpServer] | None" = None,
    ) -> None:
        config = config or SimulatorConfig()
        self.config = attrs.evolve(config, model_folder=str(Path(config.model_folder or MODEL_FOLDER)))
        self.timer = timer or SystemTimer()
        self.engine = EngineCore(self.config, read_vocabulary(Path(self.config.model_folder)))
        self.clockwork = Clockwork(self.config.timing, self.timer)
        self.faults = Faults(self.config.faults, dict(self.config.fault_rates), self.config.seed)
        self.requests: deque[EngineRequest] = deque(maxlen=self.config.keep_requests)
        self.traces: deque[tuple[str, dict[str, str]]] = deque(maxlen=self.config.keep_requests)
        self.aborted: deque[str] = deque(maxlen=self.config.keep_requests)
        self.counters: Counter[str] = Counter()
        self.healthy = True
        self.probed_by: deque[str] = deque(maxlen=self.config.keep_requests)
        self.profiling = False
        self.codecs: tuple[ServerCodec, ...] = server_codecs(
            rust=self.config.vllm_servicer == "rust", shared=read_shared, only=self.config.dialects
        )
        self.feed = KvFeed(self.config.kv_batches)
        self.began = self.timer.monotonic()
        self.instance = secrets.token_hex(8)
        self.exchange = KvExchange(self.config.kv_connector, self.config.kv_role, self.instance)
        self._listen = listen
        self._http_server = None if http_server is None else http_server(self)
        self._runs: dict[_GenerateCall, None] = {}
        self._server: GrpcListener | None = None
        self._witness = Witness()
        self.restarts = Restarts()
        self._news = asyncio.Event()
        self._embedding = Embedding(self)

    # ------------------------------------------------------------------------------------------------- starting and stopping

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start to listen. Raises OSError when the address is taken."""
        server = GrpcListener(_Handlers(self), self.config, self._witness)
        port = await server.start(self._listen)
        try:
            if self._http_server is not None:
                await self._http_server.start()
            await self.exchange.start()
        except BaseException:
            await server.stop(None)
            raise
        if not self._listen.startswith("unix:"):
            self._listen = f"{self._listen.rpartition(':')[0]}:{port}"
        self._server = server

    async def stop(self, grace: float | None = None) -> None:
        """Stop listening; calls in flight get `grace` seconds to finish, then they are cut."""
        await self.restarts.over()
        while self._server is not None:
            server, self._server = self._server, None
            if self._http_server is not None:
                await self._http_server.stop()
            await server.stop(grace)
            await self.exchange.stop()
            await self.restarts.over()  # of a call that has met its fault meanwhile
        self._witness.end()

    async def restart(self, away: float = 0.0) -> None:
        """Drop every connection, and come back on the same address after `away` seconds with an empty cache. Nothing comes back
        if it is stopped meanwhile."""
        self.counters["restarts"] += 1
        if self._server is not None:
            server, self._server = self._server, None
            if self._http_server is not None:
                await self._http_server.stop()
            await server.stop()
            await self.exchange.stop()
        self._publish(self.engine.cache.clear())
        self.instance = secrets.token_hex(8)
        if not away or await self.restarts.away(self.timer, away):
            await self.start()

    @property
    def target(self) -> str:
        """The worker URL to give a gateway."""
        if self._listen.startswith("unix:"):
            return self._listen
        return f"{'grpcs' if self.config.tls_certificate else 'grpc'}://{self._listen}"

    @property
    def http_target(self) -> str:
        """The worker URL of its HTTP server, "" where it has none."""
        return "" if self._http_server is None else self._http_server.url

    @property
    def model_folder(self) -> str:
        """The path of the folder with the tokenizer and the chat template."""
        return self.config.model_folder

    @property
    def serving(self) -> bool:
        """Whether it listens; False between the two halves of a restart."""
        return self._server is not None

    @property
    def active(self) -> int:
        """The number of calls in flight, waiting ones included."""
        return len(self._runs)

    def say(self, *replies: Reply) -> None:
        """Answer the next requests with `replies`, one each."""
        self.engine.script.add(*replies)

    def inject(self, *faults: Fault | None) -> None:
        """Let the next requests meet `faults`, one each."""
        self.faults.add(*faults)

    # --------------------------------------------------------------------------------------------------------- Generate

    async def generate(self, codec: ServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> None:
        """Answer one Generate call."""
        if self.config.kv_role == "encoder":
            await refuse_generate(context)
        fault = await self.admitted(context)
        try:
            request = codec.request(message, self.engine.vocabulary.encode)
            self.requests.append(request)
            self._check_id(codec, request.id)
            self.clockwork.pausing.check()
            self.clockwork.check_room()
            plan = self.engine.plan(request)
            fault = await self._scripted_fault(fault, plan.fault, context)
            request, cached = await self.exchange.admit(request, self.engine.cached_tokens(request))
        except Refused as refusal:
            self.counters["refused"] += 1
            await end_call(context, refusal.code, refusal.message)
        run = _GenerateCall(request, fault, self.clockwork.arrive(plan.prompt_tokens - cached), cached)
        self._runs[run] = None
        try:
            await self._send_answer(codec, run, plan, context)
            self.counters["finished"] += 1
        except asyncio.CancelledError:
            self.counters["cancelled"] += 1
            self.aborted.append(request.id)
            raise
        finally:
            self._leave(run)

    async def admitted(self, context: grpc.aio.ServicerContext) -> Fault | None:
        """Count a call, and return the fault that it is to meet. One that is to be refused ends here."""
        self.counters["requests"] += 1
        fault = self.faults.draw()
        if fault is not None:
            self.counters["faults"] += 1
            if fault.kind == "refuse":
                await end_call(context, fault.code, fault.message)
        return fault

    async def _scripted_fault(
        self, drawn: Fault | None, scripted: Fault | None, context: grpc.aio.ServicerContext
    ) -> Fault | None:
        """The fault that a call is to meet: that of its reply, if any, else the one that was drawn."""
        if scripted is None:
            return drawn
        self.counters["faults"] += drawn is None
        if scripted.kind == "refuse":
            await end_call(context, scripted.code, scripted.message)
        return scripted

    def _check_id(self, codec: ServerCodec, request_id: str) -> None:
        if codec.unique_ids and any(run.request.id == request_id for run in self._runs):
            raise Refused(f"request {request_id} is in flight", "ALREADY_EXISTS")

    async def _send_answer(
        self, codec: ServerCodec, run: _GenerateCall, plan: Plan, context: grpc.aio.ServicerContext
    ) -> None:
        """Wait for a place in the batch, then send every choice step by step."""
        while not run.ticket.running and not run.aborted:
            await self._sleep(run, None)
        open_choices = [
            ChoiceMessages(self.engine, codec, run.request, choice, index, run.cached)
            for index, choice in enumerate(plan.choices)
        ]
        first = True
        while open_choices and not run.aborted:
            if (
                run.fault is not None
                and run.sent >= run.fault.after
                and not await self._apply_fault(codec, run, run.fault, context)
            ):
                return
            if pause := max(each.pause() for each in open_choices):
                run.ticket.due = max(run.ticket.due, self.timer.monotonic()) + pause
            if run.ticket.due > self.timer.monotonic():
                await self._sleep(run, run.ticket.due)
            while not run.aborted and self.clockwork.pausing.holds(run.wake_up):
                await self._sleep(run, None)
            if run.aborted:
                break
            if first:
                first = False
                self._store_prefix(run, ())
                self.exchange.computed(run.request)
            open_choices = await self._step(run, open_choices, context)
            self.clockwork.advance(run.ticket)
        for each in open_choices:
            for out in each.abort():
                await context.write(out)
        if run.aborted and not codec.ends_aborted:
            await asyncio.Event().wait()  # until the client resets the stream

    async def _step(
        self, run: _GenerateCall, choices: list[ChoiceMessages], context: grpc.aio.ServicerContext
    ) -> list[ChoiceMessages]:
        """Send one step of every choice; returns those that are not done."""
        before = run.sent
        for each in choices:
            start = each.sent
            for out in each.step(self.config.timing.tokens_per_step):
                await context.write(out)
            run.sent += each.sent - start
            if each.done:  # the last token was sampled but never computed, so the cache does not hold it
                self._store_prefix(run, each.choice.ids[:-1])
        self.clockwork.count(run.sent - before)
        self.counters["tokens"] += run.sent - before
        return [each for each in choices if not each.done]

    def _store_prefix(self, run: _GenerateCall, generated: Sequence[int]) -> None:
        """Put the prompt, and what was generated after it, into the prefix cache."""
        self._publish(self.engine.store_prefix(run.request, generated), lost=run.unheard)

    async def _apply_fault(
        self, codec: ServerCodec, run: _GenerateCall, fault: Fault, context: grpc.aio.ServicerContext
    ) -> bool:
        """Let the fault happen; returns whether the answer goes on after it."""
        now = self.timer.monotonic()
        if fault.kind == "error" and run.sent and (failure := codec.failure(fault.code, fault.message)) is not None:
            await context.write(failure)
            return False
        if fault.kind in ("cut", "error"):
            await end_call(context, fault.code, fault.message)
        if fault.kind == "drip":
            run.ticket.due = max(run.ticket.due, now + (fault.seconds or 0.0))
            return True
        run.fault = None
        if fault.kind == "gap":
            run.unheard = True
        elif fault.kind == "garbage":
            await context.write(_GARBAGE)
        elif fault.kind == "stall":
            self.counters["stalled"] += 1
            try:
                await self._sleep(run, None if fault.seconds is None else now + fault.seconds)
            finally:
                self.counters["stalled"] -= 1
        elif fault.kind == "restart":
            self.restarts.begin(self.restart(fault.seconds or 0.0))
            await self._sleep(run, None)
        return fault.kind != "silence"

    def _leave(self, run: _GenerateCall) -> None:
        del self._runs[run]
        self.clockwork.pausing.left(len(self._runs))
        following = self.clockwork.leave(run.ticket)
        if following is not None:
            for other in self._runs:
                if other.ticket is following:
                    other.wake_up()

    async def _sleep(self, run: _GenerateCall, moment: float | None) -> None:
        """Wait until `moment` (None: without end) or until `wake_up`; not at all when the call was aborted."""
        if run.aborted:
            return
        run.wake = asyncio.get_running_loop().create_future()
        wakeup = self.timer.call_at(moment, run.wake_up) if moment is not None else None
        try:
            await run.wake
        finally:
            run.wake = None
            if wakeup is not None:
                wakeup.cancel()

    def _publish(self, changes: Changes, *, lost: bool = False) -> None:
        if changes:
            self.feed.publish(changes, self.timer.time(), lost=lost)
            self._news.set()
            self._news = asyncio.Event()

    # --------------------------------------------------------------------------------------------------- the other calls

    async def abort(self, codec: ServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Answer Abort: end the named calls. An unknown id is no error."""
        return codec.abort_answer(self.abort_named(set(codec.aborted(message))))

    def abort_named(self, wanted: set[str]) -> int:
        """End the calls of these ids; returns how many there were."""
        known = [run for run in self._runs if run.request.id in wanted and not run.aborted]
        for run in known:
            run.aborted = True
            self.counters["aborts"] += 1
            self.aborted.append(run.request.id)
            run.wake_up()
        return len(known)

    async def health(self, codec: ServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        self.probed_by.append(context.peer())
        return codec.health(self.healthy)

    async def model_info(self, codec: ServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return codec.model_info(self.engine.model_info(), self.state())

    async def server_info(self, codec: ServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return codec.server_info(self.state())

    def state(self) -> EngineState:
        """The engine's report of itself."""
        return EngineState(
            active=self.active,
            uptime=self.timer.monotonic() - self.began,
            block_size=self.config.block_size,
            batch=self.config.timing.batch,
            instance=self.instance,
            max_n=self.config.max_n,
            max_logprobs=self.config.max_logprobs,
            constraints=self.config.constraints,
            context_length=self.engine.context_length,
            cache_tokens=self.config.blocks * self.config.block_size,
            memory=namespace(),
            normalizes=self.config.normalizes,
            encoder_dtype=self.config.encoder_dtype,
            ranks=self.config.ranks,
            kv=(self.config.kv_connector, self.config.kv_role, self.exchange.engine_id, self.exchange.port),
        )

    async def loads(self, codec: FullServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return codec.loads(self.load(), datetime.fromtimestamp(self.timer.time(), UTC).isoformat())

    def load(self) -> RankLoad:
        """The engine's load. Tokens in use are those of running requests."""
        used = sum(len(run.request.input_ids) + run.sent for run in self._runs if run.ticket.running)
        room = self.config.blocks * self.config.block_size
        return RankLoad(
            rank=0,
            running=self.clockwork.running,
            waiting=self.clockwork.waiting,
            used_tokens=used,
            max_tokens=room,
            token_usage=min(1.0, used / room),
            tokens_per_second=self.clockwork.throughput,
            cache_hit_rate=self.engine.cache.hit_rate,
            max_running=self.config.timing.batch,
        )

    async def embed(self, codec: FullServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return await self._embedding.embed(codec, message, context)

    async def flush(self, codec: FullServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """Answer FlushCache: refused while a request is in flight, as real engines do."""
        return codec.flush_answer(self.emptied())

    def emptied(self) -> bool:
        """Empty the prefix cache; returns whether that was done."""
        if self._runs:
            return False
        self._publish(self.engine.cache.clear())
        return True

    def profiled(self, *, start: bool) -> bool:
        """Begin a profile or end it; returns whether there was none, or one."""
        done, self.profiling = self.profiling is not start, start
        return done

    async def profile_start(self, codec: FullServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        done = self.profiled(start=True)
        return codec.profile_answer(done, "started" if done else "a profile is being taken already")

    async def profile_stop(self, codec: FullServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        done = self.profiled(start=False)
        return codec.profile_answer(done, "stopped" if done else "no profile is being taken")

    async def tokenizer(self, codec: ServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> None:
        archive = tokenizer_archive(Path(self.model_folder))
        digest = hashlib.sha256(archive).hexdigest()
        if codec.tokenizer_known(message) == digest:
            await context.write(codec.tokenizer_chunk(b"", digest, len(archive), last=True))
            return
        for at in range(0, len(archive), _CHUNK_OF_ARCHIVE):
            last = at + _CHUNK_OF_ARCHIVE >= len(archive)
            piece = archive[at : at + _CHUNK_OF_ARCHIVE]
            await context.write(codec.tokenizer_chunk(piece, digest, len(archive), last=last))

    async def kv_events(self, codec: FullServerCodec, message: bytes, context: grpc.aio.ServicerContext) -> None:
        """Send the changes of the prefix cache: new ones, those after a cursor where the dialect replays, or, where it recalls,
        all that the cache holds and then the new ones. What was lost is sent to those alone who come later and ask for it."""
        await context.send_initial_metadata(())
        cursor = codec.kv_cursor(message)
        if cursor is not None and not codec.replays:
            await end_call(context, "OUT_OF_RANGE", "KV event cursors are not replayed; subscribe from the beginning")
        try:
            if cursor is not None:
                earlier = self.feed.after(cursor)
            elif codec.recalls:
                earlier = self.feed.state(self.engine.cache.held(), self.timer.time())
            else:
                earlier = []
            sent = self.feed.last
            self.counters["subscribers"] += 1
            for batch in earlier:
                await context.write(codec.kv_batch(batch))
            while True:
                news = self._news
                for batch in self.feed.after(sent):
                    sent = batch.sequence
                    if not batch.lost:
                        await context.write(codec.kv_batch(batch))
                await news.wait()
        except CursorLost as error:
            await end_call(context, "OUT_OF_RANGE", str(error))


# ------------------------------------------------------------------------------------------------------------- the wiring

# A method's codec is a `FullServerCodec` where the operation is one of those that only such a codec names.
# A handler gets the request's bytes and the call; it returns the answer, or None when it wrote a stream.
_Handler = Callable[[bytes, grpc.aio.ServicerContext], Awaitable[bytes | None]]
_Method = Callable[[SimulatedEngine, Any, bytes, grpc.aio.ServicerContext], Awaitable[bytes | None]]


def _about_adapters(operation: str) -> tuple[_Method, bool]:
    """The method for an operation on the adapters, which the codecs of dialects that have one answer."""

    async def answer(engine: SimulatedEngine, codec: Any, message: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return bytes(getattr(codec, operation)(engine.engine.adapters, message))

    return answer, False


# The method for each operation of a codec, and whether its answer is a stream.
_METHODS: dict[str, tuple[_Method, bool]] = {
    "generate": (SimulatedEngine.generate, True),
    "abort": (SimulatedEngine.abort, False),
    "health": (SimulatedEngine.health, False),
    "model_info": (SimulatedEngine.model_info, False),
    "server_info": (SimulatedEngine.server_info, False),
    "loads": (SimulatedEngine.loads, False),
    "embed": (SimulatedEngine.embed, False),
    "flush": (SimulatedEngine.flush, False),
    "profile_start": (SimulatedEngine.profile_start, False),
    "profile_stop": (SimulatedEngine.profile_stop, False),
    "tokenizer": (SimulatedEngine.tokenizer, True),
    "kv_events": (SimulatedEngine.kv_events, True),
    **{each: _about_adapters(each) for each in ("list_adapters", "load_adapter", "unload_adapter")},
}


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    """The handler for each path. Messages are bytes on both sides, so that codecs parse and serialize them."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler] = {}
        self._engine = engine
        self._bearer = f"Bearer {engine.config.api_key}" if engine.config.api_key else ""
        for codec in engine.codecs:
            for operation, name in codec.methods.items():
                method, streams = _METHODS[operation]
                self._add(f"/{codec.service}/{name}", partial(method, engine, codec), streams=streams)
        if engine.config.kv_role == "encoder":
            self._add(EncodeWorker.path, EncodeWorker(engine).encode)
        health = HealthService(engine)
        self._add(f"/{health.name}/Check", health.check)
        self._add(f"/{health.name}/Watch", health.watch, streams=True)
        control = ControlService(engine)
        self._add(f"/{control.name}/SetFaults", control.set_faults)
        self._add(f"/{control.name}/GetFaults", control.get_faults)

    def _add(self, path: str, handler: _Handler, *, streams: bool = False) -> None:
        async def answer(message: bytes, context: grpc.aio.ServicerContext) -> bytes | None:
            if self._bearer:
                await self._check_bearer(context)
            sent = context.invocation_metadata() or ()
            if brought := {str(name): str(value) for name, value in sent if name in ("traceparent", "tracestate")}:
                self._engine.traces.append((path, brought))
            return await handler(message, context)  # grpcio looks for a coroutine function, which a partial is not

        wrap = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        self._handlers[path] = wrap(answer)

    async def _check_bearer(self, context: grpc.aio.ServicerContext) -> None:
        """End a call that does not bring the key. The message repeats what it brought, as some engines' do."""
        brought = dict(context.invocation_metadata() or ()).get("authorization", "")
        if brought != self._bearer:
            await end_call(context, "UNAUTHENTICATED", f"the credential {brought!r} is not valid")

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handlers.get(details.method)
