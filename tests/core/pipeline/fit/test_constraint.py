"""What an engine is told to hold an answer to: a format is the answer's alone, behind reasoning and beside calls of tools."""

import json
from typing import Any

import attrs
import pytest
from tests.core.pipeline.prompt.test_prepare import asking, model
from tests.origins import ORIGINS
from tests.parsers.constraints.test_answer_constraints import ADA, PERSON, THINKING, THOUGHT, marks, outputs
from tests.parsers.constraints.test_constraints import OTHER_TOOL, PARIS, TAGGED, WEATHER, WRONG_TYPE, written
from tests.parsers.tags import Tag
from tests.parsers.writers import reasoning, text

from smg_core.engines.base import EngineFacts
from smg_core.engines.constraint import Constraint, HoldsFrom
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.pipeline.fit.fit import FitForIds, fit
from smg_core.pipeline.prompt.prepare import assemble
from smg_core.request import (
    ChoiceFormat,
    CustomTool,
    FunctionTool,
    GrammarFormat,
    JsonFormat,
    ReasoningSettings,
    RegexFormat,
    ResponseFormat,
    SchemaFormat,
    StructuralTagFormat,
    TextFormat,
    ToolChoice,
)
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds
from smg_parsers.families.models import family

pytestmark = pytest.mark.sampled(keep=24)

TURN = "<|im_start|>assistant\n"
ALL = frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"})
ABLE = EngineFacts("test", constraints=ALL)
UNABLE = attrs.evolve(ABLE, constraints=ALL - {"structural_tag"})
SCHEMA = SchemaFormat(PERSON)
PLAIN = Constraint("json_schema", json.dumps(PERSON, separators=(",", ":")))
LOOSE = FunctionTool("get_weather", None, WEATHER)
STRICT = FunctionTool("get_weather", None, WEATHER, strict=True)
OFF = ReasoningSettings(enabled=False)


def fitted(name: str, prompt: str = TURN, facts: EngineFacts = ABLE, *, served: Any = None, **fields: Any) -> FitForIds:
    """What an engine is sent for a rendered `prompt` of a model of the family."""
    request = asking(**{"response_format": SCHEMA, **fields})
    row = model(parser=family(name), context_length=0, **(served or {}))
    found = fit(assemble(request, row, prompt, EncodeReport(TokenIds([5]), 0)), facts)
    assert isinstance(found, FitForIds)
    return found


def held(name: str, prompt: str = TURN, facts: EngineFacts = ABLE, **fields: Any) -> Constraint | None:
    return fitted(name, prompt, facts, **fields).request.constraint


def accepts(constraint: Constraint | None, output: str) -> bool:
    assert constraint is not None
    assert constraint.kind == "structural_tag"
    return Tag(constraint.value).accepts(output)


def opened(name: str) -> str:
    """A prompt that has opened the reasoning of the family."""
    row = family(name)
    return TURN + (row.thinking.opens if row.headed else marks(name)[0])[0]


def closed(name: str) -> str:
    """A prompt of a template that has switched the reasoning off."""
    begin, end = marks(name)[0]
    return f"{TURN}{begin}\n\n{end}\n\n"


OPENED = [name for name in THINKING if marks(name)]
# Where an answer begins with a header of its message, the header is a part of the format.
UNHEADED = [name for name in OPENED if not family(name).headed]
HEADED = sorted(set(OPENED) - set(UNHEADED))


# ------------------------------------------------------------------------------------------------------------ reasoning


@pytest.mark.parametrize("name", OPENED)
def test_where_the_prompt_has_opened_the_reasoning_the_format_begins_behind_its_end(name: str) -> None:
    constraint = held(name, opened(name))

    whole = outputs(name, reasoning(THOUGHT), text(ADA), opened=True)
    assert accepts(constraint, whole), whole
    for other in (ADA, THOUGHT, whole + " and so on", outputs(name, reasoning(THOUGHT), text("Ada"), opened=True)):
        assert not accepts(constraint, other), other


@pytest.mark.parametrize("name", THINKING)
def test_a_model_that_opens_its_reasoning_itself_may_do_so_before_the_format(name: str) -> None:
    constraint = held(name)

    for pieces in ((reasoning(THOUGHT), text(ADA)), (text(ADA),)):
        assert accepts(constraint, outputs(name, *pieces, opened=False))
    assert not accepts(constraint, "Ada")


