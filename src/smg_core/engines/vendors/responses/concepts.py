"""The fate of each concept before Responses. Pure. Above: the page of providers. Below: concepts."""

from collections.abc import Mapping

from smg_core.engines.vendors.concepts import ConceptCell, exact, lossy, turned_down

__all__ = ["CELLS", "MODEL"]

MODEL = "gpt-6-astra"
"""The model that the cells are of."""
_UNMARKED = "the provider's own, without marks"

CELLS: Mapping[str, ConceptCell] = {
    **exact(
        "unsigned_calls",
        "text",
        "system_front",
        "system_later",
        "assistant_first",
        "empty_text",
        "image",
        "image_url",
        "pdf",
    ),
    **exact("text_file", "other_file", "file_title", "refusal", "calls", "bad_arguments", "long_name", "namespace"),
    **exact("result_value", "result_media", "choice_none", "required", "one_tool", "required_thinking", "parallel_off"),
    **exact("strict", "schema", "schema_keywords", "json", "max_tokens", "temperature", "hot", "top_p", "logprobs"),
    **exact("effort", "reasoning_off", "visible", "own_reasoning", "cache_key", "verbosity", "user", "metadata"),
    **exact("service_tier"),
    **lossy("is_error", "a text that says so"),
    **lossy("tool_examples", "in the description"),
    **lossy("budget", "an effort", "budget_tokens"),
    **lossy("foreign_reasoning", "left out, for another account or model has made it", "reasoning"),
    **lossy("cache", _UNMARKED),
    **lossy("many_marks", _UNMARKED, "cache"),
    **turned_down("assistant_last", "message_name", "audio", "video", "file_citations", "file_id", "hosted_tool"),
    **turned_down("deferred", "regex", "choice", "top_k", "min_p", "repetition_penalty", "penalties", "seed", "stop"),
    **turned_down("n", "logit_bias", "extra"),
}
"""Every concept's cell."""
