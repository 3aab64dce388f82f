"""A model that no parser family fits is read as its own files say."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import in_process

from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER

pytestmark = pytest.mark.anyio

ADD: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}


@pytest.fixture
def describing(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """Makes the folder of a model that no row of the table fits, and that describes its calls in its own files."""

    def made(calls: dict[str, Any]) -> str:
        folder = tmp_path / "model"
        shutil.copytree(MODEL_FOLDER, folder)
        (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}")
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        described = {"start_anchor": "assistant:", "fields": {"content": {"close": "<|im_end|>"}, "tool_calls": calls}}
        (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "response_template": described}))
        return str(folder)

    return made


async def test_a_model_that_no_row_fits_is_read_as_its_own_files_say(
    describing: Callable[[dict[str, Any]], str],
) -> None:
    folder = describing(
        {"open": "<call>", "close": "</call>", "content": "json", "transform": {"function": "{content}"}}
    )
    replies = (
        Reply('Sure.<call>{"name": "add", "arguments": {"x": 1}}</call>'),
        Reply('[{"name": "add", "parameters": {"x": 2}}]'),
    )
    async with in_process(SimulatorConfig(model_folder=folder, replies=replies)) as house:
        free = await house.chat(tools=[ADD])
        forced = await house.chat(tools=[ADD], tool_choice="required")

    found = [answer.json()["choices"][0]["message"] for answer in (free, forced)]
    assert [json.loads(each["tool_calls"][0]["function"]["arguments"]) for each in found] == [{"x": 1}, {"x": 2}]
    assert found[0]["content"] == "Sure."


async def test_a_description_that_cannot_be_read_is_named_and_the_output_left_as_text(
    describing: Callable[[dict[str, Any]], str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = describing({"open": "<call>", "content": "kv-lines"})
    async with in_process(SimulatorConfig(model_folder=folder)) as house:
        assert house.gateway.models["sim"].parser is None

    assert "fields.tool_calls.content is 'kv-lines'" in caplog.text
