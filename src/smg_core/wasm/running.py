"""Runs guests: compiles components, makes instances, and calls them within bounds of time, memory and stack (edge).

A call runs in steps, on a stack of its own: the guest gives way after so many instructions, and goes on where it was with the
next step, in any thread. So a short call can be made on the event loop, which gets back after each step, and one that takes
longer goes on in a thread. A call that begins in a thread has long steps, which the epoch of the engine ends; a thread advances
that while such guests run. The deadline is looked at between two steps. The classes of wasmtime-py know calls without steps
only, so the functions of its C interface are called here.

Components that may wait in the host (WASI) are called without steps, in threads; a trap stops them at their deadline. Above:
`loading`, `plugin`. Below: `values`, `worlds`, wasmtime.
"""

import ctypes
import hashlib
import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib.resources import files
from secrets import randbits
from typing import Any

import attrs
from wasmtime import Config, Engine, Store, WasiConfig, WasmtimeError, wat2wasm
from wasmtime import _ffi as ffi
from wasmtime.component import Component, Func, Instance, Linker

from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.entries import Limits
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.wasm.bounds import AnswerBounds
from smg_core.wasm.cells import CELL, Arguments, Malformed, cell_text, put_text
from smg_core.wasm.guest_report import GuestReport
from smg_core.wasm.joining import PACKED, Broken, outline, with_adapter
from smg_core.wasm.plans import ComponentPlan, Unusable
from smg_core.wasm.worlds import CLOCK, HOST, OURS, PASSES, RANDOM, Function, interface_hook

__all__ = ["Compiled", "Guest", "GuestStopped", "Sandbox"]

_CORE_INSTANCES, _TABLES, _TABLE_ELEMENTS, _MEMORIES = 64 + 4, 32, 100_000, 8 + 1  # the latter parts are the adapter's
_BOUNDS = AnswerBounds.of(MiddlewareConfig())
_ADAPTER = files("smg_core.wasm") / "adapter"
_MOST_LINES = 4096  # calls of log and count in one call of a guest, which is stopped then
_MOST_TEXT = 1 << 20  # characters of all that it says there
_LINES_IN_STEP = 16  # calls of log and count after which a step on the event loop ends: some 0.5 ms
_TICKS = 12  # ticks of a deadline: a guest is stopped within one tick of it
_QUIET_S = 0.5  # seconds without a call after which the epoch stands still
_SUSPECT_S, _WATCHED = 0.001, 256  # a step as long as this on the event loop has so many measured
_STEP = 50_000  # instructions of a step on the event loop: some 20 us
_AT_ONCE = 1  # instructions of a step that ends with the next look at it
_ENDLESS = 1 << 60  # instructions of a step in a thread, and those that an instance may run in its life: no bound
_OWN_STACK_MORE = 1 << 20  # bytes of the stack of a call for the host's functions, beside the guest's
_HOST_ON_ANY_STACK = sys.version_info < (3, 14)
"""Whether Python code may run on the stack of a call: newer interpreters take another stack for an overflow of theirs."""

