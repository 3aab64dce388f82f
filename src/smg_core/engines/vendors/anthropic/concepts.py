"""The fate of each concept before Messages. Pure. Above: the page of providers. Below: concepts."""

from collections.abc import Mapping

from smg_core.engines.vendors.concepts import ConceptCell, exact, lossy, turned_down

__all__ = ["CELLS", "MODEL"]

MODEL = "claude-opus-4-6"
"""The model that the cells are of."""

CELLS: Mapping[str, ConceptCell] = {
    **exact(
        "unsigned_calls",
        "text",
        "system_front",
        "empty_text",
        "image",
        "image_url",
        "pdf",
        "file_title",
        "file_citations",
    ),
    **exact("calls", "result_value", "result_media", "is_error", "choice_none", "required", "one_tool", "parallel_off"),
    **exact("long_name", "namespace", "deferred", "tool_examples", "strict", "schema", "max_tokens", "temperature"),
    **exact("top_p", "top_k", "stop", "effort", "budget", "reasoning_off", "visible", "own_reasoning", "cache", "user"),
    **exact("metadata", "service_tier"),
    **lossy("system_later", "a reminder in the user's turn"),
    **lossy("text_file", "plain text", "file_type"),
    **lossy("refusal", "text"),
    **lossy("schema_keywords", "in descriptions, and checked in the answer"),
    **lossy("foreign_reasoning", "left out, for another model has made it", "reasoning"),
    **lossy("many_marks", "the last 4 marks", "cache"),
    **lossy("cache_key", "not sent"),
    **turned_down("assistant_first", "assistant_last", "message_name", "audio", "video", "other_file", "file_id"),
    **turned_down("bad_arguments", "hosted_tool", "required_thinking", "json", "regex", "choice", "hot", "min_p"),
    **turned_down("repetition_penalty", "penalties", "seed", "n", "logprobs", "logit_bias", "verbosity", "extra"),
}
"""Every concept's cell."""
