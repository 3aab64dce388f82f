"""What smg_mcp decides without a server: names, JSON, arguments, policy, configuration, search, bounds."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_mcp import Approval, Bm25Index, CallFacts, Decision, McpConfigError, McpTool, ToolHints, ToolText, stricter
from smg_mcp.catalogue import naming
from smg_mcp.catalogue.arguments import arguments_for, schema_for
from smg_mcp.catalogue.catalogue import CatalogueCache, made_catalogue
from smg_mcp.catalogue.inventory import ListedTool, fault_of_tool
from smg_mcp.catalogue.naming import legal_name, unique_names
from smg_mcp.catalogue.results import outcome_of
from smg_mcp.config.mapping import settings_of
from smg_mcp.policy.audit import AuditEntry, AuditTrail
from smg_mcp.records.settings import ArgumentMapping, InventorySettings, McpLimits, McpPolicy
from smg_mcp.sessions.pool import digest_of_credentials
from smg_mcp.transport.screening import ProtocolBreach, Screen
from smg_mcp.transport.strict_json import AmbiguousJson, strict_object, whole_characters
from smg_mcp.transport.wire import _EventLines

# ------------------------------------------------------------------------------------------------------------------- names

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
TEXT = st.text(max_size=90)


@pytest.mark.full
@given(TEXT)
def test_every_text_becomes_a_legal_name_and_a_legal_one_stays(text: str) -> None:
    name = legal_name(text)
    assert LEGAL.match(name)
    assert legal_name(name) == name
    if LEGAL.match(text):
        assert name == text


@pytest.mark.full
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "X", "y z", "y_z", "a_x", "é" * 70]) | TEXT), unique=True
    )
)
def test_names_are_unique_also_without_capitals(pairs: list[tuple[str, str]]) -> None:
    names = unique_names([(server, tool, None) for server, tool in pairs])
    assert len({name.lower() for name in names}) == len(pairs)
    assert all(LEGAL.match(name) for name in names)


def test_an_alias_keeps_its_name_and_the_tool_that_had_it_gets_another() -> None:
    assert unique_names([("a", "now", None), ("b", "time", "now")]) == ["a_now", "now"]
    assert unique_names([("a", "now", None), ("b", "now", None)]) == ["a_now", "b_now"]


# -------------------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"id": 1, "id": 2}', "key twice"),
        ('{"result": {"a": {"b": 1, "b": 1}}}', "key twice"),
        ('{"method": "a", "Method": "b"}', "capitals"),
        ('{"params": {"name": "a", "NAME": "b"}}', "capitals"),
        ('{"result": {"tools": [{"name": "a", "nAme": "b"}]}}', "capitals"),
        ("[1]", "no object"),
        ('{"a": NaN}', "NaN"),
        ("{", "no JSON"),
        ('{"a":' + "[" * 30 + "]" * 30 + "}", "nested more than 20 deep"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_json_that_two_readers_read_in_two_ways_is_refused(text: str, why: str) -> None:
    with pytest.raises(AmbiguousJson, match=why):
        strict_object(text, 20)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(40))
@given(JSON)
def test_what_is_not_ambiguous_is_read_as_it_is(value: Any) -> None:
    assert strict_object(json.dumps({"jsonrpc": "2.0", "value": value}), 100)["value"] == value


@pytest.mark.full
@given(st.lists(st.sampled_from(["\\", "\ud83d", "\ude00", "u", "d83d", "é", '"', "\\ud800"]), max_size=9))
def test_a_half_of_a_character_becomes_the_sign_for_it_and_all_else_stays(pieces: list[str]) -> None:
    text = json.loads(json.dumps("".join(pieces)))  # two halves side by side are one character
    found = json.loads(whole_characters(json.dumps(text).encode()))
    assert found == "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)


EVENT = st.sampled_from(
    ["event: message\ndata: {}\n\n", "data: a\ndata: b\n\n", ": note\n\n", "event: other\ndata: x\n\n"]
)


@given(st.lists(EVENT), st.sampled_from(["\n", "\r\n", "\r"]), st.integers(1, 7))
def test_events_are_cut_alike_however_their_bytes_come(events: list[str], end: str, size: int) -> None:
    whole = "".join(events).replace("\n", end).encode()
    pieces = _EventLines(10_000)
    found = [each for at in range(0, len(whole), size) for each in pieces.fed(whole[at : at + size])]
    data = {"event: message\ndata: {}\n\n": b"{}", "data: a\ndata: b\n\n": b"a\nb"}
    assert [each for _, each in found] == [data.get(event, b"") for event in events]
    assert b"".join(event for event, _ in found) == "".join(events).encode()


# --------------------------------------------------------------------------------------------------------------- arguments


def test_arguments_are_renamed_filled_in_and_overridden_and_the_schema_says_so() -> None:
    mapping = ArgumentMapping(renames={"city": "location"}, defaults={"units": "metric"}, overrides={"key": "k"})
    properties = {"location": {"type": "string"}, "units": {"type": "string"}, "key": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["location", "units", "key"]}
    shown = schema_for(schema, mapping)
    assert shown["properties"] == {"city": {"type": "string"}, "units": {"type": "string"}}
    assert shown["required"] == ["city"]
    sent = arguments_for({"city": "Oslo", "key": "stolen"}, mapping, schema)
    assert sent == {"location": "Oslo", "units": "metric", "key": "k"}


@pytest.mark.parametrize(
    ("kind", "text", "sent"),
    [
        ("integer", "5", 5),
        ("number", "5", 5),
        ("number", "5.5", 5.5),
        ("integer", "5.5", "5.5"),
        ("number", "nan", "nan"),
        ("number", "five", "five"),
        ("string", "5", "5"),
        (["integer", "string"], "5", "5"),
    ],
)
def test_a_string_becomes_a_number_only_where_a_number_is_meant(kind: Any, text: str, sent: Any) -> None:
    found = arguments_for({"n": text}, ArgumentMapping(), {"properties": {"n": {"type": kind}}})["n"]
    assert found == sent
    assert type(found) is type(sent)


# ------------------------------------------------------------------------------------------------------------------ policy

READS = ToolHints(read_only=True, open_world=False)
WRITES = ToolHints(read_only=False, destructive=True)
SAFE = ToolHints(read_only=False, destructive=False)


def decided(policy: dict[str, Any], facts: CallFacts) -> str:
    servers = [{"name": name, "protocol": "stdio", "command": "x"} for name in ("s", "t")]
    return Approval(settings_of({"servers": servers, "policy": policy}, {}).policy).decide(facts).verdict


@pytest.mark.parametrize(
    ("policy", "hints", "verdict"),
    [
        ({}, WRITES, "allow"),
        ({"default": "ask"}, READS, "ask"),
        ({"default": "deny", "tools": {"s.x": "allow"}}, WRITES, "allow"),
        ({"default": "deny", "servers": {"s": {"trust_level": "trusted"}}}, WRITES, "allow"),
        ({"servers": {"s": {"trust_level": "untrusted"}}}, WRITES, "deny"),
        ({"servers": {"s": {"trust_level": "untrusted"}}}, ToolHints(), "deny"),
        ({"servers": {"s": {"trust_level": "untrusted", "default": "ask"}}}, SAFE, "ask"),
        ({"servers": {"s": {"trust_level": "sandboxed"}}}, READS, "allow"),
        ({"servers": {"s": {"trust_level": "sandboxed"}}}, ToolHints(read_only=True), "deny"),
        ({"servers": {"s": {"trust_level": "sandboxed"}}}, SAFE, "deny"),
        ({"servers": {"s": {"default": "ask"}}, "default": "deny"}, WRITES, "ask"),
        ({"rules": [{"decision": "deny", "destructive": True}]}, WRITES, "deny"),
        ({"rules": [{"decision": "deny", "destructive": True}]}, READS, "allow"),
        ({"rules": [{"decision": "ask", "tenant": "acme*"}]}, READS, "allow"),
        ({"rules": [{"decision": "ask", "tool": "x*"}, {"decision": "deny"}]}, READS, "ask"),
        ({"rules": [{"decision": "deny"}], "tools": {"s.x": "ask"}}, READS, "ask"),
    ],
)
def test_the_policy_decides_in_its_order(policy: dict[str, Any], hints: ToolHints, verdict: str) -> None:
    assert decided(policy, CallFacts("s", "x", hints, "beta")) == verdict


def test_a_wish_makes_a_decision_stricter_and_never_looser() -> None:
    order = ("allow", "ask", "deny")
    for one in order:
        for other in order:
            assert stricter(Decision(one), Decision(other)).verdict == max(one, other, key=order.index)  # type: ignore[arg-type]


def test_the_audit_keeps_the_newest_and_tells_its_sink_all() -> None:
    told: list[AuditEntry] = []
    trail = AuditTrail(3, told.append)
    for number in range(5):
        trail.note(
            AuditEntry(number, CallFacts("s", "x", tenant="ab"[number % 2]), Decision("ask"), approved=number == 4)
        )
    assert [entry.at for entry in trail.entries()] == [2, 3, 4]
    assert [entry.at for entry in trail.entries(tenant="b")] == [3]
    assert [entry.permitted for entry in told] == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("verdict", "approved", "not_made", "outcome"),
    [
        ("allow", False, None, "allowed"),
        ("allow", True, None, "approved"),
        ("ask", True, None, "approved"),
        ("ask", False, None, "asked"),
        ("deny", True, None, "denied"),
        ("allow", False, "asked", "asked"),
        ("allow", False, "denied", "denied"),
        ("ask", False, "refused", "refused"),
    ],
)
def test_the_audit_says_what_came_of_a_decision(verdict: Any, approved: bool, not_made: Any, outcome: str) -> None:
    entry = AuditEntry(1, CallFacts("s", "x"), Decision(verdict), approved, not_made=not_made)
    assert (entry.outcome, entry.permitted) == (outcome, outcome in ("allowed", "approved"))


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.dictionaries(st.text(max_size=5), st.text(max_size=5))
)
def test_credentials_that_differ_have_sessions_that_differ(one: dict[str, str], other: dict[str, str]) -> None:
    lower = [sorted((name.lower(), value) for name, value in each.items()) for each in (one, other)]
    assert (digest_of_credentials(one.items()) == digest_of_credentials(other.items())) == (lower[0] == lower[1])


# ----------------------------------------------------------------------------------------------------------- configuration

SERVER = {"name": "a", "protocol": "streamable", "url": "http://x/"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"servers": [{**SERVER, "builtin_type": "x"}]}, "builtin_type"),
        ({"servers": [{**SERVER, "name": "a.b"}]}, "matching regex"),
        ({"servers": [SERVER, {**SERVER, "name": "A"}]}, "two servers are named"),
        ({"servers": [{**SERVER, "url": None}]}, "needs a url"),
        ({"servers": [{**SERVER, "command": "rm"}]}, "stdio only"),
        ({"servers": [{"name": "a", "protocol": "stdio"}]}, "needs a command"),
        ({"servers": [{"name": "a", "protocol": "stdio", "command": "x", "token": "t"}]}, "no use"),
        (
            {"servers": [{**SERVER, "token": "${NOT_SET}"}]},
            r"servers\[0\].token: the environment has no variable NOT_SET",
        ),
        ({"servers": [{**SERVER, "oauth": {"grant": "client_credentials"}}]}, "needs client_id"),
        (
            {
                "servers": [
                    {**SERVER, "headers": {"authorization": "Basic x"}, "oauth": {"grant": "client_credentials"}}
                ]
            },
            "Authorization and oauth exclude each other",
        ),
        (
            {"servers": [{**SERVER, "oauth": {"grant": "authorization_code", "store": "f", "client_secret": "s"}}]},
            "client_secret needs client_id, and issuer",
        ),
        ({"servers": [{**SERVER, "oauth": {"grant": "authorization_code"}}]}, "needs store"),
        ({"servers": [{**SERVER, "tools": {"x": {"alias": "z"}, "y": {"alias": "z"}}}]}, "same alias"),
        (
            {
                "servers": [
                    {"name": "p", "protocol": "model", "model": "m", "tools": {"image_generation": {"price": 1}}}
                ]
            },
            "table of prices",
        ),
        ({"policy": {"servers": {"b": {}}}}, "there is no server 'b'"),
        ({"policy": {"tools": {"x": "allow"}}}, "not the name of a server"),
        ({"policy": {"default": "maybe"}}, "policy.default"),
        ({"pool": {"idle_timeout": -1}}, "idle_timeout"),
        ({"pools": {}}, "pools"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_with_its_place(change: dict[str, Any], why: str) -> None:
    with pytest.raises(McpConfigError, match=why):
        settings_of(change, {})


def test_variables_are_filled_in() -> None:
    told = {"servers": [{**SERVER, "token": "${TOKEN}", "headers": {"x": "${NAME:-nobody}"}}]}
    server = settings_of(told, {"TOKEN": "t"}).servers[0]
    assert (server.token, server.headers) == ("t", {"x": "nobody"})


def test_every_part_of_the_file_is_applied() -> None:
    told = {
        "servers": [{**SERVER, "tools": {"x": {"alias": "y", "arg_mapping": {"renames": {"p": "q"}}}}}],
        "pool": {"max_connections": 3},
        "inventory": {"tool_ttl": 5},
        "limits": {"call_timeout": 6},
        "egress": {"private": ["h"]},
        "policy": {"default": "ask"},
        "proxy": {"https": "http://p:1"},
    }
    found = settings_of(told, {})
    assert (found.pool.max_connections, found.inventory.tool_ttl, found.limits.call_timeout) == (3, 5, 6)
    assert (found.egress.private, found.policy.default) == (("h",), "ask")
    assert found.servers[0].tools["x"].arg_mapping.renames == {"p": "q"}


# ------------------------------------------------------------------------------------------------------------------ search


def tool(name: str, description: str) -> McpTool:
    return McpTool(name, "s", name, description, {"type": "object", "properties": {}})


def test_tools_are_found_by_words_of_name_and_description() -> None:
    tools = [
        tool("read_file", "Read a file."),
        tool("getWeather", "The forecast of a city."),
        tool("list_files", "Names."),
    ]
    index = Bm25Index(tools)
    assert [each.name for each in index.search("weather forecast", 5)] == ["getWeather"]
    assert {each.name for each in index.search("files", 5)} == {"read_file", "list_files"}
    assert list(index.search("zebra crossing", 5)) == []
    assert len(index.search("file", 1)) == 1


@given(st.lists(st.text(alphabet="ab cd", max_size=8)), st.text(alphabet="ab cd", max_size=8), st.integers(0, 4))
def test_a_search_finds_only_tools_with_a_word_of_the_query_and_not_too_many(
    texts: list[str], query: str, limit: int
) -> None:
    found = Bm25Index([tool(f"t{number}", text) for number, text in enumerate(texts)]).search(query, limit)
    assert len(found) <= limit
    assert len({each.name for each in found}) == len(found)
    assert all(set(query.split()) & set(each.description.split()) for each in found)


# ------------------------------------------------------------------------------------------------------------------ bounds

BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "new"]), "text": st.text(), "data": st.text("ab")}
)


@pytest.mark.full
@given(st.lists(BLOCK, max_size=8), st.none() | st.text(), st.integers(1, 40))
def test_a_result_is_never_larger_than_its_bound(blocks: list[dict[str, Any]], structured: Any, most: int) -> None:
    limits = McpLimits(result_bytes=most, result_parts=4)
    outcome = outcome_of({"content": blocks, "structuredContent": structured}, limits)
    kept = [part for part in outcome.content if not (isinstance(part, ToolText) and part.text.startswith("["))]
    sizes = [len(part.text.encode()) if isinstance(part, ToolText) else len(part.data) for part in kept]  # type: ignore[union-attr]
    assert sum(sizes) <= most
    assert len(kept) <= 4
    assert outcome.truncated == any("too large" in part.text for part in outcome.content if isinstance(part, ToolText))


def test_what_a_server_may_notify_is_a_rate() -> None:
    screen = Screen(McpLimits(notifications_per_s=10, notifications_burst=5), InventorySettings())
    for _ in range(5):
        screen.notified("notifications/message", 0.0)
    with pytest.raises(ProtocolBreach):
        screen.notified("notifications/message", 0.0)
    screen = Screen(McpLimits(notifications_per_s=10, notifications_burst=5), InventorySettings())
    for number in range(100):
        screen.notified("notifications/message", number / 10)


@settings(max_examples=examples(40))
@given(JSON)
def test_any_json_is_a_tool_or_has_a_fault_that_is_told(raw: Any) -> None:
    for each in (raw, {"name": "x", "inputSchema": raw}, {"name": "x", "inputSchema": {"properties": raw}}):
        fault = fault_of_tool(each, InventorySettings())
        assert fault is None or isinstance(fault, str)


def test_a_policy_of_nothing_allows() -> None:
    assert Approval(McpPolicy()).decide(CallFacts("s", "x")).verdict == "allow"


def test_a_catalogue_is_kept_for_the_same_lists_and_the_memory_is_bounded() -> None:
    server, again = (settings_of({"servers": [SERVER]}, {}).servers[0] for _ in range(2))
    lists = [[ListedTool(f"t{number}", "", {"type": "object"})] for number in range(5)]
    cache = CatalogueCache(2)
    first = made_catalogue([(server, lists[0])])
    assert cache.find([(server, lists[0])]) is None
    cache.keep([(server, lists[0])], first)
    assert cache.find([(again, lists[0])]) is first  # as a request brings it, made anew
    assert cache.find([(msgspec.structs.replace(server, name="other"), lists[0])]) is None
    for each in lists:
        cache.keep([(server, each)], made_catalogue([(server, each)]))
        found = cache.find([(server, each)])
        assert found is not None
        assert found.tools[0].tool == each[0].tool
    assert cache.find([(server, lists[0])]) is None
    assert len(cache._kept) == 2


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.none() | st.sampled_from("xy"))))
def test_names_are_unique_however_often_a_server_lists_a_tool(wanted: list[tuple[str, str, str | None]]) -> None:
    names = unique_names(wanted)
    assert len({name.lower() for name in names}) == len(wanted)
    assert all(LEGAL.match(name) for name in names)


def test_the_work_for_a_name_does_not_grow_with_the_number_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(naming, "legal_name", lambda text: made.append(text) or legal_name(text))
    unique_names([("s", "a", None)] * 2000)
    assert len(made) <= 3 * 2000


def test_a_list_with_a_name_twice_or_one_that_is_too_long_offers_the_first_and_none() -> None:
    screen = Screen(McpLimits(), InventorySettings(name_chars=10))
    screen.asked(1, "tools/list")
    schema: dict[str, Any] = {"type": "object"}
    result = {"tools": [{"name": name, "inputSchema": {**schema}} for name in ("a", "b", "a", "x" * 11)]}
    screen.answered(1, result)
    assert [each["name"] for each in result["tools"]] == ["a", "b"]
    assert screen.left_out == {
        "a": "another tool of the list has its name",
        "x" * 11: "its name has more than 10 characters",
    }
