"""What `security.py` attacks: processes of the gateway and of its engines, and how they are spoken to.

A `Stage` starts them, each kind of gateway once, and ends them. Requests go over plain sockets, so that what is sent is what is
written here.
"""

import contextlib
import json
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs
import watched

__all__ = ["CHAT", "Answer", "Breach", "Served", "Stage", "chat", "hold", "post"]

HERE = Path(__file__).parent
CHAT = "/v1/chat/completions"
MIB = 1 << 20
STARTING = 60.0  # seconds that a process may take until it answers
SETTLING = 6.0  # seconds in which what an attack took is given back


class Breach(Exception):
    """A bound that was not held."""


def hold(held: object, said: str) -> None:
    """Raise Breach unless `held`."""
    if not held:
        raise Breach(said)


@attrs.frozen
class Answer:
    """An HTTP answer; `status` 0 where none came. `seconds` from the first byte sent to the last received."""

    status: int
    head: bytes
    body: bytes
    seconds: float

    def header(self, name: str) -> str:
        """The value of a header, "" where there is none."""
        found = re.search(rb"(?im)^%b: *(.*?)\r?$" % re.escape(name.encode()), self.head)
        return found[1].decode("latin-1") if found else ""

    @property
    def error(self) -> dict[str, Any]:
        """The error of the envelope."""
        told: dict[str, Any] = json.loads(self.body)["error"]
        return told


