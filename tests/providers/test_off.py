"""A gateway without outside providers loads nothing of what speaks to them."""

import subprocess
import sys

from tests.shared import PATIENCE

PROGRAM = """
import asyncio, sys
import httpx
from smg_core import Gateway

async def main():
    async with Gateway.simulated() as gateway:
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            body = {"model": "sim", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
            assert (await http.post("/v1/chat/completions", json=body)).status_code == 200
            assert (await http.get("/v1/models")).status_code == 200

asyncio.run(main())
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.table import check_place, kind_names
for each in kind_names():
    try:
        check_place(EnginePlace("http://127.0.0.1:1", kind=each))
    except (LookupError, ValueError):
        pass
OFF = ("smg_core.engines.vendors", "smg_core.apis.status.provider_lists", "smg_core.workers.rates")
loaded = [name for name in sys.modules if name.startswith(OFF)]
print(len(loaded), *loaded)
"""


def test_no_module_of_a_provider_is_loaded_unless_a_worker_is_one() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert told.stdout.split() == ["0"]
