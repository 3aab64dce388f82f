"""Built-in tools that run here, in the Responses API: their settings in a request, and the items and events of their calls.

What the API leaves open: `search_context_size` says how many results each search gives (3, the operator's number, 10). A tool
with `external_web_access` false would search a kept copy of the web, which is not there: it is not offered. Pure. Above:
responses.wire.tools, the builder. Below: the wire types, request, events.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from smg_core.apis.responses.wire.pictures import closed_picture, opened_picture, read_picture_tool
from smg_core.built_in import BuiltIn
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.events import HostedEnd, HostedStart
from smg_core.json_types import Json, JsonObject
from smg_core.retrieval.filters import read_filter
from smg_core.retrieval.searching import MOST_RESULTS
from smg_core.web_terms import CONTEXT_RESULTS, ContextSize, UserPlace, checked_domains, place_in_words
from smg_core.wire.decoding import explained

__all__ = [
    "BUILT_IN",
    "CodeTool",
    "FileRanking",
    "FileSearchTool",
    "closed_call",
    "earlier_container",
    "opened_call",
    "read_built_in",
    "read_file_search",
]

BUILT_IN: Mapping[str, Literal["web_search", "file_search", "code", "image"]] = {
    **dict.fromkeys(
        ("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"), "web_search"
    ),
    "file_search": "file_search",
    "code_interpreter": "code",
    "image_generation": "image",
}
"""The kind of built-in tool by the type on the wire."""


class _Filters(Struct, gc=False):
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None


class WebSearchTool(Struct, gc=False):
    """A search of the web. Keys that it does not have are passed over."""

    external_web_access: bool | None = None
    filters: _Filters | None = None
    search_context_size: ContextSize | None = None
    user_location: UserPlace | None = None


class _Weights(Struct, gc=False):
    embedding_weight: Annotated[float, Meta(ge=0, le=1000)]
    text_weight: Annotated[float, Meta(ge=0, le=1000)]


class FileRanking(Struct, gc=False):
    """How results of a search of files are ranked."""

    ranker: Literal["auto", "default-2024-11-15", "default-2024-08-21", "none"] | None = None
    score_threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    hybrid_search: _Weights | None = None


class FileSearchTool(Struct, gc=False):
    """A search of vector stores. Keys that it does not have are passed over."""

    vector_store_ids: Annotated[list[str], Meta(max_length=8)] = []
    max_num_results: Annotated[int, Meta(ge=1, le=MOST_RESULTS)] | None = None
    filters: JsonObject | None = None
    ranking_options: FileRanking | None = None


class _NoNetwork(Struct, gc=False, tag="disabled"):
    """Code reaches no network."""


class _OwnContainer(Struct, gc=False, tag="auto"):
    """A container of the response's own."""

    file_ids: Annotated[list[str], Meta(max_length=50)] | None = None
    memory_limit: str | None = None
    network_policy: _NoNetwork | None = None


class CodeTool(Struct, gc=False):
    """What runs code. Keys that it does not have are passed over."""

    container: Annotated[str, Meta(min_length=1, max_length=100)] | _OwnContainer


def read_built_in(tool: JsonObject, at: str, runs_here: frozenset[str]) -> BuiltIn | None:
    """The built-in tool at `at`, whose kind runs here; None for one that cannot be had. Raises InvalidRequest."""
    if BUILT_IN[str(tool["type"])] == "code":
        return _code(explained(tool, CodeTool, at), at)
    if BUILT_IN[str(tool["type"])] == "image":
        return read_picture_tool(tool, at)
    if BUILT_IN[str(tool["type"])] == "file_search":
        return read_file_search(explained(tool, FileSearchTool, at), at)
    web = explained(tool, WebSearchTool, at)
    if web.external_web_access is False:
        return None
    filters = web.filters or _Filters()
    return BuiltIn(
        "web_search",
        results=CONTEXT_RESULTS[web.search_context_size or "medium"],
        allowed=checked_domains(filters.allowed_domains, f"{at}.filters.allowed_domains"),
        blocked=checked_domains(filters.blocked_domains, f"{at}.filters.blocked_domains"),
        place=place_in_words(web.user_location),
        opens="web_fetch" in runs_here,
    )


def _code(tool: CodeTool, at: str) -> BuiltIn:
    container = tool.container
    if isinstance(container, str):
        return BuiltIn("code", container=container)
    if container.memory_limit is not None:
        place = f"{at}.container.memory_limit"
        raise UnsupportedParameter(f"Unsupported parameter: '{place}': leave it out.", param=place)
    return BuiltIn("code", files=tuple(dict.fromkeys(container.file_ids or ())))


