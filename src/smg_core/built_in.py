"""The APIs' own tools that run here, as a request asks for them: searches of the web and of files, pages, code, pictures.

Pure. Above: the decoders, which make them; pipeline.tools and tools, which run them. Below: request.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from smg_core.json_types import Json
from smg_core.request import HostedTool

__all__ = ["BuiltIn", "FaultCode", "built_in_tool"]

FaultCode = Literal[
    "invalid_input",
    "too_long",
    "not_allowed",
    "not_named",
    "unreachable",
    "wrong_type",
    "too_large",
    "busy",
    "most_uses",
    "out_of_time",
    "container_gone",
    "failed",
]
"""Why a call of a built-in tool failed: its arguments are none, or are too long; an address that may not be read, that nobody in
the conversation has named, that cannot be had, or that has no text or too much of it; too many calls at the same time, or in this
response; code that took too long, a container that is not there; all else."""


class BuiltIn(Struct, frozen=True):
    """One of the APIs' own tools that run here, as a request asks for it.

    `uses` is how often it may be called in one response. Of a search of the web: `results` are wanted of each (None: the
    operator's number), of `allowed` domains alone and of none that is `blocked`; `place` says in words where the user is;
    with `opens` its pages can be opened too. Of a page: at most `characters` of it are given, `named` that only addresses of
    the conversation are read, `cites` that it can be cited. Of a search of files: the `stores`, and `filters`, `threshold`
    (of the score) and `weights` of vectors and of words as the request has them; `stores_at` is the field that names the
    stores. Of code: the `container` ("": one of the response's own), the `files` that lie in it; `keeps`: files that the code
    makes are kept as files of the client; `earlier` is the container of an earlier turn, which is used again where it is
    there. Of pictures: the `model` ("": the operator's), the words for it in `picture`, how many earlier states are told
    (`partial`), whether they are new or changed (`action`), `pictures` of the conversation in base64, and a `mask`."""

    kind: Literal["web_search", "web_fetch", "file_search", "code", "image"]
    uses: int | None = None
    results: int | None = None
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    place: str = ""
    opens: bool = False
    characters: int | None = None
    named: bool = False
    cites: bool = True
    stores: tuple[str, ...] = ()
    filters: Mapping[str, Json] | None = None
    threshold: float = 0.0
    weights: tuple[float, float] | None = None
    stores_at: str = "vector_store_ids"
    container: str = ""
    files: tuple[str, ...] = ()
    keeps: bool = False
    earlier: str = ""
    model: str = ""
    picture: Mapping[str, Json] | None = None
    partial: int = 0
    action: Literal["generate", "edit", "auto"] = "auto"
    pictures: tuple[str, ...] = ()
    mask: str = ""


def built_in_tool(config: BuiltIn) -> HostedTool:
    """The tool of a request for this one."""
    asked = msgspec.to_builtins(config, str_keys=True)
    return HostedTool("mcp", {"label": config.kind, "approval": "never", "built_in": asked})