_P, _N = ctypes.c_void_p, ctypes.c_size_t
_CALL = ctypes.CFUNCTYPE(_P, _P, _P, _P, _N, _P, _N)(("wasmtime_component_func_call", ffi.dll))
# PYFUNCTYPE keeps the interpreter's lock: these take less than a microsecond, and no guest runs in them.
_BEGIN = ctypes.PYFUNCTYPE(_P, _P, _P, _P, _N, _P, _N, _P)(("wasmtime_component_func_call_async", ffi.dll))
_DELETE = ctypes.PYFUNCTYPE(None, _P)(("wasmtime_component_val_delete", ffi.dll))
_STEP_BY_INSTRUCTIONS = ctypes.PYFUNCTYPE(_P, _P, ctypes.c_uint64)(
    ("wasmtime_context_fuel_async_yield_interval", ffi.dll)
)
_STEP_BY_EPOCH = ctypes.PYFUNCTYPE(None, _P, ctypes.c_uint64)(
    ("wasmtime_context_epoch_deadline_async_yield_and_update", ffi.dll)
)
_OWN_STACK = ctypes.PYFUNCTYPE(None, _P, ctypes.c_uint64)(("wasmtime_config_async_stack_size_set", ffi.dll))
_GO_ON = ctypes.CFUNCTYPE(ctypes.c_bool, _P)(("wasmtime_call_future_poll", ffi.dll))
_GO_ON_SHORT = ctypes.PYFUNCTYPE(ctypes.c_bool, _P)(("wasmtime_call_future_poll", ffi.dll))
_FORGET_ENDED = ctypes.PYFUNCTYPE(None, _P)(("wasmtime_call_future_delete", ffi.dll))
_FORGET = ctypes.CFUNCTYPE(None, _P)(("wasmtime_call_future_delete", ffi.dll))
_INSTANTIATE = ctypes.CFUNCTYPE(_P, _P, _P, _P, _P, _P)(("wasmtime_component_linker_instantiate_async", ffi.dll))
_ENGINE_FAULTS = (
    ("answer_beyond_its_bounds", "answered more than it may"),
    ("no_memory_left", "wanted more memory than it may have"),
    ("invalid utf", "answered a text that is no UTF-8"),
    ("invalid variant discriminant", "answered a case that there is not"),
    ("out-of-bounds", "reached outside its memory"),
    ("wasm trap: interrupt", "was stopped: it took longer than its deadline"),
    ("floods the log", "was stopped: it floods the log"),
    ("call stack exhausted", "used more than its stack"),
    ("unreachable", "trapped"),
    ("memory", "reached outside its memory, or wanted more than it may have"),
    ("wasm trap", "trapped"),
)


class GuestStopped(MiddlewareFault):
    """A guest ran past its deadline."""

    def __init__(self, reason: str = "was stopped: it took longer than its deadline") -> None:
        super().__init__(reason)


def _reason(error: BaseException) -> str:
    """A failure within wasmtime in words."""
    text = str(error)
    found = next((sentence for mark, sentence in _ENGINE_FAULTS if mark in text), None)
    return found or f"failed: {(text.splitlines() or [''])[0][:200]}"


# ------------------------------------------------------------------------------------------------------------ engines


class _Epoch:
    """Advances the epoch of engines while guests run, in one thread: with two of them deadlines would come twice as soon."""

    def __init__(self, tick_s: float) -> None:
        self.tick_s = tick_s
        self._engines: list[Engine] = []
        self._until = self._longest_s = 0.0
        self._wanted = threading.Event()
        self.stopped = self._closed = False
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()

    def add(self, engine: Engine) -> None:
        with self._changing:
            self._engines = [*self._engines, engine]

    def called(self, deadline_s: float) -> float:
        """A guest is about to run, for so many seconds at most; returns the time."""
        now = time.monotonic()
        with self._changing:
            self._until, self._longest_s = max(self._until, now + deadline_s), max(self._longest_s, deadline_s)
            if not self._wanted.is_set():
                self._wanted.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="smg-wasm-epoch", daemon=True)
                self._thread.start()
        return now

    def stop(self) -> None:
        """End all calls that are under way, wherever they are."""
        self.stopped = True
        for engine in self._engines:
            for _ in range(math.ceil(self._longest_s / self.tick_s) + 2):
                engine.increment_epoch()

    def close(self) -> None:
        """End the thread."""
        self._closed = self.stopped = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """A tick that comes late is made up for: deadlines are of the clock on the wall."""
        due = time.monotonic() + self.tick_s
        while not self._closed:
            time.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            if now - due > 1.0:  # the process stood still, and its guests with it
                due = now
            while due <= now:
                due += self.tick_s
                for engine in self._engines:
                    engine.increment_epoch()
            if now - self._until > _QUIET_S:
                self._wanted.clear()
                if time.monotonic() > self._until:
                    self._wanted.wait()
                due = time.monotonic() + self.tick_s

    def knows(self, deadline_s: float) -> None:
        """A plugin has this deadline: tick often enough for it."""
        self.tick_s = min(self.tick_s, max(0.0005, deadline_s / _TICKS))


