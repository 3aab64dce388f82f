"""Bodies that come as gzip, inflated while they come (edge).

Above: the exchange. Below: `smg_core.errors`.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator

from smg_core.errors import InvalidRequest, PayloadTooLarge

__all__ = ["inflated"]

_INFLATED = 65536  # bytes that are inflated in one round of the event loop
_GZIP = 16 + zlib.MAX_WBITS


async def inflated(pieces: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """The gzip data `pieces` inflated, in slices small enough for the event loop. Raises InvalidRequest if they are not gzip, and
    PayloadTooLarge after more than `limit` bytes of input, which may inflate to nothing."""
    inflate, sent = zlib.decompressobj(_GZIP), 0
    async for piece in pieces:
        sent += len(piece)
        if sent > limit:
            raise PayloadTooLarge(f"The request body is over the limit of {limit} bytes.")
        if piece and inflate.eof:
            raise InvalidRequest("The request body goes on behind the end of its gzip.")
        full = True  # the last slice was as long as possible, so there may be more
        while piece or full:
            try:
                slice_ = inflate.decompress(piece, _INFLATED)
            except zlib.error:
                raise InvalidRequest("The request body is not valid gzip.") from None
            piece, full = inflate.unconsumed_tail, len(slice_) == _INFLATED
            yield slice_
            await asyncio.sleep(0)
        if inflate.unused_data:
            raise InvalidRequest("The request body goes on behind the end of its gzip.")
    if not inflate.eof:
        raise InvalidRequest("The request body is not valid gzip.")
