"""The tokens of each piece that a parser gives out.

A choice notes each token that it feeds to its parser, until the parser gives pieces: its text, and its logprobs. A parser drops
markers, which make no piece, and holds back what may become one, so the tokens of a piece are found from the end of what was
read. Pure. Above: pipeline.output.processor. Below: the events.
"""

from collections.abc import Sequence

from smg_core.events import TokenLogprob

__all__ = ["Unread", "held_back", "take_scores", "tokens_covering"]

Unread = tuple[str, int, Sequence[TokenLogprob]]
"""What was fed at once: the text, the number of its tokens, and their logprobs where they are asked for."""


def tokens_covering(unread: Sequence[Unread], characters: int) -> int:
    """How many of the last tokens wrote the last `characters`. Tokens before those wrote a marker. Tokens without text belong to
    the character that the next token completes."""
    count = 0
    for text, tokens, _ in reversed(unread):
        if characters <= 0 and text:
            break
        characters -= len(text)
        count += tokens
    return count


def take_scores(unread: list[Unread], piece: str, behind: int) -> list[TokenLogprob]:
    """The logprobs of the tokens that wrote any of `piece`, behind which `behind` characters were read. Those of a token are
    taken once, with the first piece that it wrote a part of. Tokens without text belong to the next one."""
    begin, end = _place(unread, piece, behind)
    taken: list[TokenLogprob] = []
    at = 0
    for place, (text, tokens, scores) in enumerate(unread):
        after = at + len(text)
        if (begin < after and at < end) if text else begin <= at < end:
            taken += scores
            unread[place] = (text, tokens, ())
        at = after
    return taken


def _place(unread: Sequence[Unread], piece: str, behind: int) -> tuple[int, int]:
    """Where `piece` stands in what was read. White space that waited for what follows a call stands before a marker, if one has
    followed."""
    read = "".join([text for text, _, _ in unread])
    end = len(read) - behind
    begin = end - len(piece)
    if read[max(0, begin) : end] != piece and (found := read.rfind(piece, 0, end)) >= 0:
        return found, found + len(piece)
    return begin, end


def held_back(unread: Sequence[Unread], waiting: int) -> list[Unread]:
    """What is still unread once pieces were given out while the parser holds the last `waiting` characters: the tokens that wrote
    those. They have been counted."""
    kept: list[Unread] = []
    for text, _, scores in reversed(unread):
        if waiting <= 0:
            break
        kept.append((text[-waiting:], 0, scores))
        waiting -= len(text)
    return kept[::-1]
