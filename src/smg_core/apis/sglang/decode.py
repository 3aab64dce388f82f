"""A request to SGLang's `/generate`: bytes in, one `SglangRequest` out, or one error that names the field at fault.

A prompt goes to the model as it stands, as in Completions, and the answer has token ids beside its text. A body may have a list
of prompts, each with settings of its own; each is a `GenerationRequest`, and the answers come in the order of the prompts. Where
a body says nothing, SGLang's default of 128 tokens holds, and the model's own for sampling. Pure. Above: the server. Below: the
wire type, the readers that Chat and Completions share, request.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from smg_core.apis.chat.tools import one_format
from smg_core.apis.sglang.types import SglangBody, SglangSampling
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.origin import Origin
from smg_core.request import (
    ChoiceFormat,
    GenerationRequest,
    GrammarFormat,
    RegexFormat,
    Sampling,
    SchemaFormat,
    StructuralTagFormat,
)
from smg_core.wire.answer_size import answer_size
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder, too_many
from smg_core.wire.sampling import most_choices, read_sampling
from smg_core.wire.settings import LimitsConfig

__all__ = ["SglangRequest", "decode_sglang"]

T = TypeVar("T")

_DECODER = WireDecoder(SglangBody, {}, shaped=("sampling_params",))
_ORIGIN = Origin("generate")
_USUAL = SglangSampling()
_WHOLE_VOCABULARY = 1 << 30
"""SGLang's `top_k` for "all tokens"."""

_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "background": (False,),
    "custom_labels": ({},),
    "image_data": ([],),
    "log_metrics": (True, False),
    "no_logs": (True, False),
    "priority": (0,),
    "require_reasoning": (False,),
    "return_hidden_states": (False,),
    "return_prompt_token_ids": (False,),
    "return_routed_experts": (False,),
    "return_sampling_mask": (False,),
}
_NEUTRAL_SAMPLING: Mapping[str, tuple[object, ...]] = {
    "beam_width": (1,),
    "custom_params": ({},),
    "spaces_between_special_tokens": (True,),
    "stop_regex": ([],),
    "stream_interval": (1,),
}
"""Fields that are taken at the values that change nothing; null is one for each."""


