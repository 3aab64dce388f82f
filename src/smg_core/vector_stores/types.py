"""Bodies and queries of requests for vector stores, decoded and checked.

Pure. Above: the handlers. Below: decoding, filters, chunking.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from smg_core.errors import InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.retrieval.chunking import AUTO_CHUNKING, Chunking
from smg_core.retrieval.filters import FileFilter, read_filter
from smg_core.retrieval.searching import MOST_RESULTS, Ranking
from smg_core.wire.decoding import WireDecoder
from smg_core.wire.documents import kept_file_key
from smg_core.wire.fields import read_limit, read_metadata
from smg_core.wire.settings import LimitsConfig

__all__ = [
    "FileBatchBody",
    "ListQuery",
    "NewStoreFile",
    "StoreBody",
    "StoreChangeBody",
    "StoreFileBody",
    "StoreFileChangeBody",
    "StoreSearchBody",
    "StoreSearchRequest",
    "batch_files",
    "read_change",
    "read_file_batch",
    "read_file_change",
    "read_list_query",
    "read_search",
    "read_store",
    "read_store_file",
    "store_files",
]

_LISTED, _MOST_LISTED = 20, 100
_MOST_FILES = 2000  # of one request
_MOST_ATTRIBUTES, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
_LONGEST_NAME = 256
_LONGEST_DESCRIPTION = 512
_MOST_QUERIES, _LONGEST_QUERY = 16, 4096
_USUAL_RESULTS = 10
_STATUSES = ("in_progress", "completed", "failed", "cancelled")

_Attributes = dict[str, str | int | float | bool]


class StoreExpiry(Struct, frozen=True, forbid_unknown_fields=True):
    """When a store expires: so many days after it was last used."""

    anchor: Literal["last_active_at"]
    days: Annotated[int, Meta(ge=1, le=365)]


class StaticSizes(Struct, frozen=True, forbid_unknown_fields=True):
    """How texts are cut: tokens of a chunk at most, and how many of them are repeated in the next."""

    max_chunk_size_tokens: Annotated[int, Meta(ge=100, le=4096)]
    chunk_overlap_tokens: Annotated[int, Meta(ge=0, le=2048)]


class AutoStrategy(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="auto"):
    """Texts are cut as is usual."""


class StaticStrategy(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="static"):
    """Texts are cut into chunks of a size."""

    static: StaticSizes


_Strategy = AutoStrategy | StaticStrategy


class StoreBody(Struct, forbid_unknown_fields=True):
    """The body of a request that makes a store."""

    name: Annotated[str, Meta(max_length=_LONGEST_NAME)] | None = None
    description: Annotated[str, Meta(max_length=_LONGEST_DESCRIPTION)] | None = None
    file_ids: Annotated[list[str], Meta(max_length=_MOST_FILES)] | None = None
    expires_after: StoreExpiry | None = None
    chunking_strategy: _Strategy | None = None
    metadata: dict[str, str] | None = None


class StoreChangeBody(Struct, forbid_unknown_fields=True):
    """The body of a request that changes a store. What is null is taken away."""

    name: Annotated[str, Meta(max_length=_LONGEST_NAME)] | UnsetType | None = UNSET
    expires_after: StoreExpiry | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType | None = UNSET


class StoreFileBody(Struct, forbid_unknown_fields=True):
    """The body of a request that adds a file to a store."""

    file_id: str
    attributes: _Attributes | None = None
    chunking_strategy: _Strategy | None = None


class StoreFileChangeBody(Struct, forbid_unknown_fields=True):
    """The body of a request that changes the attributes of a file."""

    attributes: _Attributes | None


class FileBatchBody(Struct, forbid_unknown_fields=True):
    """The body of a request that adds several files to a store: `file_ids`, which have the rest in common, or `files`."""

    file_ids: Annotated[list[str], Meta(min_length=1, max_length=_MOST_FILES)] | None = None
    files: Annotated[list[StoreFileBody], Meta(min_length=1, max_length=_MOST_FILES)] | None = None
    attributes: _Attributes | None = None
    chunking_strategy: _Strategy | None = None


class HybridWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """How much ranks by vectors and by words count."""

    embedding_weight: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    text_weight: Annotated[float, Meta(ge=0, le=1e6)] = 1.0


class RankingOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """How results are ranked."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.0
    hybrid_search: HybridWeights | None = None


