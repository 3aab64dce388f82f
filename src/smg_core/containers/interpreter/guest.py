"""Runs code as a notebook does, in a namespace that stays: what is inside the component (edge).

The component is made of this module and of what it has imported by then, since there is no file of the library later: `gather`
imports the standard library. It imports nothing of this package. Above: `building`, which has a component made of it. Below: the
standard library.
"""

import ast
import builtins
import importlib
import io
import json
import linecache
import os
import pkgutil
import random
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__all__ = ["WitWorld", "gather"]

_FOLDER = "/mnt/data"
"""The folder of the container's files, as the code sees it."""

_NO_PROGRAMS = "this interpreter starts no other programs"
_NO_THREADS = "this interpreter has no threads; call the functions one after the other"
_NO_NETWORK = "this interpreter has no network"
_NOT_HERE = {
    **dict.fromkeys(("subprocess", "multiprocessing", "pty"), _NO_PROGRAMS),
    **dict.fromkeys(
        ("socket", "_socket", "ssl", "socketserver", "ftplib", "smtplib", "imaplib", "poplib"), _NO_NETWORK
    ),
    **dict.fromkeys(("requests", "httpx", "urllib3", "aiohttp", "webbrowser", "xmlrpc", "wsgiref"), _NO_NETWORK),
    **dict.fromkeys(("urllib.request", "http.client", "http.server"), _NO_NETWORK),
    "asyncio": "this interpreter has no event loop, no threads and no network",
    "ctypes": "this interpreter loads no libraries of other languages",
    "pip": "this interpreter installs no packages: it has the standard library alone",
}
"""What is said of modules that would work nowhere here, by name."""
_LEFT_OUT = frozenset(
    {
        *("antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "ensurepip", "venv", "test", "curses"),
        *("pydoc_data", "lib2to3", "msvcrt", "winreg", "winsound", "nt", "msilib", "site", "multiprocessing"),
    }
)
_CELLS = 16  # calls whose lines are kept for the words of an error
_MOST_ERROR = 16_000  # characters of the words of an error


def gather() -> None:
    """Import the standard library, as far as it can be imported here."""
    for name in sorted(sys.stdlib_module_names):
        if not name.startswith("_") and name not in _LEFT_OUT:
            _import(name)
    packages = [each for each in list(sys.modules.values()) if hasattr(each, "__path__")]
    while packages:
        package = packages.pop()
        if package.__name__.partition(".")[0] not in sys.stdlib_module_names:
            continue
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            tests = ".test" in found.name or ".__main__" in found.name or ".idle_test" in found.name
            if not tests and found.name not in sys.modules and (module := _import(found.name)) and found.ispkg:
                packages.append(module)
    import threading

    # What imports these finds them, as `logging` does; what a program imports later is told what there is not.
    threading.Thread.start = _no_threads  # type: ignore[method-assign, assignment]


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 (whatever a module of the library misses here, it is left out)
        return None


def _no_threads(_: object) -> None:
    raise RuntimeError(_NO_THREADS)


class _Absent:
    """Says in a sentence why a module is not there: the last of `sys.meta_path`."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        why = _NOT_HERE.get(name) or _NOT_HERE.get(top) or "this interpreter has the standard library of Python alone"
        raise ModuleNotFoundError(f"No module named '{name}': {why}", name=name)


class _Output(io.TextIOBase):
    """Takes what is written, as far as there is room: `room` has the characters that all outputs of a call may still have."""

    def __init__(self, room: list[int]) -> None:
        self._room, self._parts = room, []  # type: tuple[list[int], list[str]]

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        taken = text[: max(0, self._room[0])]
        self._room[0] -= len(text)
        if taken:
            self._parts.append(taken)
        return len(text)

    @property
    def text(self) -> str:
        return "".join(self._parts)


class WitWorld:
    """The world of the component: `run` takes a request as JSON (`code`, `characters`) and gives what came of it as JSON."""

    def __init__(self) -> None:
        self._main: ModuleType | None = None
        self._count = 0

    def run(self, request: str) -> str:
        """Run code. Gives `stdout`, `stderr`, `error` (the last line of a traceback, or null) and whether all that was cut."""
        asked = json.loads(request)
        room = [asked["characters"]]
        out, err = _Output(room), _Output(room)
        kept = sys.stdout, sys.stderr, sys.stdin
        sys.stdout, sys.stderr, sys.stdin = out, err, io.StringIO()
        try:
            error = self._ran(asked["code"], err)
        finally:
            sys.stdout, sys.stderr, sys.stdin = kept
        return json.dumps({"stdout": out.text, "stderr": err.text, "error": error, "cut": room[0] < 0})

    def _ran(self, code: str, err: _Output) -> str | None:
        main = self._main or self._begun()
        self._count += 1
        name = f"<cell {self._count}>"
        lines = code.splitlines(keepends=True)
        linecache.cache[name] = (len(code), None, lines, name)
        linecache.cache.pop(f"<cell {self._count - _CELLS}>", None)
        try:
            _run(code, name, main.__dict__)
        except SystemExit as ended:
            if ended.code is None or ended.code == 0:
                return None
            err.write(f"SystemExit: {ended.code}\n")
            return f"SystemExit: {ended.code}"[:_MOST_ERROR]
        except BaseException as failed:  # noqa: BLE001 (whatever the code raises is its result)
            return _write_trace(failed, err)
        return None

    def _begun(self) -> ModuleType:
        """The namespace of the code, as it is at first. What was drawn when the component was made is drawn anew."""
        random.seed()
        sys.meta_path.append(_Absent())
        for name in _NOT_HERE:
            sys.modules.pop(name, None)
        main = ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        self._main = sys.modules["__main__"] = main
        if Path(_FOLDER).is_dir():
            os.chdir(_FOLDER)
            import tempfile

            tempfile.tempdir = _FOLDER
        return main


def _run(code: str, name: str, namespace: dict[str, object]) -> None:
    """Run code; the value of an expression at its end is shown."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)  # noqa: S102 (this is what the component is for)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307
        if value is not None:
            namespace["_"] = value
            print(repr(value))


def _write_trace(failed: BaseException, err: _Output) -> str:
    """Write what was raised, without the frames of this module, and return its last line."""
    try:
        trace = traceback.TracebackException.from_exception(failed)
        trace.stack = traceback.StackSummary.from_list([each for each in trace.stack if each.filename != _OWN_FILE])
        text = "".join(trace.format())[-_MOST_ERROR:]
        last = "".join(trace.format_exception_only()).strip().splitlines()[-1]
    except Exception:  # noqa: BLE001 (the words of an error are code of the guest too)
        text = last = type(failed).__name__
    err.write(text if text.endswith("\n") else text + "\n")
    return last[:_MOST_ERROR]


_OWN_FILE = _write_trace.__code__.co_filename
