"""The levels of reasoning known to a chat template, found by rendering a short conversation with each.

A template that writes the word as it is (gpt-oss) does not say which words its model knows; such models know `WRITTEN`. Pure.
Above: chat_template, pipeline.prompt.effort. Below: nothing.
"""

from collections.abc import Callable

import attrs

__all__ = ["LEVELS", "WRITTEN", "Efforts", "read_efforts"]

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The words of all APIs, least first."""
WRITTEN = frozenset({"low", "medium", "high"})
_STRANGE = "strange-level"


@attrs.frozen
class Efforts:
    """`levels` are the words that the template tells apart. `only`: its model knows no others, so that another word becomes one
    of them; else other words change nothing. `switch`: it has a variable that turns reasoning off."""

    levels: frozenset[str] = frozenset()
    only: bool = False
    switch: bool = False

    @property
    def reasons(self) -> bool:
        """Whether the template knows reasoning at all."""
        return self.switch or bool(self.levels)

    def nearest(self, asked: str) -> str:
        """What a level becomes: itself, else the nearest lower one, else the lowest where it has to be one of `levels`."""
        if asked in self.levels or asked not in LEVELS:
            return asked
        if asked == "none" and (self.switch or not self.only):
            return asked
        lower = [level for level in LEVELS[1 : LEVELS.index(asked)] if level in self.levels]
        if lower:
            return lower[-1]
        if "none" in self.levels or (self.switch and (self.only or asked == "minimal")):
            return "none"
        return min(self.levels, key=LEVELS.index) if self.only else asked


def read_efforts(render: Callable[[str], str | None], *, reads: bool, switch: bool) -> Efforts:
    """The levels of a template that `reads` the word. `render` is the prompt with a word, None where the template refuses it."""
    if not reads:
        return Efforts(switch=switch)
    strange = render(_STRANGE)
    if strange is not None and _STRANGE in strange:
        return Efforts(WRITTEN, only=True, switch=switch)
    rendered = {level: render(level) for level in LEVELS}
    known = frozenset(level for level, text in rendered.items() if text is not None and text != strange)
    return Efforts(known, only=strange is None and bool(known), switch=switch)
