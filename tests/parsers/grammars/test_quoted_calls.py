"""Text inside a value opens nothing: what a file or a page quotes is no call, in any family, however it is cut."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.parsers.splits import cuts, fixed_ids, outline, run
from tests.parsers.writers import WRITERS, Call, Format
from tests.parsers.writers.model import calls

from smg_parsers import FAMILIES, CallArguments, CallEnd, CallStart, Parser, Text
from smg_parsers.lab import laws

pytestmark = pytest.mark.sampled(per=("family",), keep=4)


def tool(name: str, *parameters: str) -> dict[str, Any]:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    return {"name": name, "parameters": {"type": "object", "properties": properties, "required": [*parameters]}}


TOOLS = [tool("write_file", "path", "content"), tool("bash", "command")]
SECRET = "rm -rf /"


def written(form: Format, *made: Call) -> str:
    return form.render([calls(*made)])


def quotes(form: Format) -> dict[str, str]:
    """The family's own syntax, as a file may quote it."""
    call = written(form, Call("bash", {"command": SECRET})).strip()
    before = call[: call.index(SECRET)]
    return {
        "tag": form.opener,
        "header": call[: call.index("bash") + len("bash")],
        "call": call,
        "half a call": before + "rm",
        "beginning of a call": before,
        "call in a fence": f"```\n{call}\n```",
        "two calls": f"{call}\n{call}",
        "call of another tool": call.replace("bash", "curl"),
        "end tag": f"{form.value_end or ''} of a value",
    }


MARKED = ("functiongemma", "gemma4")
"""Families whose strings stand between marks that cannot be escaped: one in a string, or half a call, cannot be told."""
SHAPES = ("{}", "Example:\n{}\nend.", "use `{}` here")


def cannot_tell(family: str, kind: str) -> bool:
    return family in MARKED and kind in ("half a call", "beginning of a call", "end tag")


CASES = [(family, kind) for family, form in WRITERS.items() for kind in quotes(form) if not cannot_tell(family, kind)]


def read(family: str, text: str, chunks: list[str], **options: Any) -> list[dict[str, Any]]:
    parser = Parser.for_family(family, tools=TOOLS, in_reasoning=False, call_id=fixed_ids(), any_tool=True, **options)
    return outline(run(parser, chunks))


def found(family: str, text: str, **options: Any) -> list[tuple[str, Any, bool]]:
    entries = [entry["call"] for entry in read(family, text, [text], **options) if "call" in entry]
    return [(call["name"], call.get("arguments"), call.get("repaired", False)) for call in entries]


def values(form: Format, kind: str) -> Iterator[dict[str, str]]:
    for shape in SHAPES:
        value = (
            shape.format(quotes(form)[kind])
            if "{" not in quotes(form)[kind]
            else shape.replace("{}", quotes(form)[kind])
        )
        yield {"path": "a.md", "content": value}
        yield {"content": value, "path": "a.md"}


def test_every_family_that_calls_has_a_writer_whose_syntax_is_quoted() -> None:
    assert set(WRITERS) == {name for name, row in FAMILIES.items() if row.calls}
    assert {family for family, _ in CASES} == set(WRITERS)


@pytest.mark.parametrize("policy", ["repair", "text"])
@pytest.mark.parametrize(("family", "kind"), CASES)
def test_a_call_whose_value_quotes_the_familys_own_syntax_comes_out_whole(family: str, kind: str, policy: Any) -> None:
    form = WRITERS[family]
    for arguments in values(form, kind):
        text = written(form, Call("write_file", arguments))
        assert found(family, text, malformed_calls=policy) == [("write_file", arguments, False)], text


@pytest.mark.parametrize("family", WRITERS)
def test_and_so_it_does_at_every_split(family: str) -> None:
    form = WRITERS[family]
    kinds = [kind for kind in ("call", "half a call") if not cannot_tell(family, kind)]
    value = "\n".join(quotes(form)[kind] for kind in kinds)
    text = written(form, Call("write_file", {"path": "a", "content": value}))
    whole = read(family, text, [text])
    assert [entry["call"]["arguments"]["content"] for entry in whole if "call" in entry] == [value]
    for number, chunks in enumerate(cuts(text, random_cuts=5)):
        if number < 2 or number % 11 == 0:
            assert read(family, text, chunks) == whole, chunks


