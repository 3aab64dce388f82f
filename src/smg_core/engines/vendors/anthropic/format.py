"""The Messages API as a `WireFormat`.

Decides the version of the API that is asked for, and what the list of models says. Pure but for what it has learnt of the model.
Above: the rows of kinds. Below: body, events, facts.
"""

from urllib.parse import quote

import msgspec
from msgspec import Struct

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.body import WrittenMessages, write_body
from smg_core.engines.vendors.anthropic.events import MessagesDecoder, error_in
from smg_core.engines.vendors.anthropic.facts import ModelFacts, facts_of, named_facts
from smg_core.engines.vendors.anthropic.turns import PROVIDER
from smg_core.engines.vendors.anthropic.wire import ClaudeErrorWire
from smg_core.engines.vendors.listing import ANTHROPIC_LIST, ModelCatalogue
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.refusals import waited
from smg_core.engines.vendors.vectors import VectorsFormat
from smg_core.engines.vendors.wire_format import EVENTS, WHOLE, DescribedModel, ProviderCall
from smg_core.errors import EngineGarbled, SmgError
from smg_core.request import GenerationRequest

__all__ = ["MessagesFormat"]

_NEWEST, _SAMPLED = "2026-10-21", "2023-06-01"
"""Versions of the API: the newest refuses settings of sampling, which the other one takes."""
_COUNTED = frozenset({"messages", "model", "system", "tools", "tool_choice", "thinking", "output_config"})


class _Refused(Struct, frozen=True):
    error: ClaudeErrorWire = ClaudeErrorWire()


class _Counted(Struct, frozen=True):
    input_tokens: int


class MessagesFormat:
    """Messages, for one model. `facts_known` are those of the model, None to go by its name."""

    provider = PROVIDER
    maker = (PROVIDER, "")
    usual_path = "/v1"
    vectors: VectorsFormat = VectorsFormat()
    catalogue: ModelCatalogue | None = ANTHROPIC_LIST

    def __init__(self, facts_known: ModelFacts | None = None) -> None:
        self._known = facts_known

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it."""
        return EngineFacts(
            dialect=PROVIDER,
            takes_ids=False,
            transport="http",
            n=False,
            min_tokens=False,
            seed=False,
            logit_bias=False,
            stop_token_ids=False,
            constraints=frozenset({"json_schema"}),
            logprobs=False,
            prompt_logprobs=False,
            cache_salt=False,
            media=frozenset({"image"}),
            loads=False,
            kv_events=False,
            documents=True,
            context_length=0 if self._known is None else self._known.context,
        )

    def _of(self, model: str) -> ModelFacts:
        return named_facts(model) if self._known is None else self._known

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation."""
        losses = Losses()
        made = write_body(request, model, self._of(model), losses, verbatim=words == "messages")
        decoder = MessagesDecoder(model, made.names, limits, format_tool=made.format_tool)
        whole = made.verbatim and not request.stream
        if made.verbatim:
            decoder.pass_on(request.model, at_once=whole)
        accept = WHOLE if whole else EVENTS
        return ProviderCall(
            "/messages", made.body, decoder, _headers(request, made), losses.found, accept, at_once=whole
        )

    def count(self, request: GenerationRequest, model: str) -> ProviderCall:
        """The question how many tokens its prompt has."""
        made = write_body(request, model, self._of(model), Losses())
        fields = msgspec.json.decode(made.body, type=dict[str, msgspec.Raw])
        body = msgspec.json.encode({name: value for name, value in fields.items() if name in _COUNTED})
        return ProviderCall("/messages/count_tokens", body, headers=(("anthropic-version", _SAMPLED),))

    def counted(self, body: bytes) -> int:
        """The answer to it."""
        try:
            return msgspec.json.decode(body, type=_Counted).input_tokens
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EngineGarbled(
                "The provider's count of tokens cannot be read.", detail=str(error), outside_text=str(error)
            ) from None

    def about(self, model: str) -> ProviderCall:
        """The question what the model is."""
        return ProviderCall(f"/models/{quote(model, safe='')}", b"", headers=(("anthropic-version", _SAMPLED),))

    def described(self, body: bytes) -> DescribedModel:
        """The answer to it, by which the model is asked from now on."""
        try:
            name, self._known = facts_of(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EngineGarbled(
                "The provider's word on the model cannot be read.", detail=str(error), outside_text=str(error)
            ) from None
        return DescribedModel(name, self._known.context)

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        try:
            error = msgspec.json.decode(reply.body, type=_Refused).error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            error = ClaudeErrorWire("", reply.body.decode("utf-8", "replace"))
        return error_in(error, reply.status, waited(reply.headers))


def _headers(request: GenerationRequest, made: WrittenMessages) -> tuple[tuple[str, str], ...]:
    """The version that the client named, else one that takes the body; and the client's own betas."""
    origin = request.origin
    version = origin.version if origin is not None else None
    fields = [("anthropic-version", version or (_SAMPLED if made.sampled else _NEWEST))]
    if origin is not None and origin.betas:
        fields.append(("anthropic-beta", ",".join(sorted(origin.betas))))
    return tuple(fields)
