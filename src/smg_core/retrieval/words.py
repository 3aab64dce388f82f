"""The words of a text for the index, and those of a query.

The index cuts texts at what is neither letter nor digit, folds case and accents, and takes endings of English words away.
Chinese, Japanese and Korean have no spaces between words, so their characters are words of their own; in a query two that stand
side by side are looked for side by side. Pure. Above: the index. Below: nothing.
"""

import re
from collections.abc import Iterable, Mapping
from unicodedata import combining, normalize

__all__ = ["TOKENIZER", "index_words", "looked_for", "match_of", "plain_words", "query_words", "rewritten"]

TOKENIZER = "porter unicode61 remove_diacritics 2"
"""How the index cuts texts into words, in the language of SQLite's FTS5; it stands in the table of the index too."""

_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_IS_ALONE = re.compile(f"([{_ALONE}])")
_WORD = re.compile(f"[{_ALONE}]+|[^\\W_{_ALONE}]+")
_FOREIGN = re.compile(f"[^\\x00-\\x7f{_ALONE}]+")
_BETWEEN = re.compile(r"[\W_]+")
_MOST_WORDS = 64  # of a query
_LONGEST_WORD = 64  # characters

_COMMON = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does doing for from get
    had has have having he her here him his how i if in into is it its itself just like make many me more most much my need no
    not now of on one only or other our out over please say she should show so some such tell than that the their them then
    there these they this those through to too up us use used using want was way we were what when where whether which while
    who whom whose why will with would you your
    """.split()  # noqa: SIM905
)
"""English words that say nothing of what is looked for."""


def index_words(text: str) -> str:
    """The text as it is put into the index of words."""
    return text if text.isascii() else _IS_ALONE.sub(r" \1 ", text)


def plain_words(text: str) -> str:
    """The words of a text with a space between two, without accents: as an index takes it that has other rules of its own."""
    if not text.isascii():
        text = _FOREIGN.sub(_without_accents, text)
    return _BETWEEN.sub(" ", index_words(text)).strip()


def _without_accents(found: re.Match[str]) -> str:
    return "".join(each for each in normalize("NFKD", found.group()) if not combining(each))


def query_words(query: str) -> list[str]:
    """The words of a query, each once, without those that say nothing where there are others."""
    found: dict[str, None] = {}
    for match in _WORD.finditer(query):
        word = match.group()[:_LONGEST_WORD].lower()
        pairs = [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        parts = pairs if _IS_ALONE.match(word) else [word]
        found.update(dict.fromkeys(parts))
        if len(found) >= _MOST_WORDS:
            break
    words = list(found)[:_MOST_WORDS]
    return [each for each in words if each not in _COMMON] or words


def rewritten(query: str) -> str:
    """A query without the English words that only ask: "Could you tell me how a lock is released?" becomes "lock released"."""
    kept = [each for each in query.split() if each.strip(".,;:!?\"'()").lower() not in _COMMON]
    return " ".join(kept).rstrip("?!. ") or query


def looked_for(words: Iterable[str], counts: Mapping[str, int], budget: int) -> list[str]:
    """The words of a query that are worth looking for, the rarest first: those that are in some chunk, as long as the chunks that
    have them are no more than `budget` together. `counts` says how many have each; one word is looked for in any case."""
    chosen: list[str] = []
    for word in sorted((each for each in words if counts.get(each)), key=lambda each: counts[each]):
        budget -= counts[word]
        if chosen and budget < 0:
            break
        chosen.append(word)
    return chosen


def match_of(words: Iterable[str]) -> str:
    """What the index is asked: any of these words. Each is quoted, so nothing in it is an operator."""
    return " OR ".join(f'"{index_words(each).strip()}"' for each in words)
