"""Aider, told of the gateway by `smg-gateway setup aider --write`. It calls no tools: the model writes files as text."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.gateway import NOTE, run, scripted, serving, set_up
from tests.clients.versions import install_apart

from smg_simulator.answers.replies import Reply

pytestmark = pytest.mark.anyio

CLIENT = "aider-chat"
OWN = "# mine\ndark-mode: true # at night\nanalytics-disable: true\ncheck-update: false\n"
REPLY = "I add the day.\n\nnote.txt\n```\nThe word of the day is ZEPHYR-42.\nThe day is Monday.\n```\n"

Saw = Callable[[str, object], None]


async def test_a_file_is_edited_as_the_model_writes_it(tmp_path: Path, workspace: Path, record_property: Saw) -> None:
    settings = tmp_path / ".aider.conf.yml"
    settings.write_text(OWN)
    async with serving(scripted(("", Reply(REPLY)))) as served:
        told = await set_up("aider", served, tmp_path)
        program = [str(install_apart(CLIENT) / "aider"), "--yes-always", "--no-git", "--message", "add the day"]
        ended = await run([*program, "note.txt"], workspace, {"HOME": str(tmp_path)})
        requests = len(served.asked("/v1/chat/completions"))
        tokens = len(served.engine.requests[0].input_ids)

    assert ended.status == 0, ended.err
    assert (workspace / "note.txt").read_text() == f"{NOTE}\nThe day is Monday.\n"
    assert "Unknown context window size" not in ended.out
    assert "calls no tools" in told.err
    assert settings.read_text().startswith(OWN)
    record_property("seen", f"{requests} request, 1 file edited; the first prompt has {tokens} tokens")
