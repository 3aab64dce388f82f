"""What the tests of smg_mcp share."""

from pathlib import Path

import pytest
from tests.mcp_servers.peers import Faulty


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    return Faulty(tmp_path / "log")
