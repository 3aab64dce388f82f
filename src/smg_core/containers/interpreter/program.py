"""Runs the interpreter of one container, as a program of its own (edge): whatever the code does, it is ended.

Its argument is a JSON object (`_Bounds` below). It listens at a socket in the container's folder, which only this user may open,
and takes one call after the other: a frame with `code`, `characters` and `seconds` comes, a byte says that its turn has come, and
a frame has what the guest gave, or `stopped`, why the interpreter has ended. It ends by itself where a call takes too long, where
the files are too many or too large, where the caller leaves, when nobody has called for a while, and with the process that has
started it, whose end its standard input tells. It imports nothing of this package, so that it runs by its path, in a Python
without an environment. Above: `running`. Below: wasmtime.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import wasmtime
from wasmtime.component import Component, Linker

__all__: list[str] = []

_WATCH_S = 0.02  # how often a call is looked at
_LOOKS = 5  # looks at the clock and at the caller for each look at the files
_DEPTH = 16  # folders within folders
_SIZE = struct.Struct(">I")
_MOST_FRAME = 64 * 1024 * 1024
_STACK = 1 << 20
_OPEN_FILES = 256
_BACKLOG = 32
_NICE = 10


class _Bounds(NamedTuple):
    """What the program is started with: the compiled `component`, the container's `folder`, bytes of `memory`, bytes and number
    of its `files`, and the seconds after the last call at which it ends."""

    component: str
    folder: str
    memory: int
    bytes: int
    files: int
    idle_s: float


def _bound(bounds: _Bounds) -> None:
    """Have the system bound this program too, where it can."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    try:
        import resource
    except ImportError:  # Windows has no such bounds
        return
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, bounds.bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_DATA, 3 * bounds.memory + (512 << 20)),
    ):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))


def _over(folder: str, most_bytes: int, most_files: int) -> bool:
    """Whether there is more in a folder than may be."""
    size = count = 0
    pending = [(folder, 0)]
    while pending:
        path, depth = pending.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((entry.path, depth + 1))
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if count > most_files or size > most_bytes or depth > _DEPTH:
                        return True
        except FileNotFoundError:
            continue  # it went meanwhile
        except OSError:
            return True  # its name has become too long to be asked for
    return False


class _Interpreter:
    """The instance, and what is read of its answers."""

    def __init__(self, bounds: _Bounds) -> None:
        config = wasmtime.Config()
        config.max_wasm_stack = _STACK
        engine = wasmtime.Engine(config)
        component = Component.deserialize_file(engine, bounds.component)
        linker = Linker(engine)
        linker.add_wasip2()
        self._store = store = wasmtime.Store(engine)
        wasi = wasmtime.WasiConfig()
        wasi.preopen_dir(str(Path(bounds.folder, "data")), "/mnt/data")
        store.set_wasi(wasi)
        store.set_limits(memory_size=bounds.memory, table_elements=1_000_000, instances=1000, tables=1000, memories=100)
        run = linker.instantiate(store, component).get_func(store, "run")
        if run is None:
            raise wasmtime.WasmtimeError("the component has no function `run`")
        self._run = run

    def call(self, request: dict[str, Any]) -> str:
        """The guest's answer. Raises WasmtimeError where it has ended."""
        answer = self._run(self._store, json.dumps(request))
        self._run.post_return(self._store)
        return str(answer)


