"""What the URL of a history in SQLite names."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy.engine import make_url
from tests.history.conformance import record

from smg_core.history.opening import open_history
from smg_core.history.settings import HistoryConfig
from smg_core.history.sqlite.place import sqlite_place
from smg_core.settings import ConfigError
from smg_core.testing import FakeClock

pytestmark = pytest.mark.anyio


@given(st.text(min_size=1, max_size=30))
@example("a\nb")
@example("a?b#c%41")
def test_a_path_is_the_one_that_sqlalchemy_read_from_the_same_url(path: str) -> None:
    try:
        url = f"sqlite:///{quote(path)}"
    except UnicodeEncodeError:
        return
    try:
        found = sqlite_place(url)
    except ConfigError:
        refused = True
    else:
        refused = False
    assert refused == ("\x00" in path or path == ":memory:")
    if refused:
        return
    database = make_url(url).database
    assert found.name == (database if found.path is None else str(Path(database or "").absolute()))


@given(st.text(max_size=40))
def test_any_text_is_a_place_or_refused_in_a_sentence(text: str) -> None:
    for url in (text, f"sqlite:{text}", f"sqlite://{text}", f"sqlite:///{text}", f"sqlite:///a?{text}"):
        try:
            answer = sqlite_place(url).name
        except ConfigError as error:
            answer = str(error).partition("history.url: ")[2]
        assert answer


def test_a_uri_has_its_parameters_and_a_path_has_none() -> None:
    assert sqlite_place("sqlite:////a/b%20c").name == "/a/b c"
    assert sqlite_place("sqlite:////a/b?mode=rwc").name == "/a/b"
    found = sqlite_place("sqlite:///file:/a/b?uri=true&mode=rwc&cache=shared")
    assert (found.name, found.path) == ("file:/a/b?cache=shared&mode=rwc", None)
    assert sqlite_place("sqlite:///file:/a/b").path is None


@pytest.mark.parametrize("more", ["", "?uri=true", "?uri=true&mode=rwc"])
async def test_a_file_named_by_a_uri_is_made_and_used(more: str, tmp_path: Path, clock: FakeClock) -> None:
    store = await open_history(HistoryConfig(url=f"sqlite:///file:{tmp_path}/history.db{more}"), clock)
    await store.write("acme", [record(clock, "a")])
    assert await store.record("acme", "batch", "a") is not None
    await store.close()
    assert (tmp_path / "history.db").exists()
