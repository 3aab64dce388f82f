"""A format of the answer, beside reasoning and tools: what the model may write, by the families' own ways of writing.

The tags are judged by `tags`, which follows every reading of a text: an answer may begin like a call.
"""

from typing import Any

import pytest
from tests.parsers.constraints.test_constraints import (
    MARKED,
    NOTHING,
    OTHER_TOOL,
    PARIS,
    TAGGED,
    TOOLS,
    WEATHER,
    WRONG_TYPE,
    tool,
    written,
)
from tests.parsers.tags import Tag
from tests.parsers.writers import WRITERS, calls, reasoning, text

from smg_parsers import FAMILIES, CallStart, Parser, Text
from smg_parsers.constraints.constraints import SHAPES, ConstraintUnsupported, FamilyConstraint, constrain
from smg_parsers.constraints.shapes import Shape
from smg_parsers.families.reasoning import marks_of

pytestmark = pytest.mark.sampled(keep=24)

NO_SHAPE = Shape("", "", None)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
ANSWER = {"type": "json_schema", "json_schema": PERSON}
ADA = '{"name": "Ada <b>"}'
THOUGHT = "Is it {this}, <b>or</b> that?"
THINKING = sorted(name for name, row in FAMILIES.items() if marks_of(row.thinking) or SHAPES.get(name, NO_SHAPE).think)


def accepts(constraint: FamilyConstraint | None, output: str) -> bool:
    """Whether the engine lets the model write all of ``output``, and stop there."""
    assert constraint is not None
    assert constraint.kind == "structural_tag"
    return Tag(constraint.value).accepts(output)


def marks(family: str) -> Any:
    """The pairs of markers of the family's reasoning, as those who know its row pass them: first the pair that models write."""
    found = marks_of(FAMILIES[family].thinking)
    if found and FAMILIES[family].headed:
        return [SHAPES[family].think]  # the headers of messages are a part of its markers
    form = WRITERS.get(family)
    begin = form.think[0].strip() if form is not None and form.think else ""
    return sorted(found, key=lambda pair: pair[0].strip() != begin) or None


def outputs(family: str, *pieces: Any, opened: bool) -> str:
    """What the family writes, with the reasoning begun by the prompt if that has ``opened`` it."""
    if family in WRITERS and (WRITERS[family].think or not any(piece.kind == "reasoning" for piece in pieces)):
        return WRITERS[family].render(pieces, in_reasoning=opened).removesuffix("<|return|>")  # how gpt-oss ends a turn
    begin, end = marks(family)[0]
    bodies = [begin * (not opened) + piece.body + end if piece.kind == "reasoning" else piece.body for piece in pieces]
    return "".join(bodies)


def heard(family: str, output: str, *, opened: bool) -> tuple[str, list[str]]:
    """The answer and the names of the calls that the family's parser finds."""
    pieces = Parser(FAMILIES[family], tools=TOOLS, in_reasoning=opened).parse(output)
    said = "".join(piece.text for piece in pieces if isinstance(piece, Text))
    return said.strip(), [piece.name for piece in pieces if isinstance(piece, CallStart)]


@pytest.mark.parametrize("family", [family for family in THINKING if marks(family)])
def test_an_answer_is_held_to_its_format_behind_the_reasoning_that_the_prompt_has_opened(family: str) -> None:
    constraint = constrain(family, [], marks=marks(family), in_reasoning=True, answer=ANSWER)

    whole = outputs(family, reasoning(THOUGHT), text(ADA), opened=True)
    assert accepts(constraint, whole), whole
    assert heard(family, whole, opened=True) == (ADA, [])
    for other in (ADA, THOUGHT, THOUGHT + marks(family)[0][1], whole + " and so on"):
        assert not accepts(constraint, other), other
    assert not accepts(constraint, outputs(family, reasoning(THOUGHT), text("Ada"), opened=True))


