"""The forms of search services: what each is asked, and where its results are.

Above: `tools`. Below: the settings. Pure. Another service is another row of `SERVICES`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import attrs
import msgspec

from smg_mcp.records.settings import SearchSettings

__all__ = ["SERVICES", "SearchAsked", "SearchResult", "results_of"]


_AGE = 40  # characters of what a result says of its age


@attrs.frozen
class SearchAsked:
    """One request of a search service."""

    method: str
    url: str
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes = b""


@attrs.frozen
class SearchResult:
    """One result: where, what it is called, what is said of it, and how old it says that it is."""

    url: str
    title: str
    text: str
    age: str | None = None


@attrs.frozen
class _Service:
    url: str
    ask: Callable[[str, str, int, str], SearchAsked]
    """Takes the service's address, the query, how many results are wanted, and the key."""
    places: tuple[str, ...]
    """Where the results are in the answer."""
    text: str
    """Which field of a result says what it is about."""
    age: str
    """Which field of a result says how old it is."""


def _searxng(url: str, query: str, count: int, key: str) -> SearchAsked:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return SearchAsked("GET", f"{url}?{urlencode({'q': query, 'format': 'json'})}", headers)


def _brave(url: str, query: str, count: int, key: str) -> SearchAsked:
    return SearchAsked("GET", f"{url}?{urlencode({'q': query, 'count': count})}", {"x-subscription-token": key})


def _tavily(url: str, query: str, count: int, key: str) -> SearchAsked:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    return SearchAsked("POST", url, headers, msgspec.json.encode({"query": query, "max_results": count}))


SERVICES: Final[Mapping[str, _Service]] = {
    "searxng": _Service("", _searxng, ("results",), "content", "publishedDate"),
    "brave": _Service(
        "https://api.search.brave.com/res/v1/web/search", _brave, ("web", "results"), "description", "age"
    ),
    "tavily": _Service("https://api.tavily.com/search", _tavily, ("results",), "content", "published_date"),
}


def results_of(settings: SearchSettings, body: bytes, count: int) -> Sequence[SearchResult]:
    """The results in a service's answer, at most `count`; what is no result is passed over. Raises ValueError for what is no
    answer of this service."""
    service = SERVICES[settings.service]
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("the search service did not answer with JSON") from error
    for place in service.places:
        found = found.get(place) if isinstance(found, Mapping) else None
    if not isinstance(found, list):
        raise ValueError("the search service's answer has no list of results")  # noqa: TRY004
    results = []
    for each in found[:count]:
        fields = each if isinstance(each, Mapping) else {}
        url = fields.get("url")
        if isinstance(url, str) and url.startswith(("https://", "http://")):
            title, text, age = (fields.get(name) for name in ("title", service.text, service.age))
            age_words = str(age)[:_AGE] if isinstance(age, str) and age else None
            results.append(SearchResult(url, str(title or "")[:300], str(text or "")[: settings.characters], age_words))
    return results
