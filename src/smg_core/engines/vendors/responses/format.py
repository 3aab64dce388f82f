"""The Responses API as a `WireFormat`. Pure. Above: the rows of kinds. Below: body, events."""

from urllib.parse import quote

import msgspec
from msgspec import Struct

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.listing import OPENAI_LIST, ModelCatalogue
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.pictures import picture_call
from smg_core.engines.vendors.refusals import waited
from smg_core.engines.vendors.responses.body import write_responses
from smg_core.engines.vendors.responses.events import ResponsesDecoder, responses_error_in
from smg_core.engines.vendors.responses.items import PROVIDER
from smg_core.engines.vendors.responses.wire import ResponsesError
from smg_core.engines.vendors.vectors import OpenAiVectors, VectorsFormat
from smg_core.engines.vendors.wire_format import EVENTS, WHOLE, DescribedModel, ProviderCall
from smg_core.errors import EngineGarbled, SmgError
from smg_core.request import GenerationRequest

__all__ = ["ResponsesFormat"]

_COUNTED = frozenset({"model", "input", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls"})


class _Refused(Struct, frozen=True):
    error: ResponsesError = ResponsesError()


class _Counted(Struct, frozen=True):
    input_tokens: int


class _Model(Struct, frozen=True):
    id: str


class ResponsesFormat:
    """Responses, for one model. `account` tells apart accounts, whose reasoning is theirs alone."""

    provider = PROVIDER
    usual_path = "/v1"
    vectors: VectorsFormat = OpenAiVectors("openai")
    catalogue: ModelCatalogue | None = OPENAI_LIST

    def __init__(self, account: str = "") -> None:
        self._account = account
        self.maker = (PROVIDER, account)

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it."""
        return EngineFacts(
            dialect="openai-responses",
            takes_ids=False,
            transport="http",
            n=False,
            min_tokens=False,
            seed=False,
            logit_bias=False,
            stop_token_ids=False,
            constraints=frozenset({"json_schema", "json_object"}),
            prompt_logprobs=False,
            cache_salt=False,
            custom_tools=True,
            media=frozenset({"image"}),
            loads=False,
            kv_events=False,
            documents=True,
            pictures=True,
        )

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation."""
        if request.imaging is not None:
            return picture_call(request, request.imaging, model, limits)
        losses = Losses()
        made = write_responses(request, model, self._account, losses, verbatim=words == "responses")
        decoder = ResponsesDecoder(model, made.names, limits, account=self._account)
        whole = made.verbatim and not request.stream
        if made.verbatim:
            decoder.pass_on(request.model, at_once=whole)
        accept = WHOLE if whole else EVENTS
        return ProviderCall("/responses", made.body, decoder, losses=losses.found, accept=accept, at_once=whole)

    def count(self, request: GenerationRequest, model: str) -> ProviderCall:
        """The question how many tokens its prompt has."""
        made = write_responses(request, model, self._account, Losses())
        fields = msgspec.json.decode(made.body, type=dict[str, msgspec.Raw])
        body = msgspec.json.encode({name: value for name, value in fields.items() if name in _COUNTED})
        return ProviderCall("/responses/input_tokens", body)

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
        return ProviderCall(f"/models/{quote(model, safe='')}", b"")

    def described(self, body: bytes) -> DescribedModel:
        """The answer to it."""
        try:
            return DescribedModel(msgspec.json.decode(body, type=_Model).id)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EngineGarbled(
                "The provider's word on the model cannot be read.", detail=str(error), outside_text=str(error)
            ) from None

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        try:
            error = msgspec.json.decode(reply.body, type=_Refused).error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            error = ResponsesError(reply.body.decode("utf-8", "replace"))
        return responses_error_in(error, reply.status, waited(reply.headers))
