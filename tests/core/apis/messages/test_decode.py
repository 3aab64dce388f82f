"""A Messages body as a record: what the vocabulary can say in this API is written and read back as the same, the rest is
refused by its field, and no JSON whatever makes anything else of it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smg_core.apis.messages.decode import MessagesRequest, decode_count, decode_messages
from smg_core.errors import SmgError
from smg_core.request import (
    FunctionTool,
    Image,
    MediaSource,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
)
from smg_core.wire.base import Incoming
from smg_core.wire.settings import LimitsConfig, MessagesConfig

Body = dict[str, Any]
HELLO: list[Body] = [{"role": "user", "content": "Hello"}]


def decoded(body: Body, *, count: bool = False, **arguments: Any) -> MessagesRequest:
    decode = decode_count if count else decode_messages
    return decode(Incoming(json.dumps(body).encode(), request_id="msg_1", **arguments))


def asked(messages: Sequence[Body] = HELLO, **fields: Any) -> Body:
    return {"model": "m", "max_tokens": 10, "messages": list(messages), **fields}


# --------------------------------------------------------------------------------------------------------- round trips

WORDS = st.text(min_size=1, max_size=12)
SAID = WORDS.filter(lambda text: bool(text.strip()))
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,16}", fullmatch=True)
MARKS = st.none() | st.sampled_from([{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.text(max_size=6), VALUES, max_size=3)
TEXTS = st.builds(Text, SAID, MARKS)
SOURCES = st.builds(
    MediaSource, url=st.sampled_from(["data:image/png;base64,AAAA", "https://host/a.webp"])
) | st.builds(MediaSource, file_id=NAMES)
IMAGES = st.builds(lambda source, mark: Image(source, cache=mark), SOURCES, MARKS)
SHOWN = st.lists(TEXTS | IMAGES, min_size=1, max_size=3).map(tuple)
SEALS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8).map(str.encode)
THOUGHTS = st.builds(lambda text, seal: Reasoning(text, seal=seal), SAID, SEALS) | st.builds(
    lambda seal: Reasoning("", seal=seal, visible=False), SEALS
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Turns as the decoder makes them: no two of one role beside each other, results right behind their calls."""
    turns: list[Message] = []
    if system := draw(st.none() | SAID):
        turns.append(Message("system", (Text(system),), content_is_text=True))
    calls = 0
    for _ in range(draw(st.integers(1, 3))):
        turns.append(Message("user", draw(SHOWN)))
        parts: list[Part] = [*draw(st.lists(THOUGHTS, max_size=2)), *draw(st.lists(TEXTS, max_size=1))]
        made = []
        for name, arguments, mark in draw(st.lists(st.tuples(NAMES, OBJECTS, MARKS), max_size=2)):
            calls += 1
            made.append(ToolCall(f"toolu_{calls}", name, compact(arguments), cache=mark))
        if not (parts or made):
            parts.append(draw(TEXTS))
        turns.append(Message("assistant", (*parts, *made)))
        if made:
            results = [
                ToolResult(call.id, draw(st.just(()) | SHOWN), draw(st.booleans()), cache=draw(MARKS)) for call in made
            ]
            turns.append(Message("tool", tuple(results)))
            turns.append(Message("assistant", (draw(TEXTS),)))
    turns.append(Message("user", draw(SHOWN)))
    return tuple(turns)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def marked(block: Body, mark: Any) -> Body:
    return block if mark is None else {**block, "cache_control": dict(mark)}


def source(given_: MediaSource) -> Body:
    if given_.file_id is not None:
        return {"type": "file", "file_id": given_.file_id}
    head, comma, data = (given_.url or "").partition(";base64,")
    if comma:
        return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
    return {"type": "url", "url": given_.url}


