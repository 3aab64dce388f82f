"""A search of vector stores, and its findings: the records, and the role of who searches.

A search is of the stores of one tenant: an id of another tenant's is not known. `smg_core.vector_stores` has what fulfils the
role; whoever offers search as a tool holds it as `StoreSearch`. Pure. Above: both. Below: filters, errors.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

from smg_core.errors import NotFound
from smg_core.request import Caller
from smg_core.retrieval.filters import FileAttributes, FileFilter

__all__ = ["MOST_RESULTS", "Found", "FoundText", "Ranking", "StoreFindings", "StoreSearch", "StoreUnknown"]

MOST_RESULTS = 50
"""How many results a search gives at most, as OpenAI's API has it."""


class StoreUnknown(NotFound):
    """There is no vector store of this id, or it has expired, or it is another tenant's."""

    openai_code = "vector_store_not_found"

    def __init__(self, id: str, param: str = "vector_store_id", *, expired: bool = False) -> None:
        what = f"The vector store '{id[:100]}' has expired." if expired else f"No such vector store: '{id[:100]}'."
        super().__init__(what, param=param)
        self.id = id


@attrs.frozen
class Ranking:
    """How results are ranked: those with a lower score than `threshold` are left out. `words` and `vectors` are how much the
    ranks by words and by vectors count; with `fused` false, where there are vectors they alone do."""

    threshold: float = 0.0
    words: float = 1.0
    vectors: float = 1.0
    fused: bool = True


@attrs.frozen
class FoundText:
    """A piece of a file's text, and where in the text it is: from the character `start` to before `end`."""

    text: str
    start: int
    end: int


@attrs.frozen(kw_only=True)
class Found:
    """One result: pieces of a file, with a score from 0 to 1."""

    store_id: str
    file_id: str
    filename: str
    score: float
    attributes: FileAttributes
    texts: tuple[FoundText, ...]


@attrs.frozen
class StoreFindings:
    """What a search has found, best first, and how: "hybrid" by words and vectors, "words" where there were no vectors. `reason`
    says why not: "no-model", "model-unavailable" or "" where there were."""

    found: tuple[Found, ...]
    how: Literal["hybrid", "words"]
    reason: str = ""


class StoreSearch(Protocol):
    """Searches vector stores."""

    async def search(
        self,
        caller: Caller,
        store_ids: Sequence[str],
        queries: Sequence[str],
        *,
        max_results: int = 10,
        filters: FileFilter | None = None,
        ranking: Ranking | None = None,
    ) -> StoreFindings:
        """The best chunks for any of the queries in all of these stores, at most `max_results`; without queries none, which tells
        whether the stores are there. Raises StoreUnknown for a store that is not there, and StoreFailed where its index cannot
        be read."""
        ...
