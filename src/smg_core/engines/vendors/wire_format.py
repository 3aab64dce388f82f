"""`WireFormat`: what the engine of outside providers has to know of one provider's API, all of it pure.

Above: the engine, the rows of kinds. Implemented by `anthropic.format`, `gemini.format` and `responses.format`; who reaches such
an API at another address wraps one of them and changes what is `ProviderCall`. Below: asking, the vocabulary.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.openai.asking import AnswerDecoder
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.listing import ModelCatalogue
from smg_core.engines.vendors.vectors import VectorsFormat
from smg_core.errors import SmgError
from smg_core.request import GenerationRequest

__all__ = ["EVENTS", "WHOLE", "DescribedModel", "ProviderCall", "WireFormat"]

EVENTS, WHOLE = "text/event-stream", "application/json"
"""The types of an answer that is a stream, and of one that comes whole."""


class ProviderCall(Struct, frozen=True):
    """One call: the path below the API's, the body, headers beside the credentials, and the reader of the answer (None where it
    is no stream). `losses` names what of the request the provider is not told, each with what is done in its place;
    `accept` is the type that the answer is asked for in, `content_type` that of the body; `raw`: the decoder is given all of the
    answer as it comes, whatever it is. `at_once`: it is asked for whole, and says nothing before it is."""

    path: str
    body: bytes
    decoder: AnswerDecoder | None = None
    headers: Sequence[tuple[str, str]] = ()
    losses: Mapping[str, str] = {}
    accept: str = EVENTS
    at_once: bool = False
    content_type: str = "application/json"
    raw: bool = False


class DescribedModel(Struct, frozen=True):
    """What the provider says of a model: its `name`, the tokens of its `context` (0: not said)."""

    name: str
    context: int = 0


class WireFormat(Protocol):
    """One provider's API, for one model. `provider` is its name in messages, `usual_path` the API's where the URL has none, and
    `vectors` how it is asked for pooled work, `catalogue` where it lists its models (None: it lists none that say anything of
    the worker's). `maker` is who can read the reasoning that comes from it: what its originals have
    as their provider and account (`Carried`)."""

    provider: str
    maker: tuple[str, str]
    usual_path: str
    vectors: VectorsFormat
    catalogue: ModelCatalogue | None

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it, beside its context."""
        ...

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation. `words` is the API in whose own words the client may be told the answer, "" for none: where it is the
        provider's own, the answer comes as the client has asked for it, else as a stream. Raises UnsupportedParameter and
        InvalidRequest for what the API cannot say."""
        ...

    def count(self, request: GenerationRequest, model: str) -> ProviderCall | None:
        """The question how many tokens the prompt of `request` has; None where the API has none."""
        ...

    def counted(self, body: bytes) -> int:
        """The answer to it. Raises EngineGarbled."""
        ...

    def about(self, model: str) -> ProviderCall | None:
        """The question what the model is; None where the API has none."""
        ...

    def described(self, body: bytes) -> DescribedModel:
        """The answer to it, which may be learnt from. Raises EngineGarbled."""
        ...

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        ...
