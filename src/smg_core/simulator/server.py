"""The embedded engine on a socket (edge): a gRPC server that speaks the vLLM and the neutral dialect on one port.

Waits and sends; what is said and when it is due is decided by simulator.engine and simulator.clockwork, what goes wrong by
simulator.faults, and how a message is put by simulator.dialects. Above: cli and testing. Use it as a context manager:

    async with SimulatedEngine(SimulatorConfig(), listen="127.0.0.1:0") as engine:
        engine.target, engine.model_folder

grpc.health.v1 is answered too. Every record it keeps for tests is bounded by `SimulatorConfig.keep_requests`.
"""

import asyncio
import hashlib
import io
import secrets
import signal
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import attrs
import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from smg_core.clock import Clock, SystemClock
from smg_core.engines.base import EngineRequest, RankLoad
from smg_core.simulator._pb.control_pb2 import SetFaultsRequest
from smg_core.simulator.clockwork import Clockwork, Ticket
from smg_core.simulator.control import SERVICE, apply_faults, fault_plan
from smg_core.simulator.dialects import About, Face, VllmFace
from smg_core.simulator.engine import Engine, Plan, SimulatorConfig
from smg_core.simulator.faults import Fault, Faults
from smg_core.simulator.kv_feed import CursorLost, KvFeed
from smg_core.simulator.neutral_face import NeutralFace
from smg_core.simulator.prefix_cache import CacheChange
from smg_core.simulator.refusal import Refused
from smg_core.simulator.replies import Reply
from smg_core.simulator.shared_memory import namespace, read_shared
from smg_core.simulator.speaker import Speaker
from smg_core.simulator.vocabulary import Vocabulary

__all__ = ["MODEL_FOLDER", "SimulatedEngine", "SystemTimer", "Timer", "Wakeup", "run"]

MODEL_FOLDER = Path(__file__).parent / "model"
"""The shipped model: a tokenizer and a chat template, no weights."""

_HEALTH = "grpc.health.v1.Health"
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"
_CHUNK_OF_ARCHIVE = 64 * 1024
_BUNDLE = (
    "tokenizer.json",
    "tokenizer_config.json",
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
)
_MOST_RECEIVED = 512 * 1024 * 1024
_GARBAGE = b"\xff\xff\xff\xff this is no message"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


class Wakeup(Protocol):
    """A call that is to come."""

    def cancel(self) -> None: ...


class Timer(Clock, Protocol):
    """A clock that also wakes one up. `testing.FakeClock` is one that stands still until it is told."""

    def call_at(self, moment: float, callback: Callable[[], None]) -> Wakeup:
        """Call `callback` at `moment`, in monotonic seconds, or soon when that is past."""
        ...


class SystemTimer(SystemClock):
    """The running event loop's timer."""

    def call_at(self, moment: float, callback: Callable[[], None]) -> Wakeup:
        return asyncio.get_running_loop().call_later(max(0.0, moment - self.monotonic()), callback)


@attrs.define(eq=False)
class _Run:
    """One Generate call in flight. `sent` tokens are on their way; `wake` is what it sleeps on."""

    request: EngineRequest
    fault: Fault | None
    ticket: Ticket
    cached: int
    aborted: bool = False
    sent: int = 0
    wake: asyncio.Future[None] | None = None

    def rouse(self) -> None:
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)