class Sandbox:
    """What all plugins of a process share: engines by the size of their stacks, compiled components by their contents, and the
    epoch. `most` bounds the compiled components that are kept. Its methods may be called from any thread."""

    def __init__(self, most: int) -> None:
        if ctypes.sizeof(ffi.wasmtime_component_val_t) != CELL:
            raise Unusable(
                "cannot run with this version of the package wasmtime: its values lie in memory in another way"
            )
        self._most = most
        self._engines: dict[int, Engine] = {}
        self._compiled: OrderedDict[tuple[str, int, AnswerBounds], Component] = OrderedDict()
        self._lock = threading.Lock()
        self.epoch = _Epoch(0.005)
        self.cpu: Callable[[], float] = time.thread_time  # what the thread that asks has had of the processor

    def engine(self, stack_kib: int) -> Engine:
        """The engine for a size of stack."""
        with self._lock:
            found = self._engines.get(stack_kib)
            if found is None:
                config = Config()
                config.epoch_interruption = True
                config.consume_fuel = True
                config.max_wasm_stack = stack_kib * 1024
                _OWN_STACK(_address(config.ptr()), stack_kib * 1024 + _OWN_STACK_MORE)
                config.memory_reservation = 1 << 26
                config.memory_guard_size = 1 << 16
                found = self._engines[stack_kib] = Engine(config)
                self.epoch.add(found)
            return found

    def compile(self, wasm: bytes, limits: Limits, grants: Sequence[str], bounds: AnswerBounds = _BOUNDS) -> "Compiled":
        """A component that can be used with these grants. Takes up to seconds for what was not compiled lately. Raises
        Unusable."""
        if wasm[:8] == b"\0asm\x01\0\0\0":
            raise Unusable("is a core module, not a component; make one of it with `smg-gateway plugin build`")
        if wasm[:4] != b"\0asm":
            raise Unusable("is no WebAssembly")
        engine = self.engine(limits.stack_kib)
        try:
            plan = ComponentPlan(outline(wasm), grants)
        except Broken as broken:
            _compiled(engine, wasm)  # which has better words for most of it
            raise Unusable(f"cannot be joined with the gateway's adapter: it {broken}") from None
        digest = hashlib.sha256(wasm).hexdigest()
        key = digest, limits.stack_kib, bounds
        with self._lock:
            component = self._compiled.get(key)
            if component is not None:
                self._compiled.move_to_end(key)
        if component is None:
            component = self._joined(engine, wasm, plan, bounds)
            with self._lock:
                self._compiled[key] = component
                while len(self._compiled) > self._most:
                    self._compiled.popitem(last=False)
        return Compiled(self, engine, component, limits, plan, digest)

    @staticmethod
    def _joined(engine: Engine, wasm: bytes, plan: "ComponentPlan", bounds: AnswerBounds) -> Component:
        """A component joined with the adapter, which holds its answers within bounds. Raises Unusable."""
        places = {name: (interface, function.name) for name, (interface, function) in plan.exported.items()}
        memory, adapter = _memory(bounds), (_ADAPTER / "adapter.wasm").read_bytes()
        try:
            component = Component(
                engine, with_adapter(wasm, plan.outline, places, PASSES, memory=memory, adapter=adapter)
            )
            types = component.type
        except WasmtimeError as error:
            types = _compiled(engine, wasm).type
            plan.check_types(engine, types)
            raise Unusable(f"cannot be joined with the gateway's adapter: {_first_line(error)}") from None
        plan.check_types(engine, types)
        return component

    def stop(self) -> None:
        """End the calls of all guests, without waiting for their deadlines."""
        self.epoch.stop()

    def close(self) -> None:
        """Stop the epoch, when no guest runs any more."""
        self.epoch.close()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _compiled(engine: Engine, wasm: bytes) -> Component:
    """A component as it is. Raises Unusable."""
    try:
        return Component(engine, wasm)
    except WasmtimeError as error:
        raise Unusable(f"cannot be compiled: {_first_line(error)}") from None


def _memory(bounds: AnswerBounds) -> bytes:
    """The module of the adapter's memory, with the bounds of answers in it."""
    text = (_ADAPTER / "memory.wat").read_text()
    for name, number in zip(("HEADERS", "HEAD", "PIECE", "BODY"), (bounds.headers, *bounds.rooms), strict=True):
        text = text.replace(f"(i32.const {name})", f"(i32.const {number})")
    return bytes(wat2wasm(text))


