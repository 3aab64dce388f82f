"""Server tools of Messages that run here: search and pages of the web and code in a request, the blocks of their
calls, and citations.

What the API leaves open: `encrypted_content` of a result is its text in base64, so that a client that sends the result back has
it in the prompt again; a page is cited from its beginning. A tool that code alone may call (`allowed_callers`) is not offered.
Every version of code execution runs Python by the call `code_execution`; files that it makes are kept for the Files API.

Pure. Above: messages.tools, the encoders. Below: the wire types, request.
"""

import base64
import binascii
import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.apis.messages import types as wire
from smg_core.apis.messages.mcp import result_block, use_block
from smg_core.built_in import BuiltIn, built_in_tool
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.events import Annotation, HostedEnd, HostedStart
from smg_core.json_types import Json, JsonObject
from smg_core.request import HostedTool
from smg_core.sources import CitableSource
from smg_core.web_terms import checked_domains, place_in_words
from smg_core.wire.decoding import explained

__all__ = ["HostedBlocks", "built_in_kind", "built_in_label", "container_id", "read_server_tool", "result_texts"]

_KINDS: Mapping[str, Literal["web_search", "web_fetch", "code"]] = {
    "web_search_": "web_search",
    "web_fetch_": "web_fetch",
    "code_execution_": "code",
}
_CODE_NAME = "code_execution"
_CHARACTERS = 4  # of a page, for each token that it may have
_SEALED = "smg1."
"""How an `encrypted_content` of this gateway begins."""
_CODES: Mapping[str, Mapping[str, str]] = {
    "web_search": {
        "invalid_input": "invalid_tool_input",
        "too_long": "query_too_long",
        "busy": "too_many_requests",
        "most_uses": "max_uses_exceeded",
    },
    "web_fetch": {
        "invalid_input": "invalid_tool_input",
        "too_long": "url_too_long",
        "not_allowed": "url_not_allowed",
        "not_named": "url_not_in_prior_context",
        "unreachable": "url_not_accessible",
        "wrong_type": "unsupported_content_type",
        "too_large": "content_too_large",
        "busy": "too_many_requests",
        "most_uses": "max_uses_exceeded",
    },
    "code": {
        "invalid_input": "invalid_tool_input",
        "busy": "too_many_requests",
        "out_of_time": "execution_time_exceeded",
        "container_gone": "container_expired",
    },
}
"""The API's names of failures, by the tool; of all others `unavailable`."""


def built_in_kind(type_: str | None) -> Literal["web_search", "web_fetch", "code"] | None:
    """The kind of server tool that a type is, whatever its date."""
    return next((kind for start, kind in _KINDS.items() if type_ is not None and type_.startswith(start)), None)


def read_server_tool(tool: wire.ToolWire, at: str, container: str = "") -> HostedTool | None:
    """The server tool at `at`, whose code runs in this container of the request; None for one that the model may not call itself.
    Raises InvalidRequest."""
    kind = built_in_kind(tool.type)
    if kind is None or (tool.allowed_callers is not None and "direct" not in tool.allowed_callers):
        return None
    name = _CODE_NAME if kind == "code" else kind
    if tool.name != name:
        raise InvalidRequest(f"{at}.name: Input should be '{name}'", param=f"{at}.name")
    if kind == "code":
        return built_in_tool(BuiltIn(kind, uses=tool.max_uses, container=container, keeps=True))
    if tool.allowed_domains and tool.blocked_domains:
        raise InvalidRequest(
            f"{at}: only one of allowed_domains and blocked_domains can be given", param=f"{at}.blocked_domains"
        )
    if tool.max_uses is not None and tool.max_uses < 1:
        raise InvalidRequest(f"{at}.max_uses: Input should be greater than 0", param=f"{at}.max_uses")
    if tool.url_sources is not None:
        raise UnsupportedParameter(f"{at}.url_sources is not supported on this server.", param=f"{at}.url_sources")
    fetches = kind == "web_fetch"
    if fetches and tool.max_content_tokens is not None and tool.max_content_tokens < 1:
        raise InvalidRequest(
            f"{at}.max_content_tokens: Input should be greater than 0", param=f"{at}.max_content_tokens"
        )
    most = tool.max_content_tokens if fetches else None
    return built_in_tool(
        BuiltIn(
            kind,
            uses=tool.max_uses,
            allowed=checked_domains(tool.allowed_domains, f"{at}.allowed_domains"),
            blocked=checked_domains(tool.blocked_domains, f"{at}.blocked_domains"),
            place=place_in_words(tool.user_location),
            characters=None if most is None else most * _CHARACTERS,
            named=fetches,
            cites=not fetches or _enabled(tool.citations, f"{at}.citations"),
        )
    )


