"""The answers of an engine without such a question: a base for those that are servers of HTTP (edge).

Above: the engines of Chat servers, of Realtime servers and of outside providers. Below: the records of answers.
"""

from smg_core.engines.loads import Loads
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask

__all__ = ["Unasked"]


class Unasked:
    """Answers None to what such a server cannot be asked. A subclass answers what its own can be."""

    async def loads(self) -> Loads | None:
        """None: it does not say."""
        return None

    async def abort(self, request_id: str) -> None:
        """Nothing: closing the stream of a call, or its session, is how it is told."""

    async def tokenizer(self) -> tuple[bytes, str] | None:
        """None: it has it to itself."""
        return None

    async def upkeep(self, asked: EngineTask) -> EngineReply | None:
        """None: there is no such call."""
        return None

    async def adapters(self) -> tuple[Adapter, ...] | None:
        """None: there are none."""
        return None
