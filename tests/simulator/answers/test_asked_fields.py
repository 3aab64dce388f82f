"""Fields that a prompt of DSPy asks for: each is there, in its type."""

import json
import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from smg_simulator.answers.asked_fields import asked_fields
from smg_simulator.answers.shapes import Shapes

SYSTEM = """Your output fields are:
1. `answer` (str):
2. `words` (list[str]):
All interactions will be structured in the following way, with the appropriate values filled in.

[[ ## answer ## ]]
{answer}

[[ ## words ## ]]
{words}        # note: the value you produce must adhere to the JSON schema: {"type": "array", "items": {"type": "string"}}

[[ ## completed ## ]]
"""
TYPES = {"count": "int", "kind": "Literal['good', 'bad']", "words": "list[str]"}
ASKED = (
    "Respond with the corresponding output fields, starting with the field `[[ ## answer ## ]]`, "
    + "".join(
        f"then `[[ ## {name} ## ]]` (must be formatted as a valid Python {kind}), " for name, kind in TYPES.items()
    )
    + "and then ending with the marker for `[[ ## completed ## ]]`."
)  # the words that DSPy 3.4.1 sends


def test_each_field_has_a_value_of_its_type_and_the_end_has_its_mark() -> None:
    reply = asked_fields(f"{SYSTEM}\nWhat is it?\n\n{ASKED}<|im_end|>", Shapes(), Random(1))

    assert reply is not None
    parts = re.split(r"\[\[ ## (\w+) ## \]\]\n", reply.text)[1:]
    found = {name: value.strip() for name, value in zip(parts[::2], parts[1::2], strict=True)}
    assert list(found) == ["answer", "count", "kind", "words", "completed"]
    assert found["answer"].endswith(".")
    assert (found["count"], found["kind"]) == ("7", "good")
    assert all(isinstance(each, str) for each in json.loads(found["words"]))


def test_a_prompt_that_asks_for_no_fields_is_answered_as_ever() -> None:
    assert asked_fields(SYSTEM, Shapes(), Random(1)) is None


@given(st.text(), st.text())
def test_any_prompt_is_answered_or_left(before: str, after: str) -> None:
    opening = "Respond with the corresponding output fields, starting with the field `[[ ## "

    reply = asked_fields(f"{before}{opening}{after}", Shapes(), Random(1))

    assert reply is not None
    assert reply.text.endswith("[[ ## completed ## ]]\n")
