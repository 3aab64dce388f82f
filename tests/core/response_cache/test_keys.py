"""Requests are equal where they ask the same of the same model for the same tenant, and differ in anything else."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from smg_core.errors import UnsupportedParameter
from smg_core.origin import KEEPS_BUDGET, Origin
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import (
    Caller,
    File,
    FunctionTool,
    GenerationRequest,
    HistoryRef,
    HostedTool,
    Image,
    MediaSource,
    Message,
    Refusal,
    Sampling,
    Text,
    ToolCall,
    ToolResult,
)
from smg_core.response_cache.keys import cache_key_of, may_be_shared, model_mark, wish_of

MODEL = ServedModel("m", None)
MARK = model_mark(MODEL, ())
ASKED = GenerationRequest(
    "id-1", "m", (Message("user", (Text("Hello"),)),), sampling=Sampling(temperature=0), caller=Caller("acme", "key")
)


def key(request: GenerationRequest, mark: bytes = MARK, revision: str = "") -> bytes:
    return cache_key_of(request, revision, mark)


SAME: Mapping[str, Any] = {
    "id": "id-2",
    "stream": True,
    "headers": {"a": "b"},
    "priority": 3,
    "session_key": "s",
    "home": "w",
    "deadline_s": 2.0,
    "caller": Caller("acme", "another key"),
    "size": 7,
    "written": b"{}",
    "history": HistoryRef(store=True),
    "messages": (Message("user", (Text("Hello"),), id="msg_1"),),
}


@pytest.mark.parametrize("field", SAME)
def test_how_a_request_is_run_makes_no_difference(field: str) -> None:
    assert key(replace(ASKED, **{field: SAME[field]})) == key(ASKED)


OTHER: Mapping[str, Any] = {
    "model": "n",
    "messages": (Message("user", (Text("Hello "),)),),
    "prompt": [1, 2],
    "tools": (FunctionTool("f"),),
    "sampling": Sampling(temperature=0, max_tokens=3),
    "template": "other",
    "template_arguments": {"a": 1},
    "documents": ({"text": "d"},),
    "user": "u",
    "cache_salt": "s",
    "metadata": {"a": "b"},
    "extra": {"a": 1},
    "include": frozenset({"logprobs"}),
    "verbosity": "low",
    "caller": Caller("other", "key"),
    "origin": Origin("messages", traits=frozenset({KEEPS_BUDGET})),
}


@pytest.mark.parametrize("field", OTHER)
def test_what_is_asked_by_whom_makes_a_difference(field: str) -> None:
    assert key(replace(ASKED, **{field: OTHER[field]})) != key(ASKED)


def test_two_apis_that_ask_the_same_have_one_key() -> None:
    chat, completions = Origin("chat", bounds=("max_tokens",)), Origin("completions")
    assert key(replace(ASKED, origin=chat)) == key(replace(ASKED, origin=completions))
    tools = replace(ASKED, tools=(FunctionTool("f"),))
    assert key(replace(tools, origin=Origin("a", calls="call_"))) != key(
        replace(tools, origin=Origin("a", calls="toolu_"))
    )


def test_parts_of_other_kinds_with_the_same_fields_differ() -> None:
    text, refusal = Message("assistant", (Text("no"),)), Message("assistant", (Refusal("no"),))
    assert key(replace(ASKED, messages=(text,))) != key(replace(ASKED, messages=(refusal,)))


def test_another_model_template_revision_or_engine_makes_another_key() -> None:
    marks = {
        model_mark(MODEL, ()),
        model_mark(MODEL, ("version=2",)),
        model_mark(ServedModel("m", None, root="/other"), ()),
        model_mark(ServedModel("m", None, default_sampling={"temperature": 0}), ()),
        model_mark(ServedModel("m", None, adapter="a"), ()),
    }
    assert len(marks) == 5
    assert len({key(ASKED, each) for each in marks} | {key(ASKED, MARK, "2")}) == 6
    assert model_mark(MODEL, ("a", "b")) == model_mark(MODEL, ("b", "a", "a"))


def _message(parts: Any) -> GenerationRequest:
    return replace(ASKED, messages=(Message("user", parts),))


def test_media_are_in_the_key_by_their_bytes_and_an_address_is_not_kept() -> None:
    one, two = (_message((Image(MediaSource(data=data)),)) for data in (b"one", b"two"))
    assert key(one) != key(two)
    assert may_be_shared(one, MODEL, chance=False)
    for source in (MediaSource(url="https://host/a.png"), MediaSource(file_id="file-1")):
        for part in (Image(source), File(source), ToolResult("c", (Image(source),))):
            assert not may_be_shared(_message((part,)), MODEL, chance=True)
    assert may_be_shared(_message((File(MediaSource(url="data:text/plain,a")),)), MODEL, chance=False)


NOT_SHARED: Mapping[str, Any] = {
    "generate": False,
    "background": True,
    "history": HistoryRef(previous_id="r"),
    "tools": (HostedTool("web_search"),),
    "live": object(),
}


@pytest.mark.parametrize("field", NOT_SHARED)
def test_what_has_other_effects_than_its_answer_is_not_shared(field: str) -> None:
    assert not may_be_shared(replace(ASKED, **{field: NOT_SHARED[field]}), MODEL, chance=True)


def test_an_answer_by_chance_is_shared_only_where_that_is_wished() -> None:
    drawn = replace(ASKED, sampling=Sampling(temperature=0.7))
    assert not may_be_shared(drawn, MODEL, chance=False)
    assert may_be_shared(drawn, MODEL, chance=True)
    assert may_be_shared(replace(ASKED, sampling=Sampling(temperature=0.7, seed=1)), MODEL, chance=False)
    unsaid = replace(ASKED, sampling=Sampling())
    assert not may_be_shared(unsaid, MODEL, chance=False)
    assert may_be_shared(unsaid, ServedModel("m", None, default_sampling={"temperature": 0}), chance=False)


@pytest.mark.parametrize("word", ["semantic", "", "no-cache", "ON,off"])
def test_a_wish_that_there_is_not_is_refused(word: str) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        wish_of(word)
    assert refused.value.param == "x-smg-cache"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_two_requests_have_one_key_only_if_they_are_written_alike(one: Any, two: Any) -> None:
    first, second = (replace(ASKED, template_arguments={"a": each}) for each in (one, two))
    assert (key(first) == key(second)) == (repr(one) == repr(two))


@given(st.lists(st.sampled_from([Text("a"), Text("b"), ToolCall("c", "f", "{}"), Refusal("a")]), max_size=4))
def test_the_key_of_a_request_is_the_same_each_time(parts: list[Any]) -> None:
    asked = replace(ASKED, messages=(Message("assistant", tuple(parts)),))
    assert key(asked) == key(replace(asked, id="other"))