@pytest.mark.slow
@pytest.mark.parametrize(("family", "kind"), CASES)
def test_and_so_it_does_at_every_single_split(family: str, kind: str) -> None:
    form = WRITERS[family]
    for arguments in values(form, kind):
        text = written(form, Call("write_file", arguments))
        whole = read(family, text, [text])
        assert all(read(family, text, chunks) == whole for chunks in cuts(text, random_cuts=10)), text


@pytest.mark.sampled(keep=24)
@pytest.mark.parametrize("family", WRITERS)
def test_a_call_whose_value_quotes_any_other_familys_call_comes_out_whole(family: str) -> None:
    form = WRITERS[family]
    for other in WRITERS.values():
        arguments = {"path": "a.md", "content": f"Example:\n{quotes(other)['call']}\nend."}
        text = written(form, Call("write_file", arguments))
        assert found(family, text) == [("write_file", arguments, False)], text
        if form.opener in arguments["content"]:  # their tags are alike
            assert read(family, text, list(text)) == read(family, text, [text]), text


@pytest.mark.parametrize("family", WRITERS)
def test_a_value_may_quote_a_tag_that_lacks_its_name_and_its_end(family: str) -> None:
    form = WRITERS[family]
    begin = written(form, Call("bash", {"command": "ls"})).partition("bash")[0]
    quoted = begin.rstrip("\"'").strip()
    value = f"Find {quoted} now"
    text = written(form, Call("save", {"text": value}))
    for chunks in ([text], list(text)):
        pieces = run(Parser.for_family(family, tools=[tool("save", "text")], in_reasoning=False), chunks)
        assert [piece.repaired for piece in pieces if isinstance(piece, CallEnd)] == [False]
        assert json.loads("".join(piece.delta for piece in pieces if isinstance(piece, CallArguments))) == {
            "text": value
        }


@pytest.mark.parametrize("family", [family for family, form in WRITERS.items() if form.parallel])
def test_a_call_behind_one_whose_value_quotes_a_call_is_made(family: str) -> None:
    form = WRITERS[family]
    first = {"path": "a.md", "content": f"Example:\n{quotes(form)['call']}\nend."}
    text = written(form, Call("write_file", first), Call("bash", {"command": "ls"}))
    assert found(family, text) == [("write_file", first, False), ("bash", {"command": "ls"}, False)], text


TAGGED = [
    family
    for family, form in WRITERS.items()
    if form.value_end and form.value_kind != "nested" and family not in MARKED
]


@pytest.mark.parametrize("family", TAGGED)
def test_what_quotes_a_whole_closing_sequence_cannot_be_told_from_its_end_and_makes_one_call(family: str) -> None:
    form = WRITERS[family]
    call = written(form, Call("bash", {"command": SECRET}))
    closing = call[call.index(SECRET) + len(SECRET) :].strip()
    text = written(form, Call("write_file", {"path": "a.md", "content": f"so: {closing} and so on"}))
    (one,) = found(family, text)
    assert (one[0], one[1]["content"].strip()) == ("write_file", "so:")


@pytest.mark.parametrize("family", TAGGED)
def test_half_a_call_in_a_value_before_another_call_leaves_the_fewest_calls_and_says_so(family: str) -> None:
    form = WRITERS[family]
    first = Call("write_file", {"path": "a.md", "content": quotes(form)["half a call"]})
    text = written(form, first, Call("bash", {"command": "ls"}))
    assert [(name, repaired) for name, _, repaired in found(family, text)] == [("write_file", True)], text
    assert not any(name == "bash" for name, *_ in found(family, text, malformed_calls="text"))


