"""`smg-gateway up` as a process whose lines are read, for the tests of it with simulated and with real engines."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any

from tests.shared import PATIENCE

ROOT = Path(__file__).parents[3]
QUESTION: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 3}


class RunningUp:
    """A running `up`, whose lines are read as they come."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process, self.port = process, port
        self.lines: list[str] = []
        self._new: Queue[str] = Queue()
        self._stopped = Event()
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._new.put(line.rstrip())
            if self._stopped.is_set():
                break
        self.process.stdout.close()

    def until(self, words: str, patience: float = PATIENCE) -> str:
        """The next line with these words."""
        ends = time.monotonic() + patience
        while True:
            line = self._new.get(timeout=max(0.1, ends - time.monotonic()))
            self.lines.append(line)
            if re.search(words, line):
                return line

    def stops_reading(self) -> None:
        """Close this end of the pipe behind the next line."""
        self._stopped.set()

    def leaves(self) -> int:
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        while not self._new.empty():
            self.lines.append(self._new.get())
        return status


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@contextmanager
def up(
    folder: Path, *engines: dict[str, Any], port: int | None = None, simulated: bool | None = None, **sections: Any
) -> Iterator[RunningUp]:
    """`up` of these engines, simulated where the gateway has further `sections` and nothing else is said."""
    port = port or free_port()
    file = folder / "fleet.json"
    gateway = {"server": {"port": port, "drain_s": 5}, "history": {"url": "memory:"}, **sections}
    file.write_text(json.dumps({"engines": engines, "gateway": gateway}))
    command = [
        sys.executable,
        "-m",
        "smg_core",
        "up",
        str(file),
        *(["--simulated"] if (bool(sections) if simulated is None else simulated) else []),
    ]
    environment = {**os.environ, "FLEET_PYTHON": sys.executable}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    running = RunningUp(process, port)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def simulator(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": "simulator", "model": "sim", **fields}


def script(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": ["{python}", "-c", text], "model": "sim", **fields}


def pid_in(line: str) -> int:
    found = re.search(r"process (\d+)", line)
    assert found is not None, line
    return int(found[1])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