def _address(pointer: Any) -> int | None:
    """The address that a pointer of wasmtime's C interface has."""
    return ctypes.cast(pointer, ctypes.c_void_p).value


class Compiled:
    """A component, with what its instances may use. `exported` has the functions that it exports, by their names in `worlds`;
    `in_steps` says whether its calls run in steps."""

    def __init__(
        self, sandbox: Sandbox, engine: Engine, component: Component, limits: Limits, plan: ComponentPlan, digest: str
    ) -> None:
        self.sandbox, self.engine, self.limits, self.digest = sandbox, engine, limits, digest
        self._component, self._plan = component, plan
        self.watched = 0  # steps on the event loop that are still measured
        self.world = plan.world
        self.exported = {name: function for name, (_, function) in plan.exported.items()}
        runs_python = any(interface_hook(each) in ("host", "clock", "random") for each in plan.outline.imports)
        self.in_steps = not plan.wants_wasi and self.world is OURS and (_HOST_ON_ANY_STACK or not runs_python)
        sandbox.epoch.knows(limits.deadline_ms / 1000)

    def linker(self, host: "Guest") -> Linker:
        """What a guest imports."""
        linker = Linker(self.engine)
        if self._plan.wants_wasi:
            linker.add_wasip2()
        given: dict[str, dict[str, Callable[..., object]]] = {
            HOST: {"log": host.log_line, "count": host.count},
            CLOCK: {"now": lambda store: int(time.time() * 1000)},
            RANDOM: {"number": lambda store: randbits(64)},
        }
        for name in self._plan.outline.imports:
            if name in given:
                with linker.root() as root, root.add_instance(name) as instance:
                    for function, call in given[name].items():
                        instance.add_func(function, call)
        return linker

    def instance(self, least_s: float = 0.0) -> "Guest":
        """A new instance, whose calls have `least_s` seconds at least. Raises Unusable where it cannot be made, MiddlewareFault
        where it fails as it begins."""
        return Guest(self, self._component, wasi=self._plan.wants_wasi, least_s=least_s)


# ------------------------------------------------------------------------------------------------------------- guests


@attrs.frozen
class _Export:
    """A function of one instance: `begin` begins a call of it, `call` makes one without steps."""

    begin: Callable[[], int | None]
    call: Callable[[], int | None]
    function: Function
    kept: Func  # which both have the address of


