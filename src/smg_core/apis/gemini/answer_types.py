"""Answers of generateContent as msgspec types, for `/openapi.json`.

`gemini_encode` writes the same objects by hand; a test reads what it wrote as these types. Above: the server's descriptions.
"""

from msgspec import UNSET, UnsetType

from smg_core.apis.google.answer_types import GoogleAnswer
from smg_core.json_types import JsonObject

__all__ = [
    "GeminiModel",
    "GeminiModels",
    "GenerateContentResponse",
    "TokenCountResponse",
    "VertexModel",
    "VertexModels",
]


class GeneratedCall(GoogleAnswer):
    """A call that the model makes."""

    id: str
    name: str
    args: JsonObject


class GeneratedPart(GoogleAnswer):
    """A text, a thought, or a call. `thought_signature` is the sealed form of the thoughts before it, in base64."""

    text: str | UnsetType = UNSET
    thought: bool | UnsetType = UNSET
    function_call: GeneratedCall | UnsetType = UNSET
    thought_signature: str | UnsetType = UNSET


class GeneratedContent(GoogleAnswer):
    """What a candidate says."""

    role: str
    parts: list[GeneratedPart]


class LogprobCandidate(GoogleAnswer):
    token: str
    log_probability: float
    token_id: int | UnsetType = UNSET


class TopLogprobCandidates(GoogleAnswer):
    candidates: list[LogprobCandidate]


class LogprobsResult(GoogleAnswer):
    """The tokens of the text, and the alternatives to each."""

    chosen_candidates: list[LogprobCandidate]
    top_candidates: list[TopLogprobCandidates]


class GeneratedCandidate(GoogleAnswer):
    """One candidate, or what a chunk adds to it."""

    index: int
    content: GeneratedContent
    finish_reason: str | UnsetType = UNSET
    finish_message: str | UnsetType = UNSET
    avg_logprobs: float | UnsetType = UNSET
    logprobs_result: LogprobsResult | UnsetType = UNSET
    grounding_metadata: JsonObject | UnsetType = UNSET
    url_context_metadata: JsonObject | UnsetType = UNSET


class ModalityCount(GoogleAnswer):
    modality: str
    token_count: int


class UsageMetadata(GoogleAnswer):
    """Token counts; `candidates_token_count` is without thoughts."""

    prompt_token_count: int | UnsetType = UNSET
    total_token_count: int | UnsetType = UNSET
    candidates_token_count: int | UnsetType = UNSET
    thoughts_token_count: int | UnsetType = UNSET
    cached_content_token_count: int | UnsetType = UNSET
    tool_use_prompt_token_count: int | UnsetType = UNSET
    prompt_tokens_details: list[ModalityCount] | UnsetType = UNSET


class GenerateContentResponse(GoogleAnswer):
    """A whole answer, or one chunk of a stream."""

    usage_metadata: UsageMetadata
    model_version: str
    response_id: str
    candidates: list[GeneratedCandidate] | UnsetType = UNSET


class TokenCountResponse(GoogleAnswer):
    """The tokens of a prompt."""

    total_tokens: int


class GeminiModel(GoogleAnswer):
    """A model; limits are tokens."""

    name: str
    version: str
    display_name: str
    supported_generation_methods: list[str]
    input_token_limit: int | UnsetType = UNSET
    output_token_limit: int | UnsetType = UNSET


class GeminiModels(GoogleAnswer):
    models: list[GeminiModel]
    next_page_token: str | UnsetType = UNSET


class VertexModel(GoogleAnswer):
    """A model of Vertex AI."""

    name: str
    version_id: str
    display_name: str


class VertexModels(GoogleAnswer):
    """A publisher's models, or those of a project."""

    publisher_models: list[VertexModel] | UnsetType = UNSET
    models: list[VertexModel] | UnsetType = UNSET
    next_page_token: str | UnsetType = UNSET
