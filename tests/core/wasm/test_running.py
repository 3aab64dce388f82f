"""What all plugins of a process share, used from several threads at once."""

import contextlib
import threading
from typing import Any

import pytest

from smg_core.wasm.running import Sandbox

TOGETHER_S = 0.3
"""How long the first waits for a second that begins a thread too: where only one is begun, nobody comes."""


def test_guests_that_begin_together_have_one_thread_for_their_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads would make all deadlines come twice as soon."""
    together, made = threading.Barrier(2), list[threading.Thread]()

    class Counted(threading.Thread):
        def __init__(self, *args: Any, **options: Any) -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                together.wait(TOGETHER_S)
            made.append(self)
            super().__init__(*args, **options)

    sandbox = Sandbox(1)
    guests = [threading.Thread(target=sandbox.epoch.called, args=(1.0,)) for _ in range(2)]
    monkeypatch.setattr(threading, "Thread", Counted)
    for each in guests:
        each.start()
    for each in guests:
        each.join()
    sandbox.epoch.close()

    assert len(made) == 1
