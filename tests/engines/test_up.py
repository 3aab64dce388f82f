"""`smg-gateway up` with two real engines behind the gateway of examples/fleet, from one file. For `make test-engines`."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.core.up.running_up import is_alive, pid_in, up
from tests.engines.conftest import CHOSEN
from tests.engines.real_engines import ENGINES
from tests.engines.running import COMES_UP_S
from tests.shared import PATIENCE, free_port

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3 * COMES_UP_S)]

FLEET = Path(__file__).parents[2] / "examples" / "fleet" / "fleet.yaml"
MODEL = "gpt-oss-120b"
LONG = "Say something of GPUs. " * 20


def of_a_file(name: str, engine: str, **fields: Any) -> dict[str, Any]:
    """An engine as a file has it, in the place of one of the fleet's; vLLM publishes its KV events."""
    real, worker, options = ENGINES[engine], {"model": MODEL}, list(ENGINES[engine].options)
    if engine == "vllm":
        events = f"tcp://127.0.0.1:{free_port()}"
        told = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": events}
        options += ["--kv-events-config", json.dumps(told)]
        worker["kv_events"] = events
    return {
        "name": name,
        "command": engine,
        "model": str(real.model),
        "python": real.python,
        "worker": worker,
        "options": options,
        "environment": real.environment_of_process(),
        "start_s": COMES_UP_S,
        **fields,
    }


def gateway_of_the_fleet(folder: Path) -> dict[str, Any]:
    """The gateway's sections of fleet.yaml, whole but for places that a test has for itself."""
    sections: dict[str, Any] = yaml.safe_load(FLEET.read_text())["gateway"]
    return {**sections, "history": {"url": f"sqlite:///{folder}/fleet.db"}, "metrics": {"port": free_port()}}


@pytest.mark.parametrize("engine", CHOSEN)
def test_two_engines_run_behind_the_gateway_of_the_fleet_and_one_that_is_killed_comes_again(
    engine: str, tmp_path: Path
) -> None:
    sections = gateway_of_the_fleet(tmp_path)
    key = sections["auth"]["keys"][0].partition(" ")[0]
    engines = of_a_file("one", engine), of_a_file("two", engine, after=["one"])
    with up(tmp_path, *engines, simulated=False, **sections) as running:
        pids = [pid_in(running.until("up .* one starts"))]
        running.until("up .* one is ready after", COMES_UP_S)
        pids.append(pid_in(running.until("up .* two starts")))
        running.until("up .* gateway is ready after", COMES_UP_S)
        place, headers = f"http://127.0.0.1:{running.port}/v1", {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=place, headers=headers, timeout=PATIENCE) as client:
            assert client.get("/models", headers={"authorization": "Bearer sk-nobody"}).status_code == 401
            assert [each["id"] for each in client.get("/models").json()["data"]] == [MODEL]
            again = [chat(client, LONG) for _ in range(3)]
            kept = client.post("/responses", json={"model": MODEL, "input": "Hello.", "max_output_tokens": 4}).json()
            before = [chat(client, f"{number}: hello.") for number in range(4)]
            os.kill(pids[1], signal.SIGKILL)
            running.until("up .* two has served, and ended with -9; started again")
            meanwhile = [chat(client, f"{number}: are you there?") for number in range(4)]
            pids.append(pid_in(running.until("up .* two starts")))
            running.until("up .* two is ready after", COMES_UP_S)
            after = [chat(client, f"{number}: welcome.") for number in range(4)]
            assert client.get(f"/responses/{kept['id']}").json()["output"] == kept["output"]
        running.process.send_signal(signal.SIGINT)
        assert running.leaves() == 0

    assert all(each["completion_tokens"] for each in (*again, *before, *meanwhile, *after))
    if engine == "vllm":  # whoever asks the same goes where it is cached, by the engine's own word
        assert again[-1]["prompt_tokens_details"]["cached_tokens"] > 0
    assert not any(map(is_alive, pids))


def chat(client: httpx.Client, content: str) -> dict[str, Any]:
    """The usage of one answer, asked for by the fleet's other name of the model."""
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": content}], "max_tokens": 4}
    answer = client.post("/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    usage: dict[str, Any] = answer.json()["usage"]
    return usage