def halves(form: Format) -> dict[str, str]:
    """What a value may hold before half a call: a whole parameter, its own end tag, the last closing tag of a call."""
    call = written(form, Call("bash", {"command": SECRET})).strip()
    half = call[: call.index(SECRET) + len(SECRET)]
    end = form.value_end or ""
    nested = form.value_kind == "nested"
    parameter = written(form, Call("bash", {"command": "x"})).strip()
    place = parameter.index("command")
    begin = parameter.rfind("]<]minimax[>[" if nested else "<", 0, place)
    quoted = parameter[begin : parameter.index(end, place) + len(end)]
    closers = [tag for tag in FAMILIES[form.family].tables.closers if tag in call]
    last = max(closers, key=call.index)
    return {
        "parameter": f"{quoted}\n{half}",
        "end tag": f"{end}\n{half}",
        "end tag of a line": f"line\n{end}\n{half}",
        "closing tag": f"It ends with {last}\n{half}",
    }


HALVES = [*TAGGED, "minimax_m3"]
ONE_CLOSING_TAG = {
    "glm45", "glm46", "glm47", "glm5", "ling", "iquest", "minicpm5", "laguna", "spark25", "solar_open2", "hyperclovax_think",
}  # fmt: skip
"""Families with one tag behind a value's end tag: the value that quotes it cannot be told from one without an end tag."""


