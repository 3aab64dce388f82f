"""The origins of requests, by the names of their APIs, as each API's decoder sets them."""

from smg_core.apis.chat import decode as chat
from smg_core.apis.gemini import decode as gemini
from smg_core.apis.interactions import decode as interactions
from smg_core.apis.messages import decode as messages
from smg_core.apis.responses.wire import decode as responses
from smg_core.origin import Origin

__all__ = ["ORIGINS"]

ORIGINS: dict[str, Origin] = {
    each.ORIGIN.api: each.ORIGIN for each in (chat, gemini, interactions, messages, responses)
} | {name: Origin(name) for name in ("completions", "generate", "tokenize", "transcriptions")}