class SglangRequest(Struct, frozen=True):
    """One decoded request: a `GenerationRequest` for each prompt, and what only the encoders of the answer need.

    `ids` are the names of the answers, `n` for each prompt, and `scored_from` the place in each prompt from which on its tokens'
    logprobs are told, None where they are not. `listed`: the answer is a list, even one of one. `texts`: logprobs have their
    tokens' texts.
    """

    generations: tuple[GenerationRequest, ...]
    ids: tuple[str, ...]
    scored_from: tuple[int | None, ...]
    n: int = 1
    listed: bool = False
    texts: bool = False
    at_once: int = 1

    @property
    def generation(self) -> GenerationRequest:
        """The request of the first prompt, which has what is the same for all."""
        return self.generations[0]

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from. A path into one of several requests begins with `requests[i].`."""
        place, dot, rest = path.partition(".")
        if dot and place.startswith("requests["):
            field = self.locate(rest)
            return f"{field}{place.removeprefix('requests')}" if field in ("text", "input_ids") else field
        if path in ("messages", "prompt"):
            return "text" if isinstance(self.generation.prompt, str) else "input_ids"
        if place == "response_format":
            return f"sampling_params.{_FORMATS[type(self.generation.response_format)]}"
        if path in _FIELDS:
            return _FIELDS[path]
        return f"sampling_params.{rest}" if place == "sampling" else rest if place == "headers" else path


_FIELDS = {
    "sampling.include_stop": "sampling_params.no_stop_trim",
    "sampling.logprobs": "top_logprobs_num",
    "sampling.max_tokens": "sampling_params.max_new_tokens",
    "sampling.min_tokens": "sampling_params.min_new_tokens",
    "sampling.prompt_logprobs": "logprob_start_len",
    "sampling.seed": "sampling_params.sampling_seed",
}
"""Paths whose fields have another name in SGLang."""
_FORMATS: Mapping[type, str] = {
    ChoiceFormat: "choice",
    GrammarFormat: "ebnf",
    RegexFormat: "regex",
    SchemaFormat: "json_schema",
    StructuralTagFormat: "structural_tag",
}
"""The field of `sampling_params` that each format is read from."""


def decode_sglang(incoming: Incoming, only_model: Callable[[str], str]) -> SglangRequest:
    """Decode the body of `incoming`; `only_model` returns the model that is meant where the body names none. Raises
    `PayloadTooLarge`, `InvalidJson`, `UnsupportedParameter` or `InvalidRequest`; their param is a field of the body."""
    limits = incoming.limits
    wire = _DECODER.decode(incoming.body, limits, incoming.compat)
    _refuse_unless_neutral(wire, _NEUTRAL, "")
    several, prompts = _prompts(wire)
    count = len(prompts)
    asked = _for_each(wire.sampling_params, count, "sampling_params", _USUAL)
    n = most_choices(asked[0].n or 1, limits, "sampling_params.n")
    if any((each.n or 1) != n for each in asked):
        raise InvalidRequest("'sampling_params': 'n' must be the same for all prompts.", param="sampling_params")
    if count * n > limits.completion_choices:
        field = "input_ids" if wire.text is None else "text"
        raise too_many(field, count * n, limits.completion_choices, "choices (prompts x n)")
    logprobs, scored_from = _logprobs(wire, count, limits)
    samplings = [
        _sampling(each, limits, top, scored=start is not None)
        for each, top, start in zip(asked, logprobs, scored_from, strict=True)
    ]
    stream = wire.stream is True
    _refuse_large(samplings, limits, stream=stream)
    model, sizes = only_model(wire.model), len(incoming.body)
    generations = [
        GenerationRequest(
            # Engines may stop a request by the beginning of its id, so no id begins another.
            id=incoming.request_id if count == 1 else f"{incoming.request_id}-{place:05d}",
            model=model,
            prompt=prompt,
            response_format=one_format(settings, limits, sizes, "sampling_params."),
            sampling=sampling,
            stream=stream,
            cache_salt=wire.cache_salt,
            session_key=wire.routing_key or wire.session_id,
            headers=incoming.headers,
            origin=_ORIGIN,
            caller=incoming.caller,
            size=sizes,
        )
        for place, (prompt, settings, sampling) in enumerate(zip(prompts, asked, samplings, strict=True))
    ]
    return SglangRequest(
        tuple(generations),
        _names(wire, generations, n, several=several),
        tuple(scored_from),
        n=n,
        listed=several or n > 1,
        texts=wire.return_text_in_logprobs is True,
        at_once=limits.prompts_at_once,
    )


# --------------------------------------------------------------------------------------------------- prompts and names


def _prompts(wire: SglangBody) -> tuple[bool, list[str | Sequence[int]]]:
    """Whether the body has a list of prompts, and the prompts, none of them empty."""
    if (wire.text is None) == (wire.input_ids is None):
        raise InvalidRequest("Exactly one of 'text' and 'input_ids' must be given.", param="text")
    name = "input_ids" if wire.text is None else "text"
    found: list[str | Sequence[int]]
    if wire.input_ids is not None and all(type(each) is int for each in wire.input_ids):
        several, found = False, [[each for each in wire.input_ids if isinstance(each, int)]]
    elif isinstance(wire.text, str):
        several, found = False, [wire.text]
    else:
        several, found = True, [each for each in wire.text or wire.input_ids or () if not isinstance(each, int)]
        if len(found) != len(wire.text or wire.input_ids or ()):
            raise InvalidRequest(
                f"Invalid '{name}': expected token ids only, or lists of token ids only.",
                param=name,
                code="invalid_type",
            )
    if not found:
        raise InvalidRequest(f"Invalid '{name}': empty array.", param=name, code="empty_array")
    for place, each in enumerate(found):
        if not each:
            param = f"{name}[{place}]" if several else name
            raise InvalidRequest(f"Invalid '{param}': the prompt is empty.", param=param, code="empty_string")
    return several, found


def _for_each(value: T | list[T] | None, count: int, name: str, usual: T) -> list[T]:
    """The value of each prompt: a single one holds for all."""
    if not isinstance(value, list):
        return [usual if value is None else value] * count
    if len(value) != count:
        raise InvalidRequest(
            f"Invalid '{name}': expected {count} values, one for each prompt, but got {len(value)}.", param=name
        )
    return value


def _names(wire: SglangBody, generations: Sequence[GenerationRequest], n: int, *, several: bool) -> tuple[str, ...]:
    """The name of each answer. With several answers for a prompt, SGLang gives them names of its own."""
    if wire.rid is None or n > 1:
        names = [each.id for each in generations]
    elif isinstance(wire.rid, str):
        names = [f"{wire.rid}_{place}" for place in range(len(generations))] if several else [wire.rid]
    else:
        names = _for_each(wire.rid, len(generations), "rid", "")
        if len(set(names)) != len(names):
            raise InvalidRequest("Invalid 'rid': the ids of the prompts must differ.", param="rid")
    return tuple(names if n == 1 else [f"{name}-{order}" for name in names for order in range(n)])


# ------------------------------------------------------------------------------------------------------------ settings


def _logprobs(wire: SglangBody, count: int, limits: LimitsConfig) -> tuple[list[int | None], list[int | None]]:
    """For each prompt: how many alternatives a token has (None: no logprobs), and from where on the prompt's own are told."""
    wanted = _for_each(wire.return_logprob, count, "return_logprob", False)
    tops = _for_each(wire.top_logprobs_num, count, "top_logprobs_num", 0)
    starts = _for_each(wire.logprob_start_len, count, "logprob_start_len", -1)
    if max(tops) > limits.logprobs:
        raise InvalidRequest(
            f"Invalid 'top_logprobs_num': expected a value <= {limits.logprobs}, but got {max(tops)} instead.",
            param="top_logprobs_num",
            code="integer_above_max_value",
        )
    scored = [start if yes and start >= 0 else None for yes, start in zip(wanted, starts, strict=True)]
    return [top if yes else None for yes, top in zip(wanted, tops, strict=True)], scored


