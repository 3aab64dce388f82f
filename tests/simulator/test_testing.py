"""The engine that the package hands to other people's tests, and the pytest plugin."""

import asyncio
import subprocess
import sys

import pytest
from tests.simulator.peer import peer

from smg_core.engines.codecs.vllm.codec import VllmCodec
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.testing import Fault, Reply, ScriptedEngine, tool_call

CODEC = VllmCodec()


async def said(engine: ScriptedEngine, count: int = 1) -> list[list[str]]:
    """The pieces of `count` answers, without the end token."""
    async with peer(engine, CODEC) as client:
        answers = [await client.ask() for _ in range(count)]
        return [
            [client.text(output.ids).removesuffix("<|im_end|>") for output in answer.outputs if output.ids][:-1]
            for answer in answers
        ]


# ---------------------------------------------------------------------------------------------------------- the engine


@pytest.mark.anyio
async def test_a_scripted_engine_says_its_pieces_to_everyone() -> None:
    async with ScriptedEngine(["Hel", "lo"]) as engine:
        assert await said(engine, 3) == [["Hel", "lo"]] * 3


@pytest.mark.anyio
async def test_it_says_one_thing_after_another_and_the_last_for_ever() -> None:
    async with ScriptedEngine("first", Reply("second"), ["th", "ird"]) as engine:
        texts = ["".join(pieces) for pieces in await said(engine, 4)]

        assert texts == ["first", "second", "third", "third"]


@pytest.mark.anyio
async def test_it_calls_a_tool() -> None:
    async with ScriptedEngine(tool_call("get_weather", {"city": "Paris"}, text="Let me see.")) as engine:
        ((*pieces,),) = await said(engine)

        assert "".join(pieces) == (
            'Let me see.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
        )


@pytest.mark.anyio
async def test_it_breaks_when_it_is_told() -> None:
    async with ScriptedEngine("Hello", faults=[Fault("silence"), None]) as engine:
        assert await said(engine, 2) == [[], ["Hello"]]


@pytest.mark.anyio
async def test_with_nothing_to_say_it_is_the_embedded_engine() -> None:
    async with ScriptedEngine(config=SimulatorConfig(model="mini")) as engine:
        assert engine.config.model == "mini"
        assert "".join((await said(engine))[0])


# ----------------------------------------------------------------------------------------------------------- the plugin

PLUGGED_IN = """
import pytest

@pytest.mark.anyio
async def test_async(smg_simulator, anyio_backend_name):
    async with smg_simulator("Hello") as engine:
        assert engine.target.startswith("grpc://")

def test_sync(smg_simulator, smg_clock):
    with smg_simulator.in_thread("Hello") as engine:
        assert engine.serving
    assert not engine.serving
    smg_clock.advance(1)

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.full
def test_the_plugin_gives_engines_to_tests_of_both_kinds(tmp_path) -> None:
    (tmp_path / "test_plugged_in.py").write_text(PLUGGED_IN)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_plugin(), str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip

    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_loads_nothing_until_it_is_used() -> None:
    names = ("grpc", "tokenizers", "smg_core.testing", "smg_simulator")
    code = f"import sys, smg_core.pytest_plugin; print([name for name in {names} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def _plugin() -> list[str]:
    """What loads the plugin where the package's entry points are not installed."""
    from importlib.metadata import entry_points

    known = {entry.value for entry in entry_points(group="pytest11")}
    return [] if "smg_core.pytest_plugin" in known else ["-p", "smg_core.pytest_plugin"]


def test_an_engine_in_a_thread_serves_whoever_has_no_loop(smg_simulator) -> None:
    with smg_simulator.in_thread(["Hel", "lo"]) as engine:
        assert asyncio.run(said(engine)) == [["Hel", "lo"]]
