"""The results of a search or a page of the web, as sources: also of a server of tools whose results have a form of their own.

Pure. Above: `tools.built_ins`. Below: the records of smg_mcp; sources.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from smg_core.sources import CitableSource
from smg_mcp.records.base import ToolOutcome
from smg_mcp.web.reading import own_text

__all__ = ["excerpts", "page_read", "results_in"]

_LISTS = ("results", "web", "items", "organic", "organic_results", "data", "webPages", "value")
"""Where lists of results are, in the answers of services."""
_ADDRESSES, _TITLES = ("url", "link", "href"), ("title", "name")
_TEXTS, _AGES = ("text", "content", "snippet", "description"), ("age", "page_age", "published_date", "date")
_TITLE, _TEXT, _AGE = 300, 2000, 40
"""Characters that are kept of what a result is called, says, and says of its age."""
_DEPTH = 3  # of lists within what an answer has
_AROUND = 300
"""Characters on each side of words that are looked for in a page."""
_EXCERPTS = 8


def results_in(outcome: ToolOutcome) -> list[CitableSource]:
    """The results of a search, in order. Where they are no list, each paragraph with an address is one."""
    found = outcome.structured
    if found is None:
        try:
            found = msgspec.json.decode(outcome.text)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            found = None
    listed = list(_listed(found, 0))
    return listed or list(_in_text(outcome.text))


def _listed(found: Any, depth: int) -> Iterable[CitableSource]:
    if isinstance(found, list):
        for each in found:
            if isinstance(each, Mapping) and (url := _first(each, _ADDRESSES)).startswith(("https://", "http://")):
                text = _first(each, _TEXTS)[:_TEXT]
                yield CitableSource(
                    "url", url, _first(each, _TITLES)[:_TITLE], text, _first(each, _AGES)[:_AGE] or None
                )
    elif isinstance(found, Mapping) and depth < _DEPTH:
        for name in _LISTS:
            if name in found:
                yield from _listed(found[name], depth + 1)


def _first(found: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := found.get(name), str) and value), "")


def _in_text(text: str) -> Iterable[CitableSource]:
    for paragraph in text.split("\n\n"):
        urls = [word.strip("<>()[],.;\"'") for word in paragraph.split() if "https://" in word or "http://" in word]
        urls = [url[url.index("http") :] for url in urls]
        if urls:
            title = paragraph.strip().partition("\n")[0].removeprefix("Title:").strip()
            yield CitableSource("url", urls[0], title[:_TITLE], paragraph.strip()[:_TEXT])


def page_read(outcome: ToolOutcome, asked: str) -> CitableSource:
    """The page that the reader of smg_mcp gave; `asked` is the address that was to be read."""
    fields = outcome.structured if isinstance(outcome.structured, Mapping) else {}
    url, title = _first(fields, ("url",)) or asked, _first(fields, ("title",))
    text = own_text(outcome.text)
    for line in (title, url):
        text = text.removeprefix(f"{line}\n") if line else text
    return CitableSource("page", url, title, text)


def excerpts(text: str, pattern: str) -> str:
    """What stands around words in a text; "" where they are not in it."""
    low, words, found, place = text.lower(), pattern.lower(), list[str](), 0
    while len(found) < _EXCERPTS and (at := low.find(words, place)) >= 0:
        end = at + len(words)
        found.append(text[max(0, at - _AROUND) : end + _AROUND].strip())
        place = end + _AROUND
    return "\n[...]\n".join(found)
