"""A component as a middleware: an instance for each exchange, and its hooks, on the event loop or in threads (edge).

An exchange takes an instance with its first hook and gives it back at its end, or behind the one head that is all that the
component sees; a call that fails costs the instance. Where its texts are short, a call begins on the event loop, and goes on in a
pool of threads when it has not ended after a few steps; the next calls of that function then begin in a thread. What may wait in
the host runs in threads alone. Above: `loading`. Below: `instances`, `running`, `threads`, `calls`, `worlds`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from smg_core.events import Event
from smg_core.middleware.base import (
    CONTINUE,
    About,
    AnswerPiece,
    ChangeHead,
    ChangeText,
    Continue,
    End,
    EventVerdict,
    Failure,
    HeadVerdict,
    HookName,
    MiddlewareFault,
    PieceMode,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    ResponseHead,
    StorageCall,
    StorageVerdict,
    TextVerdict,
)
from smg_core.middleware.entries import Entry
from smg_core.request import GenerationRequest
from smg_core.wasm.calls import STEPS, STEPS_S, GuestCall, GuestCalls, configured, rest_of_call
from smg_core.wasm.cells import Arguments
from smg_core.wasm.guest_report import GuestReport
from smg_core.wasm.instances import Instances, Waiting
from smg_core.wasm.places import CallPlaces
from smg_core.wasm.plans import Unusable
from smg_core.wasm.running import Compiled, Guest
from smg_core.wasm.threads import GuestThreads, StartClaim
from smg_core.wasm.worlds import (
    SMG,
    about_value,
    end_value,
    error_verdict,
    failure_value,
    head_value,
    head_verdict,
    old_verdict,
    piece_value,
    storage_value,
    storage_verdict,
    text_verdict,
)
from smg_core.wasm.written import Written

__all__ = ["Hear", "WasmPlugin"]

Head = TypeVar("Head", RequestHead, ResponseHead)

Hear = Callable[[str, GuestReport], None]
"""Called with a plugin's name and what one of its instances said in a call."""
_MINUTE = 60.0
_LATE = 1.2
"""After so much of its deadline, a call that does not end is given up: its guest waits in the host, where no epoch stops it."""
_SHORT = 16384  # characters of texts, or bytes of a head, up to which a call begins on the event loop
_NOTHING = Arguments("")