@pytest.mark.parametrize("name", UNHEADED)
def test_without_reasoning_the_format_is_the_whole_constraint(name: str) -> None:
    assert held(name, closed(name)) == PLAIN
    assert held(name, reasoning=OFF) == PLAIN
    assert held(name, reasoning=ReasoningSettings(effort="none")) == PLAIN
    assert held(name, served={"thinks": False}) == PLAIN
    assert held(name, served={"thinks": False}, reasoning=ReasoningSettings(effort="high")) != PLAIN


@pytest.mark.parametrize("name", sorted(set(TAGGED) - set(THINKING)))
def test_a_family_without_reasoning_has_the_format_as_its_constraint(name: str) -> None:
    assert held(name) == PLAIN


@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("name", OPENED)
@pytest.mark.parametrize(("starts", "told"), [("after_reasoning", False), ("as_told", True)])
def test_an_engine_that_waits_for_the_end_of_reasoning_is_sent_the_format_as_it_is(
    name: str, starts: HoldsFrom, told: bool
) -> None:
    waiting = attrs.evolve(UNABLE, holds_from=starts)
    found = fitted(name, opened(name), waiting).request

    assert (found.constraint, found.after_reasoning) == (PLAIN, told)
    assert not fitted(name, closed(name), waiting).request.after_reasoning
    assert not fitted(name, opened(name), waiting, response_format=TextFormat()).request.after_reasoning


@pytest.mark.parametrize("name", UNHEADED)
def test_an_engine_that_may_wait_is_sent_what_is_right_if_it_does_and_if_it_does_not(name: str) -> None:
    facts = attrs.evolve(ABLE, holds_from="unknown")
    for prompt, began in ((opened(name), True), (TURN, False)):
        constraint = held(name, prompt, facts)
        assert accepts(constraint, outputs(name, reasoning(THOUGHT), text(ADA), opened=began))
        assert accepts(constraint, "\n\n" + ADA)
        assert not accepts(constraint, "Ada")
    forced = held(name, opened(name), facts, tools=(STRICT,), tool_choice=ToolChoice("required"))
    for thought in (THOUGHT + marks(name)[0][1], "") if name in TAGGED else ():
        assert accepts(forced, f"{thought}\n\n{written(name, PARIS)}")


def test_a_header_of_the_answer_is_written_into_the_constraint_unless_the_engine_waits_for_it() -> None:
    assert accepts(held("harmony", "<|start|>assistant", reasoning=OFF), "<|channel|>final<|message|>" + ADA)
    for starts in ("after_reasoning", "unknown"):
        waiting = attrs.evolve(UNABLE, holds_from=starts)
        assert held("harmony", "<|start|>assistant", waiting, tools=(LOOSE,)) == PLAIN


@pytest.mark.parametrize("name", UNHEADED)
def test_what_follows_reasoning_that_the_gateway_closes_is_held_to_the_format_at_once(name: str) -> None:
    asked = {"origin": ORIGINS["messages"], "reasoning": ReasoningSettings(enabled=True, budget_tokens=5)}
    for prompt in (opened(name), TURN):
        found = fitted(name, prompt, **asked)
        assert found.budget is not None
        assert found.budget.constraint == PLAIN
        assert found.request.constraint != PLAIN
        assert prompt == TURN or found.budget.marker == marks(name)[0][1]
    if name in TAGGED:
        forced = fitted(name, opened(name), **asked, tools=(STRICT,), tool_choice=ToolChoice("required")).budget
        assert forced is not None
        assert accepts(forced.constraint, written(name, PARIS))
        assert not accepts(forced.constraint, THOUGHT + marks(name)[0][1] + written(name, PARIS))


@pytest.mark.parametrize("name", HEADED)
def test_an_answer_behind_reasoning_that_is_over_is_held_to_its_header_and_the_format(name: str) -> None:
    answer = outputs(name, text(ADA), opened=False)
    for constraint in (held(name, closed(name)), held(name, reasoning=OFF), held(name, served={"thinks": False})):
        assert accepts(constraint, answer)
        assert not accepts(constraint, ADA)
    assert held(name, TURN, attrs.evolve(ABLE, holds_from="unknown")) == PLAIN  # it waits for the header of the answer
    asked = {"origin": ORIGINS["messages"], "reasoning": ReasoningSettings(enabled=True, budget_tokens=5)}
    for prompt in (opened(name), TURN):
        budget = fitted(name, prompt, **asked).budget
        assert budget is not None
        assert budget.marker == marks(name)[0][1]
        assert accepts(budget.constraint, answer)
        assert not accepts(budget.constraint, THOUGHT + answer)