def block(part: Part) -> Body:
    match part:
        case Text():
            return marked({"type": "text", "text": part.text}, part.cache)
        case Image():
            return marked({"type": "image", "source": source(part.source)}, part.cache)
        case Reasoning(visible=False):
            return {"type": "redacted_thinking", "data": (part.seal or b"").decode()}
        case Reasoning():
            return {"type": "thinking", "thinking": part.text, "signature": (part.seal or b"").decode()}
        case ToolCall():
            use = {"type": "tool_use", "id": part.id, "name": part.name, "input": json.loads(part.arguments)}
            return marked(use, part.cache)
        case ToolResult():
            told = {
                "type": "tool_result",
                "tool_use_id": part.call_id,
                "content": [block(each) for each in part.content],
            }
            return marked({**told, "is_error": part.is_error}, part.cache)
    raise AssertionError(part)


def written(turns: Sequence[Message]) -> Body:
    """The body of these turns. Results are written behind the text of their turn, where the next turn of the user has one."""
    fields: Body = {}
    messages: list[Body] = []
    for turn in turns:
        if turn.role == "system":
            fields["system"] = turn.text
        else:
            role = "assistant" if turn.role == "assistant" else "user"
            messages.append({"role": role, "content": [block(part) for part in turn.parts]})
    return asked(messages, **fields)


def plain(turns: Sequence[Message]) -> list[tuple[str, tuple[Part, ...]]]:
    return [(turn.role, turn.parts) for turn in turns]


@pytest.mark.full
@given(conversations())
def test_a_conversation_is_read_back_as_it_was_written(turns: tuple[Message, ...]) -> None:
    body = written(turns)
    read = decoded(body)

    assert plain(read.generation.messages) == plain(turns)
    assert plain(decoded(body, count=True).generation.messages) == plain(turns)


@pytest.mark.full
@given(conversations())
def test_every_part_knows_its_block(turns: tuple[Message, ...]) -> None:
    body = written(turns)
    read = decoded(body)
    for order, turn in enumerate(read.generation.messages):
        for place, part in enumerate(turn.parts):
            at = read.locate(f"messages[{order}].parts[{place}]")
            if turn.role == "system":
                assert at == "system"
                continue
            message, _, rest = at.removeprefix("messages[").partition("].content[")
            assert body["messages"][int(message)]["content"][int(rest[:-1])] == block(part)


@pytest.mark.full
@given(conversations(), st.data())
def test_what_the_user_said_beside_results_comes_behind_them(turns: tuple[Message, ...], data: st.DataObject) -> None:
    places = [place for place, turn in enumerate(turns) if turn.role == "tool"]
    assume(places)
    place = data.draw(st.sampled_from(places))
    words = data.draw(SAID)
    body = written(turns)
    moved = body["messages"][place - (turns[0].role == "system")]["content"]
    moved.insert(data.draw(st.integers(0, len(moved))), {"type": "text", "text": words})

    read = plain(decoded(body).generation.messages)
    assert read == [*plain(turns[: place + 1]), ("user", (Text(words),)), *plain(turns[place + 1 :])]


@pytest.mark.full
@given(conversations(), OBJECTS)
def test_a_field_that_is_not_known_changes_nothing_else(turns: tuple[Message, ...], schema: Body) -> None:
    body = written(turns) | {"tools": [{"name": "f", "input_schema": schema}]}
    known, unknown = (decoded(each).generation for each in (body, {**body, "from_the_future": None, "another": 1}))

    assert known == unknown


