"""Makes of a prepared request what one kind of engine is sent, and the plan for reading its output.

`fit` is pure: the same prompt and the same engine facts give the same result, so it is made once for each kind of engine and kept
on the `Prompted`. It decides all that differs between engines: whether several choices at temperature 0 are sampled or copied,
which constraint the output is held to, which media are sent, how long the context is. What an engine cannot do is refused by
name. In a fleet of several kinds a worker whose engine refuses is no candidate (pipeline.calls.selecting), so the request is
served if any worker can serve it. Below: reading. Knows no wire.
"""

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from smg_core.engines.base import EngineFacts, EngineRequest
from smg_core.errors import NoWorker, SmgError, UnsupportedParameter
from smg_core.pipeline.fit.easing import eased_for_chat
from smg_core.pipeline.fit.reader_choice import PARSER_HEADER, reading_of
from smg_core.pipeline.output.budget import Budget, BudgetedProcessor, budget_of
from smg_core.pipeline.output.chat_reader import ChatPlan
from smg_core.pipeline.output.echo import Echo
from smg_core.pipeline.output.plan import OutputPlan
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.pipeline.prompt.custom_tools import as_functions, custom_names
from smg_core.pipeline.prompt.media import refuse_mixture, refuse_unless_taken
from smg_core.pipeline.prompt.prepare import refuse_too_long
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import CustomTool, GenerationRequest, HostedTool, Sampling, ToolCall
from smg_core.speech import Transcription
from smg_core.tokenizer.base import Tokenizer
from smg_core.wire.answer_size import tokens_within

__all__ = ["Fit", "FitForChat", "FitForIds", "fit", "fit_all", "fitted", "reader_for", "request_for"]


class FitForIds(Struct, frozen=True, eq=False):
    """For an engine that takes ids: its request (media are packed later, when they are sent), the plan for reading, and the
    budget that reasoning has to keep."""

    request: EngineRequest
    plan: OutputPlan
    budget: Budget | None = None


class FitForChat(Struct, frozen=True, eq=False):
    """For an engine that speaks chat: the request, rewritten where its API lacks a feature, and the plan for reading."""

    request: GenerationRequest
    plan: ChatPlan


Fit = FitForIds | FitForChat


def fitted(prompted: Prompted, facts: EngineFacts) -> Fit:
    """`fit`, made once for each kind of engine. Raises the refusal every time."""
    for known, found in prompted.fits:  # one, in nearly every fleet
        if known is facts or known == facts:
            if isinstance(found, FitForIds | FitForChat):
                return found
            if isinstance(found, SmgError):
                raise found
    try:
        made = fit(prompted, facts)
    except SmgError as refusal:
        prompted.fits.append((facts, refusal))
        raise
    prompted.fits.append((facts, made))
    return made


def fit_all(prompted: Prompted, kinds: Iterable[EngineFacts]) -> None:
    """Make the fits for all `kinds` now, in a thread, so that `fitted` only looks them up. A refusal is kept, and raised by
    `fitted` if that kind is asked for."""
    for facts in kinds:
        with suppress(SmgError):
            fitted(prompted, facts)


def fit(prompted: Prompted, facts: EngineFacts) -> Fit:
    """What an engine of these facts is sent for `prompted`. Raises UnsupportedParameter or InvalidRequest naming what it cannot
    do, and NoWorker for a prompt that has no ids yet, since no engine that takes ids had joined when it was made."""
    if not facts.generates:
        raise UnsupportedParameter(
            f"The model '{prompted.model.name}' writes no text: it makes embeddings.", param="model"
        )
    _refuse_unsupported(prompted, facts)
    if not facts.takes_ids:
        return _for_chat(prompted, facts)
    tokenizer = prompted.model.tokenizer
    if tokenizer is None:
        raise NoWorker(f"The model '{prompted.model.name}' is still being loaded.", retry_after=1.0)
    request, model = prompted.request, prompted.model
    sampling, copies = _sampling(prompted, facts)
    reading = reading_of(request, model, prompted.text, facts, eased=prompted.eased)
    budget = None
    if request.reasoning.budget_tokens is not None or request.reasoning.effort is not None:
        budget = budget_of(request, model, tokenizer, prompted.text, reading.closed, thinks=reading.thinks)
    keeps_control = reading.keeps_control
    plan = OutputPlan(
        tokenizer=tokenizer,
        prompt_tokens=prompted.ids.size,
        choices=sampling.n * copies,
        copies=copies,
        stop=sampling.stop,
        include_stop=sampling.include_stop,
        skip_special_tokens=sampling.skip_special_tokens and not keeps_control,
        hidden_ids=tokenizer.eos_token_ids if keeps_control and not sampling.ignore_eos else frozenset(),
        make_parser=reading.make_parser,
        single_call=reading.single_call,
        free_text=custom_names(request) if request.tools else frozenset(),
        logprobs=sampling.logprobs is not None,
        check=prompted.check,
        on_violation=model.on_violation,
        seal=None if model.seals is None else model.seals.sealing(request),
        echo=_echo(prompted, tokenizer) if request.sampling.echo else None,
        token_ids=sampling.token_ids,
        most_tokens=sampling.max_tokens or 0,
        family=reading.family,
        call_ends=reading.call_ends,
        strict=reading.strict,
    )
    engine = EngineRequest(
        id=request.id,
        input_ids=prompted.ids,
        sampling=sampling if facts.stop_strings or not sampling.stop else replace(sampling, stop=()),
        stream=request.stream or budget is not None or bool(sampling.stop and not facts.stop_strings),
        constraint=reading.constraint,
        after_reasoning=reading.after_reasoning,
        cache_salt=_cache_salt(prompted, facts) if request.caller.tenant else request.cache_salt,
    )
    return FitForIds(engine, plan, budget)