@pytest.mark.parametrize("family", THINKING)
def test_a_model_that_opens_its_reasoning_itself_may_do_so_before_an_answer_of_a_format(family: str) -> None:
    constraint = constrain(family, [], marks=marks(family), answer=ANSWER)

    for pieces in ((reasoning(THOUGHT), text(ADA)), (text(ADA),)):
        whole = outputs(family, *pieces, opened=False)
        assert accepts(constraint, whole), whole
        assert heard(family, whole, opened=False) == (ADA, [])
    for other in ("Ada", THOUGHT + ADA, ""):
        assert not accepts(constraint, other), other


@pytest.mark.parametrize("family", TAGGED)
@pytest.mark.parametrize("strict", [True, False])
def test_a_model_that_may_call_tools_answers_in_the_format_or_calls(family: str, strict: bool) -> None:
    offered = [tool("get_weather", WEATHER, strict=strict), tool("now", NOTHING, strict=strict)]
    constraint = constrain(family, offered, marks=(), answer=ANSWER)

    answer, called = outputs(family, text(ADA), opened=False), written(family, PARIS)
    for whole in (answer, called):
        assert accepts(constraint, whole), whole
    assert heard(family, answer, opened=False) == (ADA, [])
    assert heard(family, called, opened=False)[1] == ["get_weather"]
    for other in ("", "No.", "Let me look. " + called, written(family, OTHER_TOOL), called + " and so on"):
        assert not accepts(constraint, other), other
    assert accepts(constraint, written(family, WRONG_TYPE)) != strict
    assert constrain(family, offered, "required", marks=(), answer=ANSWER) == constrain(
        family, offered, "required", marks=()
    )
    assert not accepts(constrain(family, offered, "none", marks=(), answer=ANSWER), called)


@pytest.mark.parametrize("family", [family for family in TAGGED if family in THINKING])
def test_reasoning_may_come_before_the_choice_between_a_call_and_an_answer(family: str) -> None:
    opened = marks(family) is not None
    constraint = constrain(family, TOOLS, marks=marks(family), in_reasoning=opened, answer=ANSWER)

    if WRITERS[family].think:
        answer = outputs(family, reasoning(THOUGHT), text(ADA), opened=opened)
        called = outputs(family, reasoning(THOUGHT), calls(PARIS), opened=opened)
    else:
        answer, called = (THOUGHT + marks(family)[0][1] + each for each in (ADA, written(family, PARIS)))
    assert accepts(constraint, answer), answer
    assert accepts(constraint, called), called


def test_how_an_unknown_family_writes_calls_beside_an_answer_is_not_known() -> None:
    with pytest.raises(ConstraintUnsupported, match="not known"):
        constrain("kimi_vl", TOOLS, answer=ANSWER)
    with pytest.raises(ConstraintUnsupported, match="a response format here"):
        constrain("qwen3", [], kinds={"json_schema"}, answer=ANSWER)


@pytest.mark.parametrize("opened", [True, False])
def test_a_family_that_no_tag_describes_may_reason_before_a_forced_call(opened: bool) -> None:
    constraint = constrain("kimi_vl", TOOLS, "required", marks=marks("kimi_vl"), in_reasoning=opened)

    assert constraint is not None
    assert constraint.reads == "json"
    for thought in ("Which?◁/think▷\n",) if opened else ("◁think▷Which?◁/think▷\n", ""):
        assert accepts(constraint, thought + '[{"name": "now", "parameters": {}}]')
    assert not accepts(constraint, "Which?")


@pytest.mark.parametrize("family", [family for family in MARKED if family in THINKING and marks(family)])
def test_reasoning_that_the_prompt_has_opened_is_free_before_a_strict_call(family: str) -> None:
    constraint = constrain(family, TOOLS[:1], "auto", marks=marks(family), in_reasoning=True)
    thought = f"Should I write {SHAPES[family].trigger}?" + marks(family)[0][1]

    assert accepts(constraint, thought + "No call is needed.")
    assert accepts(constraint, thought + "Let me look. " + written(family, PARIS))
    assert not accepts(constraint, thought + "Let me look. " + written(family, WRONG_TYPE))
