"""The ids of calls for which the model writes none.

Decides: what an id looks like in each style. Above: `parser`, and callers that want such an id. Below: nothing.
Does not know: families, grammars, pieces.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def random_call_id() -> str:
    """An id in OpenAI's style, 96 bits of it random."""
    return f"call_{secrets.token_hex(12)}"


def mistral_call_id() -> str:
    """Nine letters and digits: Mistral's templates accept no other ids."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(9))


def numbering(style: str, call_id: Callable[[], str] | None, before: int) -> Callable[[str, int], str]:
    """What makes a call's id of its name and its number: in the `style` of the family, or by `call_id` if that is given and the
    style has no rule. `before` calls came earlier in the conversation."""
    if style == "kimi":
        return lambda name, index: f"functions.{name}:{before + index}"
    if style == "kimi_k3":
        return lambda name, index: f"{name}:{before + index}"
    source = call_id or (mistral_call_id if style == "mistral" else random_call_id)
    return lambda name, index: source()
