"""A gateway without outside providers loads nothing of what speaks to them."""

import subprocess
import sys

from tests.shared import PATIENCE

PROGRAM = """
import asyncio, sys
from smg_core import Gateway

async def main():
    async with Gateway.simulated() as gateway:
        await gateway.ready()

asyncio.run(main())
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.table import check_place, kind_names
for each in kind_names():
    try:
        check_place(EnginePlace("http://127.0.0.1:1", kind=each))
    except (LookupError, ValueError):
        pass
loaded = [name for name in sys.modules if name.startswith("smg_core.engines.vendors")]
print(len(loaded), *loaded)
"""


def test_no_module_of_a_provider_is_loaded_unless_a_worker_is_one() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert told.stdout.split() == ["0"]
