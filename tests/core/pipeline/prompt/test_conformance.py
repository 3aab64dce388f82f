"""What becomes of a text that is not of its format."""

from typing import Any, Literal

import pytest

from smg_core.errors import FormatViolated
from smg_core.pipeline.prompt.conformance import Conformance, OnViolation, Verdict
from smg_core.pipeline.prompt.formats import output_check
from smg_core.request import JsonFormat, SchemaFormat

CITY = SchemaFormat({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})


def judged(
    text: str,
    on_violation: OnViolation,
    reason: Literal["stop", "length", "abort"] = "stop",
    *,
    calls: bool = False,
    asked: Any = CITY,
) -> tuple[str, Verdict]:
    """The text that is given, and the verdict on it."""
    check = output_check(asked)
    assert check is not None
    conformance = Conformance(check, on_violation)
    sent = "".join([conformance.feed(each) for each in text])
    verdict = conformance.finish(reason, calls=calls)
    return sent + verdict.rest, verdict


@pytest.mark.parametrize("on_violation", ["report", "error", "repair"])
def test_a_text_of_its_format_is_given_as_it_is(on_violation: OnViolation) -> None:
    text, verdict = judged('{"city": "Bern"}\n', on_violation)
    assert text == '{"city": "Bern"}\n'
    assert (verdict.violation, verdict.mended) == (None, False)


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_text_that_was_cut_off_is_closed(reason: Literal["stop", "length"]) -> None:
    text, verdict = judged('{"city": "Ber', "repair", reason)
    assert text == '{"city": "Ber"}'
    assert (verdict.violation, verdict.mended) == ("it was cut off", True)


def test_a_text_that_would_still_not_be_of_its_format_is_given_as_it_is_and_reported() -> None:
    text, verdict = judged('{"town": "Ber', "repair")
    assert text == '{"town": "Ber'
    assert not verdict.mended
    assert verdict.violation is not None
    assert "JSON" in verdict.violation


@pytest.mark.parametrize("on_violation", ["report", "error", "repair"])
def test_a_text_that_the_bound_on_tokens_cut_is_no_violation(on_violation: OnViolation) -> None:
    text, verdict = judged('{"town": "Ber', on_violation, "length")
    assert text == '{"town": "Ber'
    assert verdict.violation is None


def test_an_error_is_raised_where_that_is_wanted() -> None:
    with pytest.raises(FormatViolated) as raised:
        judged("{}", "error")

    assert "city" in raised.value.message
    assert "city" not in str(raised.value)  # a log has no word of an answer


@pytest.mark.parametrize("on_violation", ["report", "error", "repair"])
def test_beside_calls_a_text_need_not_be_of_the_format(on_violation: OnViolation) -> None:
    text, verdict = judged('I call: {"a', on_violation, calls=True)
    assert (text, verdict.violation) == ('I call: {"a', None)
    assert judged('{"a', on_violation, "abort")[0] == '{"a'


def test_words_and_fences_around_an_object_go() -> None:
    text, verdict = judged('```json\n{"a": 1}\n```\n', "repair", asked=JsonFormat())
    assert (text, verdict.violation, verdict.mended) == ('{"a": 1}', "it stands in a code fence", True)
    assert judged('{"a": 1} Enjoy!', "repair", asked=JsonFormat())[0] == '{"a": 1}'