class SimulatedEngine:
    """An engine without a model. `listen` is "host:port" (port 0: any that is free) or "unix:///path".

    For tests: `requests` (what came in, newest last), `aborted` (ids that were aborted or hung up on), `active` (in flight),
    `healthy` (what it says of its health; may be set), and `counters`: "requests", "refused", "finished", "tokens", "faults",
    "aborts", "cancelled", "restarts".
    """

    def __init__(
        self, config: SimulatorConfig | None = None, listen: str = "127.0.0.1:0", *, timer: Timer | None = None
    ) -> None:
        config = config or SimulatorConfig()
        self.config = attrs.evolve(config, model_folder=str(Path(config.model_folder or MODEL_FOLDER)))
        self.timer = timer or SystemTimer()
        self.engine = Engine(self.config, _vocabulary(Path(self.config.model_folder)))
        self.clockwork = Clockwork(self.config.timing, self.timer)
        self.faults = Faults(self.config.faults, dict(self.config.fault_rates), self.config.seed)
        self.requests: deque[EngineRequest] = deque(maxlen=self.config.keep_requests)
        self.aborted: deque[str] = deque(maxlen=self.config.keep_requests)
        self.counters: Counter[str] = Counter()
        self.healthy = True
        self.faces: tuple[Face, ...] = (
            VllmFace(rust=self.config.vllm_servicer == "rust", shared=read_shared),
            NeutralFace(),
        )
        self.feed = KvFeed()
        self.began = self.timer.monotonic()
        self.instance = secrets.token_hex(8)
        self._listen = listen
        self._runs: dict[_Run, None] = {}
        self._server: grpc.aio.Server | None = None
        self._restart: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    # ------------------------------------------------------------------------------------------------- coming and going

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        server = grpc.aio.server(
            handlers=[_Handlers(self)],
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MOST_RECEIVED)],
        )
        try:
            if self.config.tls_certificate:
                port = server.add_secure_port(self._listen, _credentials(self.config))
            else:
                port = server.add_insecure_port(self._listen)
        except RuntimeError as error:
            raise OSError(f"the embedded engine cannot listen on {self._listen}") from error
        await server.start()
        if not self._listen.startswith("unix:"):
            self._listen = f"{self._listen.rpartition(':')[0]}:{port}"
        self._server = server

    async def stop(self, grace: float | None = None) -> None:
        """Stop listening; calls in flight get `grace` seconds to finish, then they are cut."""
        if self._restart is not None:
            self._restart.cancel()
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(grace)

    async def restart(self, away: float = 0.0) -> None:
        """Drop every connection, and come back on the same address after `away` seconds with an empty cache."""
        self.counters["restarts"] += 1
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)
        self._publish(self.engine.cache.clear())
        self.instance = secrets.token_hex(8)
        if away:
            await self._until(self.timer.monotonic() + away)
        await self.start()

    @property
    def target(self) -> str:
        """The worker URL to give a gateway."""
        if self._listen.startswith("unix:"):
            return self._listen
        return f"{'grpcs' if self.config.tls_certificate else 'grpc'}://{self._listen}"

    @property
    def model_folder(self) -> str:
        """Where the tokenizer and the chat template lie."""
        return self.config.model_folder

    @property
    def serving(self) -> bool:
        """Whether it listens just now."""
        return self._server is not None

    @property
    def active(self) -> int:
        """Calls in flight, waiting ones included."""
        return len(self._runs)

    def say(self, *replies: Reply) -> None:
        """Answer the next requests with `replies`, one each."""
        self.engine.script.add(*replies)

    def inject(self, *faults: Fault | None) -> None:
        """Let the next requests meet `faults`, one each."""
        self.faults.add(*faults)

    async def set_faults(self, face: Face | None, message: bytes, context: Any) -> bytes:
        """Answer Control.SetFaults."""
        try:
            apply_faults(SetFaultsRequest.FromString(message), self.faults)
        except (ValueError, DecodeError) as error:
            await _end(context, "INVALID_ARGUMENT", str(error))
        return fault_plan(self.faults, self.counters["faults"]).SerializeToString()

    async def get_faults(self, face: Face | None, message: bytes, context: Any) -> bytes:
        """Answer Control.GetFaults."""
        return fault_plan(self.faults, self.counters["faults"]).SerializeToString()

    # --------------------------------------------------------------------------------------------------------- Generate

    async def generate(self, face: Face, message: bytes, context: Any) -> None:
        """Answer one Generate call."""
        self.counters["requests"] += 1
        fault = self.faults.draw()
        if fault is not None:
            self.counters["faults"] += 1
            if fault.kind == "refuse":
                await _end(context, fault.code, fault.message)
        try:
            request = face.request(message, self.engine.vocabulary.encode)
            self.requests.append(request)
            self._check_id(face, request.id)
            self.clockwork.check_room()
            plan = self.engine.plan(request)
        except Refused as refusal:
            self.counters["refused"] += 1
            await _end(context, refusal.code, refusal.message)
        cached = self.engine.held(request)
        run = _Run(request, fault, self.clockwork.arrive(plan.prompt_tokens - cached), cached)
        self._runs[run] = None
        try:
            await self._speak(face, run, plan, context)
            self.counters["finished"] += 1
        except asyncio.CancelledError:
            self.counters["cancelled"] += 1
            self.aborted.append(request.id)
            raise
        finally:
            self._leave(run)

    def _check_id(self, face: Face, request_id: str) -> None:
        if face.unique_ids and any(run.request.id == request_id for run in self._runs):
            raise Refused(f"request {request_id} is in flight", "ALREADY_EXISTS")

    async def _speak(self, face: Face, run: _Run, plan: Plan, context: Any) -> None:
        """Wait for a place, then send every choice step by step."""
        while not run.ticket.running and not run.aborted:
            await self._sleep(run, None)
        speakers = [
            Speaker(self.engine, face, run.request, choice, index, run.cached)
            for index, choice in enumerate(plan.choices)
        ]
        first = True
        while speakers and not run.aborted:
            if (
                run.fault is not None
                and run.sent >= run.fault.after
                and not await self._suffer(face, run, run.fault, context)
            ):
                return
            if run.ticket.due > self.timer.monotonic():
                await self._sleep(run, run.ticket.due)
            if run.aborted:
                break
            if first:
                first = False
                self._remember(run, ())
            speakers = await self._step(run, speakers, context)
            self.clockwork.advance(run.ticket)
        for speaker in speakers:
            for out in speaker.abort():
                await context.write(out)

    async def _step(self, run: _Run, speakers: list[Speaker], context: Any) -> list[Speaker]:
        """One step of every choice; returns those that go on."""
        before = run.sent
        for speaker in speakers:
            start = speaker.sent
            for out in speaker.step(self.config.timing.tokens_per_step):
                await context.write(out)
            run.sent += speaker.sent - start
            if speaker.done:  # the last token was sampled but never computed, so the cache does not hold it
                self._remember(run, speaker.choice.ids[:-1])
        self.clockwork.note(run.sent - before)
        self.counters["tokens"] += run.sent - before
        return [speaker for speaker in speakers if not speaker.done]

    def _remember(self, run: _Run, generated: Sequence[int]) -> None:
        """The prompt, and what was generated after it, are in the prefix cache now."""
        self._publish(self.engine.hold(run.request, generated))

    async def _suffer(self, face: Face, run: _Run, fault: Fault, context: Any) -> bool:
        """Let the fault happen; whether the answer goes on after it."""
        now = self.timer.monotonic()
        if fault.kind == "error" and run.sent and (told := face.failure(fault.code, fault.message)) is not None:
            await context.write(told)
            return False
        if fault.kind in ("cut", "error"):
            await _end(context, fault.code, fault.message)
        if fault.kind == "drip":
            run.ticket.due = max(run.ticket.due, now + (fault.seconds or 0.0))
            return True
        run.fault = None
        if fault.kind == "garbage":
            await context.write(_GARBAGE)
        elif fault.kind == "stall":
            self.counters["stalled"] += 1
            try:
                await self._sleep(run, None if fault.seconds is None else now + fault.seconds)
            finally:
                self.counters["stalled"] -= 1
        elif fault.kind == "restart":
            self._restart = asyncio.create_task(self.restart(fault.seconds or 0.0), name="restart the embedded engine")
            await self._sleep(run, None)
        return fault.kind != "silence"

    def _leave(self, run: _Run) -> None:
        del self._runs[run]
        following = self.clockwork.leave(run.ticket)
        if following is not None:
            for other in self._runs:
                if other.ticket is following:
                    other.rouse()

    async def _sleep(self, run: _Run, moment: float | None) -> None:
        """Until `moment`, or until something rouses the run; not at all when it was aborted."""
        if run.aborted:
            return
        run.wake = asyncio.get_running_loop().create_future()
        wakeup = self.timer.call_at(moment, run.rouse) if moment is not None else None
        try:
            await run.wake
        finally:
            run.wake = None
            if wakeup is not None:
                wakeup.cancel()

    async def _until(self, moment: float) -> None:
        done = asyncio.Event()
        wakeup = self.timer.call_at(moment, done.set)
        try:
            await done.wait()
        finally:
            wakeup.cancel()

    def _publish(self, changes: list[CacheChange]) -> None:
        if changes:
            self.feed.publish(changes, self.timer.time())
            self._news.set()
            self._news = asyncio.Event()

    # --------------------------------------------------------------------------------------------------- the other calls

    async def abort(self, face: Face, message: bytes, context: Any) -> bytes:
        """End the named calls; one that nobody knows is no error."""
        wanted = set(face.aborted(message))
        known = [run for run in self._runs if run.request.id in wanted and not run.aborted]
        for run in known:
            run.aborted = True
            self.counters["aborts"] += 1
            self.aborted.append(run.request.id)
            run.rouse()
        return face.abort_answer(len(known))

    async def health(self, face: Face, message: bytes, context: Any) -> bytes:
        return face.health(self.healthy)

    async def model_info(self, face: Face, message: bytes, context: Any) -> bytes:
        return face.model_info(self.engine.model_info(), self.about())

    async def server_info(self, face: Face, message: bytes, context: Any) -> bytes:
        return face.server_info(self.about())

    def about(self) -> About:
        """What the engine says of itself."""
        return About(
            active=self.active,
            uptime=self.timer.monotonic() - self.began,
            block_size=self.config.block_size,
            batch=self.config.timing.batch,
            instance=self.instance,
            max_n=self.config.max_n,
            max_logprobs=self.config.max_logprobs,
            constraints=self.config.constraints,
            memory=namespace(),
            normalizes=self.config.normalizes,
            encoder_dtype=self.config.encoder_dtype,
        )

    async def loads(self, face: Face, message: bytes, context: Any) -> bytes:
        return face.loads(self.load(), datetime.fromtimestamp(self.timer.time(), UTC).isoformat())

    def load(self) -> RankLoad:
        """The load as the engine reports it. Tokens in use are those of running requests."""
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

    async def embed(self, face: Face, message: bytes, context: Any) -> bytes:
        try:
            _, ids = face.embed_request(message)
            return face.embed_answer(self.engine.embedding(ids), len(ids))
        except Refused as refusal:
            await _end(context, refusal.code, refusal.message)
            raise

    async def flush(self, face: Face, message: bytes, context: Any) -> bytes:
        self._publish(self.engine.cache.clear())
        return face.flush_answer()

    async def tokenizer(self, face: Face, message: bytes, context: Any) -> None:
        archive = _bundle(Path(self.model_folder))
        digest = hashlib.sha256(archive).hexdigest()
        if face.tokenizer_known(message) == digest:
            await context.write(face.tokenizer_chunk(b"", digest, len(archive), last=True))
            return
        for at in range(0, len(archive), _CHUNK_OF_ARCHIVE):
            last = at + _CHUNK_OF_ARCHIVE >= len(archive)
            piece = archive[at : at + _CHUNK_OF_ARCHIVE]
            await context.write(face.tokenizer_chunk(piece, digest, len(archive), last=last))

    async def kv_events(self, face: Face, message: bytes, context: Any) -> None:
        """Send what the cache does from now on, or from a cursor where the dialect replays."""
        await context.send_initial_metadata(())
        cursor = face.kv_cursor(message)
        if cursor is not None and not face.replays:
            await _end(context, "OUT_OF_RANGE", "KV event cursors are not replayed; subscribe from the beginning")
        sent = self.feed.last if cursor is None else cursor
        try:
            while True:
                news = self._news
                for batch in self.feed.after(sent):
                    await context.write(face.kv_batch(batch))
                    sent = batch.sequence
                await news.wait()
        except CursorLost as error:
            await _end(context, "OUT_OF_RANGE", str(error))

    async def check(self, face: Face | None, message: bytes, context: Any) -> bytes:
        """grpc.health.v1 Check: the request's one field is the service's name."""
        name = message[2:].decode("utf-8", "replace")
        if name and name not in {each.service for each in self.faces}:
            await _end(context, "NOT_FOUND", "unknown service")
        return _SERVING if self.healthy else _NOT_SERVING

    async def watch(self, face: Face | None, message: bytes, context: Any) -> None:
        """grpc.health.v1 Watch: the state does not change while the server stands."""
        name = message[2:].decode("utf-8", "replace")
        known = not name or name in {each.service for each in self.faces}
        await context.write(_SERVING if known else _SERVICE_UNKNOWN)
        await asyncio.Event().wait()


