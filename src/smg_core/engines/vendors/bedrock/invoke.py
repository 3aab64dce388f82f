"""Messages of Anthropic's models by InvokeModel, as a `WireFormat`: the body of Messages over AWS's event stream.

Decides what differs from Messages elsewhere: the model is in the path, the version and the betas are in the body, and each
message of the stream has one event in base64. Pure. Above: the rows of kinds. Below: the format of Messages, answer, refusals.
"""

import base64
from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
from msgspec import Struct, field

from smg_core.engines.base import EngineFacts
from smg_core.engines.http.answer import HttpReply
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.answer_reader import ProviderAnswerReader
from smg_core.engines.vendors.anthropic.facts import ModelFacts
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.bedrock.answer import BEDROCK_STREAM, BedrockAnswer
from smg_core.engines.vendors.bedrock.betas import known_betas
from smg_core.engines.vendors.bedrock.converse import model_path
from smg_core.engines.vendors.bedrock.event_stream import EventMessage
from smg_core.engines.vendors.bedrock.refusals import error_of_reply
from smg_core.engines.vendors.listing import ModelCatalogue
from smg_core.engines.vendors.losses import Losses
from smg_core.engines.vendors.vectors import VectorsFormat
from smg_core.engines.vendors.wire_format import DescribedModel, ProviderCall
from smg_core.errors import EngineGarbled, InternalError, SmgError
from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = ["InvokeMessagesFormat"]

_VERSION = "bedrock-2023-05-31"
_IN_PATH = frozenset({"model", "stream"})


class _Chunk(Struct):
    event: bytes = field(default=b"", name="bytes")  # in base64, which the decoder reads


_CHUNK = msgspec.json.Decoder(_Chunk)


class _Counted(Struct, rename="camel"):
    input_tokens: int


class _MessagesOnBedrock(MessagesFormat):
    """Messages as Bedrock has it: a model that can choose how much to think is not given a budget, with which it ends without a
    word behind the first result of a tool."""

    def _of(self, model: str) -> ModelFacts:
        facts = super()._of(model)
        return attrs.evolve(facts, budget=False) if facts.adaptive else facts


class InvokeMessagesFormat:
    """Messages, for one of Anthropic's models on Bedrock."""

    provider = "bedrock"
    maker = MessagesFormat.maker
    usual_path = ""
    vectors: VectorsFormat = VectorsFormat()
    catalogue: ModelCatalogue | None = None

    def __init__(self) -> None:
        self._messages = _MessagesOnBedrock()

    @property
    def facts(self) -> EngineFacts:
        """What can be asked of it."""
        return self._messages.facts

    def ask(self, request: GenerationRequest, model: str, limits: EnginesConfig, words: str = "") -> ProviderCall:
        """A generation."""
        made = self._messages.ask(request, model, limits, words)
        if not isinstance(made.decoder, ProviderAnswerReader):
            raise InternalError("The request has no reader for its answer.")
        body, losses = _invoked(made)
        path = f"{model_path(model)}/invoke"
        if made.at_once:
            return ProviderCall(path, body, made.decoder, (), losses, made.accept, at_once=True)
        decoder = _Invoked(made.decoder, limits)
        return ProviderCall(f"{path}-with-response-stream", body, decoder, (), losses, BEDROCK_STREAM)

    def count(self, request: GenerationRequest, model: str) -> ProviderCall:
        """The question how many tokens its prompt has: the body itself is what is asked about."""
        body, _ = _invoked(self._messages.ask(request, model, EnginesConfig()))
        asked = {"input": {"invokeModel": {"body": base64.b64encode(body).decode()}}}
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


def _invoked(made: ProviderCall) -> tuple[bytes, Mapping[str, str]]:
    """The body of Messages as InvokeModel takes it, with all other values as they were written, and what is lost."""
    fields = msgspec.json.decode(made.body, type=dict[str, msgspec.Raw])
    kept = {name: value for name, value in fields.items() if name not in _IN_PATH}
    losses = Losses()
    losses.found.update(made.losses)
    kept["anthropic_version"] = msgspec.Raw(msgspec.json.encode(_VERSION))
    asked = next((value for name, value in made.headers if name == "anthropic-beta"), "")
    known = known_betas((each for each in asked.split(",") if each), losses)
    if known:
        kept["anthropic_beta"] = msgspec.Raw(msgspec.json.encode(known))
    return msgspec.json.encode(kept), losses.found


class _Invoked(BedrockAnswer):
    """Reads messages that each have one event of Messages, which `inner` reads."""

    def __init__(self, inner: ProviderAnswerReader[Any], limits: EnginesConfig) -> None:
        super().__init__(limits)
        self._inner = inner
        self._usual: object = None  # the headers of events, which all of them have as one object

    @property
    def finished(self) -> bool:
        return self._inner.finished

    def _read(self, piece: EventMessage, events: list[Event]) -> None:
        if piece.headers is self._usual:  # no call: this runs for every token
            self._message(piece, events)
        elif piece.headers.get(":event-type") == "chunk" and piece.headers.get(":message-type") == "event":
            self._usual = piece.headers
            self._message(piece, events)
        else:
            super()._read(piece, events)

    def _message(self, message: EventMessage, events: list[Event]) -> None:
        if message.headers.get(":event-type") != "chunk":
            return
        try:
            event = _CHUNK.decode(message.payload).event
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EngineGarbled(
                "The provider sent what is no event of an answer.", detail=str(error), outside_text=str(error)
            ) from None
        self._inner.event(event, events)
        self.done = self._inner.done

    def fail(self, error: SmgError) -> list[Event]:
        self.error = error
        return self._inner.fail(error) if self._inner.error is None else []
