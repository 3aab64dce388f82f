"""Parsed source files, for the tests that look at the house itself."""

import ast
import gc
from pathlib import Path

__all__ = ["parsed"]


def generated(path: Path) -> bool:
    """Whether a module is made by tools/proto.py: it keeps the names of its contract."""
    return path.stem.endswith("_pb2") or "_pb" in path.parts


def parsed(source: Path | str) -> ast.Module:
    """The tree of a source file, or of a text.

    The garbage collector waits meanwhile: in Python 3.11, a destructor that it runs while a tree is made can have another thread
    make one, and both then fail with "AST constructor recursion depth mismatch"."""
    text = source if isinstance(source, str) else source.read_text()
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collects:
            gc.enable()
