"""Google's own tools that run here: searches of the web and of files, and pages, in a request; what an answer is grounded in.

What the API leaves open: places of `groundingSupports` are bytes of all visible text of the candidate; `fileSearchStoreNames`
are ids of vector stores, with `fileSearchStores/` before them or without, and `metadataFilter` asks for their files' attributes.
There is no `searchEntryPoint`. Pure. Above: the reader and the encoders of generateContent. Below: the wire types, request.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from smg_core.apis.google.proto_json import proto_value
from smg_core.built_in import BuiltIn, built_in_tool
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.events import Annotation, HostedEnd, HostedStart, TextEnd
from smg_core.json_types import Json, JsonObject
from smg_core.request import HostedTool
from smg_core.retrieval.filter_language import read_filter_text
from smg_core.retrieval.filters import read_filter
from smg_core.web_terms import checked_domains

__all__ = ["BUILT_IN", "CODE", "Grounding", "built_in_parts", "google_tool"]

BUILT_IN: Mapping[str, Literal["web_search", "web_fetch", "file_search", "code"]] = {
    "google_search": "web_search",
    "google_search_retrieval": "web_search",
    "url_context": "web_fetch",
    "file_search": "file_search",
    "code_execution": "code",
}
"""The kind of built-in tool by the field of the request."""
CODE = "code"
"""The kind whose parts an answer has whether or not it shows other tools of its own."""
_TYPES: Mapping[str, str] = {
    "web_search": "GOOGLE_SEARCH_WEB",
    "web_fetch": "URL_CONTEXT",
    "file_search": "FILE_SEARCH",
}
_STORES = "fileSearchStores/"
_UNSAFE = frozenset({"not_allowed", "not_named"})


class _Google(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """Base of the tools."""


class GoogleSearch(_Google):
    """A search of the web."""

    exclude_domains: list[str] | None = None
    time_range_filter: JsonObject | None = None
    blocking_confidence: str | None = None
    search_types: JsonObject | None = None
    dynamic_retrieval_config: JsonObject | None = None


class FileSearch(_Google):
    """A search of files."""

    file_search_store_names: Annotated[list[str], Meta(max_length=8)] = []
    top_k: Annotated[int, Meta(ge=1, le=50)] | None = None
    metadata_filter: str | None = None


def google_tool(name: str, found: JsonObject, at: str) -> HostedTool | None:
    """The tool of the field `name` that stands at `at`; None for a search of no store. Raises InvalidRequest and
    UnsupportedParameter."""
    kind = BUILT_IN[name]
    if kind in ("web_fetch", "code"):
        return built_in_tool(BuiltIn(kind))
    if kind == "file_search":
        files = proto_value(found, FileSearch, at)
        if not files.file_search_store_names:
            return None
        names = [each.removeprefix(_STORES) for each in files.file_search_store_names]
        if not all(names):
            raise InvalidRequest(
                f"Invalid value at '{at}.fileSearchStoreNames': a name is empty.", param=f"{at}.fileSearchStoreNames"
            )
        stores = tuple(dict.fromkeys(names))
        asked = files.metadata_filter
        filters = None if asked is None else read_filter_text(asked, f"{at}.metadataFilter")
        if filters is not None:
            read_filter(filters, f"{at}.metadataFilter")  # how many there may be
        named = "fileSearchStoreNames"
        return built_in_tool(BuiltIn(kind, results=files.top_k, filters=filters, stores=stores, stores_at=named))
    search = proto_value(found, GoogleSearch, at)
    _refuse(at, timeRangeFilter=search.time_range_filter, blockingConfidence=search.blocking_confidence)
    kinds = search.search_types or {}
    if kinds.keys() & {"imageSearch", "image_search"}:
        _refuse(f"{at}.searchTypes", imageSearch=kinds)
    return built_in_tool(BuiltIn(kind, blocked=checked_domains(search.exclude_domains, f"{at}.excludeDomains")))


def _refuse(at: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            place = f"{at}.{name}"
            raise UnsupportedParameter(f"Invalid value at '{place}': it is not supported on this server.", param=place)


# -------------------------------------------------------------------------------------------------------------- the answer


def built_in_parts(event: HostedStart | HostedEnd, kind: str, call_id: str) -> JsonObject | None:
    """The part of a call of a built-in tool that begins or has ended; None for another tool."""
    if kind == CODE:
        return _code_part(event)
    if kind not in _TYPES:
        return None
    if isinstance(event, HostedStart):
        words = _words(event)
        arguments: JsonObject = {"urls": [words]} if kind == "web_fetch" else {"queries": [words]}
        return {"toolCall": {"id": call_id, "toolType": _TYPES[kind], "args": arguments}}
    payload = _object(event.payload)
    response: JsonObject = {"error": payload.get("text") or ""}
    if not event.failed:
        found: list[Json] = [{"uri": each.get("id"), "title": each.get("title")} for each in _sources(event)]
        response = {"output": found}
    return {"toolResponse": {"id": call_id, "toolType": _TYPES[kind], "response": response}}


def _code_part(event: HostedStart | HostedEnd) -> JsonObject:
    """The part of code that is about to run, or of what it has given."""
    payload = _object(event.payload)
    if isinstance(event, HostedStart):
        action = payload.get("action")
        code = action.get("code") if isinstance(action, dict) else None
        return {"executableCode": {"language": "PYTHON", "code": code or ""}}
    structured = payload.get("structured")
    ran = structured if isinstance(structured, dict) else {}
    outcome = "FAILED" if event.failed or ran.get("failed") else "OK"
    if payload.get("code") == "out_of_time":
        outcome = "DEADLINE_EXCEEDED"
    outputs = [str(ran[name]) for name in ("stdout", "stderr") if ran.get(name)]
    output = "".join(outputs) if ran else str(payload.get("text") or "")
    return {"codeExecutionResult": {"outcome": f"OUTCOME_{outcome}", "output": output}}


class Grounding:
    """What one candidate is grounded in, as its calls and annotations tell."""

    def __init__(self) -> None:
        self._kind = self._asked = ""  # of the open call
        self._queries: dict[str, list[Json]] = {"web_search": [], "file_search": []}
        self._chunks: list[Json] = []
        self._urls: list[Json] = []
        self._supports: list[tuple[tuple[int, int], list[int]]] = []
        self._texts: list[str] = []
        self._length = self._begins = 0  # of all text, and where the open text began

    def fork(self) -> "Grounding":
        """An independent copy."""
        other = copy.copy(self)
        other._queries = {kind: list(each) for kind, each in self._queries.items()}
        other._chunks, other._urls, other._texts = list(self._chunks), list(self._urls), list(self._texts)
        other._supports = [(place, list(chunks)) for place, chunks in self._supports]
        return other

    def text(self, text: str) -> None:
        """More visible text."""
        self._texts.append(text)
        self._length += len(text)

    def note(self, event: Annotation | TextEnd) -> None:
        """A source of the open text, or its end. Sources of one stretch are one support."""
        if isinstance(event, TextEnd):
            self._begins = self._length
            return
        place = (self._begins + event.start, self._begins + event.end)
        if self._supports and self._supports[-1][0] == place:
            self._supports[-1][1].append(event.order)
        else:
            self._supports.append((place, [event.order]))

    def call(self, event: HostedStart) -> None:
        """A call begins."""
        self._kind, self._asked = event.kind, _words(event)
        if event.kind in self._queries:
            self._queries[event.kind].append(self._asked)

    def result(self, event: HostedEnd) -> None:
        """The open call is over."""
        kind, self._kind = self._kind, ""
        payload, sources = _object(event.payload), _sources(event)
        if kind == "web_fetch":
            status = "SUCCESS" if not event.failed else "UNSAFE" if payload.get("code") in _UNSAFE else "ERROR"
            url = sources[0].get("id") if sources else self._asked
            self._urls.append({"retrievedUrl": url, "urlRetrievalStatus": f"URL_RETRIEVAL_STATUS_{status}"})
        if kind in _TYPES and not event.failed:
            self._chunks += [_chunk(each) for each in sources]

    def wire(self) -> JsonObject:
        """The fields of the candidate."""
        found: JsonObject = {}
        if self._urls:
            found["urlContextMetadata"] = {"urlMetadata": self._urls}
        grounding: JsonObject = {}
        for name, queries in (("webSearchQueries", "web_search"), ("retrievalQueries", "file_search")):
            if self._queries[queries]:
                grounding[name] = self._queries[queries]
        if self._chunks:
            grounding["groundingChunks"] = self._chunks
        if self._supports:
            whole = "".join(self._texts)
            grounding["groundingSupports"] = [_support(whole, place, chunks) for place, chunks in self._supports]
        return {**found, "groundingMetadata": grounding} if grounding else found


def _support(text: str, place: tuple[int, int], chunks: Sequence[int]) -> JsonObject:
    start, end = place
    first = len(text[:start].encode("utf-8", "replace"))
    words = text[start:end]
    segment: JsonObject = {"endIndex": first + len(words.encode("utf-8", "replace")), "text": words}
    if first:
        segment["startIndex"] = first
    return {"segment": segment, "groundingChunkIndices": list(chunks)}


def _chunk(source: JsonObject) -> JsonObject:
    title = source.get("title") or ""
    if source.get("kind") != "file":
        return {"web": {"uri": source.get("id"), "title": title}}
    store = f"{_STORES}{source.get('store')}"
    return {"retrievedContext": {"title": title, "text": source.get("text"), "fileSearchStore": store}}


def _words(event: HostedStart) -> str:
    action = _object(event.payload).get("action")
    fields = action if isinstance(action, dict) else {}
    return str(fields.get("query") or fields.get("url") or "")


def _sources(event: HostedEnd) -> list[JsonObject]:
    found = _object(event.payload).get("sources")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _object(payload: bytes) -> JsonObject:
    return msgspec.json.decode(payload, type=dict[str, Json]) if payload else {}