# ---------------------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize("tool", [LOOSE, STRICT], ids=["loose", "strict"])
def test_a_model_that_may_call_tools_answers_in_the_format_or_calls(name: str, tool: FunctionTool) -> None:
    constraint = held(name, tools=(tool,), reasoning=OFF)

    assert accepts(constraint, outputs(name, text(ADA), opened=False))
    assert accepts(constraint, written(name, PARIS))
    assert accepts(constraint, written(name, WRONG_TYPE)) == (tool is LOOSE)
    for other in ("No call.", written(name, OTHER_TOOL), "Let me look. " + written(name, PARIS)):
        assert not accepts(constraint, other), other


@pytest.mark.parametrize("name", [name for name in TAGGED if name in OPENED])
def test_behind_reasoning_that_the_prompt_has_opened_the_model_answers_or_calls(name: str) -> None:
    constraint = held(name, opened(name), tools=(LOOSE,))

    thought = THOUGHT + marks(name)[0][1]
    assert accepts(constraint, f"{thought}\n{ADA}")
    assert accepts(constraint, thought + "\n" * (name in UNHEADED) + written(name, PARIS))
    assert not accepts(constraint, written(name, PARIS))


@pytest.mark.parametrize("name", TAGGED)
def test_a_call_that_must_be_made_takes_the_place_of_the_format_and_tools_that_may_not_be_called_change_nothing(
    name: str,
) -> None:
    forced = held(name, tools=(LOOSE,), tool_choice=ToolChoice("required"), reasoning=OFF)
    assert not accepts(forced, ADA)
    assert accepts(forced, written(name, PARIS))
    never = ToolChoice("none")
    assert held(name, tools=(LOOSE,), tool_choice=never, reasoning=OFF) == held(name, reasoning=OFF)


def test_a_family_that_writes_no_calls_answers_in_the_format() -> None:
    assert held("kimi_vl", tools=(LOOSE,), reasoning=OFF) == PLAIN


# ------------------------------------------------------------------------------------------------------- other formats


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        (JsonFormat(), ADA, "[1]"),
        (RegexFormat("[a-c]+"), "abc", "abd"),
        (ChoiceFormat(("yes", "no")), "no", "nor"),
        (GrammarFormat('root ::= "a" "b"'), "ab", "a"),
        (GrammarFormat('start: "a" /[bc]+/'), "abc", "a"),
    ],
    ids=["object", "regex", "choice", "EBNF", "Lark"],
)
def test_every_format_may_stand_behind_reasoning_and_beside_calls(asked: ResponseFormat, good: str, bad: str) -> None:
    for tools in ((), (LOOSE,)):
        constraint = held("qwen3", opened("qwen3"), response_format=asked, tools=tools)
        assert accepts(constraint, f"Hm.</think>{good}")
        assert not accepts(constraint, f"Hm.</think>{bad}")
        # white space before JSON is nothing, but before another text it is part of that
        assert accepts(constraint, f"Hm.</think>\n\n{good}") == isinstance(asked, JsonFormat)


def test_a_tag_of_the_client_is_of_the_whole_output() -> None:
    tag = '{"type":"structural_tag","format":{"type":"any_text"}}'
    for tools in ((), (LOOSE,)):
        found = held("qwen3", opened("qwen3"), response_format=StructuralTagFormat(tag), tools=tools)
        assert found == Constraint("structural_tag", tag)


# ---------------------------------------------------------------------------------- engines that take no structural tags


@pytest.mark.parametrize("name", OPENED)
def test_a_format_that_cannot_be_told_apart_from_reasoning_is_checked_or_refused_and_never_the_whole_grammar(
    name: str,
) -> None:
    for policy in ("error", "repair"):
        found = fitted(name, opened(name), UNABLE, served={"on_violation": policy})
        assert found.request.constraint is None
        assert found.plan.check is not None
    for asked in (SCHEMA, JsonFormat(), RegexFormat("a")):
        with pytest.raises(UnsupportedParameter, match="behind its reasoning") as caught:
            fitted(name, opened(name), UNABLE, response_format=asked)
        assert caught.value.param == "response_format"
    # A model that only may reason can be kept from it; one that is asked to cannot.
    assert held(name, TURN, UNABLE) == PLAIN
    with pytest.raises(UnsupportedParameter):
        held(name, TURN, UNABLE, reasoning=ReasoningSettings(enabled=True))


