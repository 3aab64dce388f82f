"""How a text that is still being written is cut into pieces that are spoken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.realtime.wire.sentences import Sentences


def pieces(*texts: str) -> list[str]:
    cutter = Sentences()
    return [piece for text in texts for piece in cutter.more(text)] + cutter.last()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Hi. ", "How are you today, my friend? ", "Fine"), ["Hi.", " How are you today, my friend?", " Fine"]),
        (("It is 3", ".", "14 here."), ["It is 3.14 here."]),
        (('"Go." ', "She went."), ['"Go."', " She went."]),
        (("Hello. A. B. C. And this is all of it. Yes",), ["Hello.", " A. B. C. And this is all of it.", " Yes"]),
        (("今日は。元気ですか",), ["今日は。", "元気ですか"]),
        (("   ",), []),
    ],
)
def test_a_piece_ends_with_a_sentence(texts: tuple[str, ...], expected: list[str]) -> None:
    assert pieces(*texts) == expected


@given(st.lists(st.text(alphabet='ab. !?\n"3。', max_size=300), max_size=8))
def test_nothing_of_a_text_is_lost_and_no_piece_is_long(texts: list[str]) -> None:
    found = pieces(*texts)
    assert "".join(found).split() == "".join(texts).split()
    assert all(piece.strip() for piece in found)
    assert all(len(piece) <= 401 for piece in found)
