"""Values of calls and answers as one text: what a guest is shown and answers is what the gateway passes and reads."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.entries import Limits
from smg_core.wasm.fields import fields_of, read_action, read_head_verdict, read_storage_verdict
from smg_core.wasm.running import Guest, Sandbox

GUESTS = Path(__file__).parent.parent.parent / "guests"
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\x00\x01\x02"), max_size=30)
HEADERS = st.lists(st.tuples(TEXTS, TEXTS), max_size=4).map(tuple)
REMOVED = st.lists(TEXTS, max_size=4).map(tuple)
STATUS = st.none() | st.integers(0, 2**16 - 1)


def flat(headers: tuple[tuple[str, str], ...]) -> list[str]:
    return [text for each in headers for text in each]


@given(HEADERS)
def test_texts_are_read_as_they_were_written(texts: tuple[tuple[str, str], ...]) -> None:
    assert read_storage_verdict("c" + fields_of(flat(texts)) if texts else "c") == ("change", texts)


@given(HEADERS, HEADERS, REMOVED, STATUS, st.none() | TEXTS, st.none() | TEXTS)
def test_a_change_of_a_head_is_read_as_the_adapter_writes_it(
    to_set: tuple[tuple[str, str], ...],
    to_add: tuple[tuple[str, str], ...],
    remove: tuple[str, ...],
    status: int | None,
    tenant: str | None,
    principal: str | None,
) -> None:
    named = ["" if each is None else f"+{each}" for each in (tenant, principal)]
    counts = [str(len(to_set)), str(len(to_add))]
    first = ["" if status is None else str(status), *named, *counts]
    answer = "c" + fields_of([*first, *flat(to_set), *flat(to_add), *remove])
    assert read_head_verdict(answer) == ("change", (to_set, to_add, remove, status, tenant, principal))


@given(HEADERS, HEADERS, REMOVED, STATUS, st.none() | TEXTS)
def test_an_action_of_smg_is_read_as_the_adapter_writes_it(
    to_set: tuple[tuple[str, str], ...],
    to_add: tuple[tuple[str, str], ...],
    remove: tuple[str, ...],
    status: int | None,
    body: str | None,
) -> None:
    counts = [str(len(each)) for each in (to_set, to_add, remove)]
    first = ["" if status is None else str(status), *counts, str(int(body is not None))]
    answer = "c" + fields_of([*first, *flat(to_set), *flat(to_add), *remove]) + (body or "")
    assert read_action(answer) == ("modify", (status, to_set, to_add, remove, body))


# ---------------------------------------------------------------------------------------------- through the adapter


def oversized(what: str, many: int) -> Guest:
    """A guest that answers with so many of something."""
    compiled = SANDBOX.compile((GUESTS / "oversized.wasm").read_bytes(), Limits(deadline_ms=60_000), ())
    guest = compiled.instance()
    assert guest.call("configure", f'{{"do": "{what}", "many": {many}}}') == (True, None)
    return guest


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> Iterator[None]:
    global SANDBOX
    SANDBOX = Sandbox(2)
    yield
    SANDBOX.close()


SANDBOX: Sandbox
HEAD, RESPONSE = ("POST", "/", "", (("a", "1"),)), (200, (("a", "1"),))
STORED = ("put-response", "", "id", "t", "p", (("x", "{}"),) * 3)
NOTHING: tuple[Any, ...] = ((), (), (), None, None, None)


def change(**said: Any) -> tuple[str, Any]:
    names = ("set", "add", "remove", "status", "tenant", "principal")
    return "change", tuple(said.get(name, empty) for name, empty in zip(names, NOTHING, strict=True))


THREE = (("x", "x"),) * 3
ANSWERS: list[tuple[str, str, tuple[Any, ...], Any]] = [
    *[
        (name, "set", (value,), change(set=THREE))
        for name, value in (("request_head", HEAD), ("response_head", RESPONSE))
    ],
    *[
        (name, "add", (value,), change(add=THREE))
        for name, value in (("request_head", HEAD), ("response_head", RESPONSE))
    ],
    ("request_head", "remove", (HEAD,), change(remove=("x",) * 3)),
    ("request_head", "tenant", (HEAD,), change(tenant="xxx")),
    ("request_head", "principal", (HEAD,), change(principal="xxx")),
    ("request_head", "reject", (HEAD,), ("reject", (400, "xxx"))),
    ("request_body", "change", ("body",), ("change", "xxx")),
    ("request_body", "reject", ("body",), ("reject", (400, "xxx"))),
    ("piece", "change", (("text", "wire", 0, False),), ("change", "xxx")),
    ("piece", "log", (("text", "arguments", 7, True),), ("proceed", None)),
    ("wanted", "change", (), "wire"),
    ("end", "change", ((200, "ok", 0.25, None, 3, 4),), "xxx"),
    ("error", "reject", ((500, "code", "message"),), ("reject", (400, "xxx"))),
    ("store", "change", (STORED,), ("change", THREE)),
    ("store", "reject", (STORED,), ("reject", (400, "xxx"))),
    ("stored", "change", (STORED,), None),
]


@pytest.mark.parametrize(("name", "what", "values", "answer"), ANSWERS)
def test_an_answer_is_read_as_a_guest_gives_it(name: str, what: str, values: tuple[Any, ...], answer: Any) -> None:
    guest = oversized(what, 3)
    for _ in range(2):
        assert guest.call(name, *values) == answer
    guest.close()


def test_an_answer_of_nothing_is_read(sandbox: None) -> None:
    for name, what, values, answer in (
        ("end", "change", ((200, "ok", 0.25, None, 3, 4),), ""),
        ("piece", "change", (("text", "wire", 0, False),), ("change", "")),
        ("request_head", "reject", (HEAD,), ("reject", (400, ""))),
        ("request_head", "set", (HEAD,), change()),
        ("store", "change", (STORED,), ("change", ())),
    ):
        guest = oversized(what, 0)
        assert guest.call(name, *values) == answer
        guest.close()


@pytest.mark.full
def test_a_long_answer_takes_as_much_memory_each_time_and_no_more(sandbox: None) -> None:
    """A body of a megabyte is written into the adapter's memory a hundred times, which may have 16."""
    guest = oversized("change", 1 << 20)
    for _ in range(100):
        case, text = guest.call("request_body", "y" * (1 << 20))
        assert (case, len(text)) == ("change", 1 << 20)
    guest.close()


@pytest.mark.full
def test_a_guest_that_talks_gives_way_to_the_event_loop(sandbox: None) -> None:
    """A call of the host takes as long as thousands of instructions, and counts as a few."""
    compiled = SANDBOX.compile((GUESTS / "attacks.wasm").read_bytes(), Limits(deadline_ms=60_000), ())
    guest = compiled.instance()
    guest.call("configure", '{"do": "flood"}')
    guest.begin("request_head", HEAD, short=True)
    heard = [0]
    while not guest.advance(1):
        heard.append(len(guest.report.lines) + guest.report.dropped)
    with pytest.raises(MiddlewareFault, match="it floods the log"):
        guest.answer()
    assert len(heard) > 200
    assert max(after - before for before, after in pairwise(heard)) <= 16
    guest.close()
