"""The index of a store: what is put in is found by words and by vectors, and what is taken out is not."""

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.retrieval.chunking import TextChunk
from smg_core.retrieval.filters import Comparison
from smg_core.retrieval.index_search import SearchedIndex
from smg_core.retrieval.indexes import IndexFailed, IndexFull, Query, VectorsDiffer, vectors_as_bytes
from smg_core.retrieval.nearest import best_of, pack_vectors, similarities, unit_vector, unpack_vectors

MANY = 1 << 30


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchedIndex]:
    found = SearchedIndex(tmp_path / "a" / "s.index", MANY)
    yield found
    found.close()


def put(
    index: SearchedIndex, key: str, *texts: str, vectors: list[list[float]] | None = None, **attributes: str
) -> None:
    number = index.begin(key, f"{key}.txt")
    chunks = [TextChunk(text, place, place + len(text)) for place, text in enumerate(texts)]
    index.add(number, chunks, None if vectors is None else vectors_as_bytes(vectors), MANY)
    index.finish(number, key, attributes)


def words(index: SearchedIndex, text: str, **filters: str) -> list[str]:
    asked = None if not filters else Comparison("eq", *next(iter(filters.items())))
    (found,) = index.search([Query(text)], asked, 10)
    hits = index.hits([number for number, _ in found.words])
    return [hits[number].chunk.text for number, _ in found.words]


def near(index: SearchedIndex, vector: list[float], **filters: str) -> list[str]:
    asked = None if not filters else Comparison("eq", *next(iter(filters.items())))
    (found,) = index.search([Query("", vector)], asked, 10)
    hits = index.hits([number for number, _ in found.vectors])
    return [hits[number].chunk.text for number, _ in found.vectors]


def test_words_are_found_whatever_their_ending_and_operators_are_words(index: SearchedIndex) -> None:
    put(index, "a", "The keepers trimmed lamps.", "Bread.")

    assert words(index, "trimming a lamp") == ["The keepers trimmed lamps."]
    for hostile in ('bread" OR "lamps', "bread NOT lamps", "text:bread*", "NEAR(bread)", "'; DROP TABLE files;--bread"):
        assert "Bread." in words(index, hostile)
    assert words(index, "\"\"''()*^-") == []
    assert words(index, "of the") == ["The keepers trimmed lamps."]


def test_a_file_is_found_once_it_is_whole_and_not_any_more_when_it_is_taken_out(index: SearchedIndex) -> None:
    number = index.begin("a", "a.txt")
    index.add(number, [TextChunk("lamp", 0, 4)], vectors_as_bytes([[1.0, 0.0]]), MANY)
    assert words(index, "lamp") == near(index, [1.0, 0.0]) == []
    index.finish(number, "a", {})
    assert words(index, "lamp") == near(index, [1.0, 0.0]) == ["lamp"]
    index.remove("a")
    assert words(index, "lamp") == near(index, [1.0, 0.0]) == []
    assert index.connection.execute("SELECT value FROM meta WHERE name = 'chunks'").fetchone() == (0,)
    assert index.connection.execute("SELECT value FROM meta WHERE name = 'vector_bytes'").fetchone() == (0,)


def test_a_file_that_is_put_in_again_takes_the_place_of_its_earlier_self_at_its_end(index: SearchedIndex) -> None:
    put(index, "a", "old lamp")
    number = index.begin("a", "a.txt")
    index.add(number, [TextChunk("new lamp", 0, 8)], None, MANY)
    assert words(index, "lamp") == ["old lamp"]
    again = index.begin("a", "a.txt")  # the process was killed, and this is another
    with pytest.raises(IndexFailed):
        index.add(number, [TextChunk("late lamp", 0, 9)], None, MANY)
    index.add(again, [TextChunk("new lamp", 0, 8)], None, MANY)
    index.finish(again, "a", {})
    assert words(index, "lamp") == ["new lamp"]


