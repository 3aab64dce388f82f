"""The folder of vector stores' indexes: one for a gateway, whoever asks first."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from smg_core.config import Config
from smg_core.machine.scratch import Scratch
from smg_core.vector_stores import place as module
from smg_core.vector_stores.place import IndexPlace

TOGETHER_S = 0.3
"""How long the first waits for a second that makes one too: where only one is made, nobody comes."""


def test_threads_that_ask_together_get_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2)

    class Waiting(Scratch):
        def __init__(self) -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                together.wait(TOGETHER_S)
            super().__init__()

    monkeypatch.setattr(module, "Scratch", Waiting)
    place = IndexPlace(cast("Any", SimpleNamespace(live=SimpleNamespace(config=Config()))))
    try:
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda _: place.root(), range(2))
        assert first == second
    finally:
        place.close()