def built_in_label(name: str | None) -> str:
    """What is called here what a request calls by this name."""
    return "code" if name == _CODE_NAME else name or ""


class _Container(Struct, gc=False):
    id: str | None = None


def container_id(container: Json) -> str:
    """The container that a request names; "" for none. Raises InvalidRequest."""
    if container is None or isinstance(container, str):
        return container or ""
    if not isinstance(container, dict):
        raise InvalidRequest("container: Input should be a string or an object", param="container")
    if container.get("skills"):
        raise UnsupportedParameter("container.skills is not supported on this server.", param="container.skills")
    return explained(container, _Container, "container").id or ""


class _Citations(Struct, gc=False):
    enabled: bool | None = None


def _enabled(citations: JsonObject | None, at: str) -> bool:
    return citations is not None and explained(citations, _Citations, at).enabled is True


def result_texts(content: Sequence[Json]) -> list[str]:
    """What results of a search of the web say, as a client has sent them back."""
    texts = []
    for each in content:
        if isinstance(each, dict) and each.get("type") == "web_search_result":
            parts = [each.get("title"), each.get("url"), _opened(each.get("encrypted_content"))]
            texts.append("\n".join(str(line) for line in parts if line))
    return texts


def _sealed(text: str) -> str:
    return _SEALED + base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()


def _opened(sealed: Json) -> str:
    if not isinstance(sealed, str) or not sealed.startswith(_SEALED):
        return ""
    try:
        return base64.urlsafe_b64decode(sealed.removeprefix(_SEALED)).decode()
    except (binascii.Error, ValueError):
        return ""


# -------------------------------------------------------------------------------------------------------------- the encoder


