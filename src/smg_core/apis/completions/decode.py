"""A Completions request: bytes in, one `CompletionRequest` out, or one error that names the parameter at fault.

A prompt goes to the model as it stands, without a chat template, and what comes back is text. A body may have several prompts:
each is a `GenerationRequest` of its own, and the choices of all are numbered together (prompt 0's first). Defaults are
OpenAI's, which engines have too: 16 tokens at most. Pure. Above: the server. Below: the wire type, the readers that Chat
shares, request.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from smg_core.apis.chat.tools import read_response_format
from smg_core.apis.completions.types import CompletionBody
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.origin import Origin
from smg_core.request import GenerationRequest, Sampling
from smg_core.wire.answer_size import answer_size
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder, too_many
from smg_core.wire.sampling import most_choices, read_sampling
from smg_core.wire.settings import LimitsConfig

__all__ = ["CompletionRequest", "decode_completion"]

_DECODER = WireDecoder(CompletionBody, {}, shaped=())
_ORIGIN = Origin("completions")
_DEFAULT_MAX_TOKENS = 16

_Prompt = str | Sequence[int]


class CompletionRequest(Struct, frozen=True):
    """One decoded request: a `GenerationRequest` for each prompt, and what only the encoders of the answer need.

    `n` is how many choices a prompt has in the answer; with `best_of`, more are sampled. `logprobs` is how many alternatives the
    answer lists, None for no logprobs. `include_usage` puts a usage chunk at the end of a stream, `counts` into each chunk the
    usage of its prompt so far. `hides_ids`: token ids are asked for to be counted, and not told. `several`: the body has a list
    of prompts. `at_once` is how many of them engines work on at the same time.
    """

    generations: tuple[GenerationRequest, ...]
    n: int = 1
    logprobs: int | None = None
    include_usage: bool = False
    several: bool = False
    at_once: int = 1
    counts: bool = False
    hides_ids: bool = False

    @property
    def generation(self) -> GenerationRequest:
        """The request of the first prompt, which has what is the same for all."""
        return self.generations[0]

    def locate(self, path: str) -> str:
        """The field of the body that `path` was read from. A path into one of several requests begins with `requests[i].`."""
        place, dot, rest = path.partition(".")
        if dot and place.startswith("requests["):
            field = self.locate(rest)
            return f"prompt{place.removeprefix('requests')}" if field == "prompt" and self.several else field
        if path in ("messages", "prompt"):
            return "prompt"
        if path == "sampling.n":
            return "n" if self.generation.sampling.n == self.n else "best_of"
        if path == "sampling.token_ids" and self.hides_ids:
            return "stream_options.continuous_usage_stats"
        known = _FIELDS.get(path)
        if known is not None:
            return known
        return rest if place in ("sampling", "headers") else place if place == "response_format" else path


_FIELDS = {
    "response_format.schema": "response_format.json_schema.schema",
    "sampling.include_stop": "include_stop_str_in_output",
    "sampling.prompt_logprobs": "echo",
    "sampling.token_ids": "return_token_ids",
    "sampling.truncate_prompt": "truncate_prompt_tokens",
}
"""Paths whose fields have another name in Completions."""


def decode_completion(incoming: Incoming) -> CompletionRequest:
    """Decode the body of `incoming`. Raises `PayloadTooLarge`, `InvalidJson`, `UnsupportedParameter` or `InvalidRequest`; their
    param is a field of the body."""
    limits = incoming.limits
    wire = _DECODER.decode(incoming.body, limits, incoming.compat)
    _refuse_unsupported(wire)
    prompts = _prompts(wire.prompt)
    n, sampling = _sampling(wire, limits)
    choices = len(prompts) * sampling.n
    if choices > limits.completion_choices:
        raise too_many("prompt", choices, limits.completion_choices, "choices (prompts x n)")
    stream = wire.stream is True
    _refuse_large(sampling, choices, limits, stream=stream)
    if wire.stream_options is not None and not stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    first = GenerationRequest(
        id=incoming.request_id,
        model=wire.model,
        prompt=prompts[0],
        response_format=read_response_format(wire, limits, len(incoming.body)),
        sampling=sampling,
        stream=stream,
        add_special_tokens=wire.add_special_tokens,
        user=wire.user or None,
        cache_salt=wire.cache_salt,
        headers=incoming.headers,
        origin=_ORIGIN,
        caller=incoming.caller,
        size=len(incoming.body),
    )
    return CompletionRequest(
        (first,) if len(prompts) == 1 else tuple(_each(first, prompts)),
        n=n,
        logprobs=wire.logprobs,
        include_usage=wire.stream_options is not None and wire.stream_options.include_usage is True,
        at_once=limits.prompts_at_once,
        several=isinstance(wire.prompt, list) and not isinstance(wire.prompt[0], int),
        counts=_counts(wire),
        hides_ids=_counts(wire) and not wire.return_token_ids,
    )


def _each(first: GenerationRequest, prompts: Sequence[_Prompt]) -> list[GenerationRequest]:
    """A request for each prompt. Engines may stop a request by the beginning of its id, so no id begins another."""
    return [
        msgspec.structs.replace(first, id=f"{first.id}-{place:05d}", prompt=prompt)
        for place, prompt in enumerate(prompts)
    ]


def _prompts(prompt: str | list[str | int | list[int]]) -> list[_Prompt]:
    """The prompts of the body, none of them empty."""
    if isinstance(prompt, str):
        found: list[_Prompt] = [prompt]
    elif prompt and all(type(each) is int for each in prompt):
        found = [[each for each in prompt if isinstance(each, int)]]
    else:
        found = [each for each in prompt if not isinstance(each, int)]
        if len(found) != len(prompt) or len({type(each) for each in found}) > 1:
            raise InvalidRequest(
                "Invalid 'prompt': expected texts only, or token ids only, or lists of token ids only.",
                param="prompt",
                code="invalid_type",
            )
    if not found:
        raise InvalidRequest("Invalid 'prompt': empty array.", param="prompt", code="empty_array")
    for place, each in enumerate(found):
        if not each:
            param = "prompt" if isinstance(prompt, str) else f"prompt[{place}]"
            raise InvalidRequest(f"Invalid '{param}': the prompt is empty.", param=param, code="empty_string")
    return found


# ------------------------------------------------------------------------------------------------------------ settings


def _sampling(wire: CompletionBody, limits: LimitsConfig) -> tuple[int, Sampling]:
    """How many choices the answer has for each prompt, and how they are sampled."""
    n = most_choices(wire.n or 1, limits, "n")
    best_of = n if wire.best_of is None else most_choices(wire.best_of, limits, "best_of")
    if best_of < n:
        raise InvalidRequest(f"'best_of' must be at least 'n', which is {n}.", param="best_of")
    if best_of > n and wire.stream:
        raise InvalidRequest("'best_of' is not allowed when 'stream' is enabled.", param="best_of")
    if wire.logprobs is not None and wire.logprobs > limits.logprobs:
        raise InvalidRequest(
            f"Invalid 'logprobs': expected a value <= {limits.logprobs}, but got {wire.logprobs} instead.",
            param="logprobs",
            code="integer_above_max_value",
        )
    echo = wire.echo is True
    if wire.max_tokens == 0 and not echo:
        raise InvalidRequest("'max_tokens' may be 0 only when 'echo' is true.", param="max_tokens")
    if wire.suffix and echo:
        raise InvalidRequest("'echo' is not allowed together with 'suffix'.", param="echo")
    if wire.suffix and not isinstance(wire.prompt, str) and not all(isinstance(each, str) for each in wire.prompt):
        raise InvalidRequest("'suffix' needs a prompt that is text.", param="suffix")
    # Which choices are the likeliest is seen by their logprobs.
    logprobs = 0 if wire.logprobs is None and best_of > n else wire.logprobs
    most = _DEFAULT_MAX_TOKENS if wire.max_tokens is None else wire.max_tokens
    sampling = read_sampling(wire, limits, max_tokens=most, logprobs=logprobs)
    return n, msgspec.structs.replace(
        sampling,
        n=best_of,
        echo=echo,
        prompt_logprobs=wire.logprobs if echo else None,
        suffix=wire.suffix or None,
        token_ids=wire.return_token_ids is True or _counts(wire),
        truncate_prompt=wire.truncate_prompt_tokens,
    )


def _refuse_large(sampling: Sampling, choices: int, limits: LimitsConfig, *, stream: bool) -> None:
    """Raise where the answers to all prompts together may take more memory than one whole answer may."""
    size = answer_size(choices, sampling.max_tokens or 1, sampling.logprobs)
    if not stream and size > limits.answer_bytes:
        raise InvalidRequest(
            f"This answer could take {size} bytes before it leaves, and at most {limits.answer_bytes} are kept: ask for fewer "
            "choices, prompts, tokens or logprobs, or for a stream.",
            param="max_tokens",
            code="answer_too_large",
        )


def _counts(wire: CompletionBody) -> bool:
    """Whether each chunk of the stream is to have the usage so far."""
    return wire.stream_options is not None and wire.stream_options.continuous_usage_stats is True


def _refuse_unsupported(wire: CompletionBody) -> None:
    if wire.prompt_logprobs is not None:
        raise _unsupported("prompt_logprobs", "; 'echo' with 'logprobs' gives the same")
    if wire.priority:
        raise _unsupported("priority", " with anything but 0")


def _unsupported(param: str, how: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported on this server{how}.", param=param)
