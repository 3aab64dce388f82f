"""Responses of Azure's resources, as a `WireFormat`.

Decides where it lies, and what Azure does not tell. Pure. Above: the rows of kinds. Below: the format of Responses.
"""

from urllib.parse import urlencode

import attrs
from msgspec.structs import replace

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.listing import ModelCatalogue
from smg_core.engines.vendors.responses.format import ResponsesFormat
from smg_core.engines.vendors.vectors import OpenAiVectors, VectorsFormat
from smg_core.engines.vendors.wire_format import DescribedModel, ProviderCall
from smg_core.errors import EngineGarbled, SmgError
from smg_core.request import GenerationRequest

__all__ = ["AzureResponsesFormat"]


class AzureResponsesFormat:
    """Responses, for one deployment of the resource that `account` tells apart. With `api_version` it lies where Azure's older
    addresses are."""

    provider = "azure"
    catalogue: ModelCatalogue | None = None  # it lists models, and not what is deployed

    def __init__(self, account: str, api_version: str = "") -> None:
        self.usual_path = "" if api_version else "/openai/v1"
        self.vectors: VectorsFormat = OpenAiVectors("azure", api_version=api_version)
        self._responses = ResponsesFormat(account)
        self.maker = self._responses.maker
        self._path = f"/openai/responses?{urlencode({'api-version': api_version})}" if api_version else "/responses"

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it."""
        pictures = bool(self.usual_path)
        return attrs.evolve(self._responses.facts, dialect="azure-responses", pictures=pictures)

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation; pictures lie where they do at OpenAI, below Azure's newer address."""
        call = self._responses.ask(request, model, limits, words)
        return call if request.imaging is not None else replace(call, path=self._path)

    def count(self, request: GenerationRequest, model: str) -> None:
        """None: it counts for nobody."""
        return

    def counted(self, body: bytes) -> int:
        """Nothing is asked, so nothing is told."""
        raise EngineGarbled("The provider was not asked to count.")

    def about(self, model: str) -> None:
        """None: it lists models, and not what is deployed."""
        return

    def described(self, body: bytes) -> DescribedModel:
        """Nothing is asked, so nothing is told."""
        raise EngineGarbled("The provider was not asked what the model is.")

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        return self._responses.refusal(reply)
