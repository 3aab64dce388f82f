"""Chat Completions of one provider as a `WireFormat`, and Azure's addresses of it.

Pure but for the field that the provider was seen to write reasoning in. Above: the rows of kinds. Below: body, profiles,
refusals.
"""

from functools import partial
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.openai.asking import AnswerDecoder
from smg_core.engines.openai.events import ChatDecoder
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.chat.body import write_chat
from smg_core.engines.vendors.chat.details import DetailedReasoning
from smg_core.engines.vendors.chat.own_names import OwnNames
from smg_core.engines.vendors.chat.profiles import ChatProfile
from smg_core.engines.vendors.chat.refusals import chat_refusal, error_in_chunk
from smg_core.engines.vendors.chat.verbatim import VerbatimChat
from smg_core.engines.vendors.endings import GAVE_UP, gave_up
from smg_core.engines.vendors.listing import OPENAI_LIST, ModelCatalogue
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.pictures import picture_call
from smg_core.engines.vendors.vectors import OpenAiVectors, VectorsFormat
from smg_core.engines.vendors.wire_format import EVENTS, WHOLE, DescribedModel, ProviderCall
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import EngineGarbled, SmgError
from smg_core.origin import Origin
from smg_core.request import GenerationRequest

__all__ = ["ChatFormat"]

_NAME_LENGTH = 64


class ChatFormat:
    """Chat Completions as `profile` has it. With `api_version` it lies where Azure's older addresses are: below each deployment,
    which is then the model."""

    def __init__(self, profile: ChatProfile, api_version: str = "") -> None:
        self.provider = profile.name
        self.maker = (profile.name, "")
        self.usual_path = "" if api_version else profile.path
        self.vectors: VectorsFormat = self._vectors(profile, api_version)
        self.catalogue: ModelCatalogue | None = OPENAI_LIST if profile.lists else None
        self._profile = profile
        self._api_version = api_version
        self._learnt: set[str] = set()

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it; what is refused besides is refused by name when it is asked."""
        takes = self._profile.takes
        constraints = {"json_object"} | ({"json_schema"} if self._profile.json_schema else set())
        return EngineFacts(
            dialect=self._profile.name,
            takes_ids=False,
            transport="http",
            n="n" in takes,
            min_tokens=False,
            seed="seed" in takes,
            logit_bias="logit_bias" in takes,
            stop_token_ids=False,
            constraints=frozenset(constraints),
            logprobs="logprobs" in takes,
            prompt_logprobs=False,
            cache_salt=False,
            custom_tools=not self._profile.extras,
            documents=self._profile.documents,
            pictures=self._profile.pictures,
            loads=False,
            kv_events=False,
        )

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation."""
        if request.imaging is not None:
            pictures = picture_call(request, request.imaging, model, limits, extras=self._profile.extras)
            return replace(pictures, path=self._path(model, pictures.path))
        losses, names = Losses(), SentNames(_NAME_LENGTH)
        made = write_chat(request, model, self._profile, names, losses, verbatim=words == "chat")
        calls = (request.origin or Origin("")).calls
        whole = made.verbatim and not request.stream
        kind = partial(VerbatimChat, request.model, whole) if made.verbatim else ChatDecoder
        decoder: AnswerDecoder = kind(
            request.id,
            request.sampling.n,
            limits,
            self._learnt,
            calls=calls,
            error_of=partial(error_in_chunk, provider=self.provider),
            failures=GAVE_UP,
            gave_up=gave_up,
        )
        if self._profile.details:
            decoder = DetailedReasoning(decoder, self.provider, model, limits.http_event_bytes)
        if names.changed:
            decoder = OwnNames(decoder, names)
        accept = WHOLE if whole else EVENTS
        return ProviderCall(self._path(model), made.body, decoder, losses=losses.found, accept=accept, at_once=whole)

    @staticmethod
    def _vectors(profile: ChatProfile, api_version: str) -> VectorsFormat:
        if not profile.embeds:
            return VectorsFormat()
        return OpenAiVectors(profile.name, scores=profile.scores, api_version=api_version)

    def _path(self, model: str, path: str = "/chat/completions") -> str:
        if not self._api_version:
            return path
        query = urlencode({"api-version": self._api_version})
        return f"/openai/deployments/{quote(model, safe='')}{path}?{query}"

    def count(self, request: GenerationRequest, model: str) -> None:
        """None: these APIs count for nobody."""
        return

    def counted(self, body: bytes) -> int:
        """Nothing is asked, so nothing is told."""
        raise EngineGarbled("The provider was not asked to count.")

    def about(self, model: str) -> None:
        """None: not all of them say what a model is, and Azure does not list deployments."""
        return

    def described(self, body: bytes) -> DescribedModel:
        """Nothing is asked, so nothing is told."""
        raise EngineGarbled("The provider was not asked what the model is.")

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        return chat_refusal(reply, self.provider)
