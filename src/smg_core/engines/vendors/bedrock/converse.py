"""Converse as a `WireFormat`: every model of Bedrock in one format.

Decides the addresses below a region's. Pure. Above: the rows of kinds. Below: converse_body, converse_events, refusals.
"""

from urllib.parse import quote

import msgspec
from msgspec import Struct

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.bedrock.answer import BEDROCK_STREAM
from smg_core.engines.vendors.bedrock.converse_body import write_converse
from smg_core.engines.vendors.bedrock.converse_events import ConverseDecoder
from smg_core.engines.vendors.bedrock.converse_turns import PROVIDER
from smg_core.engines.vendors.bedrock.refusals import error_of_reply
from smg_core.engines.vendors.listing import ModelCatalogue
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.vectors import BedrockVectors, VectorsFormat
from smg_core.engines.vendors.wire_format import DescribedModel, ProviderCall
from smg_core.errors import EngineGarbled, SmgError
from smg_core.request import GenerationRequest

__all__ = ["ConverseFormat", "model_path"]

_COUNTED = frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"})
_FACTS = EngineFacts(
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
    media=frozenset({"image", "video", "audio"}),
    documents=True,
    loads=False,
    kv_events=False,
)


class _Counted(Struct, rename="camel"):
    input_tokens: int


def model_path(model: str) -> str:
    """The path of a model: its id, or an ARN with slashes, is one segment."""
    return f"/model/{quote(model, safe='')}"


class ConverseFormat:
    """Converse, for any model."""

    provider = PROVIDER
    maker = (PROVIDER, "")
    usual_path = ""
    vectors: VectorsFormat = BedrockVectors()
    catalogue: ModelCatalogue | None = None

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it; what a model lacks is refused when it is asked."""
        return _FACTS

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation; its answers are never told in the provider's words."""
        losses = Losses()
        made = write_converse(request, model, losses)
        decoder = ConverseDecoder(model, made.names, limits)
        path = f"{model_path(model)}/converse-stream"
        return ProviderCall(path, msgspec.json.encode(made.body), decoder, (), losses.found, BEDROCK_STREAM)

    def count(self, request: GenerationRequest, model: str) -> ProviderCall:
        """The question how many tokens its prompt has."""
        body = write_converse(request, model, Losses()).body
        asked = {"input": {"converse": {name: value for name, value in body.items() if name in _COUNTED}}}
        return ProviderCall(f"{model_path(model)}/count-tokens", msgspec.json.encode(asked))

    def counted(self, body: bytes) -> int:
        """The answer to it."""
        try:
            return msgspec.json.decode(body, type=_Counted).input_tokens
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EngineGarbled(
                "The provider's count of tokens cannot be read.", detail=str(error), outside_text=str(error)
            ) from None

    def about(self, model: str) -> None:
        """None: what models are is told by another service, with other rights."""
        return

    def described(self, body: bytes) -> DescribedModel:
        """Nothing is asked, so nothing is told."""
        raise EngineGarbled("The provider was not asked what the model is.")

    def refusal(self, reply: HttpReply) -> SmgError:
        """The error of an answer whose status is not 200."""
        return error_of_reply(reply)
