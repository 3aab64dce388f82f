"""What is checked of a request that a plugin put in the place of a client's: types, limits, and what is the gateway's own."""

import itertools
import tracemalloc
import types
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import force_setattr, replace

from smg_core import request as records
from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.request_checks import changed_request, weight_of
from smg_core.middleware.request_types import Misfit, TooMuch, Walk
from smg_core.request import (
    ChoiceFormat,
    CustomTool,
    FunctionTool,
    GenerationRequest,
    GrammarFormat,
    HostedTool,
    Message,
    RegexFormat,
    Sampling,
    SchemaFormat,
    StructuralTagFormat,
    Text,
)
from smg_core.wire.request_bounds import check_bounds
from smg_core.wire.settings import LimitsConfig

HI = (Message("user", (Text("Hi"),)),)
ASKED = GenerationRequest("r1", "sim", HI, sampling=Sampling(temperature=0.5), extra={"top_a": 1}, size=100)
LIMITS = LimitsConfig(schema_bytes=4096)
MOST = 1 << 24
RECORDS = [
    each
    for each in vars(records).values()
    if isinstance(each, type)
    and issubclass(each, msgspec.Struct)
    and each.__module__ == records.__name__
    and each is not records.PoolRequest  # no plugin is shown one
]


def left(changed: GenerationRequest, most: int = MOST) -> GenerationRequest:
    return changed_request(ASKED, changed, most, partial(check_bounds, limits=LIMITS))


# -------------------------------------------------------------------------------------------------------------- types


def misfit(value: object, hint: Any, at: str) -> str:
    """What a walk finds, in words."""
    try:
        Walk(MOST).check(value, hint, at)
    except Misfit as found:
        return str(found)
    return ""


