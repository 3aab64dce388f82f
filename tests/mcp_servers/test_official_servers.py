"""The servers that others publish, as they are installed from PyPI."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.peers import listening

from smg_mcp import McpDenied, McpNeedsApproval, McpTools

pytestmark = pytest.mark.anyio


def server(name: str, *args: str, **more: Any) -> dict[str, Any]:
    command = {"command": sys.executable, "args": ["-m", f"mcp_server_{name}", *args]}
    return {"name": name, "protocol": "stdio", **command, **more}


@pytest.mark.full
async def test_the_time_is_told_and_its_tools_say_that_they_only_read() -> None:
    async with McpTools.from_config({"servers": [server("time", required=True)]}) as tools:
        outcome = await tools.call("time.get_current_time", {"timezone": "Asia/Tokyo"})
        assert outcome.structured["timezone"] == "Asia/Tokyo"
        failed = await tools.call("time.get_current_time", {"timezone": "Mars/Base"})
        assert failed.is_error
        assert "Mars/Base" in failed.text
        found = {tool.name: tool for tool in await tools.tools()}
        assert found["get_current_time"].hints.read_only is True


@pytest.mark.full
async def test_a_page_is_fetched_from_this_machine() -> None:
    async def page(reader: Any, writer: Any) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html><body><h1>Of this machine</h1><p>It is here.</p></body></html>"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n")
        writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async with listening(page) as port:
        told = server("fetch", "--ignore-robots-txt", "--allow-private-ips")
        async with McpTools.from_config({"servers": [told]}) as tools:
            outcome = await tools.call("fetch.fetch", {"url": f"http://127.0.0.1:{port}/", "raw": True})
    assert "Of this machine" in outcome.text


@pytest.mark.full
async def test_a_repository_is_read_and_not_written_where_the_policy_says_so(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("new")
    policy = {"rules": [{"decision": "allow", "read_only": True}], "default": "ask", "tools": {"git.git_reset": "deny"}}
    settings = {"servers": [server("git", "--repository", str(tmp_path))], "policy": policy}
    async with McpTools.from_config(settings) as tools:
        where = {"repo_path": str(tmp_path)}
        assert "new.txt" in (await tools.call("git.git_status", where)).text
        with pytest.raises(McpDenied):
            await tools.call("git.git_reset", where, approved=True)
        with pytest.raises(McpNeedsApproval):
            await tools.call("git.git_add", {**where, "files": ["new.txt"]})
        assert not (await tools.call("git.git_add", {**where, "files": ["new.txt"]}, approved=True)).is_error
        noted = [(entry.facts.tool, entry.permitted) for entry in tools.audit.entries()]
    assert noted == [("git_status", True), ("git_reset", False), ("git_add", False), ("git_add", True)]
    staged = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--short"], capture_output=True, text=True, check=True
    )
    assert "A  new.txt" in staged.stdout


@pytest.mark.full
async def test_tools_of_several_servers_are_searched_together(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    both = [server("time"), server("git", "--repository", str(tmp_path))]
    async with McpTools.from_config({"servers": both}) as tools:
        request = tools.for_request()
        assert (await request.search("convert a time between timezones"))[0].qualified == "time.convert_time"
        assert (await request.search("commit staged changes", 1))[0].server == "git"
        assert len(tools.pool) == 2
