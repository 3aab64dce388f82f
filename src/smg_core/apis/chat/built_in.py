"""Built-in tools in Chat Completions, and the annotations of an answer that cites.

A search of the web is asked for by `web_search_options`, one of files by a tool of its type, an extension with the fields of
Responses. Places are characters of the message's content. Of a file Chat has no form: its annotation is that of Responses, in an
object of its type. Pure. Above: the decoder, the encoders. Below: the wire types, request.
"""

from msgspec import Struct

from smg_core.apis.chat import types as wire
from smg_core.apis.responses.wire.built_in import FileSearchTool, read_file_search
from smg_core.built_in import BuiltIn, built_in_tool
from smg_core.events import Annotation
from smg_core.json_types import JsonObject
from smg_core.request import HostedTool
from smg_core.web_terms import CONTEXT_RESULTS, ContextSize, UserPlace, place_in_words
from smg_core.wire.decoding import explained
from smg_core.wire.named_elsewhere import refuse_named

__all__ = ["Cited", "read_file_tool", "read_web_options"]

_OPTIONS = "web_search_options"


class _Place(Struct, gc=False):
    approximate: UserPlace | None = None


class _WebOptions(Struct, gc=False):
    search_context_size: ContextSize | None = None
    user_location: _Place | None = None


def read_web_options(options: JsonObject, hosted: frozenset[str]) -> HostedTool | None:
    """The search of the web that a body asks for; None where it cannot be had. Raises InvalidRequest."""
    asked = explained(options, _WebOptions, _OPTIONS)
    if "web_search" not in hosted:
        return None
    place = asked.user_location.approximate if asked.user_location is not None else None
    results = CONTEXT_RESULTS[asked.search_context_size or "medium"]
    return built_in_tool(BuiltIn("web_search", results=results, place=place_in_words(place)))


def read_file_tool(tool: wire.FileSearchWire, at: str, hosted: frozenset[str]) -> HostedTool | None:
    """The search of files at `at`; None where it cannot be had. Raises NotFound for a store of vectors where there are none."""
    if "file_search" in hosted:
        fields = (tool.vector_store_ids, tool.max_num_results, tool.filters, tool.ranking_options)
        asked = read_file_search(FileSearchTool(*fields), at)
        return None if asked is None else built_in_tool(asked)
    refuse_named({"vector_store_ids": list(tool.vector_store_ids)}, at)
    return None


class Cited:
    """How much of a message's content there is, and where the open text began: annotations count from there."""

    __slots__ = ("_begins", "_length", "made")

    def __init__(self) -> None:
        self._begins = self._length = 0
        self.made: list[JsonObject] = []

    def fork(self) -> "Cited":
        """An independent copy."""
        other = Cited()
        other._begins, other._length, other.made = self._begins, self._length, list(self.made)
        return other

    def text(self, text: str) -> None:
        """More of the content."""
        self._length += len(text)

    def text_end(self, length: int | None = None) -> None:
        """The open text is complete; `length` is how much of the content there is, where that is known."""
        self._begins = self._length if length is None else length

    def cite(self, event: Annotation) -> JsonObject | None:
        """The annotation; None for a source that is neither a page nor a file."""
        made: JsonObject
        if event.kind == "file":
            made = {"index": self._begins + event.end, "file_id": event.source, "filename": event.title}
            made = {"type": "file_citation", "file_citation": made}
        elif event.kind in ("url", "page"):
            start, end = self._begins + event.start, self._begins + event.end
            made = {"start_index": start, "end_index": end, "url": event.source, "title": event.title}
            made = {"type": "url_citation", "url_citation": made}
        else:
            return None
        self.made.append(made)
        return made
