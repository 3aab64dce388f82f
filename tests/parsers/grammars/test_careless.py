"""What models write carelessly is read as they meant it, marked, and never as more than they meant."""

from __future__ import annotations

from typing import Any

import pytest
from tests.parsers.examples import EXAMPLES, WEATHER
from tests.parsers.splits import cuts, fixed_ids, outline, run

from smg_parsers import FAMILIES, CallEnd, CallStart, MalformedCall, Parser, Piece, Text

pytestmark = pytest.mark.sampled(keep=24)

BASH = {
    "name": "bash",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    },
}
TAGGED = "<tool_call>\n<function=bash>\n<parameter=command>\n{}\n</parameter>\n</function>\n</tool_call>"


def parse(family: str, text: str, **options: Any) -> list[Piece]:
    """The pieces of a text, found the same at every split."""
    results = [
        run(Parser.for_family(family, call_id=fixed_ids(), **options), chunks) for chunks in cuts(text, random_cuts=10)
    ]
    assert all(result == results[0] for result in results)
    return results[0]


def bash(text: str, **options: Any) -> list[dict[str, Any]]:
    """The outline of a Qwen3-Coder text, ids left out."""
    found = outline(parse("qwen3_coder", text, tools=[BASH], **options))
    for entry in found:
        entry.get("call", {}).pop("id", None)
    return found


def one(command: str, **extra: Any) -> dict[str, Any]:
    return {"call": {"name": "bash", "arguments": {"command": command}, **extra}}


class TestACallNeverSwallowsTheNextOne:
    @pytest.mark.parametrize("end", ["", "</parameter/>\n", "</parameter1>\n", "</parameter\n"])
    def test_a_missing_or_misspelt_end_tag_leaves_two_calls(self, end: str) -> None:
        text = TAGGED.format("ls").replace("</parameter>\n", end) + "\n" + TAGGED.format("rm -rf /tmp/x")
        # Where the value has no end tag at all, the next call may be a part of it.
        second = {} if end else {"repaired": True}
        assert bash(text) == [one("ls", repaired=True), one("rm -rf /tmp/x", **second)]

    def test_several_missing_end_tags_leave_one_call_as_a_value_may_be_written_so(self) -> None:
        rest = "\n</tool_call>\n" + TAGGED.format("pwd")
        value = "ls" + rest.removesuffix("\n</parameter>\n</function>\n</tool_call>")
        text = TAGGED.format("ls").replace("\n</parameter>\n</function>", "") + "\n" + TAGGED.format("pwd")
        assert bash(text) == [one(value, repaired=True)]

    def test_a_value_without_any_end_tag_goes_on_to_the_next_one_and_leaves_one_call(self) -> None:
        command = "ls\n" + TAGGED.format("pwd").removesuffix("\n</parameter>\n</function>\n</tool_call>")
        assert bash(TAGGED.format(command)) == [one(command)]

    def test_a_missing_end_of_the_call_leaves_one_call_as_a_value_may_be_written_so(self) -> None:
        rest = "\n</parameter>\n" + TAGGED.format("pwd")
        value = "ls" + rest.removesuffix("\n</parameter>\n</function>\n</tool_call>")
        text = TAGGED.format("ls").replace("\n</function>\n</tool_call>", "") + "\n" + TAGGED.format("pwd")
        assert bash(text) == [one(value, repaired=True)]

    @pytest.mark.parametrize("policy", ["repair", "text"])
    def test_it_leaves_two_calls_where_the_second_has_no_parameter_and_both_are_told_as_repaired(
        self, policy: Any
    ) -> None:
        second = "<tool_call>\n<function=bash>\n</function>\n</tool_call>"
        text = TAGGED.format("ls").replace("\n</function>\n</tool_call>", "") + "\n" + second
        found = bash(text, malformed_calls=policy)
        if policy == "repair":
            assert found == [one("ls", repaired=True), {"call": {"name": "bash", "arguments": {}, "repaired": True}}]
        else:
            assert not any("arguments" in entry.get("call", {}) for entry in found)

    def test_a_known_parameter_at_the_beginning_of_a_line_ends_the_value_before(self) -> None:
        text = TAGGED.format("ls\n<parameter=timeout>\n3")
        assert bash(text) == [
            {"call": {"name": "bash", "arguments": {"command": "ls", "timeout": 3}, "repaired": True}}
        ]

    @pytest.mark.parametrize(
        "quoted",
        [
            "echo '<parameter=timeout>'",
            "cat <<E\n<parameter=other>\nE",
            "echo '</parameter>' '</function>'",
            "cat <<E\n<parameter=command>\nE",
            "cat <<E\n<tool_call>\n<function=other>\nE",
            "if [ 1 </dev/null ]; then echo </tool_call>; fi",
        ],
    )
    def test_what_a_value_quotes_stays_in_it(self, quoted: str) -> None:
        assert bash(TAGGED.format(quoted)) == [one(quoted)]

    @pytest.mark.parametrize("mark", ['"', "'"])
    def test_names_in_quotes_are_read(self, mark: str) -> None:
        text = TAGGED.format("ls").replace("=bash", f"={mark}bash{mark}").replace("=command", f"={mark}command{mark}")
        assert bash(text) == [one("ls")]

    def test_an_unfinished_key_is_a_key(self) -> None:
        text = "<tool_call>get_weather\n<arg_key>city\n<arg_value>Paris</arg_value>\n</tool_call>"
        assert outline(parse("glm45", text, tools=[WEATHER]))[0]["call"] == {
            "name": "get_weather", "id": "call_0", "arguments": {"city": "Paris"}, "repaired": True,
        }  # fmt: skip

    def test_a_call_cut_off_in_its_closing_tags_keeps_them_out_of_its_value(self) -> None:
        whole = TAGGED.format("ls")
        for size in range(whole.index("</parameter>") + len("</parameter>"), len(whole)):
            found = parse("qwen3_coder", whole[:size], tools=[BASH])
            assert all("</" not in getattr(piece, "delta", "") for piece in found)


