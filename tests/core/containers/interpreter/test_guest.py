"""What is inside the component, run by this Python: outputs, errors and the namespace."""

import builtins
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from smg_core.containers.interpreter.guest import WitWorld


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[WitWorld]:
    """A world whose namespace has begun; what it does to this Python's modules is undone."""
    found, main, modules = list(sys.meta_path), sys.modules["__main__"], dict(sys.modules)
    yield WitWorld()
    sys.meta_path[:] = found
    sys.modules.update(modules)
    sys.modules["__main__"] = main


def ran(world: WitWorld, code: str, characters: int = 1000) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(world.run(json.dumps({"code": code, "characters": characters})))
    return answer


def test_the_value_of_the_last_expression_is_shown_and_names_stay(world: WitWorld) -> None:
    assert ran(world, "x = 2\nprint('hi')\nx + 1")["stdout"] == "hi\n3\n"
    assert ran(world, "x * 10")["stdout"] == "20\n"
    assert ran(world, "None")["stdout"] == ""
    assert ran(world, "_ + 1")["stdout"] == "21\n"


def test_an_error_is_told_with_its_lines_and_without_those_of_the_interpreter(world: WitWorld) -> None:
    found = ran(world, "def f():\n    return 1 / 0\nf()")
    assert found["error"] == "ZeroDivisionError: division by zero"
    assert "return 1 / 0" in found["stderr"]
    assert "guest.py" not in found["stderr"]
    assert ran(world, "f(")["error"].startswith("SyntaxError")


def test_an_output_that_is_too_long_is_cut_and_says_so(world: WitWorld) -> None:
    found = ran(world, "print('x' * 5000)", characters=100)
    assert found["stdout"] == "x" * 100
    assert found["cut"]
    assert not ran(world, "print('x')", characters=100)["cut"]


@pytest.mark.parametrize("name", ["subprocess", "numpy", "socket", "urllib.request", "asyncio"])
def test_a_module_that_is_not_there_says_why(world: WitWorld, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(world, "1")
    finder = sys.meta_path[-1]
    with pytest.raises(ModuleNotFoundError, match="this interpreter"):
        finder.find_spec(name, None)


def test_what_the_code_ends_with_is_an_error_and_not_the_end(world: WitWorld) -> None:
    assert ran(world, "raise SystemExit")["error"] is None
    assert ran(world, "raise SystemExit(3)")["error"] == "SystemExit: 3"
    assert ran(world, "raise KeyboardInterrupt")["error"].startswith("KeyboardInterrupt")
    assert ran(world, "class E(Exception):\n    def __str__(self): raise self\nraise E")["error"]


def test_what_the_code_does_to_its_outputs_is_gone_with_the_next_call(world: WitWorld) -> None:
    ran(world, "import sys\nsys.stdout = None\nsys.stderr = 3")
    assert ran(world, "print('back')")["stdout"] == "back\n"
    assert builtins.print is print
