"""A history that fails while the gateway runs: answers reach their clients, what is asked of it is refused, the log says why."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import House, in_process, settled
from tests.gateway.test_serve import start
from tests.shared import PATIENCE

from smg_core import Config
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import KEYS_OWNER, SERVED_MODELS
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

ASKED: dict[str, Any] = {"model": "sim", "input": "Hi", "max_output_tokens": 5}


def delete(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def overwrite(folder: Path) -> None:
    """Nonsense in every file, contents of files of clients too, none of them made shorter: SQLite has one of them in its memory
    map, and a process that reads a map whose file has been cut is ended by the system."""
    for file in [each for each in folder.rglob("*") if each.is_file()]:
        nonsense = b"this is no database" * max(500, file.stat().st_size // 19 + 1)
        with file.open("r+b") as target:
            target.write(nonsense)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


async def nothing_is_written(house: House) -> None:
    """The history was just opened, and what its gateway says in it then is written: harm meets no file that is half written."""
    async with asyncio.timeout(PATIENCE):
        while not (await house.gateway.history.records(KEYS_OWNER, SERVED_MODELS)).data:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("harm", [delete, overwrite, move])
async def test_a_history_that_is_gone_costs_no_answer_and_nothing_else(
    harm: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    config = Config(history=HistoryConfig(url=f"sqlite:///{folder}/history.db"))
    async with in_process(SimulatorConfig(seed=1), config=config) as house:
        kept = (await house.http.post("/v1/responses", json=ASKED)).json()["id"]
        await nothing_is_written(house)
        harm(folder)
        whole = await house.http.post("/v1/responses", json=ASKED)
        stream = await house.http.post("/v1/responses", json={**ASKED, "stream": True})
        others = [
            await house.http.get(f"/v1/responses/{kept}"),
            await house.http.post("/v1/responses", json={**ASKED, "previous_response_id": kept}),
            await house.http.post("/v1/responses", json={**ASKED, "background": True}),
            await house.http.post("/v1/conversations", json={}),
        ]
        chat = await house.chat(max_tokens=5)
        await settled(house)

    assert (whole.status_code, len(whole.json()["output"])) == (200, 1)
    assert stream.text.count('"type":"response.incomplete"') == 1
    assert [(each.status_code, each.json()["error"]["code"]) for each in others] == [(503, "store_unavailable")] * 4
    assert not [each.text for each in others if str(tmp_path) in each.text]
    assert chat.status_code == 200
    assert "could not be kept" in caplog.text


@pytest.mark.full
async def test_a_history_that_cannot_be_opened_stops_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database" * 500)

    async def told(place: str) -> tuple[int | None, list[str]]:
        history = f"sqlite:///{tmp_path}/{place}"
        process = await start("--worker", "grpc://127.0.0.1:1", "--port", "0", "--history", history)
        async with asyncio.timeout(PATIENCE):
            _, said = await process.communicate()
        lines = said.decode().splitlines()
        return process.returncode, [line for line in lines if "CRITICAL" in line or "Traceback" in line]

    for status, lines in await asyncio.gather(*map(told, ("missing/history.db", ".", "text.db"))):
        assert (status, len(lines)) == (1, 1)
        assert str(tmp_path) in lines[0]