TOOLS = st.lists(
    st.builds(
        FunctionTool,
        NAMES,
        st.none() | SAID,
        OBJECTS,
        st.none() | st.booleans(),
        cache=MARKS,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda tool: tool.name,
)


@given(TOOLS, st.sampled_from(["auto", "any", "tool", "none"]), st.none() | st.booleans())
def test_tools_and_their_choice_are_read_back(tools: list[FunctionTool], kind: str, alone: bool | None) -> None:
    listed = [
        marked({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}, tool.cache)
        | {"strict": tool.strict}
        for tool in tools
    ]
    choice: Body = {"type": kind, "disable_parallel_tool_use": alone}
    if kind == "tool":
        choice["name"] = tools[-1].name
    read = decoded(asked(tools=listed, tool_choice=choice)).generation

    assert list(read.tools) == tools
    names = (ToolKey(tools[-1].name),) if kind == "tool" else ()
    mode = {"auto": "auto", "none": "none"}.get(kind, "required")
    assert read.tool_choice == ToolChoice(mode, names, None if alone is None else not alone)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- anything

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every place in `value` as its container and its key or index."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, each in inner for place in ((value, key), *places_in(each))]


@pytest.mark.full
@given(conversations(), TOOLS, JSON, st.booleans(), st.data())
def test_a_body_with_any_value_in_any_place_is_read_or_refused(
    turns: tuple[Message, ...], tools: list[FunctionTool], value: Any, count: bool, data: st.DataObject
) -> None:
    body = written(turns) | {
        "tools": [{"name": tool.name, "input_schema": dict(tool.parameters or {})} for tool in tools],
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {
            "edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 1}}]
        },
        "metadata": {"user_id": "u"},
        "output_config": {"effort": "low"},
        "stop_sequences": ["x"],
    }
    container, key = data.draw(st.sampled_from(places_in(body)))
    container[key] = value
    refusal: SmgError | None = None
    try:
        decoded(body, count=count)
    except SmgError as error:
        refusal = error
    assert refusal is None or (refusal.status, refusal.anthropic_type) == (400, "invalid_request_error")


# ------------------------------------------------------------------------------------------------------------- refusals

USE: Body = {"type": "tool_use", "id": "x", "name": "f", "input": {}}
RESULT: Body = {"type": "tool_result", "tool_use_id": "x", "content": "1"}
THOUGHT: Body = {"type": "thinking", "thinking": "hm", "signature": "s"}
SAYS: Body = {"type": "text", "text": "so"}


def turn(role: str, *blocks: Body) -> Body:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    ("messages", "param", "words"),
    [
        ([*HELLO, turn("assistant", USE, USE), turn("user", RESULT)], "messages[1].content[1].id", "must be unique"),
        ([turn("user", RESULT)], "messages[0].content[0]", "unexpected `tool_use_id` found in `tool_result` blocks: x"),
        ([*HELLO, turn("assistant", USE)], "messages[1]", "without `tool_result` blocks immediately after: x"),
        ([*HELLO, turn("assistant", USE), turn("assistant", SAYS), *HELLO], "messages[1]", "immediately after: x"),
        (
            [*HELLO, turn("assistant", USE), turn("user", RESULT), *HELLO, turn("user", RESULT)],
            "messages[4].content[0]",
            "unexpected `tool_use_id`",
        ),
        ([turn("user", THOUGHT)], "messages[0].content[0]", "`thinking` blocks are not permitted in user messages"),
        ([turn("user", USE)], "messages[0].content[0]", "`tool_use` blocks are not permitted in user messages"),
        ([*HELLO, turn("assistant", RESULT)], "messages[1].content[0]", "not permitted in assistant messages"),
        ([*HELLO, turn("assistant", THOUGHT)], "messages[1]", "The final block in an assistant message cannot be"),
        ([*HELLO, turn("assistant"), *HELLO], "messages[1]", "must have non-empty content"),
        ([turn("user")], "messages[0]", "must have non-empty content"),
        ([{"role": "robot", "content": "x"}], "messages[0].role", ""),
        ([], "messages", "at least one message"),
        ([{"role": "assistant", "content": ""}], "messages", "at least one message with content"),
        ([turn("assistant", {"type": "container_upload", "file_id": "x"})], "messages", "at least one message with"),
    ],
)
def test_turns_out_of_order_are_refused_in_the_apis_words(messages: list[Body], param: str, words: str) -> None:
    with pytest.raises(SmgError) as error:
        decoded(asked(messages))
    assert error.value.param == param
    assert words in str(error.value)


