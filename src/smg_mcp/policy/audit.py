"""The decisions about calls, newest last, bounded; and where each entry also goes.

Above: `tools`. Below: `records.base`. Holds names and decisions, never arguments, results or credentials.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

import attrs

from smg_mcp.records.base import CallFacts, Decision

__all__ = ["AuditEntry", "AuditOutcome", "AuditTrail"]

AuditOutcome = Literal["allowed", "asked", "approved", "refused", "denied"]
"""What came of a decision. "asked": a person has to approve the call first; "approved" and "refused" are the person's answers."""


@attrs.frozen
class AuditEntry:
    """One decision: when (seconds of the epoch), about which call, what, whether a person's approval came with the call, and the
    id that the caller gave its request. `not_made` says what the caller has decided of a call that it does not make. `known`:
    the server is known to have the tool; otherwise a model may have made the name up, of what a prompt says."""

    at: float
    facts: CallFacts
    decision: Decision
    approved: bool = False
    request_id: str = ""
    not_made: Literal["asked", "refused", "denied"] | None = None
    known: bool = True

    @property
    def outcome(self) -> AuditOutcome:
        """The outcome of the call. What the policy denies is denied, whoever has approved it."""
        if self.not_made is not None:
            return self.not_made
        if self.decision.verdict == "deny":
            return "denied"
        if self.approved:
            return "approved"
        return "asked" if self.decision.verdict == "ask" else "allowed"

    @property
    def permitted(self) -> bool:
        """Whether the call was made."""
        return self.outcome in ("allowed", "approved")


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
        """The entries in memory, oldest first; of one tenant where it is named."""
        return [entry for entry in self._entries if tenant is None or entry.facts.tenant == tenant]