class StoreSearchBody(Struct, forbid_unknown_fields=True):
    """The body of a request that searches a store."""

    query: str | list[str]
    filters: JsonObject | None = None
    max_num_results: Annotated[int, Meta(ge=1, le=MOST_RESULTS)] = _USUAL_RESULTS
    ranking_options: RankingOptions | None = None
    rewrite_query: bool = False


_RANKERS = ("none", "auto", "default-2024-11-15")
_STRATEGIES = ("auto", "static")
_STORE = WireDecoder(StoreBody, {"chunking_strategy.type": _STRATEGIES, "expires_after.anchor": ("last_active_at",)})
_CHANGE = WireDecoder(StoreChangeBody, {"expires_after.anchor": ("last_active_at",)})
_FILE = WireDecoder(StoreFileBody, {"chunking_strategy.type": _STRATEGIES})
_FILE_CHANGE = WireDecoder(StoreFileChangeBody, {})
_FILE_BATCH = WireDecoder(
    FileBatchBody, {"chunking_strategy.type": _STRATEGIES, "files[].chunking_strategy.type": _STRATEGIES}
)
_SEARCH = WireDecoder(StoreSearchBody, {"ranking_options.ranker": _RANKERS})


class NewStoreFile(Struct, frozen=True):
    """A file that is to be added to a store; `param` is where the body names it."""

    id: str
    param: str
    chunking: Chunking
    attributes: Mapping[str, str | float | bool] | None = None


class StoreSearchRequest(Struct, frozen=True):
    """What is searched for."""

    queries: Sequence[str]
    filters: FileFilter | None
    most: int
    ranking: Ranking
    rewrite: bool


class ListQuery(Struct, frozen=True):
    """Which of a list is wanted: behind `after` or before `before`."""

    after: str | None
    before: str | None
    limit: int
    newest_first: bool
    status: str | None = None


def read_store(body: bytes, limits: LimitsConfig) -> StoreBody:
    """The body, checked. Raises InvalidRequest."""
    wire = _STORE.decode(body, limits)
    read_metadata(wire.metadata or {}, limits)
    return wire


def store_files(wire: StoreBody) -> list[NewStoreFile]:
    """The files that a store begins with. Raises InvalidRequest."""
    chunking = _chunking(wire.chunking_strategy, "chunking_strategy")
    return _each_once(NewStoreFile(id, f"file_ids[{place}]", chunking) for place, id in enumerate(wire.file_ids or ()))


def read_change(body: bytes, limits: LimitsConfig) -> StoreChangeBody:
    """The body, checked. Raises InvalidRequest."""
    wire = _CHANGE.decode(body, limits)
    if wire.metadata is not UNSET:
        read_metadata(wire.metadata or {}, limits)
    return wire


def read_store_file(body: bytes, limits: LimitsConfig) -> NewStoreFile:
    """The file that is to be added. Raises InvalidRequest."""
    wire = _FILE.decode(body, limits)
    return _each_once([_new_file(wire, "")])[0]


def read_file_change(body: bytes, limits: LimitsConfig) -> Mapping[str, str | float | bool]:
    """The attributes that a file is to have. Raises InvalidRequest."""
    wire = _FILE_CHANGE.decode(body, limits)
    return _attributes(wire.attributes, "attributes") or {}


def read_file_batch(body: bytes, limits: LimitsConfig) -> FileBatchBody:
    """The body. Raises InvalidRequest."""
    return _FILE_BATCH.decode(body, limits)


def batch_files(wire: FileBatchBody) -> list[NewStoreFile]:
    """The files of a batch. Raises InvalidRequest."""
    if (wire.file_ids is None) == (wire.files is None):
        raise InvalidRequest("Exactly one of 'file_ids' and 'files' is given.", param="file_ids")
    if wire.files is not None:
        for name in ("attributes", "chunking_strategy"):
            if getattr(wire, name) is not None:
                raise InvalidRequest(f"With 'files', each of them has its own '{name}'.", param=name)
        return _each_once(_new_file(each, f"files[{place}].") for place, each in enumerate(wire.files))
    chunking = _chunking(wire.chunking_strategy, "chunking_strategy")
    attributes = _attributes(wire.attributes, "attributes")
    return _each_once(
        NewStoreFile(id, f"file_ids[{place}]", chunking, attributes) for place, id in enumerate(wire.file_ids or ())
    )


def _new_file(wire: StoreFileBody, at: str) -> NewStoreFile:
    attributes = _attributes(wire.attributes, f"{at}attributes")
    return NewStoreFile(
        wire.file_id, f"{at}file_id", _chunking(wire.chunking_strategy, f"{at}chunking_strategy"), attributes
    )


