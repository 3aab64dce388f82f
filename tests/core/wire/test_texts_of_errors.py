"""The texts that clients read: each API's own words for the same numbers."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core import errors
from smg_core.errors import PromptTooLong, RateLimited, SealBroken
from smg_core.wire.errors import anthropic_error, anthropic_text, gemini_error, gemini_text, in_stream_text

counts = st.integers(1, 10**7)


@pytest.mark.full
@given(counts, counts, counts)
def test_messages_has_two_texts_for_a_prompt_that_does_not_fit(prompt, requested, context):
    error = PromptTooLong(prompt, requested, context)
    said = json.loads(anthropic_error(error))["error"]["message"]
    if error.prompt_alone:
        found = re.fullmatch(r"prompt is too long: (\d+) tokens > (\d+) maximum", said)
        assert found is not None
        assert int(found[1]) == prompt > int(found[2])
    else:
        start = f"input length and `max_tokens` exceed context limit: {prompt} + {requested} > {context}, "
        assert said == start + "decrease input length or `max_tokens` and try again"


@pytest.mark.parametrize(
    ("error", "numbers"), [(PromptTooLong(50, 1, 40), ["50", "39"]), (PromptTooLong(30, 20, 40), ["30", "20", "40"])]
)
def test_gemini_names_the_count_of_the_input_and_the_most(error, numbers):
    said = json.loads(gemini_error(error))["error"]
    assert said["message"].startswith("The input token count")
    assert re.findall(r"\d+", said["message"]) == numbers
    assert said["details"][0]["fieldViolations"][0]["description"] == said["message"]


def test_a_broken_seal_is_an_invalid_signature_to_messages():
    error = SealBroken("tampered", param="messages.1.content.0")
    assert anthropic_text(error) == "Invalid `signature` in `thinking` block"
    assert json.loads(anthropic_error(error))["error"]["message"] == f"messages.1.content.0: {anthropic_text(error)}"


@pytest.mark.parametrize(("seconds", "said"), [(0, "1s"), (1.2, "2s"), (30, "30s")])
def test_a_stream_that_has_begun_names_the_pause_in_its_message(seconds, said):
    assert in_stream_text(RateLimited("Slow down.", retry_after=seconds)) == f"Slow down. Please try again in {said}."
    assert in_stream_text(RateLimited("Slow down.")) == "Slow down."


def test_other_errors_say_the_same_everywhere():
    error = errors.InvalidRequest("No.", param="n")
    assert anthropic_text(error) is gemini_text(error) is in_stream_text(error) is error.message
