"""Answers of Interactions as msgspec types, for `/openapi.json`.

`interactions_encode` writes the same objects by hand; a test reads what it wrote as these types. They hold
what either wire revision has. Above: the server's descriptions.
"""

from msgspec import UNSET, Struct, UnsetType

from smg_core.json_types import Json, JsonObject

__all__ = ["InteractionAnswer", "InteractionEvent", "InteractionUsage"]


class _Answer(Struct, forbid_unknown_fields=True):
    """Base of the types."""


class InputModality(_Answer):
    modality: str
    tokens: int


class InteractionUsage(_Answer):
    """Token counts; `total_output_tokens` is without thoughts, whose tokens have another name in the earlier revision."""

    total_input_tokens: int
    total_cached_tokens: int
    total_output_tokens: int
    total_tool_use_tokens: int
    total_tokens: int
    input_tokens_by_modality: list[InputModality] | UnsetType = UNSET
    total_thought_tokens: int | UnsetType = UNSET
    total_reasoning_tokens: int | UnsetType = UNSET


class InteractionFault(_Answer):
    code: str
    message: str


class InteractionAnswer(_Answer):
    """An interaction: with `steps`, in the earlier revision with `role` and `outputs`; in a stream without either."""

    id: str
    object: str
    status: str
    model: str
    created: str
    updated: str
    steps: list[JsonObject] | UnsetType = UNSET
    role: str | UnsetType = UNSET
    outputs: list[JsonObject] | UnsetType = UNSET
    usage: InteractionUsage | UnsetType = UNSET
    errors: list[InteractionFault] | UnsetType = UNSET
    input: list[JsonObject] | UnsetType = UNSET
    previous_interaction_id: str | UnsetType = UNSET
    system_instruction: str | UnsetType = UNSET
    tools: list[JsonObject] | UnsetType = UNSET
    generation_config: JsonObject | UnsetType = UNSET
    response_format: Json | UnsetType = UNSET
    response_mime_type: str | UnsetType = UNSET
    response_modalities: list[str] | UnsetType = UNSET
    labels: JsonObject | UnsetType = UNSET
    safety_settings: list[JsonObject] | UnsetType = UNSET
    service_tier: str | UnsetType = UNSET


class InteractionEvent(_Answer):
    """One event of a stream. Which fields it has depends on `event_type`; `content` is the earlier revision's `step`."""

    event_type: str
    event_id: str
    interaction: InteractionAnswer | UnsetType = UNSET
    interaction_id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    index: int | UnsetType = UNSET
    step: JsonObject | UnsetType = UNSET
    content: JsonObject | UnsetType = UNSET
    delta: JsonObject | UnsetType = UNSET
    error: InteractionFault | UnsetType = UNSET
