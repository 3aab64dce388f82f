"""Gemini CLI, told of the gateway by `smg-gateway setup gemini --write`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.gateway import run, scripted, serving, set_up

from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

CLIENT = "@google/gemini-cli"
READ_NOTE = ("run_shell_command", {"command": "cat note.txt"})
OWN = '{\n  // mine\n  "ui": {"theme": "Dark"},\n  "privacy": {"usageStatisticsEnabled": false}\n}\n'

Saw = Callable[[str, object], None]


async def test_a_tool_runs_in_the_workspace_and_its_output_comes_back(
    npm: Path, tmp_path: Path, workspace: Path, record_property: Saw
) -> None:
    (tmp_path / ".gemini").mkdir()
    settings = tmp_path / ".gemini" / "settings.json"
    settings.write_text(OWN)
    script = scripted(("ZEPHYR-42", Reply("It says ZEPHYR-42.")), ("", Reply(tool_calls=(READ_NOTE,))))
    async with serving(script) as served:
        await set_up("gemini", served, tmp_path)
        program = [str(npm / "node_modules" / ".bin" / "gemini"), "--yolo", "--skip-trust", "--output-format", "json"]
        ended = await run([*program, "-p", "what does note.txt say?"], workspace, {"HOME": str(tmp_path)})
        asked = [each.target.partition("?")[0] for each in served.exchanges if each.method == "POST"]
        tokens = len(served.engine.requests[0].input_ids)

    assert ended.status == 0, ended.err
    assert json.loads(ended.out)["response"].strip() == "It says ZEPHYR-42."
    assert set(asked) == {"/v1beta/models/sim:streamGenerateContent"}
    assert set(OWN.splitlines()) <= set(settings.read_text().splitlines())
    assert settings.with_name("settings.json.before-smg").read_text() == OWN
    record_property("seen", f"{len(asked)} requests, 1 command run; the first prompt has {tokens} tokens")
