"""What of a query is looked for, and how lists of results are put together."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.retrieval.fusion import fused
from smg_core.retrieval.words import index_words, looked_for, match_of, query_words, rewritten


def test_words_that_say_nothing_are_left_out_where_there_are_others() -> None:
    assert query_words("How do I open the socket?") == ["open", "socket"]
    assert query_words("what is it") == ["what", "is", "it"]
    assert query_words("\u706f\u5854\u770b lamp") == ["\u706f\u5854", "\u5854\u770b", "lamp"]
    assert len(query_words(" ".join(f"w{number}" for number in range(500)))) == 64


def test_frequent_words_are_left_out_once_enough_chunks_are_weighed() -> None:
    counts = {"rare": 10, "usual": 4000, "everywhere": 90_000, "nowhere": 0}
    assert looked_for(counts, counts, 5000) == ["rare", "usual"]
    assert looked_for(["everywhere", "nowhere"], counts, 5000) == ["everywhere"]


def test_a_rewritten_query_has_no_words_that_only_ask_and_is_never_empty() -> None:
    assert rewritten("Could you tell me how a lock is released?") == "lock released"
    assert rewritten("What is it?") == "What is it?"


@given(st.text())
def test_any_text_can_be_asked_for(text: str) -> None:
    asked = match_of(query_words(text))
    assert asked.count('"') == 2 * len(query_words(text))
    assert index_words(text).replace(" ", "") == text.replace(" ", "")


RANKS = st.lists(st.integers(0, 20), unique=True, max_size=10)


@given(st.lists(st.tuples(st.floats(0.1, 3), RANKS), min_size=1, max_size=4))
def test_scores_are_from_0_to_1_and_fall(lists: list[tuple[float, list[int]]]) -> None:
    found = fused(lists)

    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 + 1e-9 for score in scores)
    assert {each for each, _ in found} == {each for _, some in lists for each in some}


def test_what_is_first_in_every_list_scores_1() -> None:
    assert fused([(1.0, ["a", "b"]), (2.0, ["a", "c"])])[0] == ("a", 1.0)
    assert fused([(0.0, ["a"])]) == []
