"""Interpreters of containers as programs: what ends them, what is lost then, and how many there are. A small component takes the
place of Python, which `tests/gateway/test_code_attacks.py` has."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.interpreters import LOOPS, TRAPS, small_interpreter
from tests.shared import PATIENCE

from smg_core.containers.interpreter.building import compiled_interpreter
from smg_core.containers.interpreter.running import BEGUN, InterpreterBounds, Interpreters
from smg_core.errors import Overloaded, ToolServerFailed
from smg_core.settings import ConfigError

pytestmark = [pytest.mark.anyio, pytest.mark.full]  # each starts processes

MIB = 1 << 20
BOUNDS = InterpreterBounds(64 * MIB, 8 * MIB, seconds=0.3, idle_s=600, running=2)


def folder(tmp_path: Path, name: str = "one") -> Path:
    made = tmp_path / name
    (made / "data").mkdir(parents=True)
    return made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_interpreter(small_interpreter(tmp_path_factory.mktemp("small")))


@pytest.fixture
async def interpreters(small: Path) -> AsyncIterator[Interpreters]:
    made = Interpreters(small, InterpreterBounds(64 * MIB, 8 * MIB, seconds=PATIENCE, idle_s=600, running=2))
    yield made
    await made.close()


async def test_code_runs_and_a_second_call_has_the_same_interpreter(interpreters: Interpreters, tmp_path: Path) -> None:
    one = folder(tmp_path)
    first, second = await interpreters.run(one, "x"), await interpreters.run(one, "x")
    assert (first.stdout, first.lost, second.stdout, second.lost) == ("said", False, "said", False)
    assert interpreters.running == 1


async def test_any_process_of_a_gateway_asks_the_interpreter_that_is_there(
    interpreters: Interpreters, small: Path, tmp_path: Path
) -> None:
    other = Interpreters(small, interpreters.bounds)
    one = folder(tmp_path)
    await interpreters.run(one, "x")
    assert not (await other.run(one, "x")).lost
    assert (interpreters.running, other.running) == (1, 0)


async def test_two_processes_that_begin_at_once_have_one_interpreter(
    interpreters: Interpreters, small: Path, tmp_path: Path
) -> None:
    other = Interpreters(small, interpreters.bounds)
    one = folder(tmp_path)
    found = await asyncio.gather(*[each.run(one, "x") for each in (interpreters, other) * 3])
    assert [each.stdout for each in found] == ["said"] * 6
    assert interpreters.running + other.running == 1
    await other.close()


async def test_what_was_in_memory_is_lost_with_the_process_that_began_it_and_the_next_answer_says_so(
    interpreters: Interpreters, small: Path, tmp_path: Path
) -> None:
    one = folder(tmp_path)
    await interpreters.run(one, "x")
    await interpreters.close()
    found = await interpreters.run(one, "x")
    assert found.lost
    assert not (await interpreters.run(one, "x")).lost


@pytest.mark.parametrize(("body", "stopped"), [(LOOPS, "time"), (TRAPS, "trap")])
async def test_an_interpreter_that_ends_amid_a_call_says_why_and_the_next_is_new(
    tmp_path: Path, body: str, stopped: str
) -> None:
    made = Interpreters(compiled_interpreter(small_interpreter(tmp_path / "component", body)), BOUNDS)
    one = folder(tmp_path)
    try:
        for _ in range(2):
            found = await made.run(one, "x")
            assert (found.stopped, found.lost) == (stopped, False)
        assert not (one / BEGUN).exists()
    finally:
        await made.close()


@pytest.mark.parametrize("answer", ["", "no JSON", '{"stdout": 3}', '{"stdout": "a", "stderr": "b", "error": []}'])
async def test_a_guest_that_answers_nonsense_is_ended(tmp_path: Path, answer: str) -> None:
    made = Interpreters(compiled_interpreter(small_interpreter(tmp_path / "component", answer=answer)), BOUNDS)
    try:
        assert (await made.run(folder(tmp_path), "x")).stopped == "trap"
    finally:
        await made.close()


async def test_who_leaves_amid_a_call_ends_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, read = asyncio.Event(), asyncio.StreamReader.readexactly

    async def noting(reader: asyncio.StreamReader, size: int) -> bytes:
        found = await read(reader, size)
        begun.set()  # the program says by a byte that it runs the code
        return found

    monkeypatch.setattr(asyncio.StreamReader, "readexactly", noting)
    bounds = InterpreterBounds(64 * MIB, 8 * MIB, seconds=PATIENCE, idle_s=600, running=1)
    made = Interpreters(compiled_interpreter(small_interpreter(tmp_path / "component", LOOPS)), bounds)
    task = asyncio.create_task(made.run(folder(tmp_path), "x"))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while any(each.process.returncode is None for each in made._running.values()):
            await asyncio.sleep(0.01)
    await made.close()


async def test_one_more_than_may_run_ends_the_one_that_was_used_longest_ago(
    interpreters: Interpreters, tmp_path: Path
) -> None:
    one, two, three = (folder(tmp_path, name) for name in ("one", "two", "three"))
    for each in (one, two, one, three):
        await interpreters.run(each, "x")
    assert interpreters.running == 2
    assert not (await interpreters.run(one, "x")).lost
    assert (await interpreters.run(two, "x")).lost


async def test_where_all_run_code_one_more_is_refused(tmp_path: Path) -> None:
    bounds = InterpreterBounds(64 * MIB, 8 * MIB, seconds=PATIENCE, idle_s=600, running=1)
    made = Interpreters(compiled_interpreter(small_interpreter(tmp_path / "component", LOOPS)), bounds)
    task = asyncio.create_task(made.run(folder(tmp_path), "x"))
    async with asyncio.timeout(PATIENCE):
        while not any(each.calls for each in made._running.values()):
            await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await made.run(folder(tmp_path, "two"), "x")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await made.close()


async def test_an_interpreter_that_cannot_be_used_is_an_error_with_its_reason(tmp_path: Path) -> None:
    broken = tmp_path / "broken.cwasm"
    broken.write_bytes(b"\x7fELF and no more")
    with pytest.raises(ToolServerFailed) as found:
        await Interpreters(broken, BOUNDS).run(folder(tmp_path), "x")
    assert "cannot be used" in (found.value.detail or "")
    with pytest.raises(ConfigError, match="smg-gateway interpreter build"):
        compiled_interpreter(tmp_path)


async def test_a_folder_may_have_a_longer_name_than_that_of_a_socket(
    interpreters: Interpreters, tmp_path: Path
) -> None:
    assert (await interpreters.run(folder(tmp_path, "x" * 200), "x")).stdout == "said"


async def test_the_program_has_nothing_of_the_environment(interpreters: Interpreters, tmp_path: Path) -> None:
    await interpreters.run(folder(tmp_path), "x")
    (running,) = interpreters._running.values()
    assert Path(f"/proc/{running.process.pid}/environ").read_bytes() == b""
    assert os.getpriority(os.PRIO_PROCESS, running.process.pid) > 0
