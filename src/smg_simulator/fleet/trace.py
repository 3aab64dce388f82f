"""A request of a trace, as a fleet's simulator needs it: when it comes, how long it is, and which blocks it shares.

Records only. Above: every module of the fleet. Below: nothing.
"""

from collections.abc import Sequence
from math import inf

import attrs
import msgspec
from msgspec import Struct

__all__ = ["FleetRequest", "FleetTrace", "block_count"]


class FleetRequest(Struct, frozen=True):
    """One request. `at`: seconds from the trace's beginning. `blocks`: a name for each full block of the prompt, which stands for
    everything before it too; two prompts share as many blocks as they have equal names at the start. `answer_blocks` are
    the blocks that are full once the answer's tokens follow the prompt: a later turn of the same conversation begins with
    both. `session` names the conversation ("" where the trace has none)."""

    at: float
    prompt_tokens: int
    output_tokens: int
    blocks: Sequence[int] = ()
    answer_blocks: Sequence[int] = ()
    session: str = ""


@attrs.frozen
class FleetTrace:
    """Requests in the order of their coming, with blocks of `block` tokens. `name` is what reports call it."""

    name: str
    block: int
    requests: Sequence[FleetRequest]

    @property
    def seconds(self) -> float:
        """From the first request to the last."""
        return self.requests[-1].at - self.requests[0].at if self.requests else 0.0

    def check(self) -> None:
        """Raise ValueError, which names the request, where one has no token, comes too early, or has more blocks than tokens."""
        before = 0.0
        for at, each in enumerate(self.requests):
            tokens = each.prompt_tokens + each.output_tokens
            if each.prompt_tokens < 1 or each.output_tokens < 1:
                raise ValueError(f"request {at}: a prompt and an answer have at least one token each")
            if not before <= each.at < inf:
                raise ValueError(
                    f"request {at} comes at {each.at} s: a number, not before the one ahead of it ({before} s)"
                )
            if len(each.blocks) > each.prompt_tokens // self.block:
                raise ValueError(f"request {at}: {len(each.blocks)} full blocks in {each.prompt_tokens} tokens")
            if each.answer_blocks and len(each.blocks) + len(each.answer_blocks) > tokens // self.block:
                raise ValueError(f"request {at}: more blocks than {tokens} tokens fill")
            before = each.at

    def faster(self, factor: float) -> "FleetTrace":
        """The same requests in a time that is `factor` times shorter."""
        return attrs.evolve(
            self, requests=[msgspec.structs.replace(each, at=each.at / factor) for each in self.requests]
        )


def block_count(tokens: int, block: int) -> int:
    """How many blocks of `block` tokens hold so many tokens; the last one may be part full."""
    return -(-tokens // block)
