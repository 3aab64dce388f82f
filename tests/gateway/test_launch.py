"""A gateway that starts its own engine: it comes up and goes, and what keeps it from coming up is told."""

import asyncio
import io
import sys
from pathlib import Path

import httpx
import pytest
from tests.gateway.conftest import CHAT, body
from tests.shared import PATIENCE

from smg_core import Gateway
from smg_core.errors import WorkerGone

pytestmark = pytest.mark.anyio

SIMULATE = ("{python}", "-m", "smg_core", "simulate", "--listen", "127.0.0.1:{port}")


@pytest.mark.full
@pytest.mark.parametrize("command", ["simulator", SIMULATE], ids=["by name", "by its words"])
async def test_the_engine_comes_up_answers_and_is_gone_afterwards(command: str | tuple[str, ...]) -> None:
    progress = io.StringIO()
    async with Gateway.launch(command, model="sim", progress=progress) as gateway:
        async with gateway.http_client(httpx, base_url="http://gateway") as http:
            answer = await http.post(CHAT, json=body())
        process = gateway.process
        assert process is not None
        assert process.returncode is None

    assert answer.status_code == 200
    assert process.returncode is not None
    assert "[engine] starting: " in progress.getvalue()
    assert "serves sim" in progress.getvalue()


async def test_the_engine_may_have_an_environment_of_its_own(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    progress = io.StringIO()
    with pytest.raises(WorkerGone, match="ended with"):
        async with Gateway.launch("mlx", model=str(tmp_path), python=str(python), progress=progress):
            pass

    assert f"starting: {python}"[:60] in progress.getvalue()  # a line of progress is cut to the width of a terminal


async def test_words_of_a_command_may_be_json() -> None:
    words = [
        sys.executable,
        "-c",
        "import sys; print(*sys.argv[1:]); sys.exit(7)",
        "{model}",
        '{"at": "{port}", "n": {}}',
    ]
    with pytest.raises(WorkerGone, match=r'named\s+\{"at": "[0-9]+", "n": \{\}\}'):
        async with Gateway.launch(words, model="named", progress=None):
            pass


async def test_an_engine_that_ends_before_it_is_ready_is_told_with_what_it_wrote() -> None:
    command = ("{python}", "-c", "import sys; print('no GPU was found'); sys.exit(7)")
    with pytest.raises(WorkerGone, match=r"ended with 7(.|\n)*no GPU was found"):
        async with Gateway.launch(command, progress=None):
            pass


@pytest.mark.full
async def test_an_engine_that_never_comes_up_is_stopped_with_its_children() -> None:
    child = "import signal, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); signal.pause()"
    gateway = Gateway.launch((sys.executable, "-c", child), progress=None, timeout_s=0.5)
    with pytest.raises(WorkerGone, match=r"has not come up within 0\.5 s"):
        async with gateway:
            pass

    assert gateway.process is not None
    assert gateway.process.returncode is not None


async def test_an_engine_that_does_not_listen_to_the_signal_is_killed() -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    gateway = Gateway.launch((sys.executable, "-c", deaf), progress=None, timeout_s=60, grace_s=0.1)
    entering = asyncio.create_task(gateway.__aenter__())
    async with asyncio.timeout(PATIENCE):
        while "deaf" not in gateway.last_words:
            await asyncio.sleep(0.01)
    entering.cancel()
    await asyncio.gather(entering, return_exceptions=True)

    assert gateway.process is not None
    assert gateway.process.returncode == -9


def test_an_unknown_engine_and_a_missing_model_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no engine is called 'vlm'; there are vllm, mlx, sglang, simulator"):
        Gateway.launch("vlm", model="m")
    with pytest.raises(ValueError, match="say which model vllm is to serve"):
        Gateway.launch("vllm")


async def test_a_command_that_is_not_there_is_an_error_and_leaves_nothing() -> None:
    with pytest.raises(FileNotFoundError):
        async with Gateway.launch(("/nowhere/engine",), progress=None):
            pass
