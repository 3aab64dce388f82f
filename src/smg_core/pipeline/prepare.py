"""From what the client asked to what the engine is sent.

Three steps, apart because they cost differently: `render` (the chat template, microseconds to milliseconds), the encoding
(from nothing to milliseconds, done by whoever has a thread for it) and `assemble` (checks and records). Everything that
makes engines crash or hang is refused here, for every API and path: empty prompts, ids outside the vocabulary, prompts
over the context. Below: tokenizer, engine records, parsers. Knows no worker and no wire.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from smg_core.engines.base import EngineRequest
from smg_core.errors import InvalidRequest, PromptTooLong, UnsupportedParameter
from smg_core.pipeline.formats import constraint_of, output_check
from smg_core.pipeline.media import MediaItem, PlacedMedia, media_of, refuse_unless_taken
from smg_core.pipeline.output import OutputPlan
from smg_core.pipeline.reading import reading_of
from smg_core.pipeline.served import ServedModel
from smg_core.request import FunctionTool, GenerationRequest, Sampling
from smg_core.tokenizer.base import EncodeReport, Prompt
from smg_core.tokens import TokenIds

__all__ = ["Prepared", "assemble", "encode", "render", "take_media"]


@attrs.frozen
class Prepared:
    """A request ready for any worker of its model. `media_keys` stand for the ids of a prompt with media where prompts are
    compared."""

    request: GenerationRequest
    model: ServedModel
    prompt: str
    encoded: EncodeReport
    engine: EngineRequest
    plan: OutputPlan
    media_keys: Sequence[int] | None = attrs.field(default=None, repr=False)


def take_media(request: GenerationRequest, model: ServedModel) -> list[MediaItem]:
    """The request's media, in prompt order. Raises UnsupportedParameter naming one that the model does not take."""
    items = media_of(request.messages)
    if items:
        refuse_unless_taken(items, request.model, model.media.kinds if model.media is not None else frozenset())
    return items


def render(request: GenerationRequest, model: ServedModel) -> Prompt | TokenIds:
    """The prompt's text, or the ids where the client sent ids. Raises TemplateFailed and InvalidRequest."""
    if request.prompt is not None:
        return Prompt((request.prompt,)) if isinstance(request.prompt, str) else _own_ids(request.prompt, model)
    if model.template is None:
        raise InvalidRequest(f"The model '{model.name}' has no chat template.", param="messages")
    return model.template.render(
        request.messages,
        tools=request.tools if request.tool_choice.mode != "none" else (),
        documents=request.documents,
        add_generation_prompt=request.add_generation_prompt,
        continue_final_message=request.continue_final_message,
        arguments=request.template_arguments,
        protect_control=model.protect_control,
        tool_choice=request.tool_choice if request.tools else None,
        reasoning=request.reasoning,
    )


def encode(prompt: Prompt | TokenIds, model: ServedModel, salt: str) -> EncodeReport:
    """The prompt's ids. CPU work of up to milliseconds for long new text. `salt` keeps tenants apart in the caches."""
    if isinstance(prompt, TokenIds):
        return EncodeReport(prompt, 0)
    return model.tokenizer.encode_prompt(prompt, salt=salt)


