"""A response that its server makes as several: told as one, whatever the order and the kinds of its items."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.apis.realtime.merged import ClientsView, MergedResponse, call_of
from smg_core.apis.realtime.session_tools import SessionTools, asked_tools
from smg_core.apis.realtime.wire.events import SessionIds
from smg_core.events import HostedEnd, HostedStart
from smg_core.pipeline.settings import McpConfig
from smg_core.pipeline.tools.hosted import ListedServer, ServerTool

NOTES: Any = {"type": "mcp", "server_label": "notes", "require_approval": "never"}


def offered() -> SessionTools:
    """The tools of a session that has those of the server "notes"."""
    tools, bounds = SessionTools(), McpConfig()
    asked = asked_tools([NOTES], bounds, "tools")
    assert asked is not None
    sent = tools.offer(asked, [ListedServer(asked.servers[0], (ServerTool("add"),))], bounds, lasting=True)
    tools.rendered({"tools": sent})
    return tools


def item_of(kind: str, id: str) -> dict[str, Any]:
    if kind == "message":
        return {"id": id, "type": "message", "status": "completed"}
    name = "notes__add" if kind == "hosted" else "mine"
    return {
        "id": id,
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{id}",
        "name": name,
        "arguments": "{}",
    }


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.sampled_from(["message", "own", "hosted"]), max_size=4), min_size=1, max_size=4))
def test_one_response_is_told_of_however_many_its_server_makes(turns: list[list[str]]) -> None:
    tools = offered()
    view = ClientsView(tools)
    merged = MergedResponse("resp_1", view, tools, SessionIds("s"))
    shown: list[Any] = []
    done = 0
    for turn, kinds in enumerate(turns):
        if turn:
            merged.goes_on()
        for at, kind in enumerate(kinds):
            item = item_of(kind, f"item_{turn}_{at}")
            for phase in ("added", "done"):
                event = {"type": f"response.output_item.{phase}", "response_id": f"resp_{turn + 1}", "item": item}
                told = merged.rendered({**event, "output_index": at})
                shown += [] if told is None else [told]
        usage = {"total_tokens": 2, "details": {"text_tokens": 1}}
        paused = not merged.over({"id": f"resp_{turn + 1}", "status": "completed", "usage": usage})
        assert paused == ("hosted" in kinds)
        if not paused:
            done = turn
            break
        for call in list(merged.open):
            lines = merged.starts(HostedStart(0, call, "mcp", b'{"server":"notes","name":"add","arguments":"{}"}'))
            ended = merged.ends(HostedEnd(0, b'{"text":"5","content":[{"type":"text"}]}'))
            assert ended is not None
            merged.answered(call, f"output_of_{call}")
            shown += [json.loads(line) for line in (*lines, *ended[0])]
            assert ended[1:] == (call, "5")
        done = turn
    last = json.loads(merged.done())["response"]
    finished = [each["output_index"] for each in shown if each["type"] == "response.output_item.done"]
    assert finished == list(range(len(last["output"])))
    assert {each["response_id"] for each in shown if "response_id" in each} <= {"resp_1"}
    assert "notes__add" not in json.dumps([*shown, last])
    assert last["usage"] == {"total_tokens": 2 * (done + 1), "details": {"text_tokens": done + 1}}
    assert not merged.open


def test_the_items_of_calls_are_not_told_and_what_follows_them_is_in_its_place() -> None:
    tools = offered()
    view = ClientsView(tools)
    call = item_of("hosted", "item_call")
    added: dict[str, Any] = {"type": "conversation.item.added", "previous_item_id": "item_user", "item": call}
    view.answered("item_output", "item_call")
    output = {"id": "item_output", "type": "function_call_output"}
    behind = {"type": "conversation.item.added", "previous_item_id": "item_output", "item": {"id": "item_next"}}
    assert view.rendered(added) is None
    assert view.rendered({**added, "item": output}) is None
    assert view.rendered(behind) == {**behind, "previous_item_id": "item_call"}
    assert view.before("item_call") == "item_user"
    assert view.outputs_of("item_call") == ["item_output"]
    assert view.rendered({"type": "conversation.item.deleted", "item_id": "item_output"}) is None


@given(
    st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_what_is_no_whole_call_is_none(item: Any) -> None:
    found = call_of(item)
    assert found is None or all(isinstance(each, str) for each in found)
    assert call_of({**item_of("own", "i"), "status": "incomplete"}) is None
    assert call_of({**item_of("own", "i"), "call_id": None}) is None


def test_a_name_that_begins_as_those_of_a_server_is_answered_here_and_the_clients_own_is_not() -> None:
    tools = offered()
    assert "notes__add" in tools
    assert "notes__made_up" in tools
    assert "other" not in tools
    assert 5 not in tools
    tools.claim([{"type": "function", "name": "notes__add"}])
    tools.rendered({"tools": [{"type": "function", "name": "notes__add"}]})
    assert "notes__add" not in tools
    assert "notes__made_up" not in tools
