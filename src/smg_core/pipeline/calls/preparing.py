"""Performs `Prepare`: renders, encodes and checks a request, long work off the event loop (edge).

Decides only which work runs on the event loop and which in a thread; `pipeline.prompt.prepare` does the work. A text that
cannot fit the context is refused before it is rendered or encoded, and the work is given up when the client leaves. Above:
performers. Below: prepare, executor, media.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from smg_core.clock import Clock
from smg_core.errors import ClientGone, InvalidRequest, PermissionDenied, PromptTooLong, SmgError, UnsupportedParameter
from smg_core.events import EditedContext, Effective
from smg_core.hooks import EncodeDone, MediaLoaded, ReasoningLeftOut, Rendered
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.calls.passing_media import BringContent
from smg_core.pipeline.fit.fit import fit_all
from smg_core.pipeline.flow.driver import Run
from smg_core.pipeline.flow.steps import Prepare
from smg_core.pipeline.prompt.context_edits import change_of, check_countable, edited_context
from smg_core.pipeline.prompt.effort import with_effective_effort
from smg_core.pipeline.prompt.media import MediaItem, PlacedMedia, refuse_unless_taken, wanted_pixels
from smg_core.pipeline.prompt.prepare import (
    Rendering,
    Unsealed,
    assemble,
    characters_of,
    encode,
    framed,
    free_values_small,
    has_text_alone,
    quickly_assembled,
    quickly_rendered,
    refuse_long_prompt,
    refuse_long_text,
    refuse_too_long,
    render,
    salt_of,
    sealed_size,
    take_media,
    unsealed,
)
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedAs, ServedModel, SharedOut, as_named, unshared
from smg_core.request import ClearToolUses, GenerationRequest
from smg_core.sealing.sealer import load_ciphers
from smg_core.tokenizer.base import EncodeReport, GivenUp, Prompt
from smg_core.workers.registry import Registry

if TYPE_CHECKING:
    from smg_core.guardrails.guards import Guards

__all__ = ["Preparing"]

T = TypeVar("T")


_SURELY = 100.0
"""A bias of a token's logit beside which no other token is drawn."""

_UNSEALED_INLINE = 64 * 1024
"""Most bytes of sealed reasoning that are opened on the event loop; this takes half a millisecond."""


