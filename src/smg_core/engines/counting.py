"""`CountsTokens`: an engine that can be asked how many tokens a prompt has. Pure. Above: who counts prompts. Below: request."""

from typing import Protocol, runtime_checkable

from smg_core.request import GenerationRequest

__all__ = ["CountsTokens"]


@runtime_checkable
class CountsTokens(Protocol):
    """An engine whose tokenizer is its own, and which counts with it for others: an outside provider."""

    async def count(self, request: GenerationRequest) -> int | None:
        """The tokens of the prompt of `request`, by the engine's own count; None where it has no such call. Raises SmgError."""
        ...
