"""A real server process that goes wrong: what the caller learns, and what it costs others."""

import asyncio
import logging
import os
import sys
from contextlib import suppress

import pytest
from tests.mcp_servers.peers import Faulty, eventually

from smg_mcp import McpBadAnswer, McpTimeout, McpUnavailable, McpUnknownTool, ToolProgress

pytestmark = pytest.mark.anyio


SILENT = "import os, sys; open(sys.argv[1], 'a').write(f'pid {os.getpid()}' + chr(10)); sys.stdin.read()"
"""A program that reads and never answers."""


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_a_tool_that_hangs_is_given_up_and_its_server_told_to_stop(faulty: Faulty) -> None:
    slow = {"tools": {"hang": {"timeout_s": 0.2}}}
    async with faulty.tools(slow) as tools:
        with pytest.raises(McpTimeout, match=r"did not answer within 0\.2 s") as caught:
            await tools.call("bad.hang", {})
        assert caught.value.may_have_run
        await eventually(lambda: "notifications/cancelled" in faulty.sent)
        assert (await tools.call("bad.echo", {"text": "on the same session"})).text == '{"text": "on the same session"}'
    assert len(faulty.pids) == 1


async def test_a_caller_that_leaves_has_the_server_told_to_stop(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        call = asyncio.ensure_future(tools.call("bad.hang", {}))
        await eventually(lambda: '"hang"' in faulty.sent)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(lambda: "notifications/cancelled" in faulty.sent)


async def test_a_server_that_dies_in_a_call_is_not_asked_again(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        with pytest.raises(McpUnavailable) as caught:
            await tools.call("bad.die", {})
        assert caught.value.may_have_run
        assert faulty.sent.count('"die"') == 1
        assert (await tools.call("bad.echo", {})).text == "{}"
    assert len(faulty.pids) == 2


async def test_an_idempotent_tool_is_asked_again_after_its_server_died(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        assert (await tools.call("bad.retried", {})).text == "at the second try"
    assert len(faulty.pids) == 2


async def test_a_tool_of_the_configuration_may_be_called_idempotent_where_its_server_does_not_say_so(
    faulty: Faulty,
) -> None:
    async with faulty.tools({"tools": {"die": {"idempotent": True}}}) as tools:
        with pytest.raises(McpUnavailable):
            await tools.call("bad.die", {})
    assert faulty.sent.count('"die"') == 2


@pytest.mark.full
async def test_a_server_that_floods_notifications_is_cut_off(faulty: Faulty) -> None:
    async with faulty.tools(limits={"notifications_per_s": 1, "notifications_burst": 50}) as tools:
        with pytest.raises(McpBadAnswer, match="more than 1 notifications a second"):
            await tools.call("bad.flood", {})
        assert (await tools.call("bad.echo", {})).text == "{}"


@pytest.mark.full
async def test_a_result_of_twenty_megabytes_ends_the_session_and_not_the_process(faulty: Faulty) -> None:
    async with faulty.tools(limits={"message_bytes": 1_000_000}) as tools:
        with pytest.raises(McpBadAnswer, match="more than 1000000 bytes at once"):
            await tools.call("bad.huge", {})
        assert (await tools.call("bad.echo", {})).text == "{}"


async def test_a_result_over_the_bound_is_cut_and_says_so(faulty: Faulty) -> None:
    async with faulty.tools(limits={"result_bytes": 100_000}) as tools:
        outcome = await tools.call("bad.large", {})
    assert outcome.truncated
    assert outcome.structured is None
    assert outcome.text.startswith("y" * 100_000)
    assert "too large" in outcome.text
    assert len(outcome.text) < 101_000


async def test_an_answer_to_what_was_never_asked_ends_the_session(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        with pytest.raises(McpBadAnswer, match="answered a request that it was not sent"):
            await tools.call("bad.wrong_id", {})


async def test_a_message_with_a_key_twice_is_no_answer(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        with pytest.raises(McpBadAnswer, match="key twice"):
            await tools.call("bad.twice", {})


async def test_tools_that_change_are_listed_again_and_keep_aliases_and_mappings(faulty: Faulty) -> None:
    told = {
        "echo": {"alias": "say", "arg_mapping": {"renames": {"words": "text"}, "overrides": {"loud": True}}},
        "added": {"alias": "fresh"},
    }
    async with faulty.tools({"tools": told}) as tools:
        before = {tool.name for tool in await tools.tools()}
        assert (await tools.call("bad.change", {})).text == "changed"
        after = {tool.name for tool in await tools.tools()}
        assert after - before == {"fresh"}
        assert before - after == {"progress"}
        assert (await tools.call("fresh", {})).text == "I am new"
        assert (await tools.call("say", {"words": "hello"})).text == '{"text": "hello", "loud": true}'
        with pytest.raises(McpUnknownTool):
            await tools.call("bad.progress", {})


async def test_tools_that_lie_about_their_schemas_are_left_out_and_the_others_stay(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        inventory = await tools.list("bad")
    names = {tool.tool for tool in inventory.tools}
    assert {"echo", "lie"} <= names
    assert not {"no_schema", "far", "vast"} & names
    assert inventory.left_out["no_schema"] == "its inputSchema is no object"
    assert inventory.left_out["far"] == "its schema refers to another document"
    assert inventory.left_out["vast"] == "its schema has more than 65536 bytes"


async def test_a_result_that_does_not_fit_its_tool_s_output_schema_is_an_error_for_the_model(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        outcome = await tools.call("bad.lie", {})
    assert outcome.is_error
    assert "does not fit the tool's output schema" in outcome.text


async def test_names_that_differ_in_capitals_alone_are_made_unique(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        names = {tool.tool: tool.name for tool in await tools.tools()}
        assert names["echo"].lower() != names["Echo"].lower()
        assert (await tools.call(names["Echo"], {})).text == "{}"


async def test_progress_reaches_the_caller_in_order(faulty: Faulty) -> None:
    seen: list[ToolProgress] = []
    async with faulty.tools() as tools:
        assert (await tools.call("bad.progress", {}, progress=seen.append)).text == "done"
        await eventually(lambda: len(seen) == 2)
    assert seen == [ToolProgress(1, 2, "step 1"), ToolProgress(2, 2, "step 2")]


async def test_a_hundred_calls_at_once_share_one_session(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        calls = [tools.call("bad.echo", {"text": str(number)}) for number in range(100)]
        texts = [outcome.text for outcome in await asyncio.gather(*calls)]
    assert texts == [f'{{"text": "{number}"}}' for number in range(100)]
    assert len(faulty.pids) == 1


async def test_two_tenants_never_share_a_session(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        await asyncio.gather(*(tools.call("bad.echo", {}, tenant=name) for name in ("a", "b", "a", "b")))
    assert len(faulty.pids) == 2


async def test_no_process_is_left_when_the_tools_are_closed(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        await tools.call("bad.echo", {})
        hanging = asyncio.ensure_future(tools.call("bad.hang", {}))
        await eventually(lambda: '"hang"' in faulty.sent)
    with pytest.raises(McpUnavailable):
        await hanging
    await eventually(lambda: not any(alive(pid) for pid in faulty.pids))


async def test_a_session_that_nobody_uses_is_closed_after_its_idle_time(faulty: Faulty) -> None:
    now = [0.0]
    pool = {"idle_timeout": 100, "ping_interval": 10}
    async with faulty.tools(pool=pool, options={"clock": lambda: now[0]}) as tools:
        await tools.call("bad.echo", {})
        now[0] = 50.0
        await tools.pool.sweep()
        assert '"ping"' in faulty.sent
        assert len(tools.pool) == 1
        now[0] = 101.0
        await tools.pool.sweep()
        assert len(tools.pool) == 0
        await eventually(lambda: not alive(faulty.pids[0]))


async def test_a_server_that_ends_at_a_ping_is_started_again_for_the_next_call(faulty: Faulty) -> None:
    now = [0.0]
    async with faulty.tools(pool={"ping_interval": 10}, options={"clock": lambda: now[0]}) as tools:
        await tools.call("bad.faint", {})
        now[0] = 50.0
        await tools.pool.sweep()
        assert (await tools.call("bad.echo", {})).text == "{}"
    assert len(faulty.pids) == 2


async def test_a_list_is_asked_for_again_after_its_time_to_live(faulty: Faulty) -> None:
    now = [0.0]
    async with faulty.tools(inventory={"tool_ttl": 60}, options={"clock": lambda: now[0]}) as tools:
        await tools.call("bad.grow", {})
        now[0] = 59.0
        assert "grown" not in {tool.tool for tool in await tools.tools()}
        now[0] = 61.0
        assert "grown" in {tool.tool for tool in await tools.tools()}


async def test_a_command_that_is_not_there_is_tried_with_growing_pauses(faulty: Faulty) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        if seconds > 10:
            await asyncio.Event().wait()
        pauses.append(seconds)

    server = {"command": "/nowhere/at/all"}
    async with faulty.tools(server, pool={"connect_tries": 4, "backoff": 1.0}, options={"sleep": sleep}) as tools:
        with pytest.raises(McpUnavailable, match="cannot be started"):
            await tools.call("bad.echo", {})
    assert [0.5 * 2**n <= pause <= 2**n for n, pause in enumerate(pauses)] == [True, True, True]


@pytest.mark.full
async def test_a_server_that_never_says_hello_is_waited_for_once_by_all(faulty: Faulty) -> None:
    silent = {"command": sys.executable, "args": ["-c", SILENT, str(faulty.log)]}
    pool = {"connect_timeout": 5, "connect_tries": 1}
    async with faulty.tools(silent, pool=pool) as tools:
        calls = [tools.call("bad.echo", {}) for _ in range(50)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(error) for error in errors} == {McpUnavailable}
        assert {str(error) for error in errors} == {"the server bad did not answer within 5 s"}
    assert len(faulty.pids) == 1


@pytest.mark.full
async def test_callers_that_leave_a_server_that_starts_leave_nothing_behind(faulty: Faulty) -> None:
    silent = {"command": sys.executable, "args": ["-c", SILENT, str(faulty.log)]}
    async with faulty.tools(silent) as tools:
        calls = [asyncio.ensure_future(tools.call("bad.echo", {})) for _ in range(5)]
        await eventually(lambda: bool(faulty.pids))
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    await eventually(lambda: not any(alive(pid) for pid in faulty.pids))


async def test_lines_of_stdout_that_are_no_messages_are_noise_and_go_to_the_server_s_log(
    faulty: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with faulty.tools() as tools:
        for _ in range(2):
            assert (await tools.call("bad.chatter", {})).text == "heard"
    assert len(faulty.pids) == 1
    told = [record.getMessage() for record in caplog.records if record.name == "mcp.stderr"]
    assert "bad: Listening on port 3000" in told
    assert 'bad: {"level": "info"}' in told
    others = [record.getMessage() for record in caplog.records if record.name != "mcp.stderr"]
    assert not [each for each in others if "Listening" in each]


async def test_more_noise_than_the_bound_ends_the_session(faulty: Faulty) -> None:
    async with faulty.tools() as tools:
        with pytest.raises(McpBadAnswer, match="more than 65536 bytes that are no message"):
            await tools.call("bad.babble", {})
        assert (await tools.call("bad.echo", {})).text == "{}"
    async with faulty.tools(limits={"noise_bytes": 1 << 20}) as tools:
        assert (await tools.call("bad.babble", {})).text == "unheard"