@pytest.mark.parametrize("value", ["", "ann"])
def test_an_element_whose_name_begins_with_its_parents_does_not_end_that(value: str) -> None:
    ns = "]<]minimax[>["
    text = (
        f'{ns}<tool_call>{ns}<invoke name="find">{ns}<user>{ns}<username>{value}{ns}</username>{ns}</user>'
        f"{ns}</invoke>{ns}</tool_call>"
    )
    nested = {"type": "object", "properties": {"username": {"type": "string"}}}
    tool = {"name": "find", "parameters": {"type": "object", "properties": {"user": nested}}}
    (found,) = outline(parse("minimax_m3", text, tools=[tool], in_reasoning=False))
    assert found["call"]["arguments"] == {"user": {"username": value}}
    assert "repaired" not in found["call"]


class TestThePolicyForMalformedCalls:
    text = "Hi.\n" + TAGGED.format("ls").replace("</parameter>\n", "") + "\n" + TAGGED.format("pwd")

    def test_a_repair_is_marked(self) -> None:
        ends = [piece for piece in parse("qwen3_coder", self.text, tools=[BASH]) if isinstance(piece, CallEnd)]
        assert ends == [CallEnd(0, repaired=True), CallEnd(1, repaired=True)]

    def test_text_breaks_the_call_off_and_gives_back_the_rest(self) -> None:
        found = bash(self.text, malformed_calls="text")
        assert found[1]["call"] == {"name": "bash", "complete": False, "arguments_text": '{"command":"ls'}
        assert found[2:] == [{"text": "\n</function>\n</tool_call>\n" + TAGGED.format("pwd")}]

    def test_error_names_the_tool_and_carries_what_came_before(self) -> None:
        parser = Parser.for_family("qwen3_coder", tools=[BASH], call_id=fixed_ids(), malformed_calls="error")
        assert parser.feed(self.text)[:2] == [Text("Hi.\n"), CallStart(0, "call_0", "bash")]
        with pytest.raises(MalformedCall, match="'bash'") as caught:
            parser.finish()
        assert caught.value.pieces == ()

    def test_an_unknown_policy_is_named(self) -> None:
        with pytest.raises(ValueError, match="'perhaps'"):
            Parser.for_family("qwen3", malformed_calls="perhaps")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="'sometimes'"):
            Parser.for_family("qwen3", unknown_tools="sometimes")  # type: ignore[arg-type]


