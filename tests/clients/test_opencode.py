"""OpenCode, told of the gateway by `smg-gateway setup opencode --write`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.gateway import NOTE, run, scripted, serving, set_up

from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

CLIENT = "opencode-ai"
READ_NOTE = ("bash", {"command": "cat note.txt", "description": "Read the note"})
OWN = '{\n  // mine\n  "autoupdate": false,\n  "provider": {\n    "mine": {"npm": "@ai-sdk/openai", "models": {}},\n  },\n}\n'

Saw = Callable[[str, object], None]


async def test_a_tool_runs_in_the_workspace_and_its_output_comes_back(
    npm: Path, tmp_path: Path, workspace: Path, record_property: Saw
) -> None:
    settings = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    settings.parent.mkdir(parents=True)
    settings.write_text(OWN)
    script = scripted(("ZEPHYR-42", Reply("It says ZEPHYR-42.")), ("", Reply(tool_calls=(READ_NOTE,))))
    async with serving(script) as served:
        await set_up("opencode", served, tmp_path)
        program = [str(npm / "node_modules" / "opencode-linux-x64" / "bin" / "opencode"), "run", "--format", "json"]
        own = {"HOME": str(tmp_path), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        ended = await run([*program, "what does note.txt say?"], workspace, own)
        bodies = [json.loads(each.body) for each in served.asked("/v1/chat/completions")]
        tokens = max(len(each.input_ids) for each in served.engine.requests)

    assert ended.status == 0, ended.err
    parts = [json.loads(line)["part"] for line in ended.out.splitlines() if line.startswith("{")]
    assert [each["text"].strip() for each in parts if each["type"] == "text"] == ["It says ZEPHYR-42."]
    (call,) = [each["state"] for each in parts if each["type"] == "tool"]
    assert call["output"].strip() == NOTE
    assert {each["max_tokens"] for each in bodies} == {32_000}
    assert set(OWN.splitlines()) <= set(settings.read_text().splitlines())
    record_property("seen", f"{len(bodies)} requests, 1 command run; the longest prompt has {tokens} tokens")