def test_an_empty_last_turn_of_the_assistant_is_taken_away_and_thinking_alone_amid_turns_stays() -> None:
    read = decoded(asked([*HELLO, {"role": "assistant", "content": ""}])).generation
    assert ([each.role for each in read.messages], read.continue_final_message) == (["user"], False)
    read = decoded(asked([*HELLO, turn("assistant", THOUGHT), *HELLO])).generation
    assert [each.role for each in read.messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize("before", [SAYS, THOUGHT, USE])
def test_a_last_turn_of_the_user_that_says_nothing_to_a_model_is_no_prefill(before: Body) -> None:
    unknown = {"type": "from_the_future", "x": 1}
    result = [RESULT] if before is USE else []
    read = decoded(asked([*HELLO, turn("assistant", before), turn("user", *result, unknown)])).generation
    assert (read.continue_final_message, read.add_generation_prompt) == (False, True)


@pytest.mark.parametrize("prefill", ["continue", "refuse"])
def test_a_text_of_the_assistant_at_the_end_is_gone_on_with_or_refused(prefill: Any) -> None:
    body = asked([*HELLO, turn("assistant", SAYS)])
    settings = MessagesConfig(prefill=prefill)
    if prefill == "continue":
        read = decoded(body, messages=settings).generation
        assert (read.continue_final_message, read.add_generation_prompt) == (True, False)
        return
    with pytest.raises(SmgError) as error:
        decoded(body, messages=settings)
    assert error.value.param == "messages[1]"


BILLING = "x-anthropic-billing-header: cc_version=2; cch=1;"


@pytest.mark.parametrize("rest", ["You are helpful.", "You are helpful.\n\nBe brief."])
@pytest.mark.parametrize("as_blocks", [False, True])
def test_of_a_system_prompt_with_a_billing_line_before_it_only_the_line_is_left_out(rest: str, as_blocks: bool) -> None:
    text = f"{BILLING}\n{rest}"
    system: Any = [{"type": "text", "text": text}] if as_blocks else text
    first = decoded(asked(system=system)).generation.messages[0]

    assert (first.role, first.parts) == ("system", (Text(rest),))
    alone = decoded(asked(system=[{"type": "text", "text": BILLING}, {"type": "text", "text": rest}]))
    assert alone.generation.messages[0].parts == (Text(rest),)
    assert decoded(asked(system=BILLING)).generation.messages[0].role == "user"


def test_a_system_turn_without_a_text_is_no_turn() -> None:
    content = [{"type": "text", "text": ""}]
    turns = [*HELLO, {"role": "assistant", "content": "Hi"}, {"role": "system", "content": content}, *HELLO]

    assert [each.role for each in decoded(asked(turns)).generation.messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize("fields", [{}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}])
def test_any_slice_of_a_history_can_be_counted(fields: Body) -> None:
    for text in ("An answer", "An answer \n"):
        turns = [*HELLO, {"role": "assistant", "content": text}]
        counted = decoded(asked(turns, **fields), count=True)
        assert counted.generation.messages[-1].parts == (Text(text),)


RAN: Body = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "add", "server_name": "notes", "input": {"a": 2}}
RETURNED: Body = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False}
RETURNED["content"] = [{"type": "text", "text": "SUM-5\n"}]
SEARCHED: list[Body] = [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}]
SEARCHED += [{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "A page"}]}]
THINKS: Body = {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}}


@pytest.mark.sampled(keep=26)
@pytest.mark.parametrize("thinking", [{}, {"thinking": {"type": "adaptive"}}, THINKS])
@pytest.mark.parametrize("prefill", ["continue", "refuse"])
@pytest.mark.parametrize(
    "paused",
    [
        [RAN, RETURNED],
        [SAYS, RAN, RETURNED],
        [RAN, RETURNED | {"content": "SUM-5"}],
        [RAN, RETURNED | {"content": []}],
        [RAN],
        [RAN, RETURNED, THOUGHT],
        [RAN, RETURNED, {"type": "text", "text": "Once more. "}],
        SEARCHED,
    ],
)
def test_a_paused_turn_that_is_sent_back_is_followed_by_another_of_the_model(
    paused: list[Body], prefill: Any, thinking: Body
) -> None:
    body = asked([*HELLO, turn("assistant", *paused)], **thinking)
    for count in (False, True):
        said = {name: value for name, value in body.items() if not count or name != "max_tokens"}
        read = decoded(said, count=count, messages=MessagesConfig(prefill=prefill)).generation
        assert (read.continue_final_message, read.add_generation_prompt) == (False, True)
        assert [message.role for message in read.messages] == ["user", "assistant"]


