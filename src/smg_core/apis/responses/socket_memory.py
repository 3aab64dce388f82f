"""One WebSocket's memory of its own responses (edge): those that are not stored can be continued on it alone.

Held in memory, bounded, and gone with the connection. Above: apis.responses.socket. Below: the memory of all requests.
"""

from collections import OrderedDict

import attrs
from msgspec.structs import replace

from smg_core.apis.responses.memory import Earlier, ResponseMemory
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.apis.responses.wire.encode import ResponsesStreamEncoder
from smg_core.wire.base import StreamEncoder, WholeEncoder
from smg_core.wire.json_text import encode_body

__all__ = ["ConnectionMemory", "RecentResponses"]


class RecentResponses:
    """The items of the newest responses by id: at most `most` of them, and `most_bytes` of items, of which each response has all
    that came before it. What has been continued counts as new."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, Earlier] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, id: str) -> Earlier | None:
        """The response's items and all before; None where it is not known here, or not any more."""
        found = self._kept.get(id)
        if found is not None:
            self._kept.move_to_end(id)
        return found

    def add(self, id: str, earlier: Earlier) -> None:
        """Keep a response, and drop the oldest that there is no room for."""
        self._kept[id] = earlier
        self.size += earlier.size
        while self._kept and (len(self._kept) > self._most or self.size > self._most_bytes):
            _, dropped = self._kept.popitem(last=False)
            self.size -= dropped.size


class ConnectionMemory:
    """The memory of the API, and before that the connection's own."""

    def __init__(self, memory: ResponseMemory, recent: RecentResponses) -> None:
        self._memory = memory
        self._recent = recent

    def concerns(self, decoded: ResponsesRequest) -> bool:
        return True  # a response that is not stored can be continued on the connection

    async def recall(self, decoded: ResponsesRequest) -> ResponsesRequest:
        return replace(await self._memory.recall(decoded, self._earlier(decoded)), remembered=True)

    async def keep(
        self, decoded: ResponsesRequest, encoder: StreamEncoder | WholeEncoder, *, cut: bool = False
    ) -> None:
        await self._memory.keep(decoded, encoder, cut=cut)
        earlier = self._earlier(decoded)
        if cut or not isinstance(encoder, ResponsesStreamEncoder) or (decoded.store and earlier is None):
            return
        texts = (encode_body(list(decoded.items)), encode_body(encoder.response()["output"]))
        if earlier is None:
            earlier = Earlier(decoded.history.previous_id)
        self._recent.add(decoded.generation.id, attrs.evolve(earlier, texts=(*earlier.texts, *texts)))

    async def forget(self, decoded: ResponsesRequest) -> None:
        await self._memory.forget(decoded)

    def _earlier(self, decoded: ResponsesRequest) -> Earlier | None:
        previous = decoded.history.previous_id
        return None if previous is None else self._recent.find(previous)