def chat(text: str = "Hi", **fields: Any) -> bytes:
    """The body of a chat request with one user message."""
    asked = {"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 2, **fields}
    return json.dumps({name: value for name, value in asked.items() if value is not None}).encode()


def request(path: str, body: bytes | None, headers: Sequence[str] = (), *, host: str = "localhost") -> bytes:
    """The bytes of a request: a GET without a body, a POST of JSON with one. `headers` come first and stand for ours of the same
    name."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", *headers]
    given = {line.partition(":")[0].lower() for line in headers}
    ours = {"host": host, "connection": "close"}
    if body is not None:
        ours |= {"content-type": "application/json", "content-length": str(len(body))}
    lines += [f"{name}: {value}" for name, value in ours.items() if name not in given]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def exchange(port: int, sent: bytes, *, seconds: float = 120.0) -> Answer:
    """Send bytes, and read until the gateway closes."""
    began = time.monotonic()
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while piece := connection.recv(1 << 20):
                received += piece
    return answer_of(received, time.monotonic() - began)


def answer_of(received: bytes, seconds: float) -> Answer:
    """The last answer that is in what was received, chunks left as they are."""
    head, _, body = received.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/1\.1 (\d{3})", head)
    return Answer(int(status[1]) if status else 0, head, body, seconds)


def post(port: int, body: bytes, *headers: str, path: str = CHAT, seconds: float = 120.0) -> Answer:
    """Send a POST of JSON on a connection of its own."""
    return exchange(port, request(path, body, headers), seconds=seconds)


def get(port: int, path: str, *headers: str) -> Answer:
    return exchange(port, request(path, None, headers))


class Served:
    """One gateway: its process, what it logs, and what its watch has seen."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path, cells: mmap.mmap) -> None:
        self.process, self.port, self.log = process, port, log
        self._cells = memoryview(cells).cast("d")

    def reset(self) -> None:
        """Forget the worst so far, the most memory included."""
        for which in range(len(self._cells)):
            self._cells[which] = 0.0
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    @property
    def late(self) -> float:
        """Seconds that the timer was late, what the machine kept from the thread taken off."""
        return self._cells[1]

    @property
    def callback(self) -> float:
        """CPU seconds of the longest callback."""
        return self._cells[2]

    def resident(self, which: str = "VmRSS") -> float:
        """MiB of resident memory; of "VmHWM" the most since `reset`."""
        found = re.search(rf"{which}:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    def settled(self, within: float) -> float:
        """MiB of resident memory once it is at most `within`, or after some seconds."""
        deadline = time.monotonic() + SETTLING
        while self.resident() > within and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.resident()

    def logged(self, since: int = 0) -> str:
        """What it has logged behind so many characters."""
        return self.log.read_text(errors="replace")[since:]

    def wait_until_logged(self, wanted: str, since: int = 0, *, times: int = 1, seconds: float = 20.0) -> str:
        """What it has logged, once `wanted` is in it so often. Raises Breach when it does not come."""
        wait_for(lambda: self.logged(since).count(wanted) >= times, f"no line with {wanted!r}", seconds)
        return self.logged(since)


def wait_for(condition: Callable[[], object], said: str, seconds: float = STARTING) -> None:
    """Return once `condition` holds; raise Breach(said) when it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        hold(time.monotonic() < deadline, said)
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Stage:
    """Starts gateways and engines for the attacks, and ends them. A gateway is known by its arguments: who asks for the same gets
    the same."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="smg-security-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._gateways: dict[tuple[str, ...], Served] = {}
        self._engine = 0

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            self.end(process)

    @property
    def engine(self) -> int:
        """The port of the engine that most attacks are before."""
        if not self._engine:
            self._engine, _ = self.simulate()
        return self._engine

    def simulate(self, *arguments: str) -> "tuple[int, subprocess.Popen[bytes]]":
        """The port of a new engine, and its process."""
        port = free_port()
        listen = ["simulate", "--listen", f"127.0.0.1:{port}", *arguments]
        process = self._start([sys.executable, "-m", "tests.bounded", *listen], self.folder / f"engine-{port}.log")
        wait_for(lambda: _takes_connections(port), "the engine does not start")
        return port, process

    def gateway(self, *arguments: str, engines: Sequence[int] = (), watch: str = "late", chat: bool = False) -> Served:
        """The gateway of these arguments, before `engines` or the one of most attacks; ready when this returns. `chat`: before
        another gateway, as a server of Chat Completions."""
        workers = [f"grpc://127.0.0.1:{port}" for port in engines or (self.engine,)]
        if chat:
            workers = [f"http://127.0.0.1:{self.gateway(*arguments).port}"]
        named = (watch, *arguments, *workers)
        found = self._gateways.get(named)
        if found is None:
            found = self._gateways[named] = self._serve(arguments, workers, watch)
        return found

    def _serve(self, arguments: Sequence[str], workers: Sequence[str], watch: str) -> Served:
        number = len(self._processes)
        log, place = self.folder / f"gateway-{number}.log", self.folder / f"watch-{number}"
        place.write_bytes(bytes(watched.FIGURES.size))
        flags = [flag for worker in workers for flag in ("--worker", worker)]
        command = [sys.executable, str(HERE / "watched.py"), str(place), watch, "serve", "--port", "0"]
        process = self._start([*command, *flags, "--access-log", *arguments], log)
        wait_for(lambda: "listening on" in log.read_text() or process.poll() is not None, "the gateway does not start")
        hold(process.poll() is None, f"the gateway does not start: {log.read_text()}")
        found = re.search(r"listening on http://[^ ]*:(\d+)", log.read_text())
        port = int(found[1]) if found else 0
        with place.open("r+b") as file:
            served = Served(process, port, log, mmap.mmap(file.fileno(), watched.FIGURES.size))
        wait_for(lambda: len(re.findall(r"-> ready", served.logged())) >= len(workers), "the workers do not join")
        wait_for(lambda: post(port, chat()).status == 200, "the gateway does not answer")
        return served

    def _start(self, command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self._processes.append(process)
        return process

    def end(self, process: "subprocess.Popen[bytes]") -> int:
        """The exit status of a process that is told to leave."""
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.terminate()
        try:
            return process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _takes_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def connected(port: int, sent: bytes = b"", *, small: bool = False) -> Iterator[socket.socket]:
    """A connection on which `sent` was sent; `small`: one that buffers little of what it does not read."""
    with socket.socket() as connection:
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", port))
        connection.sendall(sent)
        yield connection
