"""What a rendered prompt says of reasoning: open, and by which marker; over; or neither."""

import pytest

from smg_parsers import FAMILIES
from smg_parsers.constraints.constraints import SHAPES
from smg_parsers.families.reasoning import TURNS, left_at, left_open, marks_of

ROWS = sorted(FAMILIES)


@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("turn", [TURNS[0] + "\n", "an unknown template: "])
def test_a_block_that_the_prompt_has_opened_is_known_by_its_marker_and_one_that_it_has_closed_is_over(
    name: str, turn: str
) -> None:
    thinking = FAMILIES[name].thinking
    for begin, end in marks_of(thinking):
        opened = f"{turn}{begin}"
        found, closed = left_at(opened, thinking)
        assert found is not None
        assert (found.strip(), dict(marks_of(thinking))[found], closed) == (begin.strip(), end, False)
        assert left_open(opened, thinking)
        over = f"{turn}{begin}\n\n{end}\n\n"
        assert left_at(over, thinking) == (None, True)
        assert left_at(turn, thinking) == (None, False)
        asked = f"{over}<|im_end|>{TURNS[0]}\n"  # what an earlier turn did is no matter
        assert left_at(asked, thinking) == (None, False)


def test_each_family_that_reasons_has_markers_that_a_constraint_can_name() -> None:
    for name, row in FAMILIES.items():
        thinks = bool(row.thinking.opens or row.headed)
        shape = SHAPES.get(name)
        assert bool(marks_of(row.thinking)) or thinks == (shape is not None and shape.think is not None), name


def test_the_marker_of_a_block_is_the_one_that_the_prompt_wrote() -> None:
    thinking = FAMILIES["k2_horizon"].thinking
    assert left_at(f"{TURNS[0]}\n<ifm|think_fast>", thinking) == ("<ifm|think_fast>", False)
    assert dict(marks_of(thinking))["<ifm|think_fast>"] == "</ifm|think_fast>"
    assert left_at("<｜User｜>hi<｜Assistant｜></think>", FAMILIES["deepseek_v31"].thinking) == (None, True)
    assert left_at("nothing at all", FAMILIES["plain"].thinking) == (None, False)