def test_filters_narrow_words_and_vectors_and_attributes_can_change(index: SearchedIndex) -> None:
    put(index, "a", "lamp one", vectors=[[1.0, 0.0]], kind="x")
    put(index, "b", "lamp two", vectors=[[0.9, 0.1]], kind="y")

    assert words(index, "lamp", kind="y") == near(index, [1.0, 0.0], kind="y") == ["lamp two"]
    assert near(index, [1.0, 0.0]) == ["lamp one", "lamp two"]
    index.set_attributes("a", {"kind": "y"})
    assert len(words(index, "lamp", kind="y")) == 2
    assert words(index, "lamp", kind="x") == []


def test_another_connection_s_changes_are_seen(tmp_path: Path, index: SearchedIndex) -> None:
    assert words(index, "lamp") == []
    other = SearchedIndex(index.path, MANY)
    put(other, "a", "lamp", vectors=[[1.0, 0.0]])
    assert words(index, "lamp") == near(index, [1.0, 0.0]) == ["lamp"]
    other.remove("a")
    put(other, "b", "light", vectors=[[1.0, 0.0]])
    assert near(index, [1.0, 0.0]) == ["light"]
    other.close()


def test_the_bound_of_chunks_is_kept_and_what_was_put_in_stays(index: SearchedIndex) -> None:
    put(index, "a", "lamp")
    number = index.begin("b", "b.txt")
    with pytest.raises(IndexFull):
        index.add(number, [TextChunk("lamp", 0, 4)] * 2, None, 2)
    assert words(index, "lamp") == ["lamp"]


@pytest.mark.parametrize("most", [0, MANY])
def test_vectors_that_do_not_fit_into_memory_are_found_all_the_same(tmp_path: Path, most: int) -> None:
    index = SearchedIndex(tmp_path / "s.index", most)
    rng = random.Random(5)
    vectors = [[rng.gauss(0, 1) for _ in range(4)] for _ in range(300)]
    for begin in range(0, 300, 50):
        put(index, str(begin), *map(str, range(begin, begin + 50)), vectors=vectors[begin : begin + 50])

    units = np.array([unit_vector(each) for each in vectors])
    expected = [str(each) for each in np.argsort(-(units @ units[7]))[:10]]

    assert near(index, vectors[7]) == expected
    assert index.memory == 0 if most == 0 else index.memory > 0
    index.close()


def test_vectors_of_another_length_are_near_to_nothing(index: SearchedIndex) -> None:
    put(index, "a", "lamp", vectors=[[1.0, 0.0]])
    assert near(index, [1.0, 0.0, 0.0]) == []
    assert near(index, [float("nan"), 0.0]) == ["lamp"]  # as far as any other
    with pytest.raises(VectorsDiffer, match="vectors of 3 numbers"):
        put(index, "b", "light", vectors=[[1.0, 0.0, 0.0]])


def test_a_file_that_is_no_database_is_a_failure_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "s.index").write_bytes(b"nonsense" * 1000)
    with pytest.raises(IndexFailed):
        SearchedIndex(tmp_path / "s.index", MANY)


def test_a_full_disk_is_said_and_the_index_is_as_before(index: SearchedIndex) -> None:
    put(index, "a", "lamp")
    pages = index.connection.execute("PRAGMA page_count").fetchone()[0]
    index.connection.execute(f"PRAGMA max_page_count={pages}")
    number = index.begin("b", "b.txt")
    with pytest.raises(IndexFailed) as refused:
        index.add(number, [TextChunk("lamp " * 5000, 0, 25000)] * 20, None, MANY)
    assert refused.value.status == 503
    assert words(index, "lamp") == ["lamp"]
    assert isinstance(refused.value.__cause__, sqlite3.Error)


NUMBERS = st.floats(-1e6, 1e6, allow_nan=False, width=32)


@settings(max_examples=examples(100))
@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=20), st.integers(1, 25))
def test_the_nearest_are_those_of_a_plain_comparison(vectors: list[list[float]], most: int) -> None:
    query = unit_vector(vectors[0])
    units = np.array([unit_vector(each) for each in vectors])

    found = similarities(unpack_vectors(pack_vectors(vectors), 3), query)

    assert np.abs(found - units @ query).max() < 1e-4
    plain = sorted(range(len(vectors)), key=lambda place: (-found[place], place))[:most]
    assert best_of(found, most) == plain
