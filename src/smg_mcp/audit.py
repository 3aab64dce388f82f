"""What was decided about calls, newest last, bounded; and where each entry also goes.

Above: `tools`. Below: `base`. Holds names and decisions, never arguments, results or credentials.
"""

from collections import deque
from collections.abc import Callable, Sequence

import attrs

from smg_mcp.base import CallFacts, Decision

__all__ = ["AuditEntry", "AuditTrail"]


@attrs.frozen
class AuditEntry:
    """One decision: when (seconds of the epoch), about which call, what, whether a person's approval came with the call, and the
    id that the caller gave its request."""

    at: float
    facts: CallFacts
    decision: Decision
    approved: bool = False
    request_id: str = ""

    @property
    def permitted(self) -> bool:
        """Whether the call was made."""
        return self.decision.verdict == "allow" or (self.decision.verdict == "ask" and self.approved)


class AuditTrail:
    """The last `most` entries. `sink`, where given, is called with each entry; it must not wait."""

    def __init__(self, most: int, sink: Callable[[AuditEntry], None] | None = None) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=most)
        self._sink = sink

    def note(self, entry: AuditEntry) -> None:
        """Keep an entry and hand it on."""
        self._entries.append(entry)
        if self._sink is not None:
            self._sink(entry)

    def entries(self, *, tenant: str | None = None) -> Sequence[AuditEntry]:
        """What is kept, oldest first; of one tenant where it is named."""
        return [entry for entry in self._entries if tenant is None or entry.facts.tenant == tenant]
