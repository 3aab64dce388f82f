"""Interpreters for tests: a small component of the same world, and the real one, which is built once for `make test-services`."""

import os
from functools import cache
from importlib.metadata import version
from pathlib import Path

from wasmtime import Config, Engine, wat2wasm
from wasmtime.component import Component

from smg_core.containers.interpreter.building import build_interpreter

__all__ = ["LOOPS", "SAYS", "TRAPS", "real_interpreter", "small_interpreter"]

SAYS = "(i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const {size})) (i32.const 0)"
"""What `run` does: it gives the answer that it was made with."""
LOOPS = "(loop (br 0)) (unreachable)"
TRAPS = "(unreachable)"
_BUILD = Path(__file__).parent.parent / "build" / "services"
_WORLD = """
(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (data (i32.const 64) "{answer}")
    (func (export "run") (param i32 i32) (result i32) {body}))
  (core instance $i (instantiate $m))
  (func (export "run") (param "request" string) (result string)
    (canon lift (core func $i "run") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
"""


def small_interpreter(folder: Path, body: str = SAYS, answer: str = '{"stdout": "said", "stderr": ""}') -> Path:
    """A folder with a component that takes any code, in which `run` has this body; returns the folder."""
    text = "".join(f"\\{byte:02x}" for byte in answer.encode())
    made = _WORLD.format(answer=text, body=body.format(size=len(answer.encode())))
    config = Config()
    config.max_wasm_stack = 1 << 20
    folder.mkdir(parents=True, exist_ok=True)
    compiled = Component(Engine(config), wat2wasm(made)).serialize()
    (folder / f"python-wasmtime-{version('wasmtime')}.cwasm").write_bytes(compiled)
    return folder


@cache
def real_interpreter() -> Path:
    """The folder of the real one, which is built by the componentize-py that tools/services.sh installs, unless it is there."""
    folder = _BUILD / "interpreter"
    source = Path(__file__).parent.parent / "src/smg_core/containers/interpreter/guest.py"
    made = folder / f"python-wasmtime-{version('wasmtime')}.cwasm"
    if not made.is_file() or made.stat().st_mtime < source.stat().st_mtime:
        build_interpreter(folder, os.fspath(_BUILD / "python" / "bin" / "componentize-py"))
    return folder
