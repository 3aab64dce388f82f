"""OpenAI Chat Completions: types, decoder, encoders.

    from smg_core.apis.chat import ChatStreamEncoder, Incoming, decode_chat

    request = decode_chat(Incoming(body, request_id="chatcmpl-1"))
    ChatStreamEncoder(request, created=0, response_id="chatcmpl-1").encode(events)

Begin with `api`, the row. `types` has the body, `decode` makes a request of it, `encode` writes the answers, `trials` are what
it is tried with. The names below load their modules when they are first used.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.apis.chat.api import CHAT as CHAT
    from smg_core.apis.chat.decode import ChatRequest as ChatRequest
    from smg_core.apis.chat.decode import decode_chat as decode_chat
    from smg_core.apis.chat.encode import ChatStreamEncoder as ChatStreamEncoder
    from smg_core.apis.chat.encode import ChatWholeEncoder as ChatWholeEncoder
    from smg_core.errors import InvalidRequest as InvalidRequest
    from smg_core.errors import SmgError as SmgError
    from smg_core.events import Done as Done
    from smg_core.events import Event as Event
    from smg_core.events import Failed as Failed
    from smg_core.events import Finished as Finished
    from smg_core.events import ReasoningDelta as ReasoningDelta
    from smg_core.events import ReasoningEnd as ReasoningEnd
    from smg_core.events import Started as Started
    from smg_core.events import TextDelta as TextDelta
    from smg_core.events import TextEnd as TextEnd
    from smg_core.events import ToolCallDelta as ToolCallDelta
    from smg_core.events import ToolCallEnd as ToolCallEnd
    from smg_core.events import ToolCallStart as ToolCallStart
    from smg_core.events import Usage as Usage
    from smg_core.request import GenerationRequest as GenerationRequest
    from smg_core.wire.base import Incoming as Incoming
    from smg_core.wire.errors import openai_error as openai_error
    from smg_core.wire.settings import LimitsConfig as LimitsConfig

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "smg_core.apis.chat.api": ("CHAT",),
        "smg_core.apis.chat.decode": ("ChatRequest", "decode_chat"),
        "smg_core.apis.chat.encode": ("ChatStreamEncoder", "ChatWholeEncoder"),
        "smg_core.errors": ("InvalidRequest", "SmgError"),
        "smg_core.events": (
            "Done",
            "Event",
            "Failed",
            "Finished",
            "ReasoningDelta",
            "ReasoningEnd",
            "Started",
            "TextDelta",
            "TextEnd",
            "ToolCallDelta",
            "ToolCallEnd",
            "ToolCallStart",
            "Usage",
        ),
        "smg_core.request": ("GenerationRequest",),
        "smg_core.wire.base": ("Incoming",),
        "smg_core.wire.errors": ("openai_error",),
        "smg_core.wire.settings": ("LimitsConfig",),
    },
)