class Guest:
    """One instance of a component. It has one call at a time, and is of no use any more after a call that failed. `longest_s` is
    the longest step of the call on the event loop, in time of the processor: none should be long."""

    def __init__(self, compiled: Compiled, component: Component, *, wasi: bool, least_s: float = 0.0) -> None:
        self.compiled = compiled
        self.report = GuestReport()
        self.has_reported = False
        limits = compiled.limits
        self._ticking = compiled.sandbox.epoch
        self._deadline_s = max(limits.deadline_ms / 1000, least_s)
        self._store = store = Store(compiled.engine)
        store.set_limits(
            memory_size=int(limits.memory_mib * (1 << 20)),
            table_elements=_TABLE_ELEMENTS,
            instances=_CORE_INSTANCES,
            tables=_TABLES,
            memories=_MEMORIES,
        )
        store.set_fuel(_ENDLESS)
        if wasi:
            store.set_wasi(WasiConfig())
        self._argument = (ctypes.c_char * CELL)()
        self._answer = (ctypes.c_char * CELL)()
        self._answer_at = ctypes.addressof(self._answer)
        self._error = (ctypes.c_void_p * 1)()
        self._error_at = ctypes.addressof(self._error)
        self._context = _address(store._context())
        self._linker = compiled.linker(self)
        self._running: int | None = None
        self._read: Callable[[str], Any] | None = None
        self._given: Arguments | None = None
        self._ends = 0.0
        self._step = self._lines = 0
        self._stopped = False
        self._cpu = compiled.sandbox.cpu
        self.longest_s = 0.0
        if compiled.in_steps:
            _STEP_BY_EPOCH(self._context, 1)
            self._instance = self._instantiated(component)
        else:
            self._arm()
            try:
                self._instance = self._linker.instantiate(store, component)
            except WasmtimeError as error:
                raise Unusable(f"cannot be instantiated: {_reason(error)}") from None
        at = self._instance.get_export_index(store, PACKED)
        self._functions = {name: self._function(name, each, at) for name, each in compiled.exported.items()}

    def _instantiated(self, component: Component) -> Instance:
        """The instance of a component whose calls run in steps, since a store that has these has no other calls. Blocks."""
        made = ffi.wasmtime_component_instance_t()
        self._ends = self._ticking.called(self._deadline_s) + self._deadline_s
        linker, code = _address(self._linker.ptr()), _address(component.ptr())
        self._running = _INSTANTIATE(linker, self._context, code, ctypes.addressof(made), self._error_at)
        try:
            self.advance()
            self._raise_error()
        except MiddlewareFault as fault:
            raise Unusable(f"cannot be instantiated: {fault.reason}") from None
        return Instance._from_raw(made)

    def _function(self, name: str, function: Function, interface: Any) -> _Export:
        store, instance = self._store, self._instance
        index = instance.get_export_index(store, name.replace("_", "-"), interface)
        found = instance.get_func(store, index) if index is not None else None
        if found is None:
            raise Unusable(f"has no {name} behind its adapter")
        # The values that are the same in each call are made once: making them costs as much as the call.
        first, second, error_at = _P(ctypes.addressof(found._func)), _P(self._context), _P(self._error_at)
        given, count = _P(ctypes.addressof(self._argument)), _N(0 if function.packed is None else 1)
        answer_at, answers = (
            _P(None if function.read is None else self._answer_at),
            _N(0 if function.read is None else 1),
        )

        def begin() -> int | None:
            return _BEGIN(first, second, given, count, answer_at, answers, error_at)  # type: ignore[no-any-return]

        def call() -> int | None:
            return _CALL(first, second, given, count, answer_at, answers)  # type: ignore[no-any-return]

        return _Export(begin, call, function, found)

    def _arm(self) -> None:
        self._ticking.called(self._deadline_s)
        self._store.set_epoch_deadline(math.ceil(self._deadline_s / self._ticking.tick_s) + 1)

    def has(self, name: str) -> bool:
        """Whether it exports a function."""
        return name in self._functions

    def call(self, name: str, *values: object) -> Any:
        """Call a function; returns its result as `values` has it. Blocks until it is over, or its deadline. Raises
        MiddlewareFault."""
        if self.compiled.in_steps:
            self.begin(name, *values)
            self.advance()
            return self.answer()
        exported = self._functions[name]
        self._put(Arguments(exported.function.pack(*values)))
        self._arm()
        failed = exported.call()
        self._given = None
        if failed:
            raise _fault(failed)
        return self._lifted(exported.function.read)

    # ------------------------------------------------------------------------------------------------------------ steps

    def begin(self, name: str, *values: object, short: bool = False) -> None:
        """Begin a call of a component whose calls run in steps. `short`: its steps are as short as the event loop needs."""
        exported = self._functions[name]
        self._begin(exported, Arguments(exported.function.pack(*values)), _STEP if short else _ENDLESS)

    def at_once(self, name: str, arguments: Arguments, steps: int, seconds: float) -> bool:
        """Begin a call with arguments that were written for several instances, and run it as `advance` does, in steps as short as
        the event loop needs."""
        self._begin(self._functions[name], arguments, _STEP)
        running = self._running
        if not self._step_short(running):
            return self.advance(steps - 1, seconds)
        self._running = None
        _FORGET_ENDED(running)
        return True

    def _put(self, arguments: Arguments) -> None:
        put_text(self._argument, arguments)
        self._given = arguments  # kept until the call is over

    def _begin(self, exported: _Export, arguments: Arguments, step: int) -> None:
        self._set_step(step)
        self._put(arguments)
        self._read, self.longest_s = exported.function.read, 0.0
        # Steps of so many instructions need no epoch, whose thread costs each request on a gateway that has few.
        now = time.monotonic() if step == _STEP else self._ticking.called(self._deadline_s)
        self._ends = now + self._deadline_s
        self._running = exported.begin()

    def _set_step(self, instructions: int) -> None:
        if instructions != self._step:
            _STEP_BY_INSTRUCTIONS(self._context, instructions)
            self._step = instructions

    def prolong(self) -> None:
        """The call goes on in a thread, and has its whole deadline there."""
        self._ends = time.monotonic() + self._deadline_s

    def stop(self) -> None:
        """Have the call that is under way, in another thread, end with its next step, as at its deadline. The instance is of no
        use then. A component that may wait in the host ends at its deadline only."""
        self._stopped = True

    def advance(self, steps: int = sys.maxsize, seconds: float = math.inf) -> bool:
        """Run the call for at most so many steps, and none that would begin after so many seconds. Returns whether it is over.
        Raises GuestStopped at its deadline, and where it was stopped."""
        running, until = self._running, math.inf
        step = self._step
        go_on = self._step_short if step == _STEP and steps < sys.maxsize else _GO_ON
        while not go_on(running):
            self._set_step(step)  # which a guest that talks has ended early
            now, steps = time.monotonic(), steps - 1
            if now >= self._ends or self._stopped or self._ticking.stopped:
                self.abandon()
                raise GuestStopped if now >= self._ends else GuestStopped("was stopped: nobody waits for it any more")
            if until == math.inf:
                until = now + seconds
            if steps <= 0 or now >= until:
                return False
        self._running = None
        _FORGET_ENDED(running)
        return True

    def _step_short(self, running: int | None) -> bool:
        """A step on the event loop. Returns whether the call is over. The time of the processor is a system call, and is asked
        for only after a step was long by the clock on the wall, which may be the machine's fault."""
        compiled = self.compiled
        is_over: bool
        if compiled.watched:
            compiled.watched -= 1
            began = self._cpu()
            is_over = _GO_ON_SHORT(running)
            self.longest_s = max(self.longest_s, self._cpu() - began)
        else:
            began = time.monotonic()
            is_over = _GO_ON_SHORT(running)
            if time.monotonic() - began > _SUSPECT_S:
                compiled.watched = _WATCHED
        return is_over

    def answer(self) -> Any:
        """The result of the call that is over. Raises MiddlewareFault."""
        self._given = None
        if self._error[0]:
            self._raise_error()
        return self._lifted(self._read) if self._read is not None else None

    def abandon(self) -> None:
        """Give up the call that is under way; the instance is of no use any more."""
        running, self._running = self._running, None
        if running is not None:
            _FORGET(running)
        self._given = None

    # ----------------------------------------------------------------------------------------------------------- values

    def _lifted(self, read: Callable[[str], Any] | None) -> Any:
        if read is None:
            return None
        try:
            return read(cell_text(self._answer))
        except Malformed as error:
            raise MiddlewareFault(f"answered {error}") from None
        finally:
            _DELETE(self._answer_at)
            self._answer[0] = b"\0"  # the next call would free it once more

    def _raise_error(self) -> None:
        failed = self._error[0]
        if failed:
            self._error[0] = None
            raise _fault(failed)

    # ------------------------------------------------------------------------------------------------------------- host

    def log_line(self, store: object, level: str, message: str) -> None:
        """The guest logs a line."""
        self._check_flood(len(message))
        self.report.log(level, message)

    def count(self, store: object, name: str, by: float) -> None:
        """The guest counts."""
        self._check_flood(len(name))
        self.report.count(name, by)

    def _check_flood(self, size: int) -> None:
        """Stop a guest that only talks: each call of the host costs microseconds, and more with a long text, with the
        interpreter's lock."""
        self.has_reported = True
        self._lines += 1
        if self._lines % _LINES_IN_STEP == 0 and self._step == _STEP:
            self._set_step(_AT_ONCE)
        if self.report.dropped >= _MOST_LINES or self.report.size + size > _MOST_TEXT:
            raise WasmtimeError("it floods the log")

    def tell(self) -> GuestReport:
        """What it has said since this was last asked."""
        words, self.report, self.has_reported = self.report, GuestReport(), False
        return words

    def close(self) -> None:
        """Free its memory."""
        self.abandon()
        self._functions = {}
        self._store.close()


def _fault(failed: int) -> MiddlewareFault:
    """The fault that an error of wasmtime's C interface is."""
    error = WasmtimeError._from_ptr(ctypes.cast(failed, ctypes.POINTER(ffi.wasmtime_error_t)))
    reason = _reason(error)
    return GuestStopped(reason) if "deadline" in reason else MiddlewareFault(reason)