def values_of(hint: Any, deep: int = 0) -> st.SearchStrategy[Any]:
    """Values of a type that a record's field has."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return st.sampled_from([None, 1, "x", {"a": [1.5]}])
    if origin in (Union, types.UnionType):
        return st.one_of(*(values_of(each, deep + 1) for each in inner))
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (tuple, Sequence):
        return st.just(()) if deep > 3 else st.lists(values_of(inner[0], deep + 1), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(values_of(inner[0], deep + 1), max_size=2)
    if origin is Mapping:
        return st.dictionaries(values_of(inner[0], deep + 1), values_of(inner[1], deep + 1), max_size=2)
    if hint is records.MediaSource:
        return st.builds(records.MediaSource, data=st.binary(max_size=3))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return st.builds(hint, **{name: values_of(each, deep + 1) for name, each in get_type_hints(hint).items()})
    plain = {
        type(None): st.none(),
        int: st.integers(),
        float: st.floats(0, 1),
        bool: st.booleans(),
        str: st.text(max_size=3),
        bytes: st.binary(max_size=3),
    }
    return plain[hint]


@pytest.mark.full
@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("record", RECORDS, ids=lambda each: each.__name__)
@settings(max_examples=20)
@given(st.data())
def test_a_record_of_its_types_fits_and_one_with_a_field_of_another_is_told_by_name(
    record: type[msgspec.Struct], data: st.DataObject
) -> None:
    made = data.draw(values_of(record))
    assert misfit(made, record, "") == ""
    for name, hint in get_type_hints(record).items():
        if hint is not Any:
            wrong = copy(made)
            force_setattr(wrong, name, object())  # also where a record refuses to be made so
            assert misfit(wrong, record, "").startswith(f"{name} is of the type object")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (True, int),
        (True, float),
        ("ab", Sequence[int]),
        ([1, "2"], Sequence[int]),
        ([1], tuple[int, ...]),
        ({"a": "b"}, Mapping[int, float]),
        ({1: "b"}, Mapping[int, float]),
        ("other", Literal["auto", "none"]),
        (1, Literal["auto", "none"]),
        ([], Literal["auto", "none"]),
        ({"a"}, frozenset[str]),
        (frozenset({1}), frozenset[str]),
        (b"x", str),
        (3.0, int | None),
    ],
)
def test_what_only_looks_like_a_type_does_not_fit(value: object, hint: object) -> None:
    assert misfit(value, hint, "it")


class Named(str):
    """A text of a class of its own, which encoders do not know."""

    __slots__ = ()


class Word(StrEnum):
    SIM = "sim"


def test_a_text_is_plain_or_of_an_enumeration() -> None:
    assert left(replace(ASKED, model=Word.SIM)).model == "sim"
    assert left(replace(ASKED, extra={"a": Word.SIM})).extra == {"a": "sim"}
    for changed in (replace(ASKED, model=Named("sim")), replace(ASKED, extra={"a": Named("x")})):
        with pytest.raises(MiddlewareFault, match="Named"):
            left(changed)


def test_ids_may_come_in_any_list() -> None:
    import array

    assert not misfit(range(3), Sequence[int], "prompt")
    assert not misfit(array.array("i", [1, 2]), Sequence[int], "prompt")


FIELDS = [each for each in GenerationRequest.__struct_fields__ if each != "written"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_plugin_that_gives_any_field_another_type_has_failed(name: str) -> None:
    with pytest.raises(MiddlewareFault, match=name):
        left(replace(ASKED, **{name: object()}))


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", Sampling.__struct_fields__)
def test_a_plugin_that_gives_any_setting_of_sampling_another_type_has_failed(name: str) -> None:
    with pytest.raises(MiddlewareFault, match=rf"sampling\.{name}"):
        left(replace(ASKED, sampling=replace(ASKED.sampling, **{name: object()})))


# -------------------------------------------------------------------------------------------------------------- limits

DEEP: Any = []
for _ in range(LIMITS.json_depth + 1):
    DEEP = [DEEP]
LONG = "x" * (LIMITS.schema_bytes + 1)


def sampled(**settings: Any) -> GenerationRequest:
    return replace(ASKED, sampling=replace(ASKED.sampling, **settings))


def tooled(*tools: records.Tool) -> GenerationRequest:
    return replace(ASKED, tools=tools)


def formed(asked: records.ResponseFormat) -> GenerationRequest:
    return replace(ASKED, response_format=asked)


OVER: dict[str, GenerationRequest] = {
    "model": replace(ASKED, model="m" * 513),
    "no model": replace(ASKED, model=""),
    "negative tokens": sampled(max_tokens=-1),
    "tokens": sampled(max_tokens=1 << 40),
    "temperature": sampled(temperature=-0.1),
    "no number": sampled(temperature=float("nan")),
    "infinite": sampled(temperature=float("inf")),
    "top_p": sampled(top_p=1.1),
    "top_k": sampled(top_k=-2),
    "penalty": sampled(presence_penalty=2.5),
    "repetition": sampled(repetition_penalty=0.0),
    "seed": sampled(seed=1 << 80),
    "many stops": sampled(stop=("a",) * (LIMITS.stop + 1)),
    "long stop": sampled(stop=("a" * (LIMITS.stop_characters + 1),)),
    "empty stop": sampled(stop=("",)),
    "stop ids": sampled(stop_token_ids=(1,) * (LIMITS.stop_token_ids + 1)),
    "stop id": sampled(stop_token_ids=(-1,)),
    "bias": sampled(logit_bias=dict.fromkeys(range(LIMITS.logit_bias + 1), 1.0)),
    "biased": sampled(logit_bias={1: 1000.0}),
    "logprobs": sampled(logprobs=LIMITS.logprobs + 1),
    "negative logprobs": sampled(logprobs=-1),
    "messages": replace(ASKED, messages=tuple(Message("user", ()) for _ in range(LIMITS.messages + 1))),
    "a deadline in the past": replace(ASKED, deadline_s=-1.0),
    "a deadline that is no number": replace(ASKED, deadline_s=float("nan")),
    "tool calls": replace(ASKED, max_tool_calls=-5),
    "a budget": replace(ASKED, reasoning=records.ReasoningSettings(budget_tokens=-7)),
    "an edit": replace(ASKED, context_edits=(records.ClearReasoning(-1),)),
    "parts": replace(ASKED, messages=(Message("user", (Text(""),) * (LIMITS.json_values + 1)),)),
    "tools": tooled(*(FunctionTool(f"t{each}") for each in range(LIMITS.tools + 1))),
    "deep tool": tooled(FunctionTool("t", parameters={"a": DEEP})),
    "large tool": tooled(FunctionTool("t", parameters={"a": LONG})),
    "large example": tooled(FunctionTool("t", examples=({"a": LONG},))),
    "large grammar of a tool": tooled(CustomTool("t", syntax="lark", grammar=LONG)),
    "schema": formed(SchemaFormat({"a": LONG})),
    "deep schema": formed(SchemaFormat({"a": DEEP})),
    "pattern": formed(RegexFormat(LONG)),
    "grammar": formed(GrammarFormat(LONG)),
    "tag": formed(StructuralTagFormat(LONG)),
    "no choices": formed(ChoiceFormat(())),
    "choices": formed(ChoiceFormat(("a",) * (LIMITS.choices + 1))),
    "long choice": formed(ChoiceFormat((LONG,))),
    "documents": replace(ASKED, documents=({},) * (LIMITS.documents + 1)),
    "deep document": replace(ASKED, documents=({"a": DEEP},)),
    "document of many values": replace(ASKED, documents=({"a": [0] * (LIMITS.json_values + 1)},)),
    "template arguments": replace(ASKED, template_arguments={f"a{each}": 1 for each in range(257)}),
    "a reserved template argument": replace(ASKED, template_arguments={"messages": []}),
    "deep template argument": replace(ASKED, template_arguments={"a": DEEP}),
    "metadata": replace(ASKED, metadata={f"a{each}": "" for each in range(LIMITS.metadata + 1)}),
    "long metadata": replace(ASKED, metadata={"a": "x" * (LIMITS.metadata_characters + 1)}),
    "deep extra": replace(ASKED, extra={"a": DEEP}),
    "extra of many values": replace(ASKED, extra={"a": [0] * (LIMITS.json_values + 1)}),
}


@pytest.mark.full
@pytest.mark.sampled(keep=20)
@pytest.mark.parametrize("name", OVER)
def test_what_a_plugin_made_is_held_to_the_limits_of_clients(name: str) -> None:
    with pytest.raises(MiddlewareFault, match="over a limit"):
        left(OVER[name])


@pytest.mark.parametrize(
    "changed",
    [
        replace(ASKED, messages=(Message("user", (Text("\ud800"),)),)),
        replace(ASKED, user="\ud800"),
        replace(ASKED, metadata={"a": "\ud800"}),
        replace(ASKED, extra={"a": object()}),
        replace(ASKED, extra={"a": b"x"}),
        replace(ASKED, extra={"a": {1, 2}}),
        replace(ASKED, extra={"a": Decimal(1)}),
        replace(ASKED, extra={"a": {1: 2}}),
        replace(ASKED, tools=(FunctionTool("t", parameters={"a": datetime(2026, 1, 1, tzinfo=UTC)}),)),
        replace(ASKED, metadata=types.MappingProxyType({"a": "b"})),
    ],
)
def test_a_request_that_cannot_be_written_as_json_is_refused(changed: GenerationRequest) -> None:
    with pytest.raises(MiddlewareFault):
        left(changed)


@pytest.mark.parametrize("size", [0, 100])
def test_a_request_with_more_new_bytes_than_a_plugin_may_make_is_refused(size: int) -> None:
    before = replace(ASKED, size=size)
    longer = replace(before, messages=(*HI, Message("user", (Text("x" * 3000),))))

    with pytest.raises(MiddlewareFault, match="over the limit of 2000"):
        changed_request(before, longer, 2000)
    assert changed_request(before, longer, 4000).size >= 3000
    assert changed_request(replace(before, size=9000), replace(longer, size=9000), 2000).size == 9000


def test_media_that_stay_count_for_nothing_whatever_is_said_beside_them() -> None:
    sound = records.Audio(records.MediaSource(data=b"x" * 1_000_000))
    before = replace(ASKED, messages=(Message("user", (sound,)),), size=1_000_000)
    more = replace(before, messages=(replace(before.messages[0], parts=(sound, Text("in English"))),))

    assert changed_request(before, more, 2000).messages == more.messages
    with pytest.raises(MiddlewareFault, match="over the limit"):
        changed_request(before, replace(before, messages=more.messages * 3), 2000)


def test_what_a_plugin_left_as_it_was_is_not_looked_at_again() -> None:
    """A stored history may have more turns than one request may bring; a long prompt is no work where another field changed."""
    turns = tuple(Message("user", (Text("Hi"),)) for _ in range(LIMITS.messages + 5))
    before = replace(ASKED, messages=turns, tools=tuple(FunctionTool(f"{n}") for n in range(LIMITS.tools + 5)))
    limited = partial(check_bounds, limits=LIMITS)

    renamed = changed_request(before, replace(before, model="other"), MOST, limited)
    shorter = changed_request(
        before, replace(before, messages=before.messages[1:], tools=before.tools[1:]), MOST, limited
    )

    assert renamed.model == "other"
    assert len(shorter.messages) == LIMITS.messages + 4
    assert weight_of(before, replace(before, model="other")) < 200


@pytest.mark.parametrize(
    "changed",
    [
        replace(ASKED, messages=(Message("user", (Text("x" * 100_000),)),)),
        replace(ASKED, messages=(Message("user", (Text("x"),) * 100_000),)),
        replace(ASKED, prompt=range(1_000_000)),
        replace(ASKED, extra={"a": {f"{each}": each for each in range(50_000)}}),
        replace(ASKED, metadata={"a": "x" * 50_000}),
    ],
)
def test_a_change_of_much_counts_as_all_of_the_request(changed: GenerationRequest) -> None:
    assert weight_of(ASKED, changed) > 32 * 1024
    assert weight_of(replace(ASKED, size=1 << 20), changed) == 1 << 20


class Lying(dict[str, Any]):
    """Says that it has one entry, and never ends."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())


