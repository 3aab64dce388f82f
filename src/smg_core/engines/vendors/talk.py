"""The turns of a request's messages, for formats in which the user and the assistant take turns.

Decides which messages are system text at the front, and which follow one another in one turn. Pure. Above: the encoders of
formats. Below: refusals, the vocabulary.
"""

from collections.abc import Callable, Iterable, Sequence

from smg_core.engines.vendors.losses import not_for
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.request import Message

__all__ = ["split_front", "turns_of"]


def split_front(messages: Sequence[Message]) -> int:
    """How many messages are system text at the front."""
    return next((at for at, each in enumerate(messages) if each.role not in ("system", "developer")), len(messages))


def turns_of(
    messages: Sequence[Message], front: int, blocks_of: Callable[[Message, str], Iterable[ProviderJson]], provider: str
) -> list[ProviderJson]:
    """The turns of the messages behind the first `front`, each with its `role` and `content`: what one side says in several
    messages is one turn, and a message without blocks is none. Raises UnsupportedParameter where the assistant begins."""
    turns: list[ProviderJson] = []
    for at, message in enumerate(messages[front:], front):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(blocks_of(message, f"messages[{at}]"))
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if turns and turns[0]["role"] == "assistant":
        raise not_for(f"messages[{front}]", provider, "a talk begins with the user")
    return turns
