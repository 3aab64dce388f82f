"""The shares of one turn's prompt besides text, for the counts of the answer.

An engine counts a prompt's tokens and does not say what they stand for. Here it is known which turn of a response it is, and how
many tokens were placed for media. Pure. Above: prompted makes the record, attempt applies it to what a reader counts. Below:
events.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from smg_core.events import Usage

__all__ = ["PromptShares"]


class PromptShares(Struct, frozen=True):
    """`hosted`: the turn comes after results of tools that ran here. `media`: how many tokens each kind of media has; None
    where there are media and that is not known."""

    hosted: bool = False
    media: Mapping[str, int] | None = {}

    def with_shares(self, usage: Usage) -> Usage:
        """The counts of the turn, with the shares of its prompt."""
        prompt = usage.prompt_tokens
        if self.hosted:
            return replace(usage, hosted_prompt_tokens=prompt, hosted_cached_tokens=usage.cached_tokens)
        media = self.media
        if media is None or sum(media.values()) > prompt:
            return replace(usage, unsplit_prompt_tokens=prompt)
        kinds = {f"{kind}_tokens": count for kind, count in media.items()}
        return replace(usage, **kinds)