def laughing(times: int) -> Any:
    """A little memory that is much text."""
    found: Any = ["x"]
    for _ in range(times):
        found = [found] * 1000
    return found


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    "changed",
    [
        replace(ASKED, extra={"a": laughing(3)}),
        replace(ASKED, documents=({"a": laughing(3)},)),
        replace(ASKED, prompt=range(200_000_000), messages=()),
        replace(ASKED, metadata=Lying()),
        replace(ASKED, extra=Lying()),
        replace(ASKED, extra={"a": Lying()}),
        replace(ASKED, messages=HI * 1_000_000),
        replace(ASKED, messages=(Message("user", (Text("x" * 1000),) * 100_000),)),
    ],
    ids=lambda each: "",
)
def test_little_that_stands_for_much_is_refused_before_it_is_written(changed: GenerationRequest) -> None:
    tracemalloc.start()
    assert weight_of(ASKED, changed) > 0
    with pytest.raises(MiddlewareFault):
        left(changed, 1 << 21)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 1 << 23


def test_messages_that_are_repeated_count_as_often_as_they_are_there() -> None:
    before = replace(ASKED, messages=(Message("user", (Text("x" * 100_000),)),), size=100_200)
    limited = partial(check_bounds, limits=LIMITS)

    assert changed_request(before, replace(before, messages=before.messages * 2), MOST, limited).size >= 100_000
    with pytest.raises(MiddlewareFault, match="over the limit"):
        changed_request(before, replace(before, messages=before.messages * 200), MOST, limited)