class WasmPlugin:
    """The middleware of one component. `config` is the JSON text that each instance is given; `now_ms` tells the time to
    components of smg:gateway, whose requests carry it; `written` is shared by all plugins of a process. Made and used on
    one event loop."""

    def __init__(
        self,
        entry: Entry,
        compiled: Compiled,
        config: str,
        threads: GuestThreads,
        hear: Hear,
        *,
        written: Written,
        wanted: PieceMode,
        now_ms: Callable[[], int],
    ) -> None:
        self.name = entry.name
        self.entry, self.compiled, self.now_ms = entry, compiled, now_ms
        self.pieces: PieceMode = wanted
        self.begins = "begin" in compiled.exported
        self.written = written
        self._config, self._threads, self._hear = config, threads, hear
        self._instances: Instances[Guest, asyncio.Future[None]] = Instances(entry.limits.instances)
        self._closed = False
        self.places = CallPlaces()
        self._minute, self._lines = -_MINUTE, 0
        self.hooks = self._hooks(compiled, wanted)
        self.sees_one_head = len(self.hooks) == 1 and self.hooks <= {"request_head", "response_head"}

    @staticmethod
    def _hooks(compiled: Compiled, wanted: PieceMode) -> frozenset[HookName]:
        if compiled.world is SMG:
            return frozenset({"request_head", "request_body", "response"})
        found = {hook for hook, function in compiled.world.hooks.items() if function in compiled.exported}
        if wanted == "none":
            found.discard("piece")
        return frozenset(found)

    def begin(self, about: About) -> "_Session":
        """The session of one exchange."""
        if self.compiled.world is SMG:
            return _OldSession(self, about)
        return _Session(self, about)

    @property
    def busy(self) -> int:
        """Exchanges that have an instance now."""
        return self._instances.lent

    def close(self) -> None:
        """No exchange begins any more: idle instances go now, the others with their exchanges."""
        self._closed = True
        for guest in self._instances.clear():
            guest.close()

    # -------------------------------------------------------------------------------------------------------- instances

    def _key(self, about: About) -> str | None:
        share = self.entry.share
        if share == "all":
            return "all"
        return f"tenant {about.tenant}" if share == "tenant" and about.tenant else None

    def idle(self, about: About) -> Guest | None:
        """An idle instance for an exchange, which has it then; None where there is none."""
        return self._instances.take_idle(self._key(about), about.tenant)

    async def take(self, about: About) -> Guest | None:
        """An idle instance for an exchange; None: it makes one, and has its place. Raises MiddlewareFault when none is free in
        time."""
        waits = self.entry.limits.waiting_ms / 1000
        loop = asyncio.get_running_loop()
        until = loop.time() + waits
        while True:
            try:
                found, gone = self._instances.take(self._key(about), about.tenant)
            except Waiting:
                await self._turn(about.tenant, until - loop.time())
                continue
            if gone is not None:
                gone.close()
            return found

    async def _turn(self, tenant: str, seconds: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._instances.wait(tenant, turn)
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await turn
        except TimeoutError:
            raise MiddlewareFault("has no instance free: all that the tenant may have are in exchanges") from None
        finally:
            self._instances.leave(tenant, turn)

    def made(self) -> Guest:
        """A new instance, with its configuration. Blocks. Raises MiddlewareFault."""
        try:
            guest = self.compiled.instance()
            return configured(guest, self._config)
        except Unusable as error:
            raise MiddlewareFault(str(error)) from None

    def give(self, guest: Guest | None, about: About) -> None:
        """Take an instance back; None is one that is of no use any more."""
        if guest is None:
            self._instances.lost(about.tenant)
        else:
            gone = self._instances.give(guest, None if self._closed else self._key(about), about.tenant)
            if gone is not None:
                gone.close()
        turn = self._instances.next()
        while turn is not None and turn.done():
            turn = self._instances.next()
        if turn is not None:
            turn.set_result(None)

    def begins_here(self, name: str) -> bool:
        """Whether the next call of a function begins on the event loop."""
        return self.compiled.in_steps and self.places.begins_here(name)

    def heard(self, guest_words: GuestReport) -> None:
        """Pass on what a guest said: so many lines a minute, of all its instances, and how many more there were."""
        if guest_words.lines:
            now = asyncio.get_running_loop().time()
            if now - self._minute >= _MINUTE:
                self._minute, self._lines = now, 0
            room = max(0, self.entry.limits.log_lines - self._lines)
            self._lines += len(guest_words.lines)
            guest_words.dropped += len(guest_words.lines[room:])
            del guest_words.lines[room:]
        if guest_words.lines or guest_words.counts or guest_words.dropped:
            self._hear(self.name, guest_words)

    def run(self, call: Callable[[], Any], tenant: str) -> "asyncio.Future[Any]":
        """Run something that blocks in a thread, when the tenant may have one. Cancelled as in `GuestThreads.run`."""
        return self._threads.run(call, tenant)


class _Session:
    """A component in one exchange."""

    def __init__(self, plugin: WasmPlugin, about: About) -> None:
        self._plugin, self._about = plugin, about
        self._guest: Guest | None = None
        self._has_place = self._over = False
        self._claim = StartClaim()  # of the call that waits for a thread, or has one
        self._running: asyncio.Future[Any] | None = None
        self._turn = asyncio.Lock()
        self._deadline_s = plugin.entry.limits.deadline_ms / 1000

    # ------------------------------------------------------------------------------------------------------------ calls

    async def _call(self, name: str, size: int, *values: object) -> Any:
        """GuestCall a function of this exchange's instance with texts of so many characters, when the call before is over. Raises
        MiddlewareFault."""
        async with self._turn:
            await self._idle()
            return await self._called(name, size, *values)

    async def _idle(self) -> None:
        """Wait for a call that still runs in a thread, for which nobody waits any more: two calls of an instance at once would
        destroy the memory of both. It ends at its deadline. Raises MiddlewareFault for one that the host does not let go."""
        running = self._running
        if running is not None:
            done, _ = await asyncio.wait({running}, timeout=self._deadline_s * _LATE * 3 + 1.0)
            if not done:
                raise MiddlewareFault("waits in the host beyond its deadline")

    async def _called(self, name: str, size: int, *values: object) -> Any:
        plugin, calls = self._plugin, [(name, values)]
        new = not self._has_place
        if new:
            self._guest = await plugin.take(self._about)
            self._has_place = True
            if plugin.begins:
                calls.insert(0, self._beginning())
        guest = self._guest
        if guest is None:
            if not new:
                raise MiddlewareFault("has no instance in this exchange any more")
            return await self._in_a_thread(lambda: self._made(calls).rest(), 3)
        work = GuestCalls(guest, calls)
        if size <= _SHORT and self._is_done_here(work, name):
            return work.answer
        return await self._in_a_thread(work.rest, len(calls))

    async def _show(self, name: str, head: Head) -> HeadVerdict:
        """Show a head to a function, as `_call`. Where an instance is there or idle, and the call is short, this waits for
        nothing. What is shown to several plugins is written once."""
        plugin, guest, first = self._plugin, self._guest, not self._has_place
        if self._running is not None or self._turn.locked():
            guest = None
        elif first:
            guest = self._guest = plugin.idle(self._about)
            self._has_place = guest is not None
        if guest is None:
            return head_verdict(await self._call(name, _size_of(head), head_value(head)))
        begins, begun = first and plugin.begins, ""
        written = plugin.written.arguments(name, head, head_value)
        if written.size <= _SHORT and plugin.begins_here(name):
            try:
                begun = self._tried_here(guest, name, written, begins=begins)
                if not begun:
                    return head_verdict(self._answer_of(guest))
                plugin.places.was_long(name)
            finally:
                plugin.places.took(name, guest.longest_s)
        calls: list[GuestCall] = [(name, (head_value(head),))]
        if begins:
            calls.insert(0, self._beginning())
        async with self._turn:
            return head_verdict(await self._in_a_thread(GuestCalls(guest, calls, begun).rest, len(calls)))

    async def _head_verdict(self, name: str, head: Head) -> HeadVerdict:
        """As `_show`. A component that sees nothing but this gives its instance back at once: the next exchange finds it warm,
        and there are as many instances as calls at once, not as exchanges."""
        try:
            return await self._show(name, head)
        finally:
            if self._plugin.sees_one_head and self._running is None:
                self._let_go()

    def _tried_here(self, guest: Guest, name: str, written: Arguments, *, begins: bool) -> str:
        """Make a call on the event loop, behind that of the beginning of the exchange if it `begins`. Returns which of the two
        is not over, "" where both are. Raises MiddlewareFault."""
        about = self._about
        try:
            if begins:
                beginning = self._plugin.written.arguments("begin", about, about_value)
                if not guest.at_once("begin", beginning, STEPS, STEPS_S):
                    return "begin"
                guest.answer()
            return "" if guest.at_once(name, written, STEPS, STEPS_S) else name
        except MiddlewareFault:
            self._lost()
            raise

    def _answer_of(self, guest: Guest) -> Any:
        """The answer to the call that is over, and what the guest said beside it. Raises MiddlewareFault."""
        try:
            answer = guest.answer()
        except MiddlewareFault:
            self._lost()
            raise
        self._heard(guest)
        return answer

    def _beginning(self) -> GuestCall:
        return "begin", (about_value(self._about),)

    def _is_done_here(self, work: GuestCalls, name: str) -> bool:
        """Make calls on the event loop, if they may begin there. Returns whether they are over. Raises MiddlewareFault."""
        if not self._plugin.begins_here(name):
            return False
        plugin = self._plugin
        try:
            done = work.briefly()
        except MiddlewareFault:
            self._lost()
            raise
        finally:
            plugin.places.took(name, work.guest.longest_s)
        if done:
            self._heard(work.guest)
        else:
            plugin.places.was_long(name)
        return done

    def _made(self, calls: Sequence[GuestCall]) -> GuestCalls:
        """In a thread: a new instance, which `calls` wait for. Raises MiddlewareFault."""
        guest = self._guest = self._plugin.made()
        if self._over:
            raise MiddlewareFault("was given up before it began")
        return GuestCalls(guest, calls)

    async def _in_a_thread(self, work: Callable[[], Any], calls: int) -> Any:
        """Run so many calls in a thread. Raises MiddlewareFault."""
        claim = self._claim = StartClaim()

        def begun() -> Any:
            if not claim.take():
                raise MiddlewareFault("was given up before it began")
            return work()

        running = self._running = self._plugin.run(begun, self._about.tenant)
        running.add_done_callback(self._settled)
        within = self._deadline_s * _LATE * calls + 1.0
        done, _ = await asyncio.wait({running}, timeout=within)
        if not done and self._gives_up(running):
            raise MiddlewareFault("has no thread free: all that the tenant may have are in calls")
        if not done:
            raise MiddlewareFault("waits in the host beyond its deadline")
        return running.result()

    def _gives_up(self, running: "asyncio.Future[Any]") -> bool:
        """Have the call that waits for a thread never begin. False where it has begun: its instance must be left alone then,
        since two threads in one instance would end the process."""
        if not self._claim.take():
            return False
        running.cancel()
        return True

    def _heard(self, guest: Guest) -> None:
        if guest.has_reported:
            self._plugin.heard(guest.tell())

    def _lost(self) -> None:
        """A call failed: its instance is of no use any more."""
        guest, self._guest = self._guest, None
        if guest is not None:
            self._heard(guest)
            guest.close()

    def _settled(self, running: "asyncio.Future[Any]") -> None:
        """On the loop, when a call in a thread is over: pass on what the guest said, and let go of one that failed."""
        self._running = None
        guest = self._guest
        if guest is not None:
            self._heard(guest)
        if running.cancelled() or running.exception() is not None:
            self._lost()
        if self._over:
            self._let_go()

    def close(self) -> None:
        """The exchange is over: the instance goes back. A call that still runs is stopped, since nobody waits for it."""
        self._over = True
        running, guest = self._running, self._guest
        if running is None:
            self._let_go()
        elif not self._gives_up(running) and guest is not None:
            guest.stop()

    def _let_go(self) -> None:
        if not self._has_place:
            return
        guest, self._guest, self._has_place = self._guest, None, False
        if guest is None or not guest.has("finish"):
            self._plugin.give(guest, self._about)
            return
        begun = ""
        if self._plugin.begins_here("finish"):
            try:
                if guest.at_once("finish", _NOTHING, STEPS, STEPS_S):
                    guest.answer()
                    self._finished(guest, failed=False)
                    return
            except MiddlewareFault:
                self._finished(guest, failed=True)
                return
            finally:
                self._plugin.places.took("finish", guest.longest_s)
            self._plugin.places.was_long("finish")
            begun = "finish"
        running = self._plugin.run(GuestCalls(guest, [("finish", ())], begun).rest, self._about.tenant)
        running.add_done_callback(
            lambda done: self._finished(guest, failed=done.cancelled() or done.exception() is not None)
        )

    def _finished(self, guest: Guest, *, failed: bool) -> None:
        self._heard(guest)
        if failed:
            guest.close()
        self._plugin.give(None if failed else guest, self._about)

    # ------------------------------------------------------------------------------------------------------------ hooks

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return await self._head_verdict("request_head", head)

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return text_verdict(await self._call("request_body", len(body.text), body.text))

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return await self._head_verdict("response_head", head)

    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        raise MiddlewareFault("has no such hook")

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        raise MiddlewareFault("has no such hook")

    def on_event(self, event: Event) -> EventVerdict:
        raise MiddlewareFault("has no such hook")

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
        """A piece is shown at once where the instance is there and the call is short: a stream of tokens then does not wait for
        another turn of the event loop."""
        guest, plugin = self._guest, self._plugin
        if guest is None or self._turn.locked() or self._running is not None:
            return self._piece_in_turn(piece)
        if len(piece.text) > _SHORT or not plugin.begins_here("piece"):
            return self._long_piece(GuestCalls(guest, [("piece", (piece_value(piece),))]).rest)
        try:
            guest.begin("piece", piece_value(piece), short=True)
            if not guest.advance(STEPS, STEPS_S):
                plugin.places.was_long("piece")
                return self._long_piece(rest_of_call(guest))
            verdict = text_verdict(guest.answer())
        except MiddlewareFault:
            self._lost()
            raise
        finally:
            plugin.places.took("piece", guest.longest_s)
        self._heard(guest)
        return verdict

    async def _piece_in_turn(self, piece: AnswerPiece) -> PieceVerdict:
        return text_verdict(await self._call("piece", len(piece.text), piece_value(piece)))

    async def _long_piece(self, work: Callable[[], Any]) -> PieceVerdict:
        async with self._turn:
            return text_verdict(await self._in_a_thread(work, 1))

    async def on_end(self, end: End) -> str:
        verdict: str = await self._call("end", 0, end_value(end))
        return verdict

    async def on_error(self, failure: Failure) -> Continue | Reject:
        return error_verdict(await self._call("error", len(failure.message), failure_value(failure)))

    async def on_store(self, call: StorageCall) -> StorageVerdict:
        return storage_verdict(await self._call("store", _size_of_texts(call), storage_value(call)))

    async def on_stored(self, call: StorageCall) -> None:
        await self._call("stored", _size_of_texts(call), storage_value(call))


def _size_of_texts(call: StorageCall) -> int:
    return sum(len(text) + 64 for _, text in call.texts)


def _size_of(head: RequestHead | ResponseHead) -> int:
    """The characters of a head's headers, of which each costs as much as some more."""
    return sum(len(name) + len(value) + 64 for name, value in head.headers)


class _OldSession(_Session):
    """A component of smg:gateway in one exchange: its first hook is called with head and body, when the body has come, and the
    second for answers that are sent whole. Every call has an instance of its own, as there."""

    _head: RequestHead | None = None

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        self._head = head
        return CONTINUE

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        head = self._head
        if head is None:
            raise MiddlewareFault("was not shown the head")
        about = self._about
        value = (*head_value(head), body.text, about.request_id, self._plugin.now_ms())
        answer = await self._once("old_request", value)
        of_head, of_text = old_verdict(answer, may_have_status=False)
        if isinstance(of_head, ChangeHead) and isinstance(of_text, Continue):
            return ChangeText(body.text, of_head)
        if isinstance(of_text, ChangeText):
            return ChangeText(of_text.text, of_head if isinstance(of_head, ChangeHead) else None)
        return of_text

    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        answer = await self._once("old_response", (*head_value(head), body))
        return old_verdict(answer, may_have_status=True)

    async def _once(self, name: str, value: tuple[Any, ...]) -> Any:
        try:
            return await self._call(name, _SHORT + 1, value)
        finally:
            if self._running is None and self._has_place:
                guest, self._guest, self._has_place = self._guest, None, False
                if guest is not None:
                    guest.close()
                self._plugin.give(None, self._about)
