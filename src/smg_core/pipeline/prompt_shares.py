"""What the prompt of one turn consists of besides text, for the counts of the answer.

An engine counts a prompt's tokens and does not say what they stand for. Here it is known which turn of a response it is, and how
many tokens were placed for media. Pure. Above: engine_call makes the record, attempt applies it to what a reader counts. Below:
prompted, events.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from smg_core.events import Usage
from smg_core.pipeline.prompted import Prompted

__all__ = ["PromptShares", "shares_of"]


class PromptShares(Struct, frozen=True):
    """`hosted`: the turn comes after results of tools that ran here. `media`: how many tokens each kind of media has; None
    where there are media and that is not known."""

    hosted: bool = False
    media: Mapping[str, int] | None = {}

    def told(self, usage: Usage) -> Usage:
        """The counts of the turn, with the shares of its prompt."""
        prompt = usage.prompt_tokens
        if self.hosted:
            return replace(usage, hosted_prompt_tokens=prompt, hosted_cached_tokens=usage.cached_tokens)
        media = self.media
        if media is None or sum(media.values()) > prompt:
            return replace(usage, unsplit_prompt_tokens=prompt)
        kinds = {f"{kind}_tokens": count for kind, count in media.items()}
        return replace(usage, **kinds)


def shares_of(prompted: Prompted, *, hosted: bool) -> PromptShares | None:
    """The shares of a prompt; None for one of text alone in a response's first turn, which is nearly every one."""
    shows = bool(prompted.items) or prompted.request.transcription is not None
    if not shows and not hosted:
        return None
    placed = prompted.media.tokens if prompted.media is not None else None
    return PromptShares(hosted, placed if shows else {})