def test_a_plugin_takes_tools_that_servers_run_away_and_adds_none() -> None:
    before = replace(ASKED, tools=(HostedTool("mcp", {"server_label": "a"}), FunctionTool("f")))

    assert changed_request(before, replace(before, tools=before.tools[1:]), MOST).tools == before.tools[1:]
    for config in ({}, {"server_label": "b"}):
        with pytest.raises(MiddlewareFault, match="run by a server"):
            changed_request(before, replace(before, tools=(*before.tools, HostedTool("mcp", config))), MOST)


def test_a_walk_over_a_type_that_no_record_has_says_so() -> None:
    for value, hint in (([1], list[int]), (1j, complex), ((1,), tuple[int, int])):
        with pytest.raises((TypeError, Misfit)):
            Walk(MOST).check(value, hint, "it")
    with pytest.raises(TooMuch):
        Walk(100).check("x" * 100, str, "it")


def test_a_change_that_holds_itself_is_refused_and_ends() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop

    assert weight_of(ASKED, replace(ASKED, extra=loop))
    with pytest.raises(MiddlewareFault):
        left(replace(ASKED, extra=loop))


OWN = {
    "id": "r2",
    "stream": True,
    "background": True,
    "caller": records.Caller("other"),
    "origin": records.Origin("chat"),
    "history": records.HistoryRef("resp_1"),
    "generate": False,
    "compact": records.CompactRequest(),
    "size": 7,
}


@pytest.mark.parametrize("name", OWN)
def test_what_is_the_gateways_stays_so(name: str) -> None:
    with pytest.raises(MiddlewareFault, match=name):
        left(replace(ASKED, **{name: OWN[name]}))


@pytest.mark.parametrize(
    "changed",
    [
        sampled(n=2),
        replace(ASKED, prompt="x"),
        replace(ASKED, messages=()),
        replace(ASKED, messages=(), prompt="x"),
    ],
)
def test_neither_the_number_of_choices_nor_the_kind_of_input_is_changed(changed: GenerationRequest) -> None:
    with pytest.raises(MiddlewareFault):
        left(changed)