def _cache_salt(prompted: Prompted, facts: EngineFacts) -> str | None:
    """What parts the engine's cache for this request: by tenant where the engine takes a salt. A salt that the client sent to an
    engine that takes none was refused before."""
    request, salts = prompted.request, prompted.model.salts
    if salts is None or not request.caller.tenant:
        return request.cache_salt
    return salts.of(request.caller.tenant, request.cache_salt) if facts.cache_salt else None


def _echo(prompted: Prompted, tokenizer: Tokenizer) -> Echo:
    asked, ids = prompted.request.sampling, prompted.ids
    text = prompted.text or tokenizer.decode(ids, skip_special_tokens=False)
    return Echo(text, ids, scored=asked.prompt_logprobs is not None, alone=asked.max_tokens == 0)


def reader_for(fit: FitForIds, first_call: int, *, keep_ids: bool) -> OutputProcessor:
    """The reader for the output of an engine that was sent `fit`. Arguments as of `OutputProcessor`."""
    if fit.budget is not None:
        return BudgetedProcessor(fit.plan, first_call, fit.budget)
    return OutputProcessor(fit.plan, first_call, keep_ids=keep_ids)


def request_for(fit: FitForIds, reader: object) -> EngineRequest:
    """What the engine of `fit` is sent for a turn that `reader` reads: where the gateway has closed the reasoning, with the
    constraint of what follows it."""
    if fit.budget is None or not isinstance(reader, BudgetedProcessor) or not reader.closed:
        return fit.request
    return replace(fit.request, constraint=fit.budget.constraint, after_reasoning=False)


def _for_chat(prompted: Prompted, facts: EngineFacts) -> FitForChat:
    if PARSER_HEADER in prompted.request.headers:
        raise UnsupportedParameter(
            f"The header '{PARSER_HEADER}' is not taken for a model whose engine reads its own output.",
            param=f"headers.{PARSER_HEADER}",
        )
    request, seals = _narrowed(prompted.request), prompted.model.seals
    request = eased_for_chat(request) if prompted.eased else request
    if (tenant := request.caller.tenant) and (salts := prompted.model.salts) is not None:
        key = None if request.cache_key is None else salts.of(tenant, request.cache_key)
        request = replace(request, cache_salt=_cache_salt(prompted, facts), cache_key=key)
    asked, context, choice = request.sampling, prompted.model.context_length, prompted.request.tool_choice
    if asked.max_tokens is None and (most := _most_tokens(prompted, context)) < context - prompted.ids.size:
        request = replace(request, sampling=replace(asked, max_tokens=most))
    plan = ChatPlan(
        choices=request.sampling.n,
        stop=request.sampling.stop,
        only=frozenset([key.name for key in choice.names]) or None,
        single_call=choice.parallel is False,
        free_text=custom_names(request),
        check=prompted.check,
        on_violation=prompted.model.on_violation,
        seal=None if seals is None else seals.sealing(request),
        carry=None if seals is None else seals.carrying(request),
        reads_parts=request.origin is None or not request.origin.seals,
    )
    return FitForChat(request if facts.custom_tools or not _has_custom(request) else as_functions(request), plan)


def _narrowed(request: GenerationRequest) -> GenerationRequest:
    """The request with only the tools that may be called: most servers do not know a choice among some of the tools."""
    choice = request.tool_choice
    if not choice.names or (choice.mode == "required" and len(choice.names) == 1):
        return request
    some = [tool for tool in request.tools if not isinstance(tool, HostedTool) and tool.key in choice.names]
    return replace(request, tools=tuple(some), tool_choice=replace(choice, names=()))


def _has_custom(request: GenerationRequest) -> bool:
    """Whether the request has a tool that takes free text, or an earlier call of one."""
    return any(isinstance(tool, CustomTool) for tool in request.tools) or any(
        isinstance(part, ToolCall) and part.custom for message in request.messages for part in message.parts
    )


def _most_tokens(prompted: Prompted, context: int) -> int:
    """How many tokens an answer may have where the client has named no number: the rest of the context, and of an answer that
    leaves whole as many as are kept of one."""
    left, asked, most = context - prompted.ids.size, prompted.request.sampling, prompted.model.answer_bytes
    if prompted.request.stream or not most:
        return left
    return min(left, tokens_within(most, asked.n, asked.logprobs))


