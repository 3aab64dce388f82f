"""Heads reach a guest, and its verdicts the gateway, as they do by the converters of the package wasmtime itself."""

import gc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasmtime import Engine, Store
from wasmtime.component import Component, Linker

from smg_core.middleware.base import About, RequestHead
from smg_core.middleware.entries import Limits
from smg_core.wasm.bounds import AnswerBounds
from smg_core.wasm.cells import Arguments
from smg_core.wasm.running import Guest, Sandbox
from smg_core.wasm.worlds import HOST, OURS, about_value, head_value
from smg_core.wasm.written import Written

GUEST = Path(__file__).parent.parent.parent / "guests" / "attacks.wasm"
CONFIG = '{"do": "echo"}'
ODD = ["", "é" * 300, "\x00", "𐍈", "x" * 5000, "\x01", "\x01\x00\x01\x01\x02"]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(ODD)
HEADERS = st.lists(st.tuples(TEXTS, TEXTS), max_size=40).map(tuple)
HEADS = st.builds(RequestHead, method=TEXTS, path=TEXTS, query=TEXTS, headers=HEADERS)


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """A guest that answers with the headers that it is shown."""
    sandbox, bounds = Sandbox(1), AnswerBounds(headers=1 << 24, piece=0, body=0)
    made = sandbox.compile(GUEST.read_bytes(), Limits(deadline_ms=300_000), (), bounds).instance()
    made.call("configure", CONFIG)
    yield made
    made.close()
    sandbox.close()


class Converted:
    """The same guest, called by the package wasmtime with its own conversion of values."""

    def __init__(self) -> None:
        engine = Engine()
        component, linker, self.store = Component(engine, GUEST.read_bytes()), Linker(engine), Store(engine)
        with linker.root() as root, root.add_instance(HOST) as host:
            host.add_func("log", lambda store, level, message: None)
            host.add_func("count", lambda store, name, by: None)
        self.instance = linker.instantiate(self.store, component)
        self._call("configure", CONFIG)

    def _call(self, name: str, *values: object) -> Any:
        function = OURS.functions[name]
        interface = self.instance.get_export_index(self.store, function.interface)
        index = self.instance.get_export_index(self.store, function.name, interface)
        assert index is not None
        found = self.instance.get_func(self.store, index)
        assert found is not None
        return found(self.store, *values)

    def echo(self, head: RequestHead) -> list[tuple[str, str]]:
        headers = [SimpleNamespace(name=name, value=value) for name, value in head.headers]
        answer = self._call(
            "request_head", SimpleNamespace(method=head.method, path=head.path, query=head.query, headers=headers)
        )
        assert answer.tag == "change"
        return [(each.name, each.value) for each in answer.payload.set]


@pytest.fixture(scope="module")
def converted() -> Converted:
    return Converted()


def finished(guest: Guest, name: str, arguments: Arguments) -> Any:
    """The answer of a call that begins as on the event loop."""
    if not guest.at_once(name, arguments, 1, 0.0):
        guest.prolong()
        guest.advance()
    return guest.answer()


@given(head=HEADS)
def test_a_head_that_was_written_once_reaches_guests_as_the_package_wasmtime_gives_it(
    guest: Guest, converted: Converted, head: RequestHead
) -> None:
    written = Written().arguments("request_head", head, head_value)
    expected = "change", (head.headers, (), (), None, None, None)
    for _ in range(2):
        assert finished(guest, "request_head", written) == expected
    assert guest.call("request_head", head_value(head)) == expected
    assert converted.echo(head) == list(head.headers)


@given(first=HEADS, second=HEADS)
def test_a_head_is_written_once_for_all_and_forgotten_with_it(
    guest: Guest, first: RequestHead, second: RequestHead
) -> None:
    written = Written()
    kept = written.arguments("request_head", first, head_value)
    assert written.arguments("request_head", first, head_value) is kept
    other = RequestHead(second.method, second.path, second.query, second.headers)
    assert written.arguments("request_head", other, head_value) is not kept
    assert written.arguments("request_head", first, head_value) is not kept  # one head is kept, the last one
    assert finished(guest, "request_head", kept)[1][0] == first.headers  # who still has them may use them
    about = About("é", "POST", "/", tenant=second.path)
    written.arguments("begin", about, about_value)
    assert len(written) == 2
    del about
    gc.collect(1)  # a whole collection takes a tenth of a second
    assert len(written) == 1