class HostedBlocks:
    """The blocks of the calls of one answer that run here, and what the answer cites. `sources` are those of the request; `used`
    counts the calls by kind."""

    def __init__(self, message_id: str, sources: Sequence[CitableSource]) -> None:
        self._message_id = message_id
        self._sources = sources
        self._kind = self._use_id = ""  # of the open call
        self.used: dict[str, int] = {}
        self.container: JsonObject | None = None
        self._documents: dict[str, int] = {}

    def fork(self) -> "HostedBlocks":
        """An independent copy."""
        other = copy.copy(self)
        other.used, other._documents = dict(self.used), dict(self._documents)
        return other

    def use(self, event: HostedStart, order: int) -> tuple[JsonObject, str] | None:
        """The block of a call that begins, without its input, and the input as JSON text; None where the API tells nothing of it.
        `order` is the block's index."""
        self._kind = self._use_id = ""
        if event.kind == "mcp":
            block, arguments = use_block(event, self._message_id, order)
        elif event.kind in _CODES:
            self.used.setdefault(event.kind, 0)
            suffix = self._message_id.partition("_")[2] or self._message_id
            block = {"type": "server_tool_use", "id": f"srvtoolu_{suffix}{order}", "input": {}}
            block["name"] = _CODE_NAME if event.kind == "code" else event.kind
            block["caller"] = {"type": "direct"}
            arguments = str(_object(event.payload).get("arguments") or "{}")
        else:
            return None
        self._kind, self._use_id = event.kind, str(block["id"])
        return block, arguments

    def result(self, event: HostedEnd) -> JsonObject | None:
        """The block of the result of the open call; None where it has none."""
        kind, self._kind = self._kind, ""
        if not kind:
            return None
        if kind == "mcp":
            return result_block(event, self._use_id)
        payload = _object(event.payload)
        name = _CODE_NAME if kind == "code" else kind
        block: JsonObject = {"type": f"{name}_tool_result", "tool_use_id": self._use_id, "caller": {"type": "direct"}}
        if event.failed:
            code = _CODES[kind].get(str(payload.get("code")), "unavailable")
            return {**block, "content": {"type": f"{name}_tool_result_error", "error_code": code}}
        self.used[kind] += 1
        if kind == "code":
            return {**block, "content": self._ran(payload)}
        found = payload.get("sources")
        sources = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        if kind == "web_search":
            return {**block, "content": [_search_result(each) for each in sources]}
        return {**block, "content": self._fetched(sources, payload)}

    def _ran(self, payload: JsonObject) -> JsonObject:
        """What code has given, and whose container it was in."""
        structured = payload.get("structured")
        ran = structured if isinstance(structured, dict) else {}
        until = ran.get("expires_at")
        if isinstance(until, int | float):
            self.container = {"id": ran.get("container"), "expires_at": datetime.fromtimestamp(until, UTC).isoformat()}
        files = ran.get("files")
        made: list[Json] = [
            {"type": "code_execution_output", "file_id": each.get("id")}
            for each in (files if isinstance(files, list) else [])
            if isinstance(each, dict)
        ]
        return {
            "type": "code_execution_result",
            "stdout": ran.get("stdout") or "",
            "stderr": ran.get("stderr") or "",
            "return_code": 1 if ran.get("failed") else 0,
            "content": made,
        }

    def _fetched(self, sources: Sequence[JsonObject], payload: JsonObject) -> JsonObject:
        page = sources[0] if sources else {}
        url, structured = str(page.get("id") or ""), payload.get("structured")
        at = structured.get("at") if isinstance(structured, dict) else None
        self._documents.setdefault(url, len(self._documents))
        source: JsonObject = {"type": "text", "media_type": "text/plain", "data": page.get("text") or ""}
        document: JsonObject = {"type": "document", "source": source, "title": page.get("title") or None}
        document["citations"] = {"enabled": True} if payload.get("cites") else None
        when = datetime.fromtimestamp(at, UTC).isoformat() if isinstance(at, int | float) else None
        return {"type": "web_fetch_result", "url": url, "content": document, "retrieved_at": when}

    @property
    def usage(self) -> JsonObject:
        """The field of the answer's usage that counts calls of server tools; nothing where there were none."""
        web = ("web_search", "web_fetch")
        if self.used.keys().isdisjoint(web):
            return {}
        counts: JsonObject = {f"{kind}_requests": self.used.get(kind, 0) for kind in web}
        return {"server_tool_use": counts}

    def citation(self, event: Annotation) -> JsonObject | None:
        """What a text cites; None for a source that the API has no form for."""
        if event.kind == "url":
            return {
                "type": "web_search_result_location",
                "cited_text": event.quote,
                "url": event.source,
                "title": event.title or None,
                "encrypted_index": _sealed(str(event.order)),
            }
        if event.kind == "page":
            return {
                "type": "char_location",
                "cited_text": event.quote,
                "document_index": self._documents.get(event.source, 0),
                "document_title": event.title or None,
                "start_char_index": 0,
                "end_char_index": len(event.quote),
                "file_id": None,
            }
        if event.kind != "result" or event.order >= len(self._sources):
            return None
        source = self._sources[event.order]
        index, block = source.result, source.part
        return {
            "type": "search_result_location",
            "cited_text": event.quote,
            "source": event.source,
            "title": event.title or None,
            "search_result_index": index,
            "start_block_index": block,
            "end_block_index": block + 1,
        }


def _search_result(source: JsonObject) -> JsonObject:
    return {
        "type": "web_search_result",
        "url": source.get("id"),
        "title": source.get("title") or "",
        "encrypted_content": _sealed(str(source.get("text") or "")),
        "page_age": source.get("age"),
    }


def _object(payload: bytes) -> JsonObject:
    return msgspec.json.decode(payload, type=dict[str, Json]) if payload else {}
