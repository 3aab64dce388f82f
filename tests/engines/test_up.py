"""`smg-gateway up` with two real engines and a gateway, from one file. For `make test-engines`."""

import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.core.up.running_up import is_alive, pid_in, up
from tests.engines.conftest import CHOSEN
from tests.engines.real_engines import ENGINES
from tests.engines.running import COMES_UP_S
from tests.shared import PATIENCE

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3 * COMES_UP_S)]


def of_a_file(name: str, engine: str, **fields: Any) -> dict[str, Any]:
    """An engine as a file has it."""
    real = ENGINES[engine]
    written = {"name": name, "command": engine, "model": str(real.model), "python": real.python, **fields}
    return {
        **written,
        "options": list(real.options),
        "environment": real.environment_of_process(),
        "start_s": COMES_UP_S,
    }


@pytest.mark.parametrize("engine", CHOSEN)
def test_two_engines_and_a_gateway_run_from_a_file_and_one_that_is_killed_comes_again(
    engine: str, tmp_path: Path
) -> None:
    with up(tmp_path, of_a_file("one", engine), of_a_file("two", engine, after=["one"])) as running:
        pids = [pid_in(running.until("up .* one starts"))]
        running.until("up .* one is ready after", COMES_UP_S)
        pids.append(pid_in(running.until("up .* two starts")))
        running.until("up .* gateway is ready after", COMES_UP_S)
        with httpx.Client(base_url=f"http://127.0.0.1:{running.port}", timeout=PATIENCE) as client:
            (model,) = [each["id"] for each in client.get("/v1/models").json()["data"]]
            asked = {"model": model, "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4}
            before = [client.post("/v1/chat/completions", json=asked) for _ in range(4)]
            os.kill(pids[1], signal.SIGKILL)
            running.until("up .* two has served, and ended with -9; started again")
            meanwhile = [client.post("/v1/chat/completions", json=asked) for _ in range(4)]
            pids.append(pid_in(running.until("up .* two starts")))
            running.until("up .* two is ready after", COMES_UP_S)
            after = [client.post("/v1/chat/completions", json=asked) for _ in range(4)]
        running.process.send_signal(signal.SIGINT)
        assert running.leaves() == 0

    assert [each.status_code for each in (*before, *meanwhile, *after)] == [200] * 12
    assert all(each.json()["usage"]["completion_tokens"] for each in (*before, *meanwhile, *after))
    assert not any(map(is_alive, pids))
