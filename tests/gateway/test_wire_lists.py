"""Every list and every object of every wire type with thousands of members: answered or refused, and never the gateway's fault.

The lists are found by walking the types, so that a new field of any API is among them.
"""

import asyncio
import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec import inspect as types
from tests.gateway.test_fuzz import APIS, Fuzzed, Traces
from tests.shared import PATIENCE

from smg_core import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MANY = 4000
DEEPEST = 5
"""Levels of the types that are walked; some are inside of themselves."""
NAMED = ("name", "id", "call_id", "tool_use_id")
"""Fields by which members of a list are told apart."""


def smallest(kind: types.Type, depth: int = 0) -> Any:
    """A value that is read as `kind`, with as little in it as may be."""
    match kind:
        case types.BoolType():
            return True
        case types.IntType():
            return max(1, int(kind.ge or 1))
        case types.FloatType():
            return 0.5
        case types.LiteralType():
            return kind.values[0]
        case types.UnionType():
            return smallest(next(each for each in kind.types if not isinstance(each, types.NoneType)), depth)
        case types.ListType():
            return [smallest(kind.item_type, depth + 1)] if depth < DEEPEST else []
        case types.DictType():
            return {}
        case types.StructType():
            made = {each.encode_name: smallest(each.type, depth + 1) for each in kind.fields if each.required}
            return made if kind.tag_field is None else {**made, kind.tag_field: kind.tag}
        case _:
            return "a"


def many_of(kind: types.Type) -> list[Any]:
    """That many members of a list, told apart where they have names."""
    made = [copy.copy(smallest(kind)) for _ in range(MANY)]
    for order, each in enumerate(made):
        if isinstance(each, dict):
            each.update({name: f"{name}{order}" for name in NAMED if name in each})
    return made


def enlarged(kind: types.Type, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Values of `kind`, in each of which one list or object is large, and where that is."""
    if depth > DEEPEST:
        return
    match kind:
        case types.UnionType():
            for each in kind.types:
                yield from enlarged(each, depth)
        case types.ListType():
            members = kind.item_type.types if isinstance(kind.item_type, types.UnionType) else (kind.item_type,)
            for member in members:
                yield "[*]", many_of(member)
                for place, value in enlarged(member, depth + 1):
                    yield f"[]{place}", [value]
        case types.DictType():
            yield "{*}", {str(order): smallest(kind.value_type) for order in range(MANY)}
        case types.StructType():
            for field in kind.fields:
                for place, value in enlarged(field.type, depth + 1):
                    yield f".{field.encode_name}{place}", {**smallest(kind), field.encode_name: value}
        case types.AnyType() | types.RawType():
            yield "any[*]", [{"type": "text", "text": "a", "id": f"i{order}"} for order in range(MANY)]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.path)
async def test_a_list_of_thousands_anywhere_in_a_body_is_answered_or_refused(api: Fuzzed) -> None:
    kind = types.type_info(api.body)
    assert isinstance(kind, types.StructType)
    traces, faults, lists = Traces(), [], 0
    logging.getLogger().addHandler(traces)
    async with Gateway.simulated() as gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
        for place, asked in enlarged(kind):
            if "model" in {field.encode_name for field in kind.fields}:
                asked["model"] = "sim"
            if not place.startswith(f".{api.field}"):
                asked[api.field] = json.loads(json.dumps(api.prompts[0]))
            api.bound(asked)
            async with asyncio.timeout(PATIENCE):
                answer = await http.post(api.path, json=asked)
            lists += 1
            if answer.status_code >= 500:
                faults.append((place, answer.status_code, answer.text[:200]))
    logging.getLogger().removeHandler(traces)

    assert lists
    assert faults == []
    assert traces.found == []
