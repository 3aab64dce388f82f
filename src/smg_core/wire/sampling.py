"""Fields of sampling common to Chat Completions, Completions and `/generate`, as `Sampling`.

Decides the bounds of lists, and for every API what the values at the edge mean (`top_p` 0, `top_k` 0). Pure. Above: the decoders.
Below: request.
"""

from typing import Protocol

from smg_core.errors import InvalidRequest
from smg_core.request import Sampling
from smg_core.wire.decoding import too_many
from smg_core.wire.settings import LimitsConfig

__all__ = ["SamplingFields", "most_choices", "read_sampling", "read_stop", "read_top_k", "read_top_p"]

_SMALLEST_TOP_P = 1e-6


class SamplingFields(Protocol):
    """The fields of a body that say how tokens are sampled."""

    min_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    repetition_penalty: float | None
    seed: int | None
    stop: str | list[str] | None
    stop_token_ids: list[int] | None
    no_stop_trim: bool | None
    ignore_eos: bool | None
    skip_special_tokens: bool | None
    logit_bias: dict[int, float] | None
    n: int | None

    @property
    def include_stop_str_in_output(self) -> bool | None: ...


def read_sampling(
    wire: SamplingFields, limits: LimitsConfig, *, max_tokens: int | None, logprobs: int | None
) -> Sampling:
    """The record; `max_tokens` and `logprobs` are read by each API itself. Raises `InvalidRequest` naming the field."""
    if wire.min_tokens is not None and max_tokens is not None and wire.min_tokens > max_tokens:
        raise InvalidRequest(f"'min_tokens' is over the limit on output of {max_tokens} tokens.", param="min_tokens")
    token_ids = wire.stop_token_ids
    if token_ids is not None and len(token_ids) > limits.stop_token_ids:
        raise too_many("stop_token_ids", len(token_ids), limits.stop_token_ids, "token ids")
    if wire.logit_bias is not None and len(wire.logit_bias) > limits.logit_bias:
        raise too_many("logit_bias", len(wire.logit_bias), limits.logit_bias, "entries")
    return Sampling(
        max_tokens=max_tokens,
        min_tokens=wire.min_tokens,
        temperature=wire.temperature,
        top_p=read_top_p(wire.top_p) if wire.top_p == 0 else wire.top_p,
        top_k=read_top_k(wire.top_k) if wire.top_k == 0 else wire.top_k,
        min_p=wire.min_p,
        frequency_penalty=wire.frequency_penalty,
        presence_penalty=wire.presence_penalty,
        repetition_penalty=wire.repetition_penalty,
        seed=wire.seed,
        stop=() if wire.stop is None else read_stop(wire.stop, limits),
        stop_token_ids=tuple(token_ids) if token_ids else (),
        include_stop=wire.include_stop_str_in_output is True or wire.no_stop_trim is True,
        ignore_eos=wire.ignore_eos is True,
        skip_special_tokens=wire.skip_special_tokens is not False,
        logit_bias=wire.logit_bias,
        n=1 if not wire.n else most_choices(wire.n, limits, "n"),
        logprobs=logprobs,
    )


def read_top_p(asked: float | None) -> float | None:
    """The value for engines, which take one in (0, 1]; 0 means the likeliest token alone, as any mass this small does."""
    return _SMALLEST_TOP_P if asked == 0 else asked


def read_top_k(asked: int | None) -> int | None:
    """The value for engines; 0 switches the bound off, which is -1."""
    return -1 if asked == 0 else asked


def most_choices(asked: int, limits: LimitsConfig, param: str) -> int:
    """`asked`, unless it is more choices than one request may have."""
    if asked > limits.n:
        raise InvalidRequest(
            f"Invalid '{param}': expected a value <= {limits.n}, but got {asked} instead.",
            param=param,
            code="integer_above_max_value",
        )
    return asked


def read_stop(stop: str | list[str], limits: LimitsConfig, name: str = "stop") -> tuple[str, ...]:
    """Stop strings; `name` is the field's."""
    strings = (stop,) if isinstance(stop, str) else tuple(stop)
    if len(strings) > limits.stop:
        raise too_many(name, len(strings), limits.stop, "stop sequences")
    for order, text in enumerate(strings):
        param = name if isinstance(stop, str) else f"{name}[{order}]"
        if not text:
            raise InvalidRequest(f"Invalid '{param}': empty string.", param=param, code="invalid_value")
        if len(text) > limits.stop_characters:
            raise InvalidRequest(
                f"Invalid '{param}': string too long. Expected at most {limits.stop_characters} characters, "
                f"but got {len(text)} instead.",
                param=param,
                code="string_above_max_length",
            )
    return strings
