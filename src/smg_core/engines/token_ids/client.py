"""`EngineClient`: an engine that takes token ids, made of one codec and one transport (edge).

Waits for the network. What a message means is decided by the codec, how bytes travel by the transport. Above:
pipeline.calls.streaming generates through it, workers.monitor probes it; they know it as `IdsEngine` and `Engine`.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import attrs

from smg_core.engines.base import (
    Codec,
    CountsConnections,
    EncodeCodec,
    Encoded,
    EngineFacts,
    EngineOutput,
    EngineRequest,
    EngineSink,
    FreesConnections,
    ModelInfo,
    OutputDecoder,
    Transport,
    Unary,
)
from smg_core.engines.calls import AnswerCall, Call
from smg_core.engines.kv_events import PART, KvEventBatch, size
from smg_core.engines.loads import Loads
from smg_core.engines.pooling import PoolCall, Vector, activated
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.status import not_offered, refused_by_name
from smg_core.engines.token_ids.fan_out import FanOut, requests_of
from smg_core.engines.token_ids.slices import SLICE, fit_one_slice, slices
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask, FlushCache, LoadAdapter, UnloadAdapter
from smg_core.errors import EngineGarbled, EngineTimeout, ReadingFailed, SmgError, UnsupportedParameter
from smg_core.request import PoolKind

__all__ = ["EngineClient", "KvReader", "Reader"]

T = TypeVar("T")
_DEFAULTS = EnginesConfig()
_PER_BATCH, _PER_EVENT = 3, 1
"""What reading one costs beside its blocks, in blocks."""


class EngineClient:
    """`IdsEngine` over gRPC. `limits.question_timeout_s` bounds every call except Generate and the tokenizer's. `found` says, for
    people, how the dialect is known."""

    def __init__(
        self, codec: Codec, transport: Transport, limits: EnginesConfig = _DEFAULTS, found: str = "as it was set"
    ) -> None:
        self.codec = codec
        self.transport = transport
        self._counting = transport if isinstance(transport, CountsConnections) else None
        self.found = found
        self._limits = limits
        self._end_s = transport.end_s if isinstance(transport, FreesConnections) else limits.question_timeout_s
        self._telling: set[asyncio.Future[None]] = set()  # what is being told beside the requests
        self._fanned: dict[str, tuple[str, ...]] = {}  # the ids of the calls that a request in flight was made into

    @property
    def connections(self) -> int | None:
        """The number of connections made to the engine so far; None where the transport does not count them."""
        return self._counting.connections if self._counting is not None else None

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        """The engine's model and facts. Facts that the dialect has no call for are those of the dialect's table."""
        info, facts = await self._ask(self.codec.model), self.codec.facts
        if self.codec.describes is not None:
            try:
                facts = await self._ask(self.codec.describes)
            except SmgError as error:
                if not not_offered(error):
                    raise
        if info.generates is not None:
            able = facts.pools if info.pools is None else facts.pools & info.pools
            pools = frozenset[PoolKind]() if info.generates else able
            facts = attrs.evolve(facts, generates=info.generates, pools=pools)
        if not facts.context_length:
            facts = attrs.evolve(facts, context_length=info.context_length)
        return info, facts

    async def generate(
        self,
        request: EngineRequest,
        sink: EngineSink[EngineOutput],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> AnswerCall:
        """Start one generation; its outputs are pushed into `sink`. Where the engine gives one choice a call, it is asked for
        each choice in a call of its own."""
        if request.sampling.n == 1 or not self.codec.facts.fans_out:
            return await self._start(request, sink, metadata, timeout, connect_timeout)

        async def start(asked: EngineRequest, into: EngineSink[EngineOutput]) -> AnswerCall:
            return await self._start(asked, into, metadata, timeout, connect_timeout)

        return await self._fan_out(request, sink, start)

    async def _fan_out(
        self,
        request: EngineRequest,
        sink: EngineSink[EngineOutput],
        start: Callable[[EngineRequest, EngineSink[EngineOutput]], Awaitable[AnswerCall]],
    ) -> AnswerCall:
        requests, loop = requests_of(request), asyncio.get_running_loop()
        ids = self._fanned[request.id] = tuple(each.id for each in requests)
        # Whoever cancels may send an Abort in the same step, which is for these ids.
        fan = FanOut(
            range(len(requests)),
            sink,
            on_end=lambda: self._fanned.pop(request.id, None),
            on_cancel=lambda: loop.call_soon(self._drop_fanned, request.id, ids),
            on_left=lambda: self._leave(request.id),
        )
        for index, each in enumerate(requests):
            try:
                fan.attach(await start(each, fan.branch(index)))
            except SmgError as error:
                if index:  # others run, and may have pushed
                    fan.closed(index, error)
                    break
                self._fanned.pop(request.id, None)
                raise
            except BaseException:
                fan.cancel()
                self._fanned.pop(request.id, None)
                raise
        return fan

    async def _start(
        self,
        request: EngineRequest,
        sink: EngineSink[EngineOutput],
        metadata: Sequence[tuple[str, str]],
        timeout: float | None,
        connect_timeout: float | None,
    ) -> AnswerCall:
        reader = Reader(self.codec.decoder(request), sink, self._end_s)
        message = self.codec.generate(request) if request.multimodal is None else await self._written(request)
        started = await self.transport.start(
            self.codec.generate_path,
            message,
            reader,
            metadata=metadata,
            timeout=timeout,
            connect_timeout=connect_timeout,
        )
        reader.attach(started)
        return reader

    async def _written(self, request: EngineRequest) -> bytes:
        """The request as the engine reads it. The tensors of its media are copied into it: in a thread, for they may be hundreds
        of megabytes."""
        return await asyncio.to_thread(self.codec.generate, request)

    def _drop_fanned(self, request_id: str, ids: tuple[str, ...]) -> None:
        """Forget the calls of a request that was given up, unless another one of that id has begun."""
        if self._fanned.get(request_id) is ids:
            del self._fanned[request_id]

    def abort(self, request_id: str) -> Coroutine[Any, Any, None]:
        """Tell the engine to drop a request, in addition to resetting its stream. Errors are ignored: an engine that is gone
        has dropped it. Which calls the request was made into is looked up now, not when the result is awaited."""
        return self._abort_all(self._fanned.pop(request_id, (request_id,)))

    def _leave(self, request_id: str) -> None:
        """One of the calls of a request has failed: tell the engine to drop the others."""
        telling = asyncio.ensure_future(self.abort(request_id))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _abort_all(self, request_ids: Sequence[str]) -> None:
        await asyncio.gather(*[self._abort(each) for each in request_ids])

    async def _abort(self, request_id: str) -> None:
        call = self.codec.abort(request_id)
        if call is not None:
            with suppress(SmgError):
                await self._ask(call)

    async def health(self, timeout: float | None = None) -> bool:
        """Whether the engine says that it is healthy."""
        return await self._ask(self.codec.health, timeout)

    async def loads(self) -> Loads | None:
        """Its present load; None when the dialect or the engine has no such call."""
        if self.codec.loads is None:
            return None
        try:
            return await self._ask(self.codec.loads)
        except SmgError as error:
            if not_offered(error):
                return None
            raise

    async def pool(
        self, call: PoolCall, *, metadata: Sequence[tuple[str, str]] = (), timeout: float | None = None
    ) -> Sequence[Vector]:
        """The numbers for each input, one after the other; those of a classifier as shares unless the call says otherwise. Raises
        UnsupportedParameter where the dialect has no such call, or cannot say what is asked."""
        found: list[Vector] = []
        for at, ids in enumerate(call.ids):
            types = call.types[at] if call.types else ()
            asked = self.codec.embed(call.id, ids, types) if types else self.codec.embed(call.id, ids)
            if asked is None:
                raise UnsupportedParameter("This engine makes no embeddings.", param="model")
            made = await self._ask(asked, timeout, metadata, work=True)
            if call.kind == "score" and len(made.values) != 1:
                raise EngineGarbled("The engine sent several numbers as the score of a pair.")
            found.append(made if call.kind == "embed" or call.activation is False else activated(made))
        return found

    async def subscribe_kv_events(
        self, sink: EngineSink[KvEventBatch], *, after: int | None = None, connect_timeout: float | None = None
    ) -> Call | None:
        """Have the changes of its KV cache pushed into `sink` until the call is cancelled: from now on, or those after the batch
        of number `after`, of the engine's one rank. None when the dialect has no such call. The sink is closed with EngineFailed
        where the engine does not publish (`status.not_offered`), and with EngineRejected where it cannot continue from `after`
        (`status.cursor_refused`). While the sink's owner has not taken what came, the engine is not read."""
        asked = self.codec.kv_events(after)
        if asked is None:
            return None
        reader = KvReader(asked.parse, sink)
        reader.attach(await self.transport.start(asked.path, asked.message, reader, connect_timeout=connect_timeout))
        return reader

    async def encode(
        self,
        request_id: str,
        media: object,
        item: Encoded,
        *,
        timeout: float,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Have an encode worker make the embeddings of one item of `media`. Returns when it has accepted that."""
        codec: EncodeCodec = self.codec  # type: ignore[assignment]  # no worker of another dialect has this role
        asked = await asyncio.to_thread(codec.encode, request_id, media, item)
        await self._ask(asked, timeout, metadata, work=True)

    async def tokenizer(self) -> tuple[bytes, str] | None:
        """The tokenizer's files as a zip archive, and its sha256 as hex, of at most `limits.tokenizer_bytes`; None when the
        dialect has no such call."""
        pieces = self.codec.tokenizer
        if pieces is None:
            return None
        gather = _ArchiveReceiver(pieces, self._limits.tokenizer_bytes)
        call = await self.transport.start(pieces.path, pieces.message, gather, timeout=self._limits.tokenizer_timeout_s)
        try:
            archive, digest = await gather.done
        finally:
            call.cancel()
        if hashlib.sha256(archive).hexdigest() != digest:
            raise EngineGarbled("The engine's tokenizer archive does not match its digest.")
        return archive, digest

    async def upkeep(self, asked: EngineTask) -> EngineReply | None:
        """Have the engine do a task of the operator's; None when the dialect or the engine has no such call."""
        call = self.codec.upkeep(asked)
        if call is None:
            return None
        wait = asked.wait_s if isinstance(asked, FlushCache) else 0.0
        try:
            return await self._ask(call, self._limits.upkeep_timeout_s + wait, work=True)
        except SmgError as error:
            if isinstance(asked, LoadAdapter | UnloadAdapter) and refused_by_name(error):
                return EngineReply(False, error.outside_text or error.message)
            if not_offered(error):
                return None
            raise

    async def adapters(self) -> tuple[Adapter, ...] | None:
        """The LoRA adapters that it holds now; None when the dialect or the engine cannot list them."""
        if self.codec.adapters is None:
            return None
        try:
            return await self._ask(self.codec.adapters)
        except SmgError as error:
            if not_offered(error):
                return None
            raise

    async def close(self) -> None:
        """Close the transport."""
        for telling in tuple(self._telling):
            telling.cancel()
        await self.transport.close()

    async def _ask(
        self,
        call: Unary[T],
        timeout: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        *,
        work: bool = False,
    ) -> T:
        limit = timeout or self._limits.question_timeout_s
        answer = await self.transport.unary(call.path, call.message, metadata=metadata, timeout=limit, work=work)
        try:
            return call.parse(answer)
        except Exception as fault:  # noqa: BLE001  # one of our errors is itself
            raise ReadingFailed.of(fault) from fault.__cause__


class Reader:
    """One Generate call: the `Receiver` of the transport, the writer to the sink, and the `AnswerCall` that the sink's owner
    holds. `end_s`: seconds that its end may take once it was left.

    A message that cannot be read, a failure that the engine sends as a message, and a fault of the decoder itself close the sink
    with that error and cancel the call; further messages are dropped. A push of more tokens than a slice is passed on slice by
    slice, one in each round of the event loop. Messages that arrive meanwhile, or while the sink's owner has paused, wait.
    """

    __slots__ = ("_backlog", "_call", "_end_s", "_ending", "_feed", "_over", "_paused", "_push", "_sink")

    def __init__(
        self,
        decoder: OutputDecoder,
        sink: EngineSink[EngineOutput],
        end_s: float = _DEFAULTS.question_timeout_s,
    ) -> None:
        self._end_s = end_s
        self._ending: asyncio.TimerHandle | None = None
        self._feed = decoder.feed
        self._push = sink.push
        self._sink = sink
        self._call: Call | None = None
        self._over = False
        self._backlog: _Backlog | None = None
        self._paused = False

    def attach(self, call: Call) -> None:
        """Take the transport's call, once `start` has returned it; messages may have been pushed before."""
        if self._over:
            call.cancel()
        else:
            self._call = call

    # ------------------------------------------------------------------------------------------ pushed by the transport

    def messages(self, batch: list[bytes]) -> None:
        if self._over:
            return
        if self._backlog is not None:
            self._backlog.batches.append(batch)
            return
        try:
            outputs = self._feed(batch)
        except Exception as fault:  # noqa: BLE001  # a fault of the decoder's is not the engine's
            self.cancel()
            self._sink.closed(ReadingFailed.of(fault))
            return
        # Each token and each alternative takes at least a byte, so small pushes, which are nearly all, need not be counted.
        if (len(batch) == 1 and len(batch[0]) <= SLICE) or fit_one_slice(outputs):
            if outputs:
                self._push(outputs)
        else:
            self._backlog = _Backlog(slices(outputs))
            self._push_next()

    def _push_next(self) -> None:
        """Push the next slice; after the last one, read the messages that came meanwhile."""
        backlog = self._backlog
        if self._over or self._paused or backlog is None:
            return
        group = next(backlog.slices, None)
        if group is not None:
            asyncio.get_running_loop().call_soon(self._push_next)
            self._push(group)
            return
        self._backlog = None
        while backlog.batches and self._backlog is None and not self._over:
            self.messages(backlog.batches.popleft())
        if self._over:
            return
        if self._backlog is not None:
            self._backlog.batches, self._backlog.outcome = backlog.batches, backlog.outcome
        elif backlog.outcome is not None:
            self.closed(backlog.outcome[0])

    def closed(self, error: SmgError | None) -> None:
        self._call = None
        if self._ending is not None:
            self._ending.cancel()
        if self._backlog is not None:
            self._backlog.outcome = (error,)
        elif not self._over:
            self._over = True
            self._sink.closed(error)

    # ------------------------------------------------------------------------------------------ asked by the sink's owner

    def cancel(self) -> None:
        self._over = True
        self._backlog = None
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def leave(self) -> None:
        self._over = True
        self._backlog = None
        if self._call is not None and self._ending is None:
            self._call.resume()
            self._ending = asyncio.get_running_loop().call_later(self._end_s, self.cancel)

    def pause(self) -> None:
        self._paused = True
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        self._paused = False
        if self._call is not None:
            self._call.resume()
        if self._backlog is not None:
            asyncio.get_running_loop().call_soon(self._push_next)


@attrs.define(eq=False)
class _Backlog:
    """What waits while a slice is passed on: the further slices of its push, the batches that came later, and the call's end."""

    slices: Iterator[list[EngineOutput]]
    batches: deque[list[bytes]] = attrs.field(factory=deque)
    outcome: tuple[SmgError | None] | None = None


class KvReader:
    """One subscription to KV events: the `Receiver` of the transport, the writer to the sink, and the `Call` of the sink's owner.

    One round of the event loop reads about `PART` blocks. While messages wait here the transport does not read on, so a flood of
    events stays with the engine. A message that cannot be read closes the sink with that error and cancels the call.
    """

    __slots__ = (
        "_call",
        "_held",
        "_outcome",
        "_over",
        "_parse",
        "_paused",
        "_reading",
        "_scheduled",
        "_sink",
        "_waiting",
    )

    def __init__(self, parse: Callable[[bytes], Iterator[KvEventBatch]], sink: EngineSink[KvEventBatch]) -> None:
        self._parse = parse
        self._sink = sink
        self._call: Call | None = None
        self._waiting: deque[bytes] = deque()
        self._reading: Iterator[KvEventBatch] = iter(())
        self._outcome: tuple[SmgError | None] | None = None
        self._scheduled = self._held = self._paused = self._over = False

    def attach(self, call: Call) -> None:
        """Take the transport's call, once `start` has returned it; messages may have been pushed before."""
        if self._over:
            call.cancel()
        else:
            self._call = call

    # ------------------------------------------------------------------------------------------ pushed by the transport

    def messages(self, batch: list[bytes]) -> None:
        if self._over:
            return
        self._waiting.extend(batch)
        if not self._scheduled:
            self._read()

    def closed(self, error: SmgError | None) -> None:
        self._call = None
        self._outcome = (error,)
        if not self._scheduled and not self._paused:
            self._end()

    # ------------------------------------------------------------------------------------------ asked by the sink's owner

    def cancel(self) -> None:
        self._over = True
        self._waiting.clear()
        self._reading = iter(())
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def pause(self) -> None:
        self._paused = True
        self._hold()

    def resume(self) -> None:
        self._paused = False
        self._schedule()

    # ------------------------------------------------------------------------------------------------------- slice by slice

    def _schedule(self) -> None:
        if not self._scheduled and not self._over:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        """Push what one round may take; come back for the rest."""
        self._scheduled = False
        if self._over or self._paused:
            return
        batches: list[KvEventBatch] = []
        failure: SmgError | None = None
        room = PART
        try:
            while room > 0 and (batch := self._next()) is not None:
                batches.append(batch)
                room -= _PER_BATCH
                for event in batch.events:
                    room -= _PER_EVENT + size(event)
        except SmgError as error:
            failure = error
        if batches:
            self._sink.push(batches)
        if self._over:
            return
        if failure is not None:
            self.cancel()
            self._sink.closed(failure)
        elif room <= 0:
            self._hold()
            self._schedule()
        elif self._outcome is not None:
            self._end()
        elif self._held and not self._paused and self._call is not None:
            self._held = False
            self._call.resume()

    def _next(self) -> KvEventBatch | None:
        """The next batch of what has come; None when there is none."""
        while (batch := next(self._reading, None)) is None and self._waiting:
            self._reading = self._parse(self._waiting.popleft())
        return batch

    def _hold(self) -> None:
        if not self._held and self._call is not None:
            self._held = True
            self._call.pause()

    def _end(self) -> None:
        if not self._over and self._outcome is not None:
            self._over = True
            self._sink.closed(self._outcome[0])


class _ArchiveReceiver:
    """Collects the chunks of a tokenizer's archive; `done` is the archive and its sha256, or the error."""

    def __init__(self, pieces: Unary[tuple[bytes, str]], limit: int) -> None:
        self.done: asyncio.Future[tuple[bytes, str]] = asyncio.get_running_loop().create_future()
        self._parse = pieces.parse
        self._limit = limit
        self._size = 0
        self._pieces: list[bytes] = []
        self._digest = ""

    def messages(self, batch: list[bytes]) -> None:
        if self.done.done():
            return
        try:
            for message in batch:
                piece, digest = self._parse(message)
                self._size += len(piece)
                self._pieces.append(piece)
                self._digest = digest or self._digest
        except SmgError as error:
            self._pieces.clear()
            self.done.set_exception(error)
            return
        if self._size > self._limit:
            self._pieces.clear()
            self.done.set_exception(EngineGarbled(f"The engine's tokenizer archive is over {self._limit} bytes."))

    def closed(self, error: SmgError | None) -> None:
        if self.done.done():
            return
        if error is not None:
            self.done.set_exception(error)
        elif not self._pieces:
            self.done.set_exception(EngineTimeout("The engine sent no tokenizer."))
        else:
            self.done.set_result((b"".join(self._pieces), self._digest))