class _Watch:
    """Ends the program where it must end; a thread looks while a call runs."""

    def __init__(self, bounds: _Bounds) -> None:
        self._bounds, self._data = bounds, str(Path(bounds.folder, "data"))
        self._until = 0.0
        self._caller: socket.socket | None = None
        self._lock = threading.Lock()
        self._called = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        threading.Thread(target=self._follow, daemon=True).start()

    def begin(self, caller: socket.socket, seconds: float) -> None:
        """A call begins."""
        with self._lock:
            self._caller, self._until = caller, time.monotonic() + seconds
        self._called.set()

    def end(self) -> bool:
        """A call has ended; returns whether its files are too many."""
        with self._lock:
            self._caller = None
        self._called.clear()
        return _over(self._data, self._bounds.bytes, self._bounds.files)

    def _watch(self) -> None:
        looks = 0
        while self._called.wait():
            time.sleep(_WATCH_S)
            looks += 1
            over = looks % _LOOKS == 0 and _over(self._data, self._bounds.bytes, self._bounds.files)
            with self._lock:
                if self._caller is None:
                    continue
                if over:
                    stop(self._caller, "files")
                if time.monotonic() >= self._until:
                    stop(self._caller, "time")
                if _gone(self._caller):
                    os._exit(0)

    @staticmethod
    def _follow() -> None:
        """End with the process that has started this one, which holds the other end of the standard input."""
        while os.read(0, 4096):
            pass
        os._exit(0)


def _gone(caller: socket.socket) -> bool:
    """Whether who called has left: it sends nothing while it waits."""
    readable, _, _ = select.select([caller], [], [], 0)
    return bool(readable)


def stop(caller: socket.socket, why: str) -> None:
    """Tell the caller why, and end."""
    with contextlib.suppress(OSError):
        _send(caller, json.dumps({"stopped": why}).encode())
        caller.close()
    os._exit(0)


def _send(caller: socket.socket, frame: bytes) -> None:
    caller.settimeout(10.0)
    caller.sendall(_SIZE.pack(len(frame)) + frame)


def _received(caller: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = caller.recv(min(1 << 20, size - len(found)))
        if not piece:
            raise ConnectionError
        found += piece
    return bytes(found)


def _serve(caller: socket.socket, interpreter: _Interpreter, watch: _Watch, count: int) -> None:
    """One call. Ends the program where the guest has ended."""
    caller.settimeout(10.0)
    (size,) = _SIZE.unpack(_received(caller, _SIZE.size))
    if size > _MOST_FRAME:
        return
    asked = json.loads(_received(caller, size))
    caller.sendall(b"\1")
    watch.begin(caller, asked.pop("seconds"))
    try:
        answer = interpreter.call(asked)
    except wasmtime.WasmtimeError as error:
        watch.end()
        stop(caller, "memory" if "memory" in str(error) else "trap")
    if watch.end():
        stop(caller, "files")
    _send(caller, json.dumps({"count": count, "given": answer}).encode("utf-8", "replace"))


def _main() -> None:
    """Serve calls until there are none."""
    bounds = _Bounds(**json.loads(sys.argv[1]))
    _alone(bounds.folder)
    _bound(bounds)
    try:
        interpreter = _Interpreter(bounds)
    except wasmtime.WasmtimeError as error:
        sys.stdout.write(f"the interpreter cannot be used: {str(error).splitlines()[0][:300]}\n")
        sys.exit(1)
    watch = _Watch(bounds)
    os.chdir(bounds.folder)  # the name of a socket may have about 100 bytes
    with contextlib.suppress(FileNotFoundError):
        Path("socket").unlink()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket.new")
    Path("socket.new").chmod(0o600)
    listener.listen(_BACKLOG)
    listener.settimeout(bounds.idle_s)
    Path("socket.new").rename("socket")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    count = 0
    with contextlib.suppress(TimeoutError):
        while True:
            caller, _ = listener.accept()
            with caller, contextlib.suppress(OSError, ValueError):
                _serve(caller, interpreter, watch, count)
                count += 1
    with contextlib.suppress(FileNotFoundError):
        Path("socket").unlink()


def _alone(folder: str) -> None:
    """Take the container's lock, which ends with this program."""
    try:
        import fcntl
    except ImportError:
        return
    lock = os.open(Path(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.stdout.write("busy\n")
        sys.exit(1)


if __name__ == "__main__":
    _main()
