"""What tools of MCP servers return: as parts of a message, long pictures and recordings decoded in a thread."""

import base64
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from smg_core.clock import SystemClock
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.hosted import HostedCall, ToolAnswer, ToolServer
from smg_core.request import Audio, Caller, Image, Text
from smg_core.tools import hosted
from smg_core.tools.hosted import HostedTools
from smg_mcp.records.base import ToolAudio, ToolImage, ToolOutcome, ToolText

pytestmark = pytest.mark.anyio


async def answered(monkeypatch: pytest.MonkeyPatch, *content: Any) -> tuple[ToolAnswer, bool]:
    """What becomes of a tool's content, and whether it was made on the event loop."""
    own, threads = hosted._answer, []

    def noted(outcome: ToolOutcome) -> ToolAnswer:
        threads.append(threading.get_ident())
        return own(outcome)

    async def call(*_: Any, **__: Any) -> ToolOutcome:
        return ToolOutcome(content)

    tools = HostedTools(None, McpConfig(), None, SystemClock())  # type: ignore[arg-type]  # no call needs them
    monkeypatch.setattr(tools, "_of", lambda *_: SimpleNamespace(call=call), raising=False)
    monkeypatch.setattr(hosted, "_permits", lambda *_: True)
    monkeypatch.setattr(hosted, "_answer", noted)
    asked = HostedCall(id="call", server=ToolServer("shop"), name="look", arguments="{}")
    answer = await tools.call(asked, {}, Caller(), {}, lambda _: None, "request")
    return answer, threads == [threading.get_ident()]


@pytest.mark.parametrize(("size", "here"), [(3_000, True), (300_000, False)])
async def test_what_a_tool_shows_is_decoded_in_a_thread_where_it_is_long(
    size: int, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = base64.b64encode(bytes(size)).decode()
    shown = (
        ToolText("a shop"),
        ToolImage(data, "image/png"),
        ToolAudio(data, "audio/wav"),
        ToolImage("*" * size, "image/png"),
    )
    answer, on_the_loop = await answered(monkeypatch, *shown)
    text, picture, sound, broken = answer.content
    assert isinstance(picture, Image)
    assert isinstance(sound, Audio)
    assert picture.source.data == sound.source.data == bytes(size)
    assert isinstance(text, Text)
    assert isinstance(broken, Text)
    assert "cannot be read" in broken.text
    assert on_the_loop is here
