"""generateContent as a `WireFormat`. Pure. Above: the rows of kinds. Below: body, events, facts."""

from urllib.parse import quote

import attrs
import msgspec
from msgspec import Struct

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.gemini.body import write_gemini
from smg_core.engines.vendors.gemini.contents import PROVIDER
from smg_core.engines.vendors.gemini.events import GeminiDecoder, gemini_error_in
from smg_core.engines.vendors.gemini.facts import GeminiFacts, gemini_facts
from smg_core.engines.vendors.gemini.wire import GeminiErrorWire
from smg_core.engines.vendors.listing import GEMINI_LIST, ModelCatalogue
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.vectors import GeminiVectors, VectorsFormat
from smg_core.engines.vendors.wire_format import EVENTS, WHOLE, DescribedModel, ProviderCall
from smg_core.errors import EngineGarbled, SmgError
from smg_core.origin import Origin
from smg_core.request import GenerationRequest
from smg_core.tokens import reported_count

__all__ = ["GeminiFormat"]


class _Refused(Struct, frozen=True):
    error: GeminiErrorWire = GeminiErrorWire()


class _Counted(Struct, frozen=True, rename="camel"):
    total_tokens: int


class _Model(Struct, frozen=True, rename="camel"):
    name: str
    input_token_limit: int | None = None
    output_token_limit: int | None = None


class GeminiFormat:
    """generateContent, for one model."""

    provider = PROVIDER
    maker = (PROVIDER, "")
    usual_path = "/v1beta"
    vectors: VectorsFormat = GeminiVectors()
    catalogue: ModelCatalogue | None = GEMINI_LIST

    def __init__(self) -> None:
        self._context = self._output = 0

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it."""
        return EngineFacts(
            dialect=PROVIDER,
            takes_ids=False,
            transport="http",
            max_n=8,
            min_tokens=False,
            logit_bias=False,
            stop_token_ids=False,
            constraints=frozenset({"json_schema", "json_object", "choice"}),
            prompt_logprobs=False,
            cache_salt=False,
            media=frozenset({"image", "video", "audio"}),
            media_together=frozenset({"image", "video", "audio"}),
            loads=False,
            kv_events=False,
            documents=True,
            context_length=self._context,
        )

    def _facts_of(self, model: str) -> GeminiFacts:
        return attrs.evolve(gemini_facts(model), output=self._output)

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation."""
        losses = Losses()
        made = write_gemini(request, model, self._facts_of(model), losses)
        calls = (request.origin or Origin("")).calls
        decoder = GeminiDecoder(model, made.names, limits, made_up=f"{calls}{request.id}", choices=request.sampling.n)
        verbatim = words == "gemini" and not made.names.changed
        whole = verbatim and not request.stream
        if verbatim:
            decoder.pass_on(request.model, at_once=whole)
        path = f"/models/{_segment(model)}:{'generateContent' if whole else 'streamGenerateContent?alt=sse'}"
        accept = WHOLE if whole else EVENTS
        return ProviderCall(path, made.body, decoder, losses=losses.found, accept=accept, at_once=whole)

    def count(self, request: GenerationRequest, model: str) -> ProviderCall:
        """The question how many tokens its prompt has."""
        made = write_gemini(request, model, self._facts_of(model), Losses())
        asked = msgspec.json.decode(made.body, type=dict[str, msgspec.Raw])
        asked["model"] = msgspec.Raw(msgspec.json.encode(f"models/{model}"))
        body = msgspec.json.encode({"generateContentRequest": asked})
        return ProviderCall(f"/models/{_segment(model)}:countTokens", body)

    def counted(self, body: bytes) -> int:
        """The answer to it."""
        try:
            return msgspec.json.decode(body, type=_Counted).total_tokens
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EngineGarbled(
                "The provider's count of tokens cannot be read.", detail=str(error), outside_text=str(error)
            ) from None

    def about(self, model: str) -> ProviderCall:
        """The question what the model is."""
        return ProviderCall(f"/models/{_segment(model)}", b"")

    def described(self, body: bytes) -> DescribedModel:
        """The answer to it."""
        try:
            model = msgspec.json.decode(body, type=_Model)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EngineGarbled(
                "The provider's word on the model cannot be read.", detail=str(error), outside_text=str(error)
            ) from None
        self._context, self._output = reported_count(model.input_token_limit), reported_count(model.output_token_limit)
        return DescribedModel(model.name, self._context)

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200; streams have it in a list."""
        body = reply.body.strip()
        if body[:1] == b"[" and body[-1:] == b"]":
            body = body[1:-1]
        try:
            error = msgspec.json.decode(body, type=_Refused).error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            error = GeminiErrorWire(message=body.decode("utf-8", "replace"))
        return gemini_error_in(error, reply.status)


def _segment(model: str) -> str:
    return quote(model, safe="")