class TestProseIsNotACall:
    @pytest.mark.parametrize("family", ["llama4", "gemma3", "pythonic", "json", "xlam", "llama3"])
    @pytest.mark.parametrize("tools", [None, [], [WEATHER]])
    def test_a_name_that_no_tool_has_is_text_where_no_marker_opens_a_call(
        self, family: str, tools: list[dict[str, Any]] | None
    ) -> None:
        for text in ("Use `df[df.apply(axis=1)]`", "[P(X=2)]", '{"name": "P", "arguments": {"X": 2}}', "[f()]"):
            assert parse(family, text, tools=tools) == [Text(text)]

    def test_what_stands_beside_a_known_tool_in_one_list_is_a_call_of_an_unknown_one(self) -> None:
        found = outline(parse("pythonic", "[get_weather(city='Paris'), other(x=1)]", tools=[WEATHER]))
        assert [entry["call"]["name"] for entry in found] == ["get_weather", "other"]

    def test_a_known_tool_behind_prose_of_the_same_shape_is_called(self) -> None:
        found = outline(parse("pythonic", "With [P(X=2)]: [get_weather(city='Paris')]", tools=[WEATHER]))
        assert found[0] == {"text": "With [P(X=2)]: "}
        assert found[1]["call"]["arguments"] == {"city": "Paris"}


class TestCutsAndJunk:
    @pytest.mark.parametrize("family", EXAMPLES)
    def test_the_closing_markers_of_a_finished_call_never_reach_the_reader(self, family: str) -> None:
        whole = EXAMPLES[family][1]
        for size in range(len(whole) + 1):
            found = Parser.for_family(family, tools=[WEATHER], in_reasoning=False).parse(whole[:size])
            if any(isinstance(piece, CallEnd) for piece in found):
                assert not [piece for piece in found if isinstance(piece, Text)], whole[:size]

    @pytest.mark.parametrize("family", sorted(name for name in EXAMPLES if FAMILIES[name].tables.closers))
    def test_nor_do_they_behind_junk(self, family: str) -> None:
        closers = FAMILIES[family].tables.closers
        whole = EXAMPLES[family][1]
        sizes = [size for size in range(len(whole)) if _ends(family, whole[:size])]
        end = min(sizes, default=len(whole))
        if not whole[end:].strip():
            return
        found = parse(family, whole[:end] + " oops " + whole[end:], tools=[WEATHER], in_reasoning=False)
        spoken = "".join(piece.text for piece in found if isinstance(piece, Text))
        assert "oops" in spoken
        assert not any(marker in spoken for marker in closers)

    def test_a_tagged_call_that_breaks_off_gives_back_all_that_it_did_not_say(self) -> None:
        text = "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n<parameter=<city>>\nParis"
        found = parse("qwen3_coder", text, tools=[BASH])
        assert found[-1] == Text("\n<parameter=<city>>\nParis")

    def test_an_unfinished_key_that_breaks_off_is_given_back(self) -> None:
        text = "<tool_call>get_weather\n<arg_key>city\nParis</arg_value>"
        assert parse("glm45", text, tools=[WEATHER])[-1] == Text("<arg_key>city\nParis</arg_value>")

    def test_a_marker_spoken_of_behind_a_closed_call_is_text(self) -> None:
        found = parse("qwen3", EXAMPLES["qwen3"][1] + " It ends with </tool_call>.", tools=[WEATHER])
        assert found[-1] == Text(" It ends with </tool_call>.")


def _ends(family: str, text: str) -> bool:
    pieces = Parser.for_family(family, tools=[WEATHER], in_reasoning=False).feed(text)
    return any(isinstance(piece, CallEnd) for piece in pieces)
