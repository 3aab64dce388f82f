"""How much of a component's answer is read.

An answer is bounded before it is read, whatever is done with it afterwards: a list of a million headers would be read for
seconds, to be refused then. What it may have at most follows from what the gateway takes of a plugin (`middleware.checks`). Pure.
Above: `running`, `loading`. Below: the settings of `middleware`.
"""

from typing import Literal

import attrs

from smg_core.middleware.settings import MiddlewareConfig

__all__ = ["AnswerBounds", "AnswerKind"]

AnswerKind = Literal["head", "piece", "body"]
"""What the answer to a call is about: "head" for all that has neither a body nor a piece."""
_WORDS = 4096  # bytes of an answer beside headers and texts: a message of a refusal, names of a tenant and a principal
_OF_A_CHARACTER = 2  # bytes of one in UTF-8, of those that a header may have


@attrs.frozen
class AnswerBounds:
    """Bytes that the texts of one answer may have, with some for each element of its lists (`values.ELEMENT`)."""

    head: int
    piece: int
    body: int

    @classmethod
    def of(cls, config: MiddlewareConfig) -> "AnswerBounds":
        """The bounds by the settings of a gateway."""
        head = config.header_bytes * _OF_A_CHARACTER + _WORDS
        return cls(head, config.piece_bytes + _WORDS, config.body_bytes + head)

    def most(self, kind: AnswerKind) -> int:
        """The bound of one kind of answers."""
        return {"head": self.head, "piece": self.piece, "body": self.body}[kind]
