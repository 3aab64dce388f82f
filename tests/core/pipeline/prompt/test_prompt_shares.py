"""What a prompt consists of: the shares of every turn, and that the counts of each API which tells them add up."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.gemini.encode import usage_metadata
from smg_core.apis.interactions.object import interaction_usage
from smg_core.apis.transcriptions.wire import _usage_object
from smg_core.events import NO_USAGE, Usage
from smg_core.pipeline.prompt.prompt_shares import PromptShares

KINDS = ("image", "audio", "video")


@st.composite
def turns(draw: st.DrawFn) -> tuple[PromptShares, Usage]:
    media = draw(st.none() | st.dictionaries(st.sampled_from(KINDS), st.integers(0, 20)))
    prompt, output = draw(st.integers(0, 80)), draw(st.integers(0, 20))
    shares = PromptShares(draw(st.booleans()), media)
    return shares, Usage(prompt, output, draw(st.integers(0, prompt)), draw(st.integers(0, output)))


@given(st.lists(turns(), max_size=4))
def test_the_counts_of_a_response_add_up_whatever_its_turns_were(made: list[tuple[PromptShares, Usage]]) -> None:
    usage = sum([shares.with_shares(counted) for shares, counted in made], NO_USAGE)
    gemini: dict[str, Any] = usage_metadata(usage)
    interaction: dict[str, Any] = interaction_usage(usage)

    parts = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    assert sum(gemini.get(part, 0) for part in parts) == gemini["totalTokenCount"]
    assert gemini.get("cachedContentTokenCount", 0) <= gemini["promptTokenCount"]
    parts = ("total_input_tokens", "total_tool_use_tokens", "total_output_tokens", "total_thought_tokens")
    assert sum(interaction[part] for part in parts) == interaction["total_tokens"]
    assert interaction["total_cached_tokens"] <= interaction["total_input_tokens"]
    known = all(shares.hosted or _is_known(shares, counted) or not counted.prompt_tokens for shares, counted in made)
    assert ("promptTokensDetails" in gemini, "input_tokens_by_modality" in interaction) == (known, known)
    if known:
        counts = [each["tokenCount"] for each in gemini["promptTokensDetails"]]
        assert sum(counts) == gemini["promptTokenCount"]
        assert sum(each["tokens"] for each in interaction["input_tokens_by_modality"]) == gemini["promptTokenCount"]
        assert all(count > 0 for count in counts)


def _is_known(shares: PromptShares, counted: Usage) -> bool:
    return shares.media is not None and sum(shares.media.values()) <= counted.prompt_tokens


def test_the_counts_of_other_apis_stay_as_they_were() -> None:
    for shares in (PromptShares(True), PromptShares(media=None), PromptShares(media={"image": 3})):
        told = shares.with_shares(Usage(9, 4, 2, 1, 5))
        kept = (told.prompt_tokens, told.completion_tokens, told.cached_tokens, told.reasoning_tokens)
        assert (*kept, told.cache_write_tokens, told.rounds) == (9, 4, 2, 1, 5, 1)


def test_a_transcription_has_details_only_where_the_tokens_of_its_recording_are_known() -> None:
    told: dict[str, Any] = _usage_object(PromptShares(media={"audio": 6}).with_shares(Usage(9, 4)))
    assert told["input_token_details"] == {"audio_tokens": 6, "text_tokens": 3}
    assert "input_token_details" not in _usage_object(PromptShares(media=None).with_shares(Usage(9, 4)))