@pytest.mark.parametrize("policy", ["repair", "text"])
@pytest.mark.parametrize("kind", ["parameter", "end tag", "end tag of a line", "closing tag"])
@pytest.mark.parametrize("family", HALVES)
def test_half_a_call_behind_a_quoted_tag_makes_no_call(family: str, kind: str, policy: Any) -> None:
    form = WRITERS[family]
    value = halves(form)[kind]
    text = written(form, Call("write_file", {"path": "a", "content": value}))
    whole = read(family, text, [text], malformed_calls=policy)
    made = found(family, text, malformed_calls=policy)
    if kind == "closing tag" and family in ONE_CLOSING_TAG and policy == "repair":
        assert all(repaired for _, _, repaired in made), text  # told, and left to `malformed_calls`
    else:
        assert [name for name, arguments, _ in made if arguments is not None and name != "write_file"] == [], text
    if kind == "parameter" and form.value_kind != "nested":
        assert made == [("write_file", {"path": "a", "content": value}, False)], text
    for chunks in (list(text), [text[:-9], text[-9:]], [text[: len(text) // 2], text[len(text) // 2 :]]):
        assert read(family, text, chunks, malformed_calls=policy) == whole, chunks


@pytest.mark.parametrize("kind", ["call", "half a call"])
@pytest.mark.parametrize("family", WRITERS)
def test_a_call_whose_value_quotes_one_is_cut_where_the_output_is(family: str, kind: str) -> None:
    form = WRITERS[family]
    if cannot_tell(family, kind):
        return
    value = f"Example:\n{quotes(form)[kind]}\nand more of it"
    text = written(form, Call("write_file", {"path": "a.md", "content": value}))
    for end in range(text.index("Example:"), text.index("more of it"), 7):
        parser = Parser.for_family(family, tools=TOOLS, in_reasoning=False, call_id=fixed_ids(), any_tool=True)
        pieces = run(parser, [text[:end]], cut_off=True)
        assert not any(isinstance(piece, CallEnd) for piece in pieces), text[:end]
        begun = next(place for place, piece in enumerate(pieces) if isinstance(piece, CallStart))
        assert not any(isinstance(piece, Text) for piece in pieces[begun:]), text[:end]


def test_what_may_be_the_end_is_held_back_up_to_a_bound_and_then_the_value_goes_on() -> None:
    form = WRITERS["qwen3_coder"]
    text = written(form, Call("write_file", {"path": "a.md", "content": f"{quotes(form)['half a call']}"}))
    assert found("qwen3_coder", text, undecided_limit=1000)[0][1]["content"] == quotes(form)["half a call"]
    rest = " and more" * 200
    for chunks in ([text + rest], list(text + rest)):
        parser = Parser.for_family("qwen3_coder", tools=TOOLS, undecided_limit=1000)
        pieces = [piece for chunk in chunks for piece in parser.feed(chunk)]
        assert parser.waiting == 0
        assert not any(isinstance(piece, CallEnd) for piece in [*pieces, *parser.finish()])


@pytest.mark.full
@pytest.mark.parametrize("kind", ["half a call", "call", "end tag"])
def test_a_value_full_of_quoted_calls_costs_no_more_than_its_length(kind: str) -> None:
    form = WRITERS["qwen3_coder"]
    call = written(form, Call("write_file", {"path": "a.md", "content": SECRET}))
    unit = quotes(form)[kind] + "\n" + call[call.index(SECRET) + len(SECRET) :]
    for limit in (400, 1 << 18):
        make = functools.partial(Parser.for_family, "qwen3_coder", tools=TOOLS, undecided_limit=limit)
        assert laws.linearity(make, unit, length=4 * len(unit), prefix=call[: call.index(SECRET)]) == []


def closings(form: Format) -> dict[str, str]:
    """What a value may hold that quotes all closing tags of a call and, behind them, another call or half of one."""
    call = written(form, Call("bash", {"command": SECRET})).strip()
    half, closing = call[: call.index(SECRET) + len(SECRET)], call[call.index(SECRET) + len(SECRET) :].strip()
    return {
        "a call": f"{closing}\n{call}",
        "a call, and a text": f"{closing}\n{call}\nand so on",
        "half a call, and its end": f"{closing}\n{half}{closing}",
        "half a call": f"{closing}\n{half}",
        "half a call in a line": f"so {closing} {half}",
        "a text, and half a call": f"{closing}\nand then\n{half}",
        "half a call behind a line": f"line\n{closing}\n{half}",
    }


AS_TWO_CALLS = ("half a call", "half a call in a line", "a text, and half a call", "half a call behind a line")
"""What is, to the letter, two calls as the family writes them; the last also where values stand on lines of their own."""
MARKED_CLOSINGS = [*TAGGED, "minimax_m3", *MARKED]
FRAMED = [
    family
    for family in MARKED_CLOSINGS
    for spec in FAMILIES[family].calls
    if getattr(spec, "newline", False) and WRITERS[family].opener in spec.opens
]
"""Families whose values stand on lines of their own: an end tag within a line is one that a value quotes, perhaps."""


@pytest.mark.parametrize("policy", ["repair", "text"])
@pytest.mark.parametrize("kind", ["a call", "a call, and a text", "half a call, and its end", *AS_TWO_CALLS])
@pytest.mark.parametrize("family", MARKED_CLOSINGS)
def test_a_call_behind_a_quoted_closing_sequence_is_told_wherever_the_format_can_tell(
    family: str, kind: str, policy: Any
) -> None:
    form = WRITERS[family]
    value = closings(form)[kind]
    for arguments in ({"path": "a", "content": value}, {"content": value, "path": "a"}):
        text = written(form, Call("write_file", arguments))
        whole = read(family, text, [text], malformed_calls=policy)
        made = found(family, text, malformed_calls=policy)
        inner = [repaired for name, given, repaired in made if name == "bash" and given]
        framed = family in FRAMED and kind != "half a call behind a line"
        if kind not in AS_TWO_CALLS or framed or [*arguments][-1] == "path":
            assert all(inner), text  # it says `repaired`
            assert policy == "repair" or not inner, text  # and is not made where that is no call
        else:
            assert all(inner) or family in cannot_be_told(), text
        for chunks in (list(text), [text[:-9], text[-9:]], [text[: len(text) // 2], text[len(text) // 2 :]]):
            assert read(family, text, chunks, malformed_calls=policy) == whole, chunks


def cannot_be_told() -> list[str]:
    """The families that the page names."""
    page = (Path(__file__).parents[3] / "docs/parsers/behaviour.md").read_text(encoding="utf-8")
    listed = page.partition("Families that cannot tell: ")[2].partition(".")[0]
    return [each.strip("`\n ") for each in listed.split(",")]


def test_the_page_names_the_families_that_cannot_tell_a_quoted_closing_sequence() -> None:
    unmarked = []
    for family in MARKED_CLOSINGS:
        form = WRITERS[family]
        values = [{"path": "a", "content": closings(form)[kind]} for kind in AS_TWO_CALLS]
        made = [call for each in values for call in found(family, written(form, Call("write_file", each)))]
        if any(name == "bash" and not repaired for name, _, repaired in made):
            unmarked.append(family)
    assert cannot_be_told() == unmarked


@pytest.mark.parametrize("family", [family for family in MARKED_CLOSINGS if WRITERS[family].parallel])
def test_calls_that_follow_one_another_are_not_told_as_repaired(family: str) -> None:
    form = WRITERS[family]
    made = [("write_file", {"path": "a", "content": "x"}), ("bash", {"command": "ls"}), ("bash", {"command": "pwd"})]
    text = written(form, *(Call(name, arguments) for name, arguments in made))
    for behind in ("", "\nDone.", "\n" + "Done. " * 60):
        if behind and not form.closed:
            continue
        assert found(family, text + behind) == [(*each, False) for each in made], text


UNESCAPED = ('say "{}" ok', '"\n{}\n"', '"{}', 'see "x" then {}', '{}"')
ESCAPING = [
    family for family, form in WRITERS.items() if form.value_kind != "nested" and family not in (*TAGGED, *MARKED)
]
"""Families whose values stand in quotes: JSON's, or Python's."""


def unescaped(form: Format, kind: str) -> Iterator[str]:
    """Calls with a value that quotes the family's own syntax, in which no quote is escaped."""
    quoted = quotes(form)[kind]
    for shape in UNESCAPED:
        value = shape.replace("{}", quoted)
        for written_value in (value, value.replace('"', "'")) if form.value_kind != "json" else (value,):
            yield written(form, Call("write_file", {"path": "a", "content": "QQQ"})).replace("QQQ", written_value)


@pytest.mark.parametrize("policy", ["repair", "text"])
@pytest.mark.parametrize("kind", ["call", "half a call", "beginning of a call", "call in a fence", "two calls"])
@pytest.mark.parametrize("family", ESCAPING)
def test_no_call_is_made_behind_a_quote_that_is_not_escaped(family: str, kind: str, policy: Any) -> None:
    form = WRITERS[family]
    for text in unescaped(form, kind):
        whole = read(family, text, [text], malformed_calls=policy)
        inner = [each for each in found(family, text, malformed_calls=policy) if each[0] == "bash" and each[1]]
        if policy == "repair" and family in behind_a_quote()[kind]:
            assert all(repaired for *_, repaired in inner), text
        else:
            assert not inner, text
        for chunks in (list(text), [text[:-9], text[-9:]], [text[: len(text) // 2], text[len(text) // 2 :]]):
            assert read(family, text, chunks, malformed_calls=policy) == whole, chunks


@functools.cache
def behind_a_quote() -> dict[str, list[str]]:
    """The families that the page names: those in which a fence ends arguments, and those that have no closing marker."""
    page = (Path(__file__).parents[3] / "docs/parsers/behaviour.md").read_text(encoding="utf-8")
    listed: dict[str, list[str]] = {kind: [] for kind in quotes(WRITERS["qwen3"])}
    for kind, words in (("call in a fence", "a fence with a call: "), ("two calls", "two calls in a row: ")):
        found = page.partition(words)[2].partition(".")[0]
        listed[kind] = [each.strip("`\n ") for each in found.replace(";", ",").split(",")]
    return listed


def test_the_page_names_the_families_that_make_a_call_behind_a_quote_that_is_not_escaped() -> None:
    for kind in ("call in a fence", "two calls"):
        making = [
            family
            for family in ESCAPING
            if any(
                name == "bash" and given
                for text in unescaped(WRITERS[family], kind)
                for name, given, _ in found(family, text)
            )
        ]
        assert behind_a_quote()[kind] == making


@pytest.mark.parametrize("family", [family for family in ESCAPING if WRITERS[family].parallel])
def test_a_call_behind_one_with_a_quote_that_is_not_escaped_is_made_and_told_as_repaired(family: str) -> None:
    form = WRITERS[family]
    first = Call("write_file", {"path": "a", "content": "say QQQ ok"})
    text = written(form, first, Call("bash", {"command": "ls"})).replace(
        "QQQ", '"hi"' if form.value_kind == "json" else "'hi'"
    )
    assert [(name, repaired) for name, _, repaired in found(family, text)][1:] == [("bash", True)], text