def test_a_text_behind_the_results_of_a_servers_tools_is_a_prefill_where_it_can_be_one() -> None:
    prefilled = [*HELLO, turn("assistant", RAN, RETURNED, {"type": "text", "text": "The sum is"})]
    assert decoded(asked(prefilled)).generation.continue_final_message
    assert not decoded(asked(prefilled, **THINKS)).generation.continue_final_message


def test_the_result_of_a_servers_tool_is_told_whether_it_is_a_text_or_a_list() -> None:
    for content in ("SUM-5", [{"type": "text", "text": "SUM-5"}]):
        read = decoded(asked([*HELLO, turn("assistant", RAN, RETURNED | {"content": content}), *HELLO])).generation
        assert read.messages[1].parts[-1] == Text("SUM-5")


LATER: Body = {"name": "later", "input_schema": {"type": "object"}, "defer_loading": True}
AT_ONCE: Body = {"name": "now", "input_schema": {"type": "object"}}
SEARCH: Body = {"name": "ToolSearch", "description": "Fetches deferred tools.", "input_schema": {"type": "object"}}
SERVERS_SEARCH: Body = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def offered(tools: list[Body], messages: Sequence[Body] = HELLO, **fields: Any) -> list[str]:
    return [tool.name for tool in decoded(asked(messages, tools=tools, **fields)).generation.tools]


def searched(*names: str) -> list[Body]:
    """A conversation in which the client's search has found tools."""
    found = [{"type": "tool_reference", "tool_name": name} for name in names]
    use = {"type": "tool_use", "id": "toolu_1", "name": "ToolSearch", "input": {"query": "x"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": found}
    return [*HELLO, turn("assistant", use), turn("user", result)]


@pytest.mark.parametrize(
    "search",
    [[SERVERS_SEARCH], [{"type": "tool_search_tool_regex_20251119", "name": "s"}], [], [SERVERS_SEARCH, SEARCH]],
)
def test_deferred_tools_are_offered_at_once_where_nobody_can_search_for_them(search: list[Body]) -> None:
    own = [tool["name"] for tool in search if tool is SEARCH]
    assert offered([*search, AT_ONCE, LATER]) == [*own, "now", "later"]


@pytest.mark.parametrize("name", ["ToolSearch", "tool_search", "search_tools", "SearchTools", "mcp__x__tool-search"])
def test_deferred_tools_wait_for_the_clients_own_search(name: str) -> None:
    tools = [SEARCH | {"name": name}, AT_ONCE, LATER, LATER | {"name": "other"}]
    assert offered(tools) == [name, "now"]
    assert offered(tools, searched("later")) == [name, "now", "later"]
    assert offered(tools, tool_choice={"type": "tool", "name": "other"}) == [name, "now", "other"]


def test_what_a_conversation_has_found_shows_that_the_client_searches_whatever_its_tool_is_called() -> None:
    tools = [SEARCH | {"name": "find"}, LATER, LATER | {"name": "other"}]
    assert offered(tools) == ["find", "later", "other"]
    assert offered(tools, searched("later")) == ["find", "later"]


def test_a_deferred_tool_that_was_called_stays_offered() -> None:
    call = {"type": "tool_use", "id": "toolu_2", "name": "later", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_2", "content": "done"}
    called = [*HELLO, turn("assistant", call), turn("user", result)]
    assert offered([SEARCH, LATER, LATER | {"name": "other"}], called) == ["ToolSearch", "later"]


def test_as_many_tools_are_taken_as_the_settings_say() -> None:
    tools = [{"name": f"t{number}", "input_schema": {"type": "object"}} for number in range(500)]
    with pytest.raises(SmgError) as error:
        decoded(asked(tools=tools))
    assert error.value.param == "tools"
    assert len(decoded(asked(tools=tools), limits=LimitsConfig(tools=500)).generation.tools) == 500
