"""Continue's command line, told of the gateway by `smg-gateway setup continue --write`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.gateway import NOTE, run, scripted, serving, set_up

from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

CLIENT = "@continuedev/cli"
READ_NOTE = ("Bash", {"command": "cat note.txt"})
OWN = "# mine\nname: mine\nversion: 0.0.1\nschema: v1\nrules:\n  - Be brief. # always\n"

Saw = Callable[[str, object], None]


async def test_a_tool_runs_in_the_workspace_and_its_output_comes_back(
    npm: Path, tmp_path: Path, workspace: Path, record_property: Saw
) -> None:
    settings = tmp_path / ".continue" / "config.yaml"
    settings.parent.mkdir()
    settings.write_text(OWN)
    script = scripted(("ZEPHYR-42", Reply("It says ZEPHYR-42.")), ("", Reply(tool_calls=(READ_NOTE,))))
    async with serving(script) as served:
        await set_up("continue", served, tmp_path)
        program = [str(npm / "node_modules" / ".bin" / "cn"), "--auto", "-p", "what does note.txt say?"]
        own = {"HOME": str(tmp_path), "CONTINUE_CLI_ENABLE_TELEMETRY": "0"}
        ended = await run([*program, "--config", str(settings)], workspace, own)
        bodies = [json.loads(each.body) for each in served.asked("/v1/chat/completions")]
        tokens = len(served.engine.requests[0].input_ids)

    assert (ended.status, ended.out.strip()) == (0, "It says ZEPHYR-42."), ended.err
    assert any(NOTE in json.dumps(message) for message in bodies[-1]["messages"] if message["role"] == "tool")
    assert settings.read_text().startswith(OWN)
    record_property("seen", f"{len(bodies)} requests, 1 command run; the first prompt has {tokens} tokens")
