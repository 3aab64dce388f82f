"""Vertex AI's addresses: models of Google's in the format of Gemini, and of Anthropic's in that of Messages.

Decides what differs there: models lie below their publishers, and of Messages the model is in the path and the version in the
body. The URL of the worker has project and location, or neither, where an API key stands for both. Pure. Above: the rows of
kinds. Below: the formats.
"""

from urllib.parse import quote

import attrs
import msgspec

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.listing import ModelCatalogue
from smg_core.engines.vendors.vectors import VectorsFormat, VertexVectors
from smg_core.engines.vendors.wire_format import DescribedModel, ProviderCall, WireFormat
from smg_core.errors import EngineGarbled, SmgError
from smg_core.request import GenerationRequest

__all__ = ["VertexFormat", "VertexMessagesFormat"]

_GOOGLE, _ANTHROPIC = "/publishers/google", "/publishers/anthropic/models"
_VERSION = "vertex-2023-10-16"
_IN_BODY = "anthropic-version"


class VertexFormat:
    """The format `inner` of Gemini below Google's own publisher."""

    provider = "vertex"
    usual_path = "/v1"
    vectors: VectorsFormat = VertexVectors()
    catalogue: ModelCatalogue | None = None

    def __init__(self, inner: WireFormat) -> None:
        self._inner = inner
        self.maker = inner.maker

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it."""
        return self._inner.facts

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation."""
        return _below(self._inner.ask(request, model, limits, words))

    def count(self, request: GenerationRequest, model: str) -> ProviderCall | None:
        """The question how many tokens its prompt has: the body of a generation, without a word around it."""
        asked = self._inner.ask(request, model, EnginesConfig())
        path = f"{_GOOGLE}{asked.path.partition(':')[0]}:countTokens"
        fields = msgspec.json.decode(asked.body, type=dict[str, msgspec.Raw])
        kept = {name: value for name, value in fields.items() if name in ("contents", "systemInstruction", "tools")}
        return ProviderCall(path, msgspec.json.encode(kept))

    def counted(self, body: bytes) -> int:
        """The answer to it."""
        return self._inner.counted(body)

    def about(self, model: str) -> None:
        """None: what models are is not told to all who may use them."""
        return

    def described(self, body: bytes) -> DescribedModel:
        """The answer to a question about a model."""
        return self._inner.described(body)

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        return self._inner.refusal(reply)


def _below(asked: ProviderCall) -> ProviderCall:
    return msgspec.structs.replace(asked, path=f"{_GOOGLE}{asked.path}")


class VertexMessagesFormat:
    """Messages, for one of Anthropic's models on Vertex."""

    provider = "vertex"
    maker = MessagesFormat.maker
    usual_path = "/v1"
    vectors: VectorsFormat = VectorsFormat()
    catalogue: ModelCatalogue | None = None

    def __init__(self) -> None:
        self._messages = MessagesFormat()

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it."""
        return attrs.evolve(self._messages.facts, dialect="vertex-anthropic")

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation."""
        asked = self._messages.ask(request, model, limits, words)
        how = "rawPredict" if asked.at_once else "streamRawPredict"
        path = f"{_ANTHROPIC}/{quote(model, safe='@')}:{how}"
        headers = tuple((name, value) for name, value in asked.headers if name != _IN_BODY)
        return msgspec.structs.replace(asked, path=path, body=_versioned(asked.body), headers=headers)

    def count(self, request: GenerationRequest, model: str) -> ProviderCall:
        """The question how many tokens its prompt has, which has the model in its body."""
        asked = self._messages.count(request, model)
        return msgspec.structs.replace(asked, path=f"{_ANTHROPIC}/count-tokens:rawPredict", headers=())

    def counted(self, body: bytes) -> int:
        """The answer to it."""
        return self._messages.counted(body)

    def about(self, model: str) -> None:
        """None: what models are is not told to all who may use them."""
        return

    def described(self, body: bytes) -> DescribedModel:
        """Nothing is asked, so nothing is told."""
        raise EngineGarbled("The provider was not asked what the model is.")

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        return self._messages.refusal(reply)


def _versioned(body: bytes) -> bytes:
    """The body without the model, with the version; all other values keep their bytes."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    fields.pop("model", None)
    return msgspec.json.encode({"anthropic_version": _VERSION, **fields})
