"""The bounds of a component's answers.

An answer is bounded before anything of it is read, whatever is done with it afterwards: a list of a million headers would be
read for seconds, to be refused then. The adapter before each component (`adapter/`) holds the bounds: it gives the component
model no room for more. They follow from what the gateway takes of a plugin (`middleware.checks`). Pure. Above: `running`,
`loading`. Below: the settings of `middleware`.
"""

import attrs

from smg_core.middleware.settings import MiddlewareConfig

__all__ = ["AnswerBounds"]

_WORDS = 1 << 16  # bytes of an answer beside its headers, body or piece: a message of a refusal, the name of a tenant
_OF_A_HEADER = 20
"""Bytes of memory for each character that headers may have, of which each header counts four: its record takes 16, each of its
two texts 32 more than its bytes, and a character up to two."""


@attrs.frozen
class AnswerBounds:
    """Most characters of the headers of one change, of which each counts four more, and most bytes of a piece and of a body."""

    headers: int
    piece: int
    body: int

    @classmethod
    def of(cls, config: MiddlewareConfig) -> "AnswerBounds":
        """The bounds by the settings of a gateway."""
        return cls(config.header_bytes, config.piece_bytes, config.body_bytes)

    @property
    def rooms(self) -> tuple[int, int, int]:
        """Bytes of memory that an answer about a head, a piece and a body may take."""
        head = self.headers * _OF_A_HEADER + _WORDS
        return head, self.piece + _WORDS, self.body + head