def _each_once(files: Iterable[NewStoreFile]) -> list[NewStoreFile]:
    """The files, with ids in OpenAI's form. Raises InvalidRequest for what is no id and for one that is named twice."""
    found: dict[str, NewStoreFile] = {}
    for each in files:
        key = kept_file_key(each.id)
        if key is None:
            raise InvalidRequest(f"No such File object: '{each.id[:100]}'.", param=each.param, code="file_not_found")
        if f"file-{key}" in found:
            raise InvalidRequest(f"'{each.id[:100]}' is named twice.", param=each.param)
        found[f"file-{key}"] = NewStoreFile(f"file-{key}", each.param, each.chunking, each.attributes)
    return list(found.values())


def _chunking(wire: _Strategy | None, param: str) -> Chunking:
    if not isinstance(wire, StaticStrategy):
        return AUTO_CHUNKING
    most, overlap = wire.static.max_chunk_size_tokens, wire.static.chunk_overlap_tokens
    if overlap > most // 2:
        at = f"{param}.static.chunk_overlap_tokens"
        raise InvalidRequest(f"Invalid '{at}': at most half of 'max_chunk_size_tokens'.", param=at)
    return Chunking(most, overlap)


def _attributes(wire: _Attributes | None, param: str) -> Mapping[str, str | float | bool] | None:
    if wire is None:
        return None
    if len(wire) > _MOST_ATTRIBUTES:
        raise InvalidRequest(f"Invalid '{param}': at most {_MOST_ATTRIBUTES} attributes.", param=param)
    for key, value in wire.items():
        at = f"{param}.{key[:_LONGEST_KEY]}"
        if not 0 < len(key) <= _LONGEST_KEY:
            raise InvalidRequest(f"Invalid '{at}': keys have 1 to {_LONGEST_KEY} characters.", param=at)
        if isinstance(value, str) and len(value) > _LONGEST_VALUE:
            raise InvalidRequest(f"Invalid '{at}': values have at most {_LONGEST_VALUE} characters.", param=at)
    return wire


def read_search(body: bytes, limits: LimitsConfig) -> StoreSearchRequest:
    """What is searched for. Raises InvalidRequest."""
    wire = _SEARCH.decode(body, limits)
    queries = [wire.query] if isinstance(wire.query, str) else wire.query
    if not 1 <= len(queries) <= _MOST_QUERIES:
        raise InvalidRequest(f"Invalid 'query': 1 to {_MOST_QUERIES} texts.", param="query")
    for place, each in enumerate(queries):
        if not each.strip() or len(each) > _LONGEST_QUERY:
            at = "query" if isinstance(wire.query, str) else f"query[{place}]"
            raise InvalidRequest(f"Invalid '{at}': a text of 1 to {_LONGEST_QUERY} characters.", param=at)
    filters = None if wire.filters is None else read_filter(wire.filters)
    ranking = _ranking(wire.ranking_options or RankingOptions())
    return StoreSearchRequest(queries, filters, wire.max_num_results, ranking, wire.rewrite_query)


def _ranking(wire: RankingOptions) -> Ranking:
    weights = wire.hybrid_search or HybridWeights()
    if not weights.embedding_weight and not weights.text_weight:
        at = "ranking_options.hybrid_search"
        raise InvalidRequest(f"Invalid '{at}': one of the weights is above 0.", param=at)
    return Ranking(wire.score_threshold, weights.text_weight, weights.embedding_weight, wire.ranker != "none")


def read_list_query(query: Mapping[str, tuple[str, ...]], *, statuses: bool = False) -> ListQuery:
    """Which of a list is wanted. Raises InvalidRequest naming the parameter."""
    limit = read_limit(query, usual=_LISTED, most=_MOST_LISTED)
    order = query.get("order", ("desc",))[-1]
    if order not in ("asc", "desc"):
        raise InvalidRequest("Invalid value for 'order'. Supported values are: 'asc', 'desc'.", param="order")
    after, before = query.get("after", (None,))[-1], query.get("before", (None,))[-1]
    if after is not None and before is not None:
        raise InvalidRequest("Only one of 'after' and 'before' is given.", param="before")
    status = query.get("filter", (None,))[-1] if statuses else None
    if status is not None and status not in _STATUSES:
        known = ", ".join(f"'{each}'" for each in _STATUSES)
        raise InvalidRequest(f"Invalid value for 'filter'. Supported values are: {known}.", param="filter")
    return ListQuery(after, before, limit, order == "desc", status)
