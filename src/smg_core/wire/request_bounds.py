"""The limits of a request changed after decoding, which its body can no longer be held to.

Only what was changed is looked at. Pure. Above: plugins.registry, for what plugins put in the place of a client's request. Below:
decoding, sampling, fields, json_bounds.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest
from smg_core.request import (
    ChoiceFormat,
    CustomTool,
    FunctionTool,
    GenerationRequest,
    GrammarFormat,
    HostedTool,
    Message,
    RegexFormat,
    ResponseFormat,
    Sampling,
    SchemaFormat,
    StructuralTagFormat,
    Tool,
)
from smg_core.wire.decoding import too_many
from smg_core.wire.fields import read_metadata, read_template_arguments
from smg_core.wire.json_bounds import nests_deeper, over_values
from smg_core.wire.sampling import read_stop
from smg_core.wire.scalars import MODEL_CHARACTERS
from smg_core.wire.settings import LimitsConfig

__all__ = ["check_bounds"]

_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_MinusOne = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
_Fraction = Annotated[float, Meta(ge=0, le=1)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]


class _Ranges(Struct):
    """The widest ranges that the settings of a `Sampling` have in any API; None where the client did not say."""

    max_tokens: _Count | None
    min_tokens: _Count | None
    temperature: Annotated[float, Meta(ge=0, le=2**31)] | None
    top_p: _Fraction | None
    top_k: _MinusOne | None
    min_p: _Fraction | None
    frequency_penalty: _Penalty | None
    presence_penalty: _Penalty | None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None
    stop_token_ids: tuple[_Id, ...]
    logit_bias: Mapping[_Id, Annotated[float, Meta(ge=-100, le=100)]] | None
    prompt_logprobs: _MinusOne | None
    truncate_prompt: _MinusOne | None


class _Numbers(Struct):
    """The ranges of the other numbers of a request; None where the client did not say."""

    deadline_s: Annotated[float, Meta(gt=0, le=2**31)] | None
    max_tool_calls: _Count | None
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class _Edit(Struct):
    keep: _Count | None = None
    over_tokens: _Count | None = None
    over_uses: _Count | None = None
    at_least_tokens: _Count | None = None


class _Thought(Struct):
    budget_tokens: _MinusOne | None


def check_bounds(before: GenerationRequest, changed: GenerationRequest, limits: LimitsConfig) -> None:
    """Raises InvalidRequest where `changed`, which was put in the place of `before`, is over a limit."""
    if not 1 <= len(changed.model) <= MODEL_CHARACTERS:
        raise InvalidRequest(f"Invalid 'model': 1 to {MODEL_CHARACTERS} characters are taken.", param="model")
    if changed.sampling is not before.sampling:
        _check_sampling(changed.sampling, limits)
    _check_numbers(before, changed)
    if changed.messages is not before.messages:
        _check_messages(changed.messages, limits, len(before.messages))
    if changed.tools is not before.tools:
        _check_tools(changed.tools, limits, len(before.tools))
    if changed.response_format is not before.response_format:
        _check_format(changed.response_format, limits)
    if changed.documents is not before.documents:
        if len(changed.documents) > limits.documents:
            raise too_many("documents", len(changed.documents), limits.documents, "documents")
        _check_json(changed.documents, "documents", limits)
    if changed.template_arguments is not before.template_arguments:
        read_template_arguments(changed.template_arguments, None, limits)
        _check_json([changed.template_arguments], "template_arguments", limits)
    if changed.metadata is not before.metadata:
        read_metadata(changed.metadata, limits)
    if changed.extra is not before.extra:
        _check_json([changed.extra], "extra", limits)


def _check_numbers(before: GenerationRequest, changed: GenerationRequest) -> None:
    _check_ranges(changed, _Numbers, "deadline_s, max_tool_calls or priority")
    _check_ranges(changed.reasoning, _Thought, "reasoning")
    if changed.context_edits is not before.context_edits:
        for each in changed.context_edits:
            _check_ranges(each, _Edit, "context_edits")


def _check_sampling(sampling: Sampling, limits: LimitsConfig) -> None:
    _check_ranges(sampling, _Ranges, "sampling")
    read_stop(list(sampling.stop), limits)
    for name, most in (("stop_token_ids", limits.stop_token_ids), ("logit_bias", limits.logit_bias)):
        count = len(getattr(sampling, name) or ())
        if count > most:
            raise too_many(name, count, most, "entries")
    if (sampling.logprobs or 0) > limits.logprobs or (sampling.logprobs or 0) < 0:
        raise InvalidRequest(f"Invalid 'logprobs': 0 to {limits.logprobs} are taken.", param="logprobs")


def _check_ranges(values: Struct, ranges: type[Struct], at: str) -> None:
    try:
        msgspec.convert(values, ranges, from_attributes=True)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"Invalid '{at}': {error}.", param=at) from None


def _check_messages(messages: Sequence[Message], limits: LimitsConfig, before: int) -> None:
    """`before` is how many there were, which earlier turns of a stored history may have made more than one request may bring."""
    if len(messages) > max(limits.messages, before):
        raise too_many("messages", len(messages), limits.messages, "messages")
    parts = sum(len(each.parts) for each in messages)
    if parts > limits.json_values:
        raise too_many("messages", parts, limits.json_values, "parts")


def _check_tools(tools: Sequence[Tool], limits: LimitsConfig, before: int) -> None:
    if len(tools) > max(limits.tools, before):
        raise too_many("tools", len(tools), limits.tools, "tools")
    schemas = [_free_form(each) for each in tools]
    _check_json(schemas, "tools", limits)
    _check_size(msgspec.json.encode(schemas), "tools", limits)


def _free_form(tool: Tool) -> object:
    """What a tool has in no fields of ours."""
    if isinstance(tool, FunctionTool):
        return [tool.parameters, *tool.examples]
    if isinstance(tool, HostedTool):
        return tool.config
    return tool.grammar if isinstance(tool, CustomTool) else None


def _check_format(asked: ResponseFormat, limits: LimitsConfig) -> None:
    at = "response_format"
    if isinstance(asked, SchemaFormat):
        _check_json([asked.schema], at, limits)
        _check_size(msgspec.json.encode(asked.schema), at, limits)
    elif isinstance(asked, ChoiceFormat):
        if not 1 <= len(asked.choices) <= limits.choices:
            raise too_many(at, len(asked.choices), limits.choices, "choices")
        _check_size(msgspec.json.encode(asked.choices), at, limits)
    elif isinstance(asked, RegexFormat):
        _check_size(asked.pattern.encode(), at, limits)
    elif isinstance(asked, GrammarFormat):
        _check_size(asked.grammar.encode(), at, limits)
    elif isinstance(asked, StructuralTagFormat):
        _check_size(asked.tag.encode(), at, limits)


def _check_json(values: Sequence[object], at: str, limits: LimitsConfig) -> None:
    written = msgspec.json.encode(values)
    if nests_deeper(written, limits.json_depth + 1):
        raise InvalidRequest(f"Invalid '{at}': nested more than {limits.json_depth} levels deep.", param=at)
    if over_values(written, limits.json_values):
        raise InvalidRequest(f"Invalid '{at}': more than {limits.json_values} values.", param=at)


def _check_size(written: bytes, at: str, limits: LimitsConfig) -> None:
    if len(written) > limits.schema_bytes:
        raise InvalidRequest(
            f"Invalid '{at}': {len(written)} bytes, and at most {limits.schema_bytes} are taken.", param=at
        )