# ------------------------------------------------------------------------------------------------------------- the wiring

_Method = Callable[[SimulatedEngine, Any, bytes, Any], Coroutine[Any, Any, Any]]

# What each operation of a face is answered by, and whether the answer is a stream.
_METHODS: dict[str, tuple[_Method, bool]] = {
    "generate": (SimulatedEngine.generate, True),
    "abort": (SimulatedEngine.abort, False),
    "health": (SimulatedEngine.health, False),
    "model_info": (SimulatedEngine.model_info, False),
    "server_info": (SimulatedEngine.server_info, False),
    "loads": (SimulatedEngine.loads, False),
    "embed": (SimulatedEngine.embed, False),
    "flush": (SimulatedEngine.flush, False),
    "tokenizer": (SimulatedEngine.tokenizer, True),
    "kv_events": (SimulatedEngine.kv_events, True),
}


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    """Finds the coroutine for a path; messages stay bytes on both sides."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self._handlers: dict[str, Any] = {}
        for face in engine.faces:
            for operation, name in face.methods.items():
                self._add(f"/{face.service}/{name}", engine, face, *_METHODS[operation])
        self._add(f"/{_HEALTH}/Check", engine, None, SimulatedEngine.check, streams=False)
        self._add(f"/{_HEALTH}/Watch", engine, None, SimulatedEngine.watch, streams=True)
        self._add(f"/{SERVICE}/SetFaults", engine, None, SimulatedEngine.set_faults, streams=False)
        self._add(f"/{SERVICE}/GetFaults", engine, None, SimulatedEngine.get_faults, streams=False)

    def _add(self, path: str, engine: SimulatedEngine, face: Face | None, method: _Method, streams: bool) -> None:
        async def answer(message: bytes, context: Any) -> Any:
            return await method(engine, face, message, context)

        wrap = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        self._handlers[path] = wrap(answer)

    def service(self, details: Any) -> Any:
        return self._handlers.get(details.method)


async def _end(context: Any, code: str, message: str) -> None:
    """End the call with a status; never returns."""
    await context.abort(getattr(grpc.StatusCode, code), message)


def _vocabulary(folder: Path) -> Vocabulary:
    def text(name: str) -> str:
        path = folder / name
        return path.read_text(encoding="utf-8") if path.exists() else "{}"

    return Vocabulary(
        (folder / "tokenizer.json").read_text(encoding="utf-8"), text("config.json"), text("generation_config.json")
    )


def _bundle(folder: Path) -> bytes:
    """The tokenizer's files as a zip archive, the same bytes each time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [folder / name for name in _BUNDLE] + sorted(folder.glob("*.jinja")):
            if path.exists():
                member = zipfile.ZipInfo(path.name, _LONG_AGO)
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, path.read_bytes())
    return out.getvalue()


def _credentials(config: SimulatorConfig) -> Any:
    certificate, key = Path(config.tls_certificate).read_bytes(), Path(config.tls_key).read_bytes()
    ca = Path(config.tls_client_ca).read_bytes() if config.tls_client_ca else None
    return grpc.ssl_server_credentials([(key, certificate)], root_certificates=ca, require_client_auth=ca is not None)


async def run(
    config: SimulatorConfig,
    listen: str = "127.0.0.1:0",
    *,
    ready: Callable[[SimulatedEngine], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then let calls in flight finish for 5 seconds. `ready` is told once it listens."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    engine = SimulatedEngine(config, listen)
    await engine.start()
    if ready is not None:
        ready(engine)
    await stop.wait()
    await engine.stop(grace=5.0)
