"""The concepts of a request, and what becomes of each before one provider: exact, lossy as the answer's head says, or refused.

Each format has its cells beside its encoder; docs/providers.md is the table of all, and a test asks for every cell. Pure. Above:
the formats' `concepts`, the page. Below: nothing.
"""

from collections.abc import Mapping
from typing import Literal

import attrs

__all__ = ["CONCEPTS", "ConceptCell", "exact", "lossy", "turned_down"]

CONCEPTS: Mapping[str, str] = {
    "text": "text",
    "system_front": "system text at the front",
    "system_later": "system text later in the talk",
    "assistant_first": "a talk that begins with the assistant",
    "assistant_last": "a talk that ends with the assistant",
    "message_name": "the name of who speaks",
    "empty_text": "text without a letter",
    "image": "a picture in the request",
    "image_url": "a picture by its address",
    "audio": "sound",
    "video": "a video",
    "pdf": "a PDF",
    "text_file": "a file of plain text",
    "other_file": "a file of another type",
    "file_title": "the title of a file",
    "file_citations": "citations of a file",
    "file_id": "a file by an id",
    "refusal": "an earlier refusal",
    "calls": "calls and their results",
    "unsigned_calls": "calls that came without a signature",
    "bad_arguments": "arguments that are no JSON object",
    "long_name": "a tool's name that is too long, or has other characters",
    "namespace": "a tool of a namespace",
    "result_value": "a result that is an object",
    "result_media": "a picture in a result",
    "is_error": "a result that is an error",
    "hosted_tool": "a tool that a server runs",
    "choice_none": "tools, none of which may be called",
    "required": "a call is demanded",
    "one_tool": "a call of one tool is demanded",
    "required_thinking": "a call is demanded of a model that thinks",
    "parallel_off": "one call at a time",
    "deferred": "a tool that is found by search",
    "tool_examples": "examples of a tool's arguments",
    "strict": "a tool whose calls are held to its schema",
    "schema": "an answer of a schema",
    "schema_keywords": "bounds of numbers and lengths in that schema",
    "json": "any JSON object as the answer",
    "regex": "an answer of a pattern",
    "choice": "an answer that is one of a list",
    "max_tokens": "a bound on the answer",
    "temperature": "temperature up to 1",
    "hot": "temperature above 1",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "penalties": "frequency_penalty, presence_penalty",
    "seed": "seed",
    "stop": "stop strings",
    "n": "several choices",
    "logprobs": "logprobs",
    "logit_bias": "logit_bias",
    "effort": "a level of effort",
    "budget": "a budget of reasoning",
    "reasoning_off": "no reasoning",
    "visible": "reasoning that is shown",
    "own_reasoning": "earlier reasoning of the same model",
    "foreign_reasoning": "earlier reasoning of another model",
    "cache": "marks for the cache",
    "many_marks": "more than four of them",
    "cache_key": "a key for the cache",
    "verbosity": "verbosity",
    "user": "the client's user",
    "metadata": "metadata",
    "service_tier": "a tier of service",
    "extra": "fields of another API",
}
"""Every concept, with what it is called in the page."""


@attrs.frozen
class ConceptCell:
    """What becomes of one concept: `how`, and for what is lossy the `name` that the head has, with `what` it says."""

    how: Literal["exact", "lossy", "refused"]
    name: str = ""
    what: str = ""


def exact(*concepts: str) -> dict[str, ConceptCell]:
    """Cells of what is said as it was asked."""
    return dict.fromkeys(concepts, ConceptCell("exact"))


def turned_down(*concepts: str) -> dict[str, ConceptCell]:
    """Cells of what is refused by name before anything is sent."""
    return dict.fromkeys(concepts, ConceptCell("refused"))


def lossy(concept: str, what: str, name: str = "") -> dict[str, ConceptCell]:
    """The cell of what is done otherwise, as the head says under `name`, that of the concept where none is given."""
    return {concept: ConceptCell("lossy", name or concept, what)}
