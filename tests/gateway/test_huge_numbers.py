"""Every number of every body, of APIs and of the admin door, when it is huge: answered or refused, never the gateway's fault.

The numbers are found by walking the types, so that a new field of any API is among them.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec import inspect as types
from tests.gateway.test_admin import Door, opened, table
from tests.gateway.test_fuzz import APIS, Fuzzed, Traces
from tests.gateway.test_wire_lists import DEEPEST, smallest
from tests.shared import PATIENCE

from smg_core import Gateway
from smg_core.admin.app import admin_table

pytestmark = pytest.mark.anyio

HUGE = ("1" + "0" * 30, str(2**64), str(2**63), str(2**63 - 1), "-" + str(2**63 + 1), "1e308", "-1e308")
PLACE = "a huge number"
"""What stands in a body where its text gets a number that `json` might write otherwise."""


def numbered(kind: types.Type, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Values of `kind`, in each of which one number is huge, and where that is."""
    if depth > DEEPEST:
        return
    match kind:
        case types.IntType() | types.FloatType():
            yield "", PLACE
        case types.AnyType() | types.RawType():
            yield from (("any", PLACE), ("any{}", {"a": PLACE}), ("any[]", [PLACE]))
        case types.UnionType():
            for each in kind.types:
                yield from numbered(each, depth)
        case types.ListType():
            yield from ((f"[]{place}", [value]) for place, value in numbered(kind.item_type, depth + 1))
        case types.DictType():
            yield from ((f"{{}}{place}", {"a": value}) for place, value in numbered(kind.value_type, depth + 1))
        case types.StructType():
            for field in kind.fields:
                for place, value in numbered(field.type, depth + 1):
                    yield f".{field.encode_name}{place}", {**smallest(kind), field.encode_name: value}


def texts(asked: Any) -> Iterator[str]:
    """The body with each of the huge numbers."""
    for number in HUGE:
        yield json.dumps(asked).replace(f'"{PLACE}"', number)


@pytest.mark.full
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.path)
async def test_a_huge_number_anywhere_in_a_body_is_answered_or_refused(api: Fuzzed) -> None:
    kind = types.type_info(api.body)
    assert isinstance(kind, types.StructType)
    traces, faults, asked_of = Traces(), [], 0
    logging.getLogger().addHandler(traces)
    headers = {"content-type": "application/json"}
    async with Gateway.simulated() as gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
        for place, asked in numbered(kind):
            if "model" in {field.encode_name for field in kind.fields}:
                asked["model"] = "sim"
            if not place.startswith(f".{api.field}"):
                asked[api.field] = api.prompts[0]
            if "max" not in place:
                api.bound(asked)
            for text in texts(asked):
                async with asyncio.timeout(PATIENCE):
                    answer = await http.post(api.path, content=text, headers=headers)
                asked_of += 1
                if answer.status_code >= 500:
                    faults.append((place, text[:120], answer.status_code, answer.text[:200]))
    logging.getLogger().removeHandler(traces)
    assert asked_of
    assert faults == []
    assert traces.found == []


def admin_bodies(door: Door) -> dict[tuple[str, str], types.StructType]:
    """The shapes of the bodies at the door, by method and path."""
    found: dict[tuple[str, str], types.StructType] = {}
    for route in admin_table(door.house.gateway, table()).routes:
        about = route.target.about
        if about is not None and about.body is not None:
            kind = types.type_info(about.body)
            assert isinstance(kind, types.StructType)
            found[route.method, route.pattern] = kind
    return found


def unbounded(kind: types.Type) -> Iterator[str]:
    """The numbers of a shape that have no highest value."""
    match kind:
        case types.IntType() | types.FloatType():
            if kind.le is None and kind.lt is None:
                yield ""
        case types.UnionType():
            for each in kind.types:
                yield from unbounded(each)
        case types.ListType():
            yield from (f"[]{place}" for place in unbounded(kind.item_type))
        case types.DictType():
            yield from (f"{{}}{place}" for place in unbounded(kind.value_type))
        case types.StructType():
            for field in kind.fields:
                yield from (f".{field.encode_name}{place}" for place in unbounded(field.type))


async def test_every_number_that_the_admin_door_takes_has_a_highest_value() -> None:
    async with opened() as door:
        bodies = admin_bodies(door)
    assert len(bodies) > 10
    assert [f"{method} {path}{place}" for (method, path), kind in bodies.items() for place in unbounded(kind)] == []


@pytest.mark.full
async def test_a_huge_number_anywhere_in_a_body_at_the_admin_door_is_answered_or_refused() -> None:
    traces, faults, asked_of = Traces(), [], 0
    logging.getLogger().addHandler(traces)
    async with opened() as door:
        name = next(iter(door.house.gateway.registry)).name
        for (method, pattern), kind in admin_bodies(door).items():
            path = pattern.replace("{name}", name).replace("{id}", "none")
            for place, asked in numbered(kind):
                if "url" in asked:
                    asked = {**asked, "url": "grpc://127.0.0.1:9", "name": f"w{asked_of}"}
                for text in texts(asked):
                    answer = await door.http.request(
                        method, path, content=text, headers={"content-type": "application/json"}
                    )
                    asked_of += 1
                    if answer.status_code >= 500:
                        faults.append((method, path, place, text[:120], answer.status_code, answer.text[:200]))
    logging.getLogger().removeHandler(traces)
    assert asked_of
    assert faults == []
    assert traces.found == []
