"""The role of the cache of answers, for those who serve requests. Protocols; pure. Above: `serving.live`. Below: `lease`."""

from collections.abc import Awaitable, Mapping
from typing import Protocol

from smg_core.lease import SharesAnswer
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import GenerationRequest

__all__ = ["ResponseCaches"]


class ResponseCaches(Protocol):
    """The cache of answers of a gateway."""

    def find(
        self,
        request: GenerationRequest,
        headers: Mapping[str, str],
        always: list[tuple[bytes, bytes]],
        trace: Trace,
        *,
        unattended: bool = False,
    ) -> Awaitable[SharesAnswer | None]:
        """The part of a request in an answer for several; None where it has none. Says in the headers `always` what was found.
        `unattended`: nobody waits for it, as for batches. Raises UnsupportedParameter for what the header cannot ask."""

    def clear(self) -> None:
        """Let go of all that this process keeps."""

    def erase_all(self) -> Awaitable[None]:
        """Engines answer otherwise from now on: nothing that is kept is found again, in any process. Raises StoreFailed, and
        Overloaded where it is not known whether all have heard of it."""

    def close(self) -> Awaitable[None]:
        """The gateway stops: give back what is held open."""
