"""What several processes of a gateway make of media: once for all of them, and gone when they are."""

import asyncio
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import CHAT
from tests.gateway.test_serve import Served, serving
from tests.gateway.vision_models import image_part, picture, qwen2_vl
from tests.shared import PATIENCE

from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

MEMORY = Path("/dev/shm")


def folders() -> set[Path]:
    return set(MEMORY.glob("smg-seen-*"))


async def answers(served: Served, data: bytes, times: int) -> Counter[str]:
    """What is answered to the same picture over connections of their own, so that every process gets some."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image_part(data)]}]

    async def one() -> str:
        async with httpx.AsyncClient(base_url=served.http.base_url, timeout=PATIENCE, trust_env=False) as http:
            told = await http.post(CHAT, json={"model": "sim", "messages": messages})
            return str(told.json()["choices"][0]["message"]["content"])

    return Counter(await asyncio.gather(*[one() for _ in range(times)]))


@pytest.mark.full
async def test_a_picture_is_kept_once_for_all_processes_and_goes_with_them(tmp_path: Path) -> None:
    config = SimulatorConfig(model_folder=str(qwen2_vl(tmp_path / "model")), dialects=("vllm",))
    before = folders()
    async with serving(config, "--processes", "2", "--workers-dialect", "vllm") as served:
        found = await answers(served, picture(300, 200, "red"), 12)
        (folder,) = folders() - before
        items = [file for file in folder.iterdir() if not file.name.startswith(".")]
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(items) == 1
        assert items[0].stat().st_mode & 0o777 == 0o600
        assert (await answers(served, picture(300, 200, "blue"), 2)).total() == 2
        assert len([file for file in folder.iterdir() if not file.name.startswith(".")]) == 2
        served.process.terminate()
        await served.process.wait()
    (answer,) = found
    assert answer
    assert folders() == before
