"""The bounds of a store in SQL: of what is read at once, of what waits to be written, of time.

Pure. Above: the stores in SQL, and `opening`, which has the numbers from the settings.
"""

import attrs

__all__ = ["SqlBounds"]


@attrs.frozen
class SqlBounds:
    """Bounds, from settings: links and bytes of a chain, bytes of a page, writes of one transaction, those that wait and their
    bytes, seconds."""

    chain_links: int
    chain_bytes: int
    page_bytes: int
    group: int
    waiting_writes: int
    waiting_bytes: int
    timeout_s: float

    def refusal(self, closing: bool, waiting: int, waiting_bytes: int, size: int) -> str | None:
        """Why a write with `size` bytes of contents cannot wait behind those that do, None if it can."""
        if closing:
            return "it is closing"
        if waiting >= self.waiting_writes:
            return f"{waiting} writes wait (history.waiting_writes)"
        if waiting_bytes and waiting_bytes + size > self.waiting_bytes:
            return f"writes of {waiting_bytes} bytes wait (history.waiting_bytes)"
        return None
