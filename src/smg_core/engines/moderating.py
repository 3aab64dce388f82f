"""`Moderates`: an engine with OpenAI's route of moderations. Pure. Above: who is asked for them. Below: nothing."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

__all__ = ["Moderates"]


@runtime_checkable
class Moderates(Protocol):
    """An engine that may judge texts and pictures by that route: an outside provider."""

    async def moderate(self, body: Mapping[str, Any], timeout: float | None = None) -> bytes | None:
        """The answer to a request with these fields, of the engine's own model; None where it has no such route. Raises
        SmgError."""
        ...
