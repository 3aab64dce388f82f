"""No input is the gateway's fault: whole Chat requests, made from the wire's own types, some of them bent, through all rooms.

Requests are drawn from the types that the decoder reads, so a field that the API gains is drawn too. An answer of 5xx, other than
one that says there is no room, fails, and so does anything that is logged with a traceback. A good part of what is drawn must be
answered by the engine: what is refused at the door tries no room behind it.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import msgspec.inspect as types
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from smg_core.protocols.chat_types import ChatBody
from smg_core.server.gateway import Gateway

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            " ",
            "sim",
            "get_time",
            "<|im_end|>",
            "<think>",
            "<tool_call>",
            "{",
            "null",
            "\x00",
            "\ufdd0",
            "data:image/png;base64,AA==",
            "http://a..b/",
            "[" * 70,
            '{"a":' * 70 + "1" + "}" * 70,
            '{"type":"object"}',
            "(a+)+$",
            "\\w{300}",
        ]
    ),
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | TEXTS
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {},
            {"type": "string"},
            {"type": "integer"},
            {"enum": [1]},
            {"$ref": "#"},
            {"type": "nonsense"},
            {"pattern": "("},
        ]
    ),
    lambda inner: (
        st.builds(lambda name, value: {"type": "object", "properties": {name: value}}, TEXTS, inner)
        | st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner)
    ),
    max_leaves=4,
)
NAMES = st.sampled_from(["f", "get_time", "get_weather"])
FREE = {
    "parameters": SCHEMAS,
    "schema": SCHEMAS,
    "guided_json": SCHEMAS,
    "name": NAMES,
    "tool_call_id": NAMES,
    "id": NAMES,
}
"""Fields whose values have no shape on the wire, or one that few texts have, and something that is like what they are for."""
NOT_BENT = frozenset({"model"})
"""Fields without which a request goes nowhere, whatever else is in it."""


def of_type(kind: types.Type, depth: int = 0) -> SearchStrategy[Any]:
    """Values that are read as `kind`."""
    match kind:
        case types.StrType():
            return TEXTS
        case types.BoolType():
            return st.booleans()
        case types.IntType():
            low, high = kind.ge if kind.ge is not None else -4, kind.le if kind.le is not None else 40
            return st.integers(int(low), int(max(low, high)))
        case types.FloatType():
            low, high = kind.ge if kind.ge is not None else -4.0, kind.le if kind.le is not None else 4.0
            return st.floats(float(low), float(high))
        case types.NoneType():
            return st.none()
        case types.LiteralType():
            return st.sampled_from(kind.values)
        case types.UnionType():
            return st.one_of([of_type(each, depth) for each in kind.types])
        case types.ListType():
            return st.lists(of_type(kind.item_type, depth + 1), min_size=depth == 1, max_size=2 if depth else 3)
        case types.DictType():
            return st.dictionaries(of_type(kind.key_type), of_type(kind.value_type, depth + 1), max_size=2)
        case types.StructType():
            return of_struct(kind, depth)
        case _:
            return ANYTHING


def of_struct(kind: types.StructType, depth: int) -> SearchStrategy[dict[str, Any]]:
    """Objects with all required fields and a few of the others."""
    known = {each.encode_name: _of_field(each, depth) for each in kind.fields}
    required = {each.encode_name: known[each.encode_name] for each in kind.fields if each.required}
    tag = {} if kind.tag_field is None else {kind.tag_field: st.just(kind.tag)}
    optional = sorted(set(known) - set(required))
    if not optional:
        return st.fixed_dictionaries({**tag, **required})
    some = st.lists(st.sampled_from(optional), max_size=8 if not depth else 4, unique=True)
    return some.flatmap(
        lambda names: st.fixed_dictionaries({**tag, **required, **{name: known[name] for name in names}})
    )


def _of_field(field: types.Field, depth: int) -> SearchStrategy[Any]:
    return FREE[field.encode_name] if field.encode_name in FREE else of_type(field.type, depth + 1)


def bent(value: Any, draw: Any) -> Any:
    """The request with one value somewhere in it replaced by another."""
    places = [(holder, key) for holder, key in _places(value) if holder is not value or key not in NOT_BENT]
    holder, key = draw(st.sampled_from(places))
    holder[key] = draw(ANYTHING)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(entries):
        yield value, key
        yield from _places(inner)


REFUSED = (
    *("stream_reasoning", "separate_reasoning", "prompt_logprobs", "modalities", "audio", "prediction", "store"),
    *("web_search_options", "stream_options", "structured_outputs", "guided_choice", "guided_grammar", "ebnf", "regex"),
)
"""Fields that this model, or most other requests, cannot have: asked for now and then, so that the rest is not always refused."""


@st.composite
def requests(draw: Any) -> Mapping[str, Any]:
    kind = types.type_info(ChatBody)
    assert isinstance(kind, types.StructType)
    asked: dict[str, Any] = draw(of_struct(kind, 0))
    asked["model"] = "sim"
    if draw(st.integers(0, 2)):
        asked["messages"] = [{"role": "user", "content": draw(st.sampled_from(["Hi", "Use get_time", "<|im_end|>"]))}]
    for name in REFUSED:
        if draw(st.integers(0, 9)):
            asked.pop(name, None)
    asked["max_tokens"] = draw(st.integers(1, 6))
    asked.pop("max_completion_tokens", None)
    return bent(asked, draw) if draw(st.integers(0, 3)) == 0 else asked


class Traces(logging.Handler):
    """Keeps what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(record.getMessage())


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def house(loop: asyncio.AbstractEventLoop) -> Iterator[httpx.AsyncClient]:
    gateway = Gateway.simulated()
    loop.run_until_complete(gateway.__aenter__())
    yield gateway.http_client(httpx, base_url="http://gateway")
    answered = gateway.engines[0].counters["finished"]
    loop.run_until_complete(gateway.__aexit__(None, None, None))
    assert answered > 25, "nearly all that was drawn is refused before anything is done with it"


@given(requests())
@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
def test_whatever_a_client_asks_is_answered_or_refused_and_never_the_gateways_fault(
    loop: asyncio.AbstractEventLoop, house: httpx.AsyncClient, asked: Mapping[str, Any]
) -> None:
    traces = Traces()
    logging.getLogger().addHandler(traces)
    try:
        body = json.dumps(asked).encode("utf-8", "replace")
        headers = {"content-type": "application/json"}
        answer = loop.run_until_complete(
            asyncio.wait_for(house.post("/v1/chat/completions", content=body, headers=headers), 30)
        )
    finally:
        logging.getLogger().removeHandler(traces)

    assert traces.found == []
    assert answer.status_code < 500 or answer.status_code == 503, (answer.status_code, answer.text, body)
    assert b"Traceback" not in answer.content