def _sampling(wire: SglangSampling, limits: LimitsConfig, logprobs: int | None, *, scored: bool) -> Sampling:
    """The record. The prompt's logprobs come with an echo of it, which the encoders leave out of the text; so does nothing but
    the echo where no token is wanted."""
    _refuse_unless_neutral(wire, _NEUTRAL_SAMPLING, "sampling_params.")
    try:
        sampling = read_sampling(wire, limits, max_tokens=wire.max_tokens, logprobs=logprobs)
    except InvalidRequest as error:
        raise _within_sampling(error) from None
    top_k = sampling.top_k
    return msgspec.structs.replace(
        sampling,
        top_k=-1 if top_k is not None and top_k >= _WHOLE_VOCABULARY else top_k,
        echo=scored or wire.max_tokens == 0,
        prompt_logprobs=logprobs if scored else None,
        token_ids=True,
    )


def _within_sampling(error: InvalidRequest) -> InvalidRequest:
    """The error with the path of its field in the whole body."""
    path = error.param or ""
    full = _FIELDS.get(f"sampling.{path}", f"sampling_params.{path}")
    return InvalidRequest(error.message.replace(f"'{path}'", f"'{full}'"), param=full, code=error.code)


def _refuse_large(samplings: Sequence[Sampling], limits: LimitsConfig, *, stream: bool) -> None:
    """Raise where the answers to all prompts together may take more memory than one whole answer may."""
    size = sum(answer_size(each.n, each.max_tokens or 1, each.logprobs) for each in samplings)
    if not stream and size > limits.answer_bytes:
        raise InvalidRequest(
            f"This answer could take {size} bytes before it leaves, and at most {limits.answer_bytes} are kept: ask for fewer "
            "prompts, tokens or logprobs, or for a stream.",
            param="sampling_params.max_new_tokens",
            code="answer_too_large",
        )


def _refuse_unless_neutral(wire: Struct, table: Mapping[str, tuple[object, ...]], at: str) -> None:
    for name, values in table.items():
        given = getattr(wire, name)
        if given is not None and given not in values:
            raise UnsupportedParameter(
                f"Unsupported parameter: '{at}{name}' is not supported on this server with this value.", param=at + name
            )
