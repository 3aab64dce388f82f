"""The end of a provider's answer whose word is unknown, or says that the provider gave up.

Decides what such words become: providers make new ones without notice, and an answer that came to its proper end is not thrown
away for one. A word that says nothing known ends the answer as usual; a call whose arguments are not whole is then a broken one.
Pure. Above: the decoders of answers. Below: failures, the open block.
"""

from collections.abc import Mapping

from smg_core.engines.vendors.failures import ProviderFailed
from smg_core.engines.vendors.open_block import OpenBlock
from smg_core.events import FinishReason

__all__ = ["GAVE_UP", "gave_up", "reason_of"]

GAVE_UP = frozenset(
    {
        *("error", "insufficient_system_resource", "malformed_model_output"),
        *("OTHER", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE", "IMAGE_OTHER", "NO_IMAGE"),
    }
)
"""Words with which providers say that they failed, not that the answer ended."""


def reason_of(word: str, known: Mapping[str, FinishReason], block: OpenBlock) -> FinishReason:
    """The reason that the word `word` means by the provider's table `known`. `block` is the last one of the answer. Raises
    ProviderFailed for a word that says that the provider gave up."""
    if (found := known.get(word)) is not None:
        return found
    if word in GAVE_UP:
        raise gave_up(word)
    if block.calls and not block.whole:
        return "malformed_call"
    return "tool_calls" if block.calls else "stop"


def gave_up(word: str) -> ProviderFailed:
    """The error of an answer that ends with such a word."""
    return ProviderFailed("The provider gave up on its answer.", detail=word[:200], outside_text=word[:200])
