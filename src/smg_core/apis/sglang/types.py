"""The body of a request to SGLang's `/generate` as msgspec types.

Names, types and fixed ranges only, from SGLang 0.5's own request types. `sglang` decides what a field means and which values are
refused. None means absent or null. A list beside a single value is one value for each prompt. Above: sglang. Below: the types
that Chat shares.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from smg_core.json_types import Json
from smg_core.wire.scalars import Bias, Count, Fraction, Label, ModelName, Penalty, Positive, Seed, TokenId

__all__ = ["SglangBody", "SglangSampling"]


class SglangSampling(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """How tokens are sampled. At most one of the last five fields holds the answer to a format; `json_schema` is JSON text."""

    max_tokens: Count | None = field(name="max_new_tokens", default=128)
    min_tokens: Count | None = field(name="min_new_tokens", default=None)
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Fraction | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    seed: Seed | None = field(name="sampling_seed", default=None)
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    stop_regex: str | list[str] | None = None
    no_stop_trim: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    n: Positive | None = None
    beam_width: Positive | None = None
    stream_interval: Positive | None = None
    custom_params: dict[str, Json] | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    structural_tag: str | None = None
    choice: list[str] | None = None

    @property
    def include_stop_str_in_output(self) -> bool | None:
        """Always None: SGLang has only `no_stop_trim`."""
        return None


class SglangBody(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """The whole body. Exactly one of `text` and `input_ids` is the prompt, or a list of prompts. SGLang serves one model and its
    body names none; `model` is this gateway's."""

    model: ModelName = ""
    text: str | list[str] | None = None
    input_ids: list[TokenId | list[TokenId]] | None = None
    sampling_params: SglangSampling | list[SglangSampling] | None = None
    rid: Label | list[Label] | None = None
    stream: bool | None = None
    return_logprob: bool | list[bool] | None = None
    logprob_start_len: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | list[Annotated[int, Meta(ge=-1)]] | None = None
    top_logprobs_num: Count | list[Count] | None = None
    return_text_in_logprobs: bool | None = None
    cache_salt: Label | None = None
    session_id: Label | None = None
    routing_key: Label | None = None
    # Taken at the values that change nothing
    background: bool | None = None
    custom_labels: dict[str, str] | None = None
    image_data: list[Json] | None = None
    log_metrics: bool | None = None
    no_logs: bool | None = None
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    require_reasoning: bool | None = None
    return_hidden_states: bool | None = None
    return_prompt_token_ids: bool | None = None
    return_routed_experts: bool | None = None
    return_sampling_mask: bool | None = None
