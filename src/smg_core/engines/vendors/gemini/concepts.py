"""The fate of each concept before generateContent. Pure. Above: the page of providers. Below: concepts."""

from collections.abc import Mapping

from smg_core.engines.vendors.concepts import ConceptCell, exact, lossy, turned_down

__all__ = ["CELLS", "MODEL"]

MODEL = "gemini-3-pro"
"""The model that the cells are of."""
_UNMARKED = "the provider's own, without marks"

CELLS: Mapping[str, ConceptCell] = {
    **exact(
        "text", "system_front", "empty_text", "image", "image_url", "audio", "video", "pdf", "text_file", "other_file"
    ),
    **exact("calls", "long_name", "namespace", "result_value", "result_media", "is_error", "choice_none", "required"),
    **exact(
        "one_tool", "required_thinking", "schema", "schema_keywords", "json", "choice", "max_tokens", "temperature"
    ),
    **exact("hot", "top_p", "top_k", "seed", "stop", "n", "logprobs", "effort", "visible", "own_reasoning", "metadata"),
    **exact("service_tier"),
    **lossy("system_later", "a reminder in the user's turn"),
    **lossy("file_title", "left out"),
    **lossy("refusal", "text"),
    **lossy("parallel_off", "the first call alone is passed on", "parallel_tool_calls"),
    **lossy("tool_examples", "in the description"),
    **lossy("strict", "all tools are held to their schemas"),
    **lossy("budget", "a level", "budget_tokens"),
    **lossy("foreign_reasoning", "left out, for another model has made it", "reasoning"),
    **lossy("unsigned_calls", "a stand-in, for the call came with none", "call_signature"),
    **lossy("cache", _UNMARKED),
    **lossy("many_marks", _UNMARKED, "cache"),
    **lossy("cache_key", "not sent"),
    **lossy("user", "not sent"),
    **turned_down("assistant_first", "assistant_last", "message_name", "file_citations", "file_id", "bad_arguments"),
    **turned_down("hosted_tool", "deferred", "regex", "min_p", "repetition_penalty", "penalties", "logit_bias"),
    **turned_down("reasoning_off", "verbosity", "extra"),
}
"""Every concept's cell."""