class Preparing:
    """The performer of `Prepare`. `render_inline` is how many characters of messages may be rendered on the event loop (about a
    millisecond), as each model's `encode_inline` is for encoding; longer work goes to `executor`, where tenants take turns.
    `served_as` returns the model for a name that is not a model's, and the tenant who uses it.
    `shared_out` returns the model of a request whose name several share; `content` a request with its media, where they are
    passed on to engines that read prompts themselves, and with its documents as text and pictures, where those read none. `noted`
    returns the request with which to go on after an error, None where it stands. `guarding` is shown what goes to the model,
    whoever has put it there: the client, the history, a tool."""

    def __init__(
        self,
        *,
        registry: Registry,
        models: Mapping[str, ServedModel],
        clock: Clock,
        executor: FairExecutor,
        render_inline: int = 200_000,
        served_as: ServedAs = as_named,
        shared_out: SharedOut = unshared,
        content: BringContent | None = None,
        noted: Callable[[GenerationRequest, SmgError], GenerationRequest | None] = lambda request, error: None,
    ) -> None:
        self._registry = registry
        self._models = models
        self._clock = clock
        self._executor = executor
        self._render_inline = render_inline
        self._served_as = served_as
        self._shared_out = shared_out
        self._content = content
        self._noted = noted
        self.guarding: Guards | None = None
        self._has_ciphers = False

    async def __call__(self, step: Prepare, run: Run) -> Prompted:
        prompted = await self.prepare(step.request, run.trace, step.model)
        run.answer.dropped = prompted.dropped
        run.answer.edits = prompted.edits
        if prompted.request.sampling.token_ids:
            run.answer.prompt_ids = tuple(prompted.ids)
        sampling = prompted.request.sampling
        usual: Mapping[str, Any] = prompted.model.default_sampling
        run.answer.effective = Effective(
            prompted.request.reasoning.effort,
            usual.get("temperature") if sampling.temperature is None else sampling.temperature,
            usual.get("top_p") if sampling.top_p is None else sampling.top_p,
        )
        return prompted

    def _model_of(self, request: GenerationRequest, instead: str) -> tuple[str, ServedModel]:
        """The model that the request's name stands for, or that `instead` does, by that name. Raises ModelNotFound, NoWorker
        and PermissionDenied."""
        asked, granted = request.model, request.caller.grants
        name = instead or self._shared_out(request)
        if name not in self._models:
            name = self._served_as(name, request.caller.tenant)
        if granted.models and not granted.may_use(asked, name):
            self._registry.refuse(asked, hidden=True)
        if request.priority and not granted.may("priority"):
            raise PermissionDenied("This key has no permission 'priority', which 'priority' needs.", param="priority")
        model = self._models.get(name)
        if model is None:
            self._registry.refuse(name)
        return name, model

    async def prepare(self, request: GenerationRequest, trace: Trace, instead: str = "") -> Prompted:
        """The request, ready for any engine of its model, or of the model `instead`. Raises ModelNotFound, NoWorker, and
        InvalidRequest."""
        while True:
            try:
                return await self._prepared(request, trace, instead)
            except (InvalidRequest, UnsupportedParameter) as error:
                if trace.documents is not None and trace.documents.show_fewer():
                    continue  # with pictures that nobody has sent as such, it must not fail where it would not without them
                noted = self._noted(request, error)
                if noted is None:
                    raise
                request = noted

    async def _prepared(self, request: GenerationRequest, trace: Trace, instead: str) -> Prompted:
        name, model = self._model_of(request, instead)
        request = request if name == request.model else replace(request, model=name)
        if not self._has_ciphers and (model.tokenizer is None or (request.origin and request.origin.seals)):
            await self._load_ciphers()
        plain = has_text_alone(request)
        if self._content is not None and not plain:
            request = await self._content(request, trace, model, tuple(self._registry.kinds(request.model)))
        salt = salt_of(request)
        opened = None
        if not plain:
            opened = await self._unsealed(request, model, trace)
            request = opened.request
        if self.guarding is not None:
            request = await self.guarding.request(request, model.tokenizer, trace.report)
        edits: tuple[EditedContext, ...] = ()
        if request.context_edits:
            request, edits = await self._edited(request, model, salt)
        items = () if plain else take_media(request, model)
        inline = self._render_inline
        prompt = render(request, model) if quickly_rendered(request, inline) else await self._rendered(request, model)
        rendered = self._clock.monotonic()
        trace.report(Rendered(request.id, rendered))
        if self._is_long(prompt, model):
            encoded = await self._encoded(prompt, request, model, salt)
        else:
            encoded = encode(prompt, model, salt)
        encoded = encoded if request.prompt is None else framed(encoded, request, model)
        now = self._clock.monotonic()
        media = await self._place(request, model, items, encoded) if model.media is not None else None
        if media is not None:
            encoded, request = replace(encoded, ids=media.ids), _as_heard(request, media, model)
        trace.report(
            EncodeDone(
                request.id,
                encoded.characters,
                encoded.cached_characters,
                encoded.ids.size,
                now - rendered,
                now,
            )
        )
        if media is not None:
            trace.report(MediaLoaded(request.id, len(items), self._clock.monotonic()))
        text = prompt.text if isinstance(prompt, Prompt) and request.sampling.truncate_prompt is None else ""
        if free_values_small(request, inline) and quickly_assembled(request):
            made = assemble(request, model, text, encoded, items, media, salt=salt, opened=opened, edits=edits)
            trace.prompted = made
            return made
        kinds = self._registry.kinds(request.model)

        def assembled(_: GivenUp) -> Prompted:
            made = assemble(request, model, text, encoded, items, media, salt=salt, opened=opened, edits=edits)
            fit_all(made, kinds)
            return made

        trace.prompted = prompted = await self._long(assembled, request, request.size)
        return prompted

    async def _load_ciphers(self) -> None:
        """Load what reasoning is sealed with, which is done in the event loop: an outside model's for each API."""
        await asyncio.to_thread(load_ciphers)
        self._has_ciphers = True

    async def _long(self, work: Callable[[GivenUp], T], request: GenerationRequest, size: int) -> T:
        return await self._executor.run(work, size=size, caller=request.caller.tenant)

    async def _unsealed(self, request: GenerationRequest, model: ServedModel, trace: Trace) -> Unsealed:
        asked = request.reasoning
        if asked.effort is not None or asked.budget_tokens is not None or asked.enabled is not None:
            request = with_effective_effort(request, model)
        size = sealed_size(request, model)
        if size <= _UNSEALED_INLINE:
            opened = unsealed(request, model)
        else:
            opened = await self._long(lambda _: unsealed(request, model), request, size)
        if opened.dropped:
            reasons = tuple(each.reason for each in opened.dropped)
            trace.report(ReasoningLeftOut(request.id, reasons, self._clock.monotonic()))
        return opened

    async def _edited(
        self, request: GenerationRequest, model: ServedModel, salt: str
    ) -> tuple[GenerationRequest, tuple[EditedContext, ...]]:
        """The request after the edits of its context, and those that changed something. Media count for nothing."""
        edits = request.context_edits
        request = replace(request, context_edits=())
        if model.tokenizer is None or model.template is None:
            check_countable(edits)
        before = await self._tokens(request, model, salt)
        made: list[EditedContext] = []
        for edit in edits:
            found = edited_context(request, edit, before)
            if found is None:
                continue
            after = await self._tokens(found.request, model, salt)
            if isinstance(edit, ClearToolUses) and before - after < (edit.at_least_tokens or 0):
                continue
            made.append(change_of(edit, found, before - after))
            request, before = found.request, after
        return request, tuple(made)

    async def _tokens(self, request: GenerationRequest, model: ServedModel, salt: str) -> int:
        """How many tokens the prompt has; at least, where it is far too long for the model."""
        try:
            prompt = await self._rendered(request, model)
            return len((await self._encoded(prompt, request, model, salt)).ids)
        except PromptTooLong as error:
            return error.prompt_tokens

    async def _rendered(self, request: GenerationRequest, model: ServedModel) -> Rendering:
        if quickly_rendered(request, self._render_inline):
            return render(request, model)

        characters = characters_of(request)

        def rendered(given_up: GivenUp) -> Rendering:
            refuse_long_text(characters, request, model)
            _refuse_gone(given_up)
            return render(request, model)

        return await self._long(rendered, request, max(request.size, characters))

    @staticmethod
    def _is_long(prompt: Rendering, model: ServedModel) -> bool:
        """Whether encoding the prompt takes too long for the event loop."""
        return isinstance(prompt, Prompt) and sum(map(len, prompt.pieces)) > model.encode_inline

    async def _encoded(
        self, prompt: Rendering, request: GenerationRequest, model: ServedModel, salt: str
    ) -> EncodeReport:
        if not isinstance(prompt, Prompt) or model.tokenizer is None or not self._is_long(prompt, model):
            return encode(prompt, model, salt)
        known = model.tokenizer.recall(prompt, salt=salt)
        if known is not None:
            return known

        def encoded(given_up: GivenUp) -> EncodeReport:
            refuse_long_prompt(prompt, request, model)
            _refuse_gone(given_up)
            return encode(prompt, model, salt, given_up)

        return await self._long(encoded, request, sum(map(len, prompt.pieces)))

    async def _place(
        self, request: GenerationRequest, model: ServedModel, items: Sequence[MediaItem], encoded: EncodeReport
    ) -> PlacedMedia | None:
        """Fetch and process the media and expand the prompt for them. The only time-outs are those of fetching; a client that
        leaves cancels this."""
        media, ids = model.media, encoded.ids
        if media is None:
            return None
        if not items:
            if request.prompt is not None or not model.protect_control:
                media.refuse_strays(ids)
            return None
        kinds = self._registry.kinds(request.model)
        if kinds and all(facts.media is not None for facts in kinds):
            taken = frozenset(kind for facts in kinds for kind in facts.media or ())
            refuse_unless_taken(items, request.model, taken)
        loaded = await media.load(
            items,
            pixels=wanted_pixels(kinds),
            tenant=request.caller.tenant,
            check=lambda tokens: refuse_too_long(request, len(ids) + tokens - len(items), model.context_length),
        )
        return await media.place(ids, loaded)


def _as_heard(request: GenerationRequest, placed: PlacedMedia, model: ServedModel) -> GenerationRequest:
    """The request for an answer that is no longer than what is heard, where it ends with that; or for the token of a language,
    where that is what is asked for."""
    asked = request.sampling
    if request.transcription is not None and request.transcription.detects and model.media is not None:
        biases = dict.fromkeys(model.media.languages, _SURELY)
        one = replace(asked, max_tokens=1, min_tokens=None, skip_special_tokens=False, logit_bias=biases)
        return replace(request, sampling=one)
    if placed.most is None:
        return request
    return replace(request, sampling=replace(asked, max_tokens=min(placed.most, asked.max_tokens or placed.most)))


def _refuse_gone(given_up: GivenUp) -> None:
    """Raise ClientGone if the client has left, before work that may take seconds."""
    if given_up():
        raise ClientGone("The client left before its prompt was ready.")