def earlier_container(items: Sequence[JsonObject]) -> str:
    """The container in which code of the conversation has run last; "" for none."""
    found = (item.get("container_id") for item in reversed(items) if item.get("type") == "code_interpreter_call")
    return next((each for each in found if isinstance(each, str) and each.startswith("cntr_")), "")


def read_file_search(tool: FileSearchTool, at: str) -> BuiltIn | None:
    """The search of files at `at`; None for one without a store. Raises InvalidRequest."""
    if not tool.vector_store_ids:
        return None
    ranking = tool.ranking_options or FileRanking()
    if tool.filters is not None:
        read_filter(tool.filters, f"{at}.filters")
    weights = ranking.hybrid_search
    if weights is not None and not weights.embedding_weight and not weights.text_weight:
        raise InvalidRequest(
            f"Invalid '{at}.ranking_options.hybrid_search': one of the weights has to be more than 0.",
            param=f"{at}.ranking_options.hybrid_search",
        )
    asked = None if weights is None else (weights.embedding_weight, weights.text_weight)
    if ranking.ranker == "none":  # by vectors alone, where there are any
        asked = 1.0, 0.0
    return BuiltIn(
        "file_search",
        results=tool.max_num_results,
        stores=tuple(dict.fromkeys(tool.vector_store_ids)),
        filters=tool.filters,
        threshold=ranking.score_threshold or 0.0,
        weights=asked,
    )


# -------------------------------------------------------------------------------------------------------------- the encoder


def opened_call(event: HostedStart) -> tuple[str, JsonObject]:
    """The prefix of the id and the fields of the item of a call that begins."""
    if event.kind == "image":
        return opened_picture(event)
    action = _object(event.payload).get("action")
    fields = action if isinstance(action, dict) else {}
    if event.kind == "code":
        return "ci_", {
            "type": "code_interpreter_call",
            "code": "",
            "container_id": _object(event.payload).get("container") or "",
            "outputs": None,
        }
    if event.kind == "file_search":
        return "fs_", {"type": "file_search_call", "queries": [fields.get("query") or ""], "results": None}
    if fields.get("type") == "search":
        fields = {**fields, "queries": [fields.get("query")]}
    return "ws_", {"type": "web_search_call", "action": fields}


def closed_call(item: JsonObject, event: HostedEnd, include: frozenset[str]) -> JsonObject:
    """What the end of a call adds to its item. Sources and results are told where the client includes them."""
    if item["type"] == "image_generation_call":
        return closed_picture(event)
    payload = _object(event.payload)
    status: JsonObject = {"status": "failed" if event.failed else "completed"}
    if item["type"] == "code_interpreter_call":
        return {**status, **_ran(payload, include)}
    found = payload.get("sources")
    sources = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    if item["type"] == "file_search_call":
        return {**status, "results": _results(sources)} if "file_search_call.results" in include else status
    action = item["action"]
    if isinstance(action, dict) and action.get("type") == "search" and "web_search_call.action.sources" in include:
        urls: list[Json] = [{"type": "url", "url": each.get("id")} for each in sources]
        status["action"] = {**action, "sources": urls}
    if "web_search_call.results" in include:
        status["results"] = [
            {"type": "text_result", "url": each.get("id"), "title": each.get("title"), "snippet": each.get("text")}
            for each in sources
        ]
    return status


def _ran(payload: JsonObject, include: frozenset[str]) -> JsonObject:
    """What code has given, where the client includes it."""
    structured = payload.get("structured")
    ran = structured if isinstance(structured, dict) else {}
    found: JsonObject = {"container_id": ran["container"]} if ran.get("container") else {}
    if "code_interpreter_call.outputs" in include:
        outputs = [str(ran[name]).rstrip("\n") for name in ("stdout", "stderr") if ran.get(name)]
        logs = "\n".join(outputs) if ran else str(payload.get("text") or "")
        found["outputs"] = [{"type": "logs", "logs": logs}] if logs else []
    return found


def _results(sources: Sequence[JsonObject]) -> list[Json]:
    return [
        {
            "file_id": each.get("id"),
            "filename": each.get("title"),
            "score": each.get("score"),
            "text": each.get("text"),
            "attributes": each.get("attributes") or {},
            "vector_store_id": each.get("store"),
        }
        for each in sources
    ]


def _object(payload: bytes) -> JsonObject:
    return msgspec.json.decode(payload, type=dict[str, Json]) if payload else {}
