"""`smg-gateway mcp`, run as a program runs it, with the official time server."""

import json
import sys
from pathlib import Path

import pytest

from smg_core.cli import main


@pytest.fixture
def config(tmp_path: Path) -> str:
    server = {"name": "time", "protocol": "stdio", "command": sys.executable, "args": ["-m", "mcp_server_time"]}
    path = tmp_path / "mcp.yaml"
    path.write_text(json.dumps({"servers": [server], "policy": {"tools": {"time.convert_time": "ask"}}}))
    return str(path)


@pytest.mark.full
def test_the_tools_of_a_file_are_listed_and_called(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "ls", "--config", config]) == 0
    assert "time.get_current_time" in capsys.readouterr().out
    assert main(["mcp", "call", "time.get_current_time", '{"timezone": "UTC"}', "--config", config]) == 0
    assert json.loads(capsys.readouterr().out)["timezone"] == "UTC"
    assert main(["mcp", "call", "time.get_current_time", '{"timezone": "Mars"}', "--config", config]) == 1
    assert "Mars" in capsys.readouterr().out


@pytest.mark.full
def test_a_call_that_needs_approval_is_made_with_it(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = json.dumps({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})
    call = ["mcp", "call", "time.convert_time", given, "--config", config]
    assert main(call) == 1
    assert "needs approval" in capsys.readouterr().err
    assert main([*call, "--approve", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["structured"]["target"]["timezone"] == "Asia/Tokyo"


PARTS = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("parts", log_level="ERROR")
server.add_tool(lambda: "x", name="make", description="Makes.")
@server.resource("part://one")
def one() -> str:
    return "1"
@server.resource("part://any/{number}")
def any_part(number: str) -> str:
    return number
@server.prompt()
def build(thing: str) -> str:
    return f"Build {thing}."
server.run("stdio")
"""
"""A program that has something of each kind."""


@pytest.mark.full
def test_everything_that_a_server_offers_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = {"command": sys.executable, "args": ["-c", PARTS]}
    server = {"name": "parts", "protocol": "stdio", "tools": {"make": {"alias": "made"}}, **command}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"servers": [server]}))
    assert main(["mcp", "ls", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    for line in (
        "parts.make",
        "offered as made",
        "resource  part://one",
        "resource  part://any/{number}",
        "prompt  build",
    ):
        assert line in shown


@pytest.mark.full
@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["call", "time.nothing"], "there is no tool"),
        (["call", "time.get_current_time", "{"], "no JSON"),
        (["ls", "elsewhere"], "there is no server"),
        (["login", "time"], "no server 'time' with the grant"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    config: str, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *more, "--config", config]) == 1
    told = capsys.readouterr().err
    assert why in told
    assert told.count("\n") == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "ls", "--config", str(tmp_path / "none.yaml")]) == 1
    assert "none.yaml: cannot be read" in capsys.readouterr().err
