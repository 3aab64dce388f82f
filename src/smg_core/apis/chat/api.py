"""The row of the Chat Completions API."""

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.encode import ChatStreamEncoder, ChatWholeEncoder
from smg_core.pipeline.flow.flow import Terms
from smg_core.pipeline.flow.steps import Flow
from smg_core.pipeline.tools.loop import respond_with_tools
from smg_core.serving.api import Api
from smg_core.wire.errors import openai_error

__all__ = ["CHAT"]


def _respond_to_chat(decoded: ChatRequest, terms: Terms) -> Flow[None]:
    """As `one_turn`; a call that needs approval is told to the client, which may approve it in its next request."""
    return respond_with_tools(
        decoded.generation, terms, approved=decoded.approved, refused=decoded.refused, can_ask=True
    )


CHAT: Api[ChatRequest] = Api(
    name="chat",
    id_prefix="chatcmpl-",
    decode=decode_chat,
    stream=lambda decoded, created: ChatStreamEncoder(decoded, created, decoded.generation.id),
    whole=lambda decoded, created: ChatWholeEncoder(decoded, created, decoded.generation.id),
    error=openai_error,
    flow=_respond_to_chat,
)
