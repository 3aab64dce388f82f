"""A component joined with the adapter is what it was, and what cannot be joined is refused in words."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasmtime import wat2wasm

from smg_core.middleware.entries import Limits
from smg_core.wasm.joining import Broken, outline
from smg_core.wasm.plans import Unusable
from smg_core.wasm.running import Sandbox

GUESTS = Path(__file__).parent.parent.parent / "guests"
PLUGINS = [*GUESTS.glob("*.wasm"), *(GUESTS.parent.parent / "examples" / "plugins").glob("*/*.wasm")]
WASM = (GUESTS / "attacks.wasm").read_bytes()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(1)
    yield made
    made.close()


@pytest.mark.full
@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("file", PLUGINS, ids=lambda file: file.stem)
def test_every_component_here_is_joined(sandbox: Sandbox, file: Path) -> None:
    compiled = sandbox.compile(file.read_bytes(), Limits(deadline_ms=60_000), ())
    assert compiled.exported
    compiled.instance().close()


def test_the_outline_has_the_interfaces_of_a_component() -> None:
    found = outline(WASM)
    assert [each.rpartition("/")[2] for each in found.imports] == ["host@1.0.0", "types@1.0.0"]
    assert [each.rpartition("/")[2] for each in found.exports] == [
        f"{each}@1.0.0" for each in ("setup", "exchange", "request-head", "request-body", "pieces")
    ]


@given(st.integers(8, len(WASM)))
def test_a_truncated_component_is_broken_or_shorter(end: int) -> None:
    with suppress(Broken):
        assert len(outline(WASM[:end]).exports) <= 5


@given(st.lists(st.tuples(st.integers(8, 800), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_component_with_other_bytes_is_broken_or_read(changes: list[tuple[int, int]]) -> None:
    wasm = bytearray(WASM)
    for at, byte in changes:
        wasm[at] = byte
    with suppress(Broken):
        outline(bytes(wasm))


def component(body: str) -> bytes:
    """A component that exports the interface `exchange` with this in it."""
    core = '(core module $m (func (export "f")) (func (export "g") (param i32))) (core instance $i (instantiate $m)) '
    return bytes(wat2wasm(f"(component {core} {body})"))


EXCHANGE = '(export "smg-sdk:plugin/exchange@1.0.0" (instance $x))'
FINISH = '(func $f (canon lift (core func $i "f")))'
ODD: dict[str, tuple[bytes, str]] = {
    "without a function": (
        component(f'{FINISH} (instance $x (export "finish" (func $f))) {EXCHANGE}'),
        "has smg-sdk:plugin/exchange@1.0.0 without its function begin",
    ),
    "of another type": (
        component(
            '(func $f (param "n" u32) (canon lift (core func $i "g"))) '
            f'(instance $x (export "begin" (func $f)) (export "finish" (func $f))) {EXCHANGE}'
        ),
        r"has begin of another type: \(u32\) -> \(\)",
    ),
    "with an import that is a function": (
        bytes(
            wat2wasm(
                '(component (import "other" (func)) (instance $x) (export "smg-sdk:plugin/end@1.0.0" (instance $x)))'
            )
        ),
        "cannot be joined with the gateway's adapter: it imports other, which is no interface",
    ),
    "with an import behind its code": (
        component(f'(import "other" (func)) {FINISH} (instance $x (export "finish" (func $f))) {EXCHANGE}'),
        "cannot be joined with the gateway's adapter: it has imports behind its code",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_what_cannot_be_joined_is_refused_in_words(sandbox: Sandbox, what: str) -> None:
    wasm, said = ODD[what]
    with pytest.raises(Unusable, match=said):
        sandbox.compile(wasm, Limits(), ())


WITH_WASI = """(component
  (import "wasi:io/error@0.2.0" (instance $e (export "error" (type (sub resource)))))
  (alias export $e "error" (type $error))
  (import "wasi:random/random@0.2.0" (instance (export "get-random-u64" (func (result u64)))))
  (import "wasi:io/streams@0.2.0" (instance (export "error" (type (eq $error)))))
  (core module $m
    (memory (export "m") 1)
    (func (export "take") (param i32 i32 i32 i32) (result i32) (i32.const 8))
    (func (export "configure") (param i32 i32) (result i32) (i32.const 64)))
  (core instance $i (instantiate $m))
  (func $f (param "config" string) (result (result (error string)))
    (canon lift (core func $i "configure") (memory (core memory $i "m")) (realloc (core func $i "take"))))
  (instance $x (export "configure" (func $f)))
  (export "smg-sdk:plugin/setup@1.0.0" (instance $x)))"""


def test_a_component_with_wasi_keeps_its_imports(sandbox: Sandbox) -> None:
    wasm = bytes(wat2wasm(WITH_WASI))
    with pytest.raises(Unusable, match="without the grant wasi"):
        sandbox.compile(wasm, Limits(), ())
    compiled = sandbox.compile(wasm, Limits(deadline_ms=60_000), ("wasi",))
    guest = compiled.instance()
    assert not compiled.in_steps
    assert guest.call("configure", "{}") == (True, None)
    guest.close()
