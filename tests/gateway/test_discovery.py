"""Workers that a source brings and takes away while requests run, with real engines."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import JSON, body, eventually
from tests.gateway.test_admin import opened

from smg_core import Config, Gateway
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.fleet_moments import SourceChanged
from smg_core.operation.discovery import discovery_of
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import WorkersConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

QUICK = DiscoveryConfig(file_interval_s=0.05, look_s=0.05)


def named(path: Path, **engines: SimulatedEngine) -> None:
    """Write the file of workers, as an operator does who knows that it is watched: whole, by a rename."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([{"url": engine.target, "name": name} for name, engine in engines.items()]))
    fresh.rename(path)


async def test_workers_of_the_file_come_and_leave_while_requests_run(tmp_path: Path) -> None:
    path, observer = tmp_path / "workers.json", MemoryObserver()
    async with SimulatedEngine() as one, SimulatedEngine() as two:
        named(path, one=one)
        config = Config(workers=WorkersConfig(file=str(path)), discovery=QUICK)
        gateway = Gateway(config=config, observer=observer)
        async with gateway, gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http:

            async def asked() -> int:
                answer = await http.post("/v1/chat/completions", json=body(max_tokens=4))
                return answer.status_code

            assert gateway.registry.get("one").source == "file"
            named(path, one=one, two=two)
            await eventually(
                lambda: {each.name for each in gateway.registry if each.state == "ready"} == {"one", "two"}
            )
            assert await asked() == 200
            named(path, two=two)
            await eventually(lambda: [each.name for each in gateway.registry] == ["two"])
            assert {await asked() for _ in range(3)} == {200}
            path.write_text("this is no list")
            standing = discovery_of(gateway.services).standings["file"]
            await eventually(lambda: standing.state == "stale")
            assert await asked() == 200
    assert [each.change for each in observer.of(SourceChanged)] == ["add", "drain"]


async def test_the_admin_door_tells_how_the_sources_stand(tmp_path: Path) -> None:
    path = tmp_path / "workers.json"
    async with SimulatedEngine() as one:
        named(path, one=one)
        async with opened(workers=WorkersConfig(file=str(path)), discovery=QUICK) as door:

            async def told() -> dict[str, object]:
                (source,) = (await door.http.get("/admin/discovery")).json()["sources"]
                return source

            while (source := await told())["state"] == "unknown":
                await asyncio.sleep(0)
            assert source["workers"] == [{"name": "one", "condition": "ready"}]
            assert (source["name"], source["state"], source["reason"]) == ("file", "current", "")
            path.unlink()
            while (source := await told())["state"] != "stale":
                await asyncio.sleep(0)
            assert source["workers"] == [{"name": "one", "condition": "ready"}]
            assert "workers.json" in source["reason"]
