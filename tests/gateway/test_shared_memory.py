"""Tensors through shared memory, end to end: the engine reads them, and nothing is left behind, however a request ends."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import CHAT, House, eventually, in_process, over_http, settled
from tests.gateway.test_vision import SHAPES, VLLM, asked
from tests.gateway.vision_models import clip, image_part, picture, qwen2_vl, text_part, video_part
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.http.settings import MediaConfig
from smg_core.models import shm_tensors
from smg_simulator.answers.faults import Fault
from smg_simulator.engine import shared_memory
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.media import SeenTensor

pytestmark = pytest.mark.anyio

LARGE = picture(448, 448)


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("qwen-shared") / "model"))


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that gateway and engine take for the host's shared memory."""
    folder = tmp_path / "shm"
    folder.mkdir()

    class Here(shm_tensors.SharedMemory):
        def __init__(self, prefix: str, *, max_bytes: int) -> None:
            super().__init__(prefix, max_bytes=max_bytes, folder=folder)

    monkeypatch.setattr(shm_tensors, "SharedMemory", Here)
    monkeypatch.setattr(shm_tensors, "sweep_orphans", lambda beginning: None)
    monkeypatch.setattr(shared_memory, "FOLDER", folder)
    monkeypatch.setattr(shm_tensors, "namespace_id", shared_memory.namespace)
    return folder


@asynccontextmanager
async def sharing_gateway(
    folder: str, serve: Any = in_process, more: dict[str, Any] | None = None, **media: Any
) -> AsyncIterator[House]:
    """A gateway that shares memory with an engine that has the model in `folder`; `more` is of the engine."""
    config = Config(workers=VLLM, media=MediaConfig(**{"shared_memory": "auto", **media}))
    async with serve(SimulatorConfig(model_folder=folder, **(more or {})), config=config) as house:
        yield house


def tensors(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.suffix != ".lock"]


def shared_bytes(house: House) -> int:
    """Bytes that the gateway holds in shared memory now."""
    media = house.gateway.services.running.onboarding.media
    assert media is not None
    return media.shared_bytes


def pixels(house: House, at: int = -1, batch: int = 0) -> SeenTensor:
    media = house.engine.requests[at].multimodal[batch]
    found: SeenTensor = media.tensors["pixel_values"]
    return found


@pytest.mark.full
async def test_large_tensors_go_through_shared_memory_and_the_rest_inline(qwen: str, memory: Path) -> None:
    async with sharing_gateway(qwen) as house:
        answer = await asked(house, SHAPES, image_part(LARGE), video_part(clip(224, 224, 8)))
        await settled(house)
        assert tensors(memory) == []
        assert shared_bytes(house) == 0

    assert pixels(house).shared
    assert pixels(house, batch=1).shared
    assert not house.engine.requests[-1].multimodal[0].tensors["image_grid_thw"].shared
    assert "pixel_values 1024x1176 float32" in answer.choices[0].message.content
    assert list(memory.iterdir()) == []


@pytest.mark.full
async def test_it_is_off_unless_asked_for_and_an_engine_elsewhere_gets_everything_inline(
    qwen: str, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sharing_gateway(qwen, shared_memory="off") as house:
        await asked(house, image_part(LARGE))
        assert not pixels(house).shared
    for other in ("another-boot:25", ""):
        monkeypatch.setattr("smg_simulator.server.grpc_server.namespace", lambda other=other: other)
        async with sharing_gateway(qwen) as house:
            await asked(house, image_part(LARGE))
            assert not pixels(house).shared
    assert list(memory.iterdir()) == []


async def test_what_is_over_the_budget_goes_inline(qwen: str, memory: Path) -> None:
    async with sharing_gateway(qwen, shared_memory_bytes=1024) as house:
        answer = await asked(house, SHAPES, image_part(LARGE))

    assert not pixels(house).shared
    assert "pixel_values 1024x1176" in answer.choices[0].message.content


async def test_memory_that_cannot_be_written_to_makes_no_request_fail(
    qwen: str, memory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, shared: object, tensor: object) -> None:
        raise OSError(28, "No space left on device")

    async with sharing_gateway(qwen) as house:
        monkeypatch.setattr(shm_tensors.SharedMemory, "write", full)
        await asked(house, image_part(LARGE))
        assert shared_bytes(house) == 0

    assert not pixels(house).shared
    assert "No space left" in caplog.text


async def test_a_request_that_the_engine_refuses_leaves_nothing(qwen: str, memory: Path) -> None:
    more = {"faults": (Fault("refuse", status="INVALID_ARGUMENT"),)}
    async with sharing_gateway(qwen, more=more) as house:
        body = {"model": "sim", "messages": [{"role": "user", "content": [image_part(LARGE)]}]}
        assert (await house.http.post(CHAT, json=body)).status_code >= 400
        await settled(house)
        assert tensors(memory) == []
        assert shared_bytes(house) == 0


async def test_another_worker_gets_tensors_of_its_own_after_one_died_with_them(qwen: str, memory: Path) -> None:
    """The engine removes what it has read, so a second one must not be pointed to the same files."""
    config = Config(workers=VLLM, media=MediaConfig(shared_memory="auto"))
    async with in_process(SimulatorConfig(model_folder=qwen), config=config, engines=2) as house:
        house.engine.faults.add(Fault("cut"))
        for _ in range(2):
            await asked(house, image_part(LARGE))
        await settled(house)
        seen = [request for engine in house.gateway.engines for request in engine.requests]
        assert shared_bytes(house) == 0

    assert len(seen) == 3
    assert all(request.multimodal[0].tensors["pixel_values"].shared for request in seen)
    assert list(memory.iterdir()) == []


async def test_a_client_that_leaves_takes_its_tensors_along(qwen: str, memory: Path) -> None:
    more = {"timing": Timing(prefill_rate=1.0)}
    async with sharing_gateway(qwen, over_http, more) as house:
        content = [image_part(LARGE), text_part("wait")]
        request = asyncio.ensure_future(
            house.http.post(CHAT, json={"model": "sim", "messages": [{"role": "user", "content": content}]})
        )
        await eventually(lambda: house.engine.requests)
        assert shared_bytes(house) > 0
        request.cancel()
        await settled(house)
        await eventually(lambda: not shared_bytes(house))
        assert tensors(memory) == []


async def test_a_client_that_leaves_while_tensors_are_written_takes_them_along(
    qwen: str, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    write = shm_tensors.SharedMemory.write

    def slow(self: Any, shared: Any, tensor: Any) -> None:
        begun.set()
        go_on.wait(PATIENCE)
        write(self, shared, tensor)

    async with sharing_gateway(qwen) as house:
        monkeypatch.setattr(shm_tensors.SharedMemory, "write", slow)
        request = asyncio.ensure_future(asked(house, image_part(LARGE)))
        await eventually(begun.is_set)
        request.cancel()
        await asyncio.wait([request])
        await settled(house)
        go_on.set()
        await eventually(lambda: not shared_bytes(house))
        assert tensors(memory) == []
        assert not house.engine.requests


async def test_a_gateway_that_is_stopped_removes_what_is_there(qwen: str, memory: Path) -> None:
    simulator = SimulatorConfig(model_folder=qwen, timing=Timing(prefill_rate=1.0))
    config = Config(workers=VLLM, media=MediaConfig(shared_memory="auto"))
    gateway = Gateway.simulated(simulator, config=config)
    async with gateway:
        media = gateway.services.running.onboarding.media
        assert media is not None
        assert [file.suffix for file in memory.iterdir()] == [".lock"]
    assert list(memory.iterdir()) == []
