"""The facts of one model of Gemini's, by its name. Pure. Above: body, contents."""

import re

import attrs

__all__ = ["GeminiFacts", "gemini_facts"]

_VERSION = re.compile(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?")
_NEW = (3, 0)


@attrs.frozen
class GeminiFacts:
    """`levels`: how much it thinks is one of these words, else a `budget` of tokens, or (neither) it does not think. `off`: it
    can be kept from thinking. `ids`: calls have ids. `signs`: a call without its signature is refused. `penalties`, `urls`,
    `result_media`, `json_with_tools`: whether it takes these. `output` is the most tokens of an
    answer, 0 where that is not known."""

    levels: tuple[str, ...] = ("low", "medium", "high")
    budget: bool = False
    off: bool = False
    ids: bool = True
    signs: bool = True
    penalties: bool = False
    urls: bool = True
    result_media: bool = True
    json_with_tools: bool = True
    output: int = 0


def gemini_facts(model: str) -> GeminiFacts:
    """The facts of a model; one whose name says nothing is taken to be new."""
    found = _VERSION.search(model)
    version = (int(found[1]), int(found[2] or 0)) if found is not None else _NEW
    if version >= _NEW:
        return GeminiFacts(
            levels=("minimal", "low", "medium", "high") if "flash" in model else ("low", "medium", "high")
        )
    thinks = version >= (2, 5)
    return GeminiFacts(
        (), thinks, not (thinks and "pro" in model), False, False, True, False, False, json_with_tools=False
    )
