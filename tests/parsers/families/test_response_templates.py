"""A model's own description of its output makes a family, is never run, and is refused by name where it cannot be read.

The templates are those of the documentation of transformers ("Response Parsing"), which `parse_response` reads alike.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.parsers.examples import ARGUMENTS, GLM, QWEN_XML, WEATHER
from tests.parsers.lab.test_laws import RELAXED
from tests.parsers.splits import cuts, fixed_ids, outline, run

from smg_parsers import InvalidFamily, Parser, UnknownModelFamily, explain
from smg_parsers.families.response_templates import NAME, described_family
from smg_parsers.families.template_patterns import (
    GAP,
    MOST_ALTERNATIVES,
    MOST_CHARACTERS,
    NamedGroup,
    UnreadPattern,
    choices_of,
    literals,
)
from smg_parsers.lab import laws as law

THINK = {"open": "<think>", "close": "</think>", "content": "text"}
ANSWER = {"close": "<|im_end|>", "content": "text"}
NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}


def chatml(**calls: Any) -> dict[str, Any]:
    """A template of a model with ChatML's turns and these calls."""
    return {
        "defaults": {"role": "assistant"},
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {"thinking": THINK, "tool_calls": {"repeats": True, **calls}, "content": ANSWER},
    }


JSON = chatml(
    open="<tool_call>",
    close="</tool_call>",
    content="json",
    transform={"type": "function", "function": "{content}"},
)
TAGS = chatml(
    open_pattern=r"<tool_call>\s*<function=(?P<name>\w+)>",
    close="</tool_call>",
    content="xml-inline",
    content_args={
        "tag_pattern": r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
        "value_parser": {"name": "json", "args": {"allow_non_json": True}},
    },
    transform=NAMED,
)
PAIRS = chatml(
    open_pattern=r"<tool_call>(?P<name>[^\n<]+)\s*",
    close="</tool_call>",
    content="xml-inline",
    content_args={"tag_pattern": r"<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>"},
    transform=NAMED,
)
HEADS = {
    "start_anchor": "[/INST]",
    "fields": {
        "thinking": {"open": "[THINK]", "close": "[/THINK]"},
        "content": {"close": "</s>"},
        "tool_calls": {
            "open_pattern": r"\[TOOL_CALLS\](?P<name>[\w.-]+)\[ARGS\]",
            "close_pattern": r"(?=\[TOOL_CALLS\])|(?=</s>)|\Z",
            "repeats": True,
            "content": "json",
            "transform": NAMED,
        },
    },
}
LIST = {
    "start_anchor": "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "fields": {
        "thinking": {"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
        "content": {"open": ["<|START_RESPONSE|>", "<|START_TEXT|>"], "close": ["<|END_RESPONSE|>", "<|END_TEXT|>"]},
        "tool_calls": {
            "open": "<|START_ACTION|>",
            "close": "<|END_ACTION|>",
            "content": "json",
            "transform_each": True,
            "transform": {"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}},
        },
    },
}
PYTHON = chatml(
    open="<|tool_call_start|>",
    close="<|tool_call_end|>",
    content="python-call-list",
    transform_each=True,
    transform={"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
)
QWEN_MIXED = QWEN_XML.replace("\n2\n", "2")
TEMPLATES: dict[str, tuple[dict[str, Any], tuple[str, str], str]] = {
    "json": (
        JSON,
        ("<think>", "</think>"),
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}</tool_call>',
    ),
    "tags": (
        TAGS,
        ("<think>", "</think>"),
        QWEN_MIXED,
    ),
    "pairs": (
        PAIRS,
        ("<think>", "</think>"),
        GLM,
    ),
    "heads": (HEADS, ("[THINK]", "[/THINK]"), '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 2}'),
    "list": (
        LIST,
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        '<|START_ACTION|>[\n {"tool_name": "get_weather", "parameters": {"city": "Paris", "days": 2}}\n]<|END_ACTION|>',
    ),
    "python": (
        PYTHON,
        ("<think>", "</think>"),
        '<|tool_call_start|>[get_weather(city="Paris", days=2)]<|tool_call_end|>',
    ),
}
CALL = {"call": {"name": "get_weather", "id": "call_0", "arguments": ARGUMENTS}}


def maker(template: dict[str, Any], tools: list[dict[str, Any]] | None, inside: bool = False) -> law.Make:
    family = described_family(template)
    return lambda: Parser(family, tools=tools, in_reasoning=inside, call_id=fixed_ids())


# --------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("kind", TEMPLATES)
def test_reasoning_text_and_a_call_come_in_order_however_they_are_cut(kind: str) -> None:
    template, (opens, closes), call = TEMPLATES[kind]
    make = maker(template, [WEATHER])
    text = f"{opens}Let me see. {closes}One moment.\n{call}"
    for chunks in cuts(text, random_cuts=30):
        assert outline(run(make(), chunks)) == [{"reasoning": "Let me see. "}, {"text": "One moment.\n"}, CALL], chunks  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_second_call_is_counted_on_and_what_ends_an_answer_is_no_text(kind: str) -> None:
    template, _, call = TEMPLATES[kind]
    end = {"list": "<|END_RESPONSE|>", "heads": "</s>"}.get(kind, "<|im_end|>")
    for text in (call + call + end, f"{call}\n{call}{end}"):
        pieces = outline(run(maker(template, [WEATHER])(), [text]))  # type: ignore[arg-type]
        assert [each["call"]["arguments"] for each in pieces if "call" in each] == [ARGUMENTS, ARGUMENTS], text
        assert not "".join(each.get("text", "") for each in pieces).strip(), text


def test_what_opens_an_answer_ends_reasoning_and_any_of_its_spellings_is_dropped() -> None:
    text = "<|START_THINKING|>Let me see.<|START_TEXT|>Hello.<|END_TEXT|>"
    assert outline(run(maker(LIST, [])(), [text])) == [{"reasoning": "Let me see."}, {"text": "Hello."}]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", TEMPLATES)
@RELAXED
@given(data=st.data())
def test_any_soup_of_markers_is_read_alike_however_it_is_cut_and_nothing_is_lost(
    kind: str, data: st.DataObject
) -> None:
    template, (opens, closes), call = TEMPLATES[kind]
    family = described_family(template)
    marks = sorted({*family.tables.roles, *family.tables.calls, "<", "{", "[", '"', "\n", " ", "]", ")"})
    part = st.one_of(
        st.sampled_from(marks),
        st.tuples(st.integers(0, len(call)), st.integers(0, len(call))).map(lambda at: call[min(at) : max(at)]),
        st.sampled_from([call, opens, closes]),
        st.text(max_size=5),
    )
    text = "".join(data.draw(st.lists(part, max_size=7)))
    make = maker(template, data.draw(st.sampled_from([None, [WEATHER], []])), data.draw(st.booleans()))
    breaches = [
        *law.split_invariance(make, text, random_cuts=3),
        *law.order(make, text),
        *law.conservation(make, text, family),
    ]
    assert not breaches, "\n".join(map(str, breaches))


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_broken_call_is_read_alike_however_it_is_cut_and_loses_nothing(kind: str) -> None:
    template, (opens, closes), call = TEMPLATES[kind]
    make, family = maker(template, [WEATHER]), described_family(template)
    breaches = []
    for text in law.breakage(f"{opens}why{closes}{call}\n{call} Done.", 48):
        breaches += [*law.order(make, text), *law.conservation(make, text, family)]
        assert law.read(make, list(text)) == law.read(make, [text]), text
    assert not breaches, "\n".join(map(str, breaches))


# ---------------------------------------------------------------------------------------------------------- which models


def test_a_template_decides_only_where_no_row_fits() -> None:
    assert explain("acme/unheard-of", None, JSON).family.name == NAME
    assert explain("acme/unheard-of", "{{ '[TOOL_CALLS]' }}", JSON).family.name == "mistral_v11"
    assert explain("Qwen/Qwen3-8B", None, LIST).family.name == "qwen3"
    with pytest.raises(UnknownModelFamily, match="no parser family fits"):
        explain("acme/unheard-of")


def test_an_unread_template_leaves_a_model_unknown_and_is_named() -> None:
    with pytest.raises(UnknownModelFamily, match=r"'acme/unheard-of'.*fields\.tool_calls\.content is 'kv-lines'"):
        explain("acme/unheard-of", None, chatml(open="<call>", content="kv-lines"))


def test_the_reason_says_that_the_models_own_files_decided() -> None:
    told = str(explain("acme/unheard-of", None, JSON))
    assert "the model's own response template" in told
    assert "<think> … </think>" in told


# ------------------------------------------------------------------------------------------------------------- refusals


def changed(template: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The template with another value at this place, None for none."""
    made = copy.deepcopy(template)
    *parents, last = path.split(".")
    at = made
    for parent in parents:
        at = at[parent]
    at[last] = value
    if value is None:
        del at[last]
    return made


@pytest.mark.parametrize(("left", "has"), [("thinking", (True, False)), ("tool_calls", (False, True))])
def test_reasoning_alone_makes_a_family_and_so_do_calls_alone(left: str, has: tuple[bool, bool]) -> None:
    fields = {name: field for name, field in JSON["fields"].items() if name in (left, "content")}
    family = described_family({**JSON, "fields": fields})
    assert (bool(family.thinking.opens), bool(family.tables.calls)) == has


NO_END = changed(PAIRS, "fields.tool_calls.close", None)


@pytest.mark.parametrize(
    ("template", "path", "value", "says"),
    [
        (JSON, "version", 2, "version is 2"),
        (JSON, "fields", [], "no object"),
        (JSON, "fields", {"content": ANSWER}, "neither reasoning nor calls"),
        (JSON, "fields.citations", {"open": "<co>"}, r"fields\.citations"),
        (JSON, "fields.thinking.close", None, "no opening or no closing"),
        (JSON, "fields.thinking.open", 3, r"thinking\.open is neither"),
        (JSON, "fields.thinking.open", "", r"thinking\.open is neither"),
        (JSON, "fields.thinking.open", "x" * (MOST_CHARACTERS + 1), r"thinking\.open is neither"),
        (JSON, "fields.content.close", ["</s>", 1], r"content\.close is neither"),
        (JSON, "fields.content.close", [str(n) for n in range(MOST_ALTERNATIVES + 1)], r"content\.close is neither"),
        (JSON, "fields.content.content", "json", "something else than text"),
        (JSON, "fields.tool_calls.open", None, "no opening text"),
        (JSON, "fields.tool_calls.open", "\n<tool_call>", "opens with white space"),
        (JSON, "fields.tool_calls.content", "kv-lines", "'kv-lines'"),
        (JSON, "fields.tool_calls.content_args", {"unquoted_keys": True}, "unquoted_keys"),
        (JSON, "fields.tool_calls.transform", None, "makes no function call"),
        (JSON, "fields.tool_calls.transform.function", {"name": "{who}", "arguments": "{what}"}, "no call is made"),
        (TAGS, "fields.tool_calls.open_pattern", "<tool_call>", "where the tool's name stands"),
        (TAGS, "fields.tool_calls.open_pattern", r"<a>\s*<b>\s*<c>(?P<name>\w+)>", "too many places"),
        (TAGS, "fields.tool_calls.transform.function", "{content}", "does not make a call of its tags"),
        (TAGS, "fields.tool_calls.content_args.tag_pattern", r"<p>(?P<value>.*?)</p>", "no key and value"),
        (TAGS, "fields.tool_calls.content_args.tag_pattern", None, "no key and value"),
        (TAGS, "fields.tool_calls.content_args.value_parser", {"name": "kv-lines"}, "neither text nor JSON"),
        (TAGS, "fields.tool_calls.content_args.merge_duplicates", True, "neither text nor JSON"),
        (NO_END, "fields.tool_calls.open_pattern", r"CALL (?P<name>\w+)\s*", "no closing text"),
        (HEADS, "fields.tool_calls.close_pattern", "a|b", "one header and one end"),
        (HEADS, "fields.tool_calls.open_pattern", r"\[CALL\](?P<name>\w+).*?\[ARGS\]", r"has '\.'"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(template: dict[str, Any], path: str, value: Any, says: str) -> None:
    with pytest.raises(InvalidFamily, match=says):
        described_family(changed(template, path, value))


@RELAXED
@given(data=st.data())
def test_no_template_raises_anything_but_its_refusal(data: st.DataObject) -> None:
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=5,
    )
    template, _, _ = TEMPLATES[data.draw(st.sampled_from(list(TEMPLATES)))]
    paths = list(places(template))
    with suppress(InvalidFamily):
        described_family(changed(template, data.draw(st.sampled_from(paths)), data.draw(values)))


def places(value: dict[str, Any], before: str = "") -> list[str]:
    """All the places in a template at which something stands."""
    found = []
    for key, inner in value.items():
        found.append(f"{before}{key}")
        if isinstance(inner, dict):
            found += places(inner, f"{before}{key}.")
    return found


# -------------------------------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"</s>|<\|end\|>", ("</s>", "<|end|>")),
        (r"<(?:a|b)>", ("<a>", "<b>")),
        (r"\s*</call>\s*", ("</call>",)),
        (r"x\n?", ("x",)),
        (r"(?:</call>)?</calls>", ("</calls>", "</call></calls>")),
        (r"(?=\[TOOL\])|\Z", ()),
        (r"</s>|$", ("</s>",)),
    ],
)
def test_a_pattern_without_groups_is_a_choice_of_texts(pattern: str, texts: tuple[str, ...]) -> None:
    assert literals(pattern) == texts


def test_a_named_group_is_passed_over_whatever_is_in_it() -> None:
    assert choices_of(r"<f=(?P<name>[^)\]>]+(?:\)|x)*)>\s*") == [("<f=", NamedGroup("name"), ">", GAP)]


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "a.b",
            "[ab]",
            "a*",
            "a+",
            "a{2}",
            "^a",
            r"\d",
            r"\bx",
            "(a)",
            "(?!a)",
            "(?<=a)",
            "(?i)a",
            "a)",
            "(?:a",
            "a|b(?:",
        ),
        *(r"(?P<n>a", "(?P<>a)", "(?P<n", "\\", f"a{GAP}", "?", "a" * (MOST_CHARACTERS + 1), "(?:" * 99 + ")" * 99),
        "(?:a|b)" * 5,
    ],
)
def test_any_other_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UnreadPattern):
        literals(pattern)


@given(st.text(alphabet="ab()[]|?*\\<>:=P.s$ZG", max_size=40))
def test_no_pattern_raises_anything_but_its_refusal(pattern: str) -> None:
    with suppress(UnreadPattern):
        choices_of(pattern)
