"""Real engines that are started for the tests (`make test-engines`), and the report of what they gave, docs/engines.md."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest

from smg_core import Config, Gateway
from smg_core.config import WorkersConfig

ROOT = Path(__file__).parents[2]
MODEL = Path(__file__).parent / "tinymodel"
PYTHON = ROOT / ".venv-mlx" / "bin" / "python"
PACKAGES = ("mlx", "mlx-lm", "smg-grpc-servicer", "smg-grpc-proto", "grpcio")
QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
HEAD = """# Real engines

Made by `make test-engines`, which installs the engine in an environment of its own, starts it with `Gateway.launch` and asks it
through the gateway; no line is written by hand. The model is the tiny one of `tests/engines`, on a CPU: figures of speed would
mean nothing, and there are none.

## MLX

{versions}

| test | result |
|---|---|
{rows}
"""


@attrs.define
class Report:
    """Keeps what each test gave, and writes the page when all are over."""

    rows: dict[str, str] = attrs.field(factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        if report.when == "call" or report.failed:
            self.rows[name] = report.outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        code = (
            f"from importlib.metadata import version; print(*[f'{{n}} {{version(n)}}' for n in {PACKAGES!r}], sep=', ')"
        )
        versions = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        rows = "\n".join(f"| {name} | {outcome} |" for name, outcome in self.rows.items())
        (ROOT / "docs" / "engines.md").write_text(HEAD.format(versions=versions, rows=rows))


@pytest.fixture(scope="session", autouse=True)
def _report(request: pytest.FixtureRequest) -> None:
    if os.environ.get("SMG_ENGINES_REPORT"):
        request.config.pluginmanager.register(Report())


@pytest.fixture(params=["h2", "grpcio"])
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    """A gateway that has started the engine."""
    config = Config(workers=WorkersConfig(transport=request.param, health_interval_s=0.2))
    launched = Gateway.launch(
        "mlx", model=str(MODEL), python=str(PYTHON), environment=QUIET, progress=None, config=config
    )
    async with launched as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    http: Any = gateway.http_client(openai)
    async with openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0) as client:
        yield client


@pytest.fixture
def model(gateway: Gateway) -> str:
    return next(iter(gateway.models))
