"""The fate of each concept before Azure's Chat Completions. Pure. Above: the page of providers. Below: concepts."""

from collections.abc import Mapping

from smg_core.engines.vendors.concepts import ConceptCell, exact, lossy, turned_down

__all__ = ["CELLS", "MODEL"]

MODEL = "gpt-5"
"""The model that the cells are of."""
_UNMARKED = "left to the provider"
_FOREIGN = "left out, for the provider does not take it back"

CELLS: Mapping[str, ConceptCell] = {
    **exact("text", "system_front", "system_later", "assistant_first", "assistant_last", "message_name", "empty_text"),
    **exact("image", "image_url", "audio", "pdf", "text_file", "other_file", "file_id", "refusal", "calls"),
    **exact("unsigned_calls", "bad_arguments", "long_name", "namespace", "result_value", "choice_none", "required"),
    **exact("one_tool", "required_thinking", "parallel_off", "strict", "schema", "schema_keywords", "json"),
    **exact("max_tokens", "temperature", "hot", "top_p", "penalties", "seed", "stop", "n", "logprobs", "logit_bias"),
    **exact("effort", "visible", "cache_key", "verbosity", "user", "metadata", "service_tier", "extra"),
    **lossy("result_media", "in a turn of the user behind the results"),
    **lossy("is_error", "text", "tool_error"),
    **lossy("own_reasoning", _FOREIGN, "reasoning"),
    **lossy("foreign_reasoning", _FOREIGN, "reasoning"),
    **lossy("cache", _UNMARKED),
    **lossy("many_marks", _UNMARKED, "cache"),
    **turned_down("video", "file_title", "file_citations", "hosted_tool", "deferred", "tool_examples", "regex"),
    **turned_down("choice", "top_k", "min_p", "repetition_penalty", "budget", "reasoning_off"),
}
"""Every concept's cell."""
