"""The reference servers from npm, as tools/services.sh installs them: everything, filesystem, memory."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_servers.peers import eventually

from smg_mcp import McpDenied, McpTools, ToolImage, ToolProgress

pytestmark = [pytest.mark.anyio, pytest.mark.services]

PROGRAMS = Path(__file__).parents[2] / "build" / "services" / "node_modules" / ".bin"
TRANSPORTS = {"stdio": ("stdio", ""), "streamable": ("streamableHttp", "/mcp"), "sse": ("sse", "/sse")}
"""By our name of a protocol: what the server everything calls it, and the path that it is at."""


def program(name: str) -> str:
    path = PROGRAMS / f"mcp-server-{name}"
    assert path.exists(), f"{path.name} is not here; tools/services.sh installs it"
    return str(path)


def child(name: str, *args: str, **envs: str) -> dict[str, Any]:
    return {"name": name, "protocol": "stdio", "command": program(name), "args": list(args), "envs": envs}


@asynccontextmanager
async def everything(protocol: str) -> AsyncIterator[dict[str, Any]]:
    """The server everything over a transport, as an entry of the configuration."""
    kind, path = TRANSPORTS[protocol]
    if protocol == "stdio":
        yield child("everything", kind)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        program("everything"), kind, env=os.environ | {"PORT": str(port)}, stdout=quiet, stderr=quiet
    )
    try:
        await eventually(lambda: process.returncode is not None or answers(port))
        yield {"name": "everything", "protocol": protocol, "url": f"http://127.0.0.1:{port}{path}"}
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("protocol", list(TRANSPORTS))
async def test_everything_is_reached_over_each_transport(protocol: str) -> None:
    news: list[ToolProgress] = []
    async with everything(protocol) as server, McpTools.from_config({"servers": [server]}) as tools:
        found = {tool.tool: tool for tool in await tools.tools()}
        assert found["echo"].hints.is_read_only
        assert "2 and 3 is 5" in (await tools.call("everything.get-sum", {"a": 2, "b": 3})).text
        picture = await tools.call("everything.get-tiny-image", {})
        assert any(isinstance(part, ToolImage) and part.mime == "image/png" for part in picture.content)
        weather = await tools.call("everything.get-structured-content", {"location": "Chicago"})
        assert set(weather.structured) == {"temperature", "conditions", "humidity"}
        operation = "everything.trigger-long-running-operation"
        await tools.call(operation, {"duration": 0.2, "steps": 2}, progress=news.append)
        assert [each.progress for each in news] == [1.0, 2.0]
        wrong = await tools.call("everything.get-sum", {"a": "many", "b": 3})
        assert wrong.is_error


async def test_resources_and_prompts_of_everything_are_read() -> None:
    async with everything("stdio") as server, McpTools.from_config({"servers": [server]}) as tools:
        request = tools.for_request()
        inventory = await request.inventory("everything")
        documents = [each["uri"] for each in inventory.resources]
        assert inventory.templates
        contents = await request.read("everything", documents[0])
        assert contents[0]["uri"] == documents[0]
        assert contents[0]["text"]
        assert "args-prompt" in [each["name"] for each in inventory.prompts]
        filled = await request.prompt("everything", "args-prompt", {"city": "Oslo"})
        assert "Oslo" in filled["messages"][0]["content"]["text"]


async def test_what_everything_asks_the_user_is_declined_or_answered_by_policy() -> None:
    async def ask_user(*_: Any) -> Any:
        return {"name": "Ada"}

    told = {}
    for policy, options in (("decline", {}), ("ask", {"ask_user": ask_user})):
        server = {**child("everything", "stdio"), "elicitation": policy}
        async with McpTools.from_config({"servers": [server]}, **options) as tools:
            told[policy] = (await tools.call("everything.trigger-elicitation-request", {})).text
    assert "Ada" in told["ask"]
    assert "Ada" not in told["decline"]


async def test_files_are_read_and_written_inside_the_folder_alone(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.txt"
    inside.mkdir()
    outside.write_text("SECRET")
    async with McpTools.from_config({"servers": [child("filesystem", str(inside))]}) as tools:
        note = {"path": str(inside / "note.txt")}
        assert not (await tools.call("filesystem.write_file", {**note, "content": "kept"})).is_error
        assert (inside / "note.txt").read_text() == "kept"
        assert "kept" in (await tools.call("filesystem.read_text_file", note)).text
        refused = await tools.call("filesystem.read_text_file", {"path": str(outside)})
        assert refused.is_error
        assert "SECRET" not in refused.text


async def test_a_policy_that_lets_only_reading_tools_run_keeps_files_as_they_are(tmp_path: Path) -> None:
    policy = {"rules": [{"decision": "allow", "read_only": True}], "default": "deny"}
    async with McpTools.from_config({"servers": [child("filesystem", str(tmp_path))], "policy": policy}) as tools:
        assert not (await tools.call("filesystem.list_directory", {"path": str(tmp_path)})).is_error
        with pytest.raises(McpDenied):
            await tools.call("filesystem.write_file", {"path": str(tmp_path / "new.txt"), "content": "x"})
    assert list(tmp_path.iterdir()) == []


async def test_what_memory_was_told_is_there_after_its_process_was_started_anew(tmp_path: Path) -> None:
    server = child("memory", MEMORY_FILE_PATH=str(tmp_path / "memory.jsonl"))
    ada = {"name": "Ada", "entityType": "person", "observations": ["likes engines"]}
    async with McpTools.from_config({"servers": [server]}) as tools:
        assert not (await tools.call("memory.create_entities", {"entities": [ada]})).is_error
    async with McpTools.from_config({"servers": [server]}) as tools:
        found = await tools.call("memory.search_nodes", {"query": "Ada"})
    assert found.structured["entities"] == [ada]