def test_nor_is_it_where_the_model_may_call_tools() -> None:
    found = fitted("qwen25", TURN, UNABLE, tools=(LOOSE,), served={"on_violation": "repair"})
    assert found.request.constraint is None
    for name in TAGGED:
        with pytest.raises(UnsupportedParameter) as caught:
            held(name, TURN, UNABLE, tools=(LOOSE,), reasoning=OFF)
        assert caught.value.param == "response_format"
    with pytest.raises(UnsupportedParameter) as caught:
        held("qwen25", TURN, UNABLE, tools=(STRICT,), served={"on_violation": "repair"})
    assert caught.value.param == "tool_choice"


# --------------------------------------------------------------------------------------------------- what is only wished


def test_a_schema_that_need_not_be_kept_is_held_to_where_it_can_be_and_refused_nowhere() -> None:
    wished = SchemaFormat(PERSON, strict=False)
    for prompt, tools in ((TURN, ()), (opened("qwen3"), ()), (TURN, (LOOSE,))):
        found = fitted("qwen3", prompt, response_format=wished, tools=tools)
        assert found.request.constraint is not None
        assert not found.request.constraint.binding
        assert found.plan.check is None
        assert held("qwen3", prompt, EngineFacts("test"), response_format=wished, tools=tools) is None
    with pytest.raises(InvalidRequest):
        fitted("qwen3", response_format=SchemaFormat({"type": "nonsense"}, strict=False))


RESPONSES = ORIGINS["responses"]
ITSELF = FunctionTool("itself", None, {"type": "object", "properties": {"a": {"$ref": "#"}}})
WRONG = FunctionTool("wrong", None, {"type": "nonsense"})


@pytest.mark.parametrize("name", TAGGED)
def test_a_function_of_responses_that_does_not_say_so_is_strict_where_it_can_be(name: str) -> None:
    free: dict[str, Any] = {"response_format": TextFormat(), "reasoning": OFF}
    found = held(name, tools=(LOOSE,), origin=RESPONSES, **free)
    said = found is not None

    assert held(name, tools=(LOOSE,), origin=ORIGINS["chat"], **free) is None
    never = FunctionTool("get_weather", None, WEATHER, strict=False)
    assert held(name, tools=(never,), origin=RESPONSES, **free) is None
    assert held(name, facts=UNABLE, tools=(LOOSE,), origin=RESPONSES, **free) is None
    assert held(name, tools=(WRONG,), origin=RESPONSES, **free) is None
    if not said:  # nothing marks where a call begins
        return
    assert not found.binding
    assert accepts(found, "Well. " + written(name, PARIS))
    assert not accepts(found, "Well. " + written(name, WRONG_TYPE))
    beside = held(name, tools=(LOOSE, WRONG, ITSELF), origin=RESPONSES, **free)
    assert not accepts(beside, "Well. " + written(name, WRONG_TYPE))
    told = held(
        name, tools=(LOOSE, FunctionTool("now", None, {"type": "object"}, strict=True)), origin=RESPONSES, **free
    )
    assert told is not None
    assert told.binding


def test_a_format_beside_functions_of_responses_binds_and_their_schemas_are_held_to() -> None:
    found = held("qwen3", tools=(LOOSE,), origin=RESPONSES, reasoning=OFF)
    assert found is not None
    assert found.binding
    assert not accepts(found, written("qwen3", WRONG_TYPE))
    assert accepts(found, written("qwen3", PARIS))


def test_the_grammar_of_a_custom_tool_is_held_to_beside_a_format_too() -> None:
    shell = CustomTool("shell", None, "regex", "[a-z]+")
    found = held("qwen3", tools=(shell,), reasoning=OFF)
    call = '<tool_call>\n{"name": "shell", "arguments": {"input": "%s"}}\n</tool_call>'
    assert accepts(found, call % "ls")
    assert not accepts(found, call % "LS")