def assemble(
    request: GenerationRequest,
    model: ServedModel,
    prompt: str,
    encoded: EncodeReport,
    placed: PlacedMedia | None = None,
) -> Prepared:
    """Check what can only be checked now, and put the records together. `encoded` has the ids the engine is sent: those of a
    prompt with media are expanded, and `placed` is what belongs to them."""
    length = len(encoded.ids)
    if not length:
        raise InvalidRequest("The prompt is empty.", param="messages" if request.messages else "prompt")
    sampling = _sampling(request, model, length)
    copies = 1
    if sampling.n > 1 and sampling.temperature == 0 and not model.capabilities.greedy_n:
        copies, sampling = sampling.n, attrs.evolve(sampling, n=1)
    reading = reading_of(request, model, prompt)
    keeps_control = reading.keeps_control
    plan = OutputPlan(
        tokenizer=model.tokenizer,
        prompt_tokens=length,
        choices=sampling.n * copies,
        copies=copies,
        stop=sampling.stop,
        include_stop=sampling.include_stop,
        skip_special_tokens=sampling.skip_special_tokens and not keeps_control,
        hidden_ids=model.tokenizer.eos_token_ids if keeps_control and not sampling.ignore_eos else frozenset(),
        make_parser=reading.make_parser,
        single_call=reading.single_call,
        logprobs=sampling.logprobs is not None,
        check=output_check(request.response_format),
    )
    engine = EngineRequest(
        id=request.id,
        input_ids=encoded.ids,
        sampling=sampling if model.capabilities.stop_strings else attrs.evolve(sampling, stop=()),
        stream=request.stream,
        constraint=reading.constraint or constraint_of(request.response_format, model.capabilities),
        multimodal=placed.inputs if placed is not None else None,
        cache_salt=request.cache_salt,
    )
    return Prepared(request, model, prompt, encoded, engine, plan, placed.keys if placed is not None else None)


def _own_ids(prompt: Sequence[int], model: ServedModel) -> TokenIds:
    size = model.vocab_size
    if any(not 0 <= each < size for each in prompt):
        raise InvalidRequest(f"Token ids must be between 0 and {size - 1}.", param="prompt")
    return TokenIds(prompt)


def _sampling(request: GenerationRequest, model: ServedModel, length: int) -> Sampling:
    asked, defaults = request.sampling, model.default_sampling
    _refuse_unsupported(request, model)
    room = model.context_length - length if model.context_length else None
    if room is not None and (room <= 0 or (asked.max_tokens is not None and asked.max_tokens > room)):
        raise PromptTooLong(length, max(asked.max_tokens or 1, 1), model.context_length)
    return attrs.evolve(
        asked,
        max_tokens=asked.max_tokens if asked.max_tokens is not None else room,
        temperature=_or_default(asked.temperature, defaults, "temperature"),
        top_p=_or_default(asked.top_p, defaults, "top_p"),
        top_k=_or_default(asked.top_k, defaults, "top_k"),
        min_p=_or_default(asked.min_p, defaults, "min_p"),
        repetition_penalty=_or_default(asked.repetition_penalty, defaults, "repetition_penalty"),
        logit_bias=_known_ids(asked.logit_bias, model),
    )


def _or_default(asked: Any, defaults: Mapping[str, Any], name: str) -> Any:
    return defaults.get(name) if asked is None and defaults else asked


def _known_ids(bias: Mapping[int, float] | None, model: ServedModel) -> Mapping[int, float] | None:
    for each in bias or ():
        if not 0 <= each < model.vocab_size:
            raise InvalidRequest(f"Token ids must be between 0 and {model.vocab_size - 1}.", param="logit_bias")
    return bias


def _refuse_unsupported(request: GenerationRequest, model: ServedModel) -> None:
    """Refuse by name what this model's engine cannot do."""
    asked, able = request.sampling, model.capabilities
    if asked.n > 1 and not able.n:
        raise UnsupportedParameter("This model's engine gives one choice at a time.", param="n")
    if request.cache_salt is not None and not able.cache_salt:
        raise UnsupportedParameter("This model's engine cannot keep caches apart by a salt.", param="cache_salt")
    if asked.logprobs is not None and not able.logprobs:
        raise UnsupportedParameter("This model's engine gives no logprobs.", param="logprobs")
    if asked.logprobs is not None and able.max_logprobs is not None and asked.logprobs > able.max_logprobs:
        raise UnsupportedParameter(f"At most {able.max_logprobs} logprobs per token.", param="top_logprobs")
    if asked.prompt_logprobs is not None and not able.prompt_logprobs:
        raise UnsupportedParameter("This model's engine gives no prompt logprobs.", param="prompt_logprobs")
    if any(each >= model.vocab_size for each in asked.stop_token_ids):
        raise InvalidRequest(f"Token ids must be below {model.vocab_size}.", param="stop_token_ids")
    for place, tool in enumerate(request.tools):
        if not isinstance(tool, FunctionTool):
            raise UnsupportedParameter("Only function tools can be called here.", param=f"tools[{place}].type")
