"""What the admin door answers, as tables for a terminal."""

import io
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.cli import main
from smg_core.commands.admin import AdminClient
from smg_core.commands.tables import as_tables

JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)
ROWS: list[Any] = [
    {"name": "grpc://a:1", "state": "ready", "models": ["m", "n"], "in_flight": 2, "labels": {}, "reason": ""},
    {
        "name": "grpc://gpu-12:50051",
        "state": "joining",
        "models": [],
        "in_flight": 0,
        "labels": {},
        "reason": "\x1b[2J",
    },
]


def test_rows_stand_in_columns_and_the_rest_in_lines() -> None:
    said = as_tables({"status": "ok", "version": "1", "workers": ROWS}, 100)

    assert said == (
        "status   ok\nversion  1\n\n"
        "NAME                 STATE    MODELS  IN_FLIGHT  REASON\n"
        "grpc://a:1           ready    m, n    2          -\n"
        "grpc://gpu-12:50051  joining  -       0          '\\x1b[2J'"
    )


def test_settings_that_are_as_by_default_are_counted() -> None:
    rows: list[Any] = [{"path": f"a.{at}", "value": at, "default": 0, "source": "file"} for at in range(3)]

    assert as_tables({"settings": rows}, 80) == (
        "PATH  VALUE  SOURCE\na.1   1      file\na.2   2      file\n1 more are as by default (--json has all)"
    )


@given(JSON, st.integers(20, 200))
def test_whatever_is_answered_is_lines_that_fit_and_move_no_cursor(answer: Any, width: int) -> None:
    said = as_tables(answer, width)

    assert all(line.isprintable() for line in said.split("\n"))
    if isinstance(answer, dict):
        assert all(len(line) <= width for line in said.split("\n"))


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Answer:
    text = json.dumps({"status": "ok"})

    @staticmethod
    def json() -> dict[str, str]:
        return {"status": "ok"}


@pytest.mark.parametrize(
    ("out", "flags", "said"),
    [
        (_Terminal(), [], "status  ok\n"),
        (_Terminal(), ["--json"], '{"status": "ok"}\n'),
        (io.StringIO(), [], '{"status": "ok"}\n'),
    ],
)
def test_a_terminal_gets_tables_and_a_pipe_json(
    out: io.StringIO, flags: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AdminClient, "ask", lambda *_: _Answer())
    monkeypatch.setattr(sys, "stdout", out)

    assert main(["health", "--admin", "http://127.0.0.1:1", *flags]) == 0
    assert out.getvalue() == said
