"""Tracebacks without the text of their exceptions: classes and places stay, whatever led to what."""

import asyncio
import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.observability.logs import configure
from smg_core.observability.wordless import without_words

SECRET = "sekrit-1234"


class OfOurs(ValueError):
    """An exception whose constructor wants more than a text."""

    def __init__(self, one: str, *, other: str) -> None:
        super().__init__(one, other)

    def __str__(self) -> str:
        return f"{SECRET} {self.args}"


def cause_and_context() -> None:
    try:
        int(SECRET)
    except ValueError as error:
        try:
            {}[SECRET]
        except KeyError:
            raise OfOurs(SECRET, other=SECRET) from error


def group() -> None:
    raise BaseExceptionGroup(SECRET, [ValueError(SECRET), BaseExceptionGroup(SECRET, [KeyboardInterrupt(SECRET)])])


def noted() -> None:
    error = KeyError(SECRET)
    error.add_note(SECRET)
    raise error


def syntax() -> None:
    compile(f"{SECRET} = = 1", SECRET, "exec")


def missing() -> None:
    Path(f"/nowhere/{SECRET}").read_text()


def circle() -> None:
    first, second = ValueError(SECRET), KeyError(SECRET)
    first.__cause__, second.__context__ = second, first
    raise first


FAULTS: tuple[tuple[Callable[[], None], tuple[str, ...]], ...] = (
    (cause_and_context, ("ValueError", "OfOurs", "direct cause", "in cause_and_context")),
    (group, ("BaseExceptionGroup", "ValueError", "KeyboardInterrupt", "in group")),
    (noted, ("KeyError", "in noted")),
    (syntax, ("SyntaxError", "in syntax")),
    (missing, ("FileNotFoundError", "in missing")),
    (circle, ("ValueError", "KeyError", "in circle")),
)


def raised(fault: Callable[[], None]) -> BaseException:
    try:
        fault()
    except BaseException as error:  # noqa: BLE001  (faults of every class)
        return error
    raise AssertionError


@pytest.mark.parametrize(("fault", "kept"), FAULTS)
def test_a_copy_prints_classes_and_places_and_no_text(fault: Callable[[], None], kept: tuple[str, ...]) -> None:
    error = raised(fault)
    before = "".join(traceback.format_exception(error))
    printed = "".join(traceback.format_exception(without_words(error)))

    assert SECRET in before
    assert SECRET not in printed
    assert all(each in printed for each in kept)
    assert "".join(traceback.format_exception(error)) == before


@given(st.lists(st.integers(0, 1 << 20), max_size=120))
def test_however_many_exceptions_a_group_has_few_are_shown(parents: list[int]) -> None:
    members: list[list[BaseException]] = [[] for _ in range(len(parents) + 1)]
    for at in range(len(parents), 0, -1):  # exception `at` is a member of one with a lower number
        error = ExceptionGroup(SECRET, members[at]) if members[at] else ValueError(SECRET)  # type: ignore[type-var]
        members[parents[at - 1] % at].append(error)

    def count(error: BaseException) -> int:
        return 1 + sum(map(count, error.exceptions)) if isinstance(error, BaseExceptionGroup) else 1

    copied = without_words(BaseExceptionGroup(SECRET, members[0]) if members[0] else ValueError(SECRET))

    assert count(copied) <= 2 * 32  # a group has one member at least, where the others are left out
    assert SECRET not in "".join(traceback.format_exception(copied))


def test_a_long_chain_is_cut() -> None:
    error: BaseException = ValueError(SECRET)
    for _ in range(5_000):
        error, before = ValueError(SECRET), error
        error.__cause__ = before

    printed = "".join(traceback.format_exception(without_words(error)))

    assert printed.count("ValueError") == 32


@pytest.fixture
def restored() -> object:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_writes_no_text_of_exceptions_of_other_packages(
    form: str, restored: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgotten() -> None:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "Task exception was never retrieved", "exception": raised(noted), "task": SECRET}
        )

    configure("info", form)  # type: ignore[arg-type]
    logging.getLogger("another.package").error("it failed", exc_info=raised(cause_and_context))
    asyncio.run(forgotten())
    written = capsys.readouterr().err

    assert SECRET not in written
    assert "Task exception was never retrieved" in written
    assert "in cause_and_context" in written
    if form == "json":
        assert [json.loads(line)["logger"] for line in written.splitlines()] == ["another.package", "asyncio"]