def _sampling(prompted: Prompted, facts: EngineFacts) -> tuple[Sampling, int]:
    """The sampling for the engine, and how many choices of the answer each of its choices is copied to."""
    asked, defaults = prompted.request.sampling, prompted.model.default_sampling
    changes: dict[str, object] = {}
    context = facts.context_length or prompted.model.context_length
    if asked.max_tokens is None and context:
        changes["max_tokens"] = _most_tokens(prompted, context)
    if asked.max_tokens == 0:  # engines make at least one token; it is not passed on
        changes["max_tokens"] = 1
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty") if defaults else ():
        if getattr(asked, name) is None and defaults.get(name) is not None:
            changes[name] = defaults[name]
    copies = 1
    if asked.n > 1 and not facts.greedy_n and changes.get("temperature", asked.temperature) == 0:
        copies = asked.n  # every choice would be the same: sampled once, given n times
        changes["n"] = 1
    return (replace(asked, **changes) if changes else asked), copies


def _refuse_unsupported(prompted: Prompted, facts: EngineFacts) -> None:
    """Refuse by name what this engine cannot do."""
    request = prompted.request
    asked = request.sampling
    if facts.context_length != prompted.model.context_length and prompted.ids.size:
        refuse_too_long(request, prompted.ids.size, facts.context_length)
    if request.prompt is not None and not facts.takes_ids:
        raise UnsupportedParameter("This model's engine takes messages, and no prompt as it stands.", param="prompt")
    if asked.token_ids and not facts.takes_ids:
        raise UnsupportedParameter("This model's engine tells no token ids.", param="sampling.token_ids")
    _refuse_sampling(asked, facts)
    if request.transcription is not None:
        _refuse_hearing(request.transcription, facts)
    if (request.live is not None) != facts.realtime:
        raise UnsupportedParameter(
            "This model's engine has Realtime sessions alone."
            if facts.realtime
            else "This model's engine has no Realtime sessions of its own.",
            param="model",
        )
    if request.speaking is not None and not facts.speaks:
        raise UnsupportedParameter("This model's engine makes no speech.", param="model")
    if request.imaging is not None and not facts.pictures:
        raise UnsupportedParameter("This model's engine makes no pictures.", param="model")
    if prompted.model.adapter and not facts.lora:
        raise UnsupportedParameter("This engine's protocol cannot carry an adapter.", param="model")
    if request.cache_salt is not None and not facts.cache_salt:
        raise UnsupportedParameter("This engine's protocol cannot carry a cache salt.", param="cache_salt")
    if prompted.items:
        if facts.media is not None:
            refuse_unless_taken(prompted.items, request.model, facts.media)
        refuse_mixture(prompted.items, facts.media_together)


def _refuse_hearing(asked: Transcription, facts: EngineFacts) -> None:
    """Refuse what this engine cannot do with a recording."""
    if asked.timed and not facts.speech:
        raise UnsupportedParameter(
            "This model's engine gives no times of what is spoken.", param="transcription.format"
        )
    if asked.piecemeal and not facts.takes_ids:
        raise UnsupportedParameter("This model's engine takes recordings whole.", param="messages")


def _refuse_sampling(asked: Sampling, facts: EngineFacts) -> None:
    """Refuse the settings that this engine, or its protocol, cannot take."""
    most = facts.max_logprobs
    lacks = (
        (asked.n > 1 and not facts.n, "This model's engine gives one choice at a time.", "n"),
        (
            facts.max_n is not None and asked.n > facts.max_n,
            f"This model's engine gives at most {facts.max_n} choices.",
            "n",
        ),
        (
            bool(asked.min_tokens) and not facts.min_tokens,
            "This model's engine cannot be kept from ending early.",
            "min_tokens",
        ),
        (asked.seed is not None and not facts.seed, "This engine's protocol cannot carry a seed.", "seed"),
        (
            bool(asked.logit_bias) and not facts.logit_bias,
            "This engine's protocol cannot carry a logit bias.",
            "logit_bias",
        ),
        (
            bool(asked.stop_token_ids) and not facts.stop_token_ids,
            "This engine's protocol cannot carry tokens to stop at.",
            "stop_token_ids",
        ),
        (asked.logprobs is not None and not facts.logprobs, "This model's engine gives no logprobs.", "logprobs"),
        (
            asked.logprobs is not None and most is not None and asked.logprobs > most,
            f"At most {most} logprobs per token.",
            "logprobs",
        ),
        (
            asked.prompt_logprobs is not None and not facts.prompt_logprobs,
            "This model's engine gives no prompt logprobs.",
            "prompt_logprobs",
        ),
    )
    for lacking, message, name in lacks:
        if lacking:
            raise UnsupportedParameter(message, param=f"sampling.{name}")
