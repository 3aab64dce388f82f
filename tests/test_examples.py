"""Every example runs, and shows what it says it shows."""

import ast
import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from tests.shared import PATIENCE

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str) -> str:
    return run_with(name)


def run_with(name: str, *arguments: str) -> str:
    told = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=PATIENCE
    )
    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    return told.stdout


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs_and_complains_of_nothing(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_a_notebook_runs_from_top_to_bottom(name: str) -> None:
    code = code_of(name)

    assert len(asyncio.run(_run_cells(code))) == len(code)


def test_the_gateway_answers_whole_and_streamed() -> None:
    whole, usage, streamed = run("gateway.py").rstrip("\n").rsplit("\n", 2)

    assert whole.strip()
    assert re.search(r"completion_tokens=\d+", usage)
    assert streamed.strip()


@pytest.mark.full
def test_a_token_of_the_issuer_opens_what_is_its_tenants() -> None:
    assert run("oidc.py").splitlines() == ["ada 200", "eve 404", "nobody 401"]


@pytest.mark.full  # seven engines, with the timing of GPUs
def test_the_fleet_serves_every_kind_of_request_and_stays_readable() -> None:
    assert len((EXAMPLES / "fleet" / "fleet_gateway.py").read_text().splitlines()) <= 120

    lines = run_with("fleet/fleet_gateway.py", "--simulated").splitlines()

    assert lines[0] == "models: gpt-oss-120b qwen2.5-vl-72b qwen3-32b"
    assert lines[1] == "a stranger gets 401"
    first, again = (re.findall(r"\d+", line) for line in lines[2:4])
    assert first[1] == "0"
    assert int(again[1]) > 0.9 * int(again[0])
    assert lines[4:7] == [
        "prefill and decode: 16 tokens",
        "a picture: 580 tokens",
        "tools used: gpu_price and the response is kept: 200",
    ]
    assert re.fullmatch(r"metrics: [5-9] series of workers' calls", lines[7])


@pytest.mark.full
def test_a_users_requests_stay_on_one_worker() -> None:
    lines = run("custom_policy.py").splitlines()

    assert lines == ["ada [4]", "grace [4]", "edsger [4]"]


@pytest.mark.full
def test_a_tools_turn_and_the_answer_are_one_response() -> None:
    body = json.loads(run("two_turns.py"))
    (choice,) = body["choices"]

    assert choice["message"]["content"] == "Take an umbrella."
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["get_weather"]
    assert choice["finish_reason"] == "stop"


@pytest.mark.anyio
async def test_the_gateway_answers_under_its_mount_beside_the_application() -> None:
    example = load("embedded")
    asked = {"model": "sim", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 5}
    async with (
        example.gateway,
        httpx.AsyncClient(transport=httpx.ASGITransport(example.app), base_url="http://a") as client,
    ):
        own = await client.get("/")
        models = await client.get("/llm/v1/models")
        answer = await client.post("/llm/v1/chat/completions", json=asked)
        lost = await client.get("/llm/v1/nothing")

    assert "The application" in own.text
    assert [model["id"] for model in models.json()["data"]] == ["sim"]
    assert answer.json()["choices"][0]["message"]["content"]
    assert lost.status_code == 404


def test_the_notebook_shows_the_prompt_and_what_the_engine_got() -> None:
    values = asyncio.run(_run_cells(code_of("notebook.ipynb")))

    assert "prefix cache" in values[2]._repr_html_()
    assert values[3].input_ids


@pytest.mark.full
def test_the_notebook_of_tools_shows_what_is_offered_called_found_and_noted() -> None:
    _, offered, converted, failed, found, noted, _ = asyncio.run(_run_cells(code_of("mcp_tools.ipynb")))

    assert offered["convert"][1] == ["time", "target_timezone"]
    assert converted["timezone"] == "Asia/Tokyo"
    assert failed[0] is True
    assert found[0] == "time.get_current_time"
    assert [row[1:] for row in noted] == [("allow", "rules[0]"), ("allow", "rules[0]")]


def code_of(name: str) -> list[str]:
    """The code cells of a notebook."""
    cells = json.loads((EXAMPLES / name).read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


async def _run_cells(cells: list[str]) -> list[Any]:
    """What each cell shows: the value of its last expression, as a notebook does it."""
    scope: dict[str, Any] = {}
    values = []
    for number, source in enumerate(cells):
        tree = ast.parse(source)
        if isinstance(tree.body[-1], ast.Expr):
            tree.body[-1] = ast.Assign([ast.Name("_shown", ast.Store())], tree.body[-1].value)
        code = compile(ast.fix_missing_locations(tree), f"cell {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        scope["_shown"] = None
        running = eval(code, scope)  # a cell with `await` gives a coroutine, one without has run
        if running is not None:
            await running
        values.append(scope["_shown"])
    return values
