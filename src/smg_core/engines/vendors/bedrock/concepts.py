"""The fate of each concept before Converse. Pure. Above: the page of providers. Below: concepts."""

from collections.abc import Mapping

from smg_core.engines.vendors.concepts import ConceptCell, exact, lossy, turned_down

__all__ = ["CELLS", "MODEL"]

MODEL = "us.anthropic.claude-opus-4-6-v1:0"
"""The model that the cells are of."""

CELLS: Mapping[str, ConceptCell] = {
    **exact("text", "system_front", "empty_text", "image", "pdf", "text_file", "file_title", "file_citations", "calls"),
    **exact("unsigned_calls", "long_name", "namespace", "result_value", "result_media", "is_error", "required"),
    **exact("one_tool", "parallel_off", "strict", "schema", "max_tokens", "temperature", "top_p", "top_k", "stop"),
    **exact("effort", "reasoning_off", "visible", "own_reasoning", "cache", "user", "metadata", "service_tier"),
    **lossy("system_later", "a reminder in the user's turn"),
    **lossy("refusal", "text"),
    **lossy("choice_none", "the tools are not sent", "tool_choice"),
    **lossy("schema_keywords", "in descriptions, and checked in the answer"),
    **lossy("budget", "an effort", "budget_tokens"),
    **lossy("foreign_reasoning", "left out, for another model has made it", "reasoning"),
    **lossy("many_marks", "the last 4 marks", "cache"),
    **lossy("cache_key", "not sent"),
    **turned_down("assistant_first", "assistant_last", "message_name", "image_url", "audio", "video", "other_file"),
    **turned_down("file_id", "bad_arguments", "hosted_tool", "required_thinking", "deferred", "tool_examples", "json"),
    **turned_down("regex", "choice", "hot", "min_p", "repetition_penalty", "penalties", "seed", "n", "logprobs"),
    **turned_down("logit_bias", "verbosity", "extra"),
}
"""Every concept's cell."""
