"""Has errors name tools and messages by their places in the client's request.

A request whose servers of tools were taken out, or replaced by their tools, has its tools in other places, and later turns of it
have more messages. Pure. Above: the flows that run such requests, and what counts their prompts. Below: request, errors.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from smg_core.errors import SmgError
from smg_core.request import GenerationRequest, HostedTool

__all__ = ["has_other_places", "naming_places_of"]

_PLACE = re.compile(r"(tools|messages)\[(\d+)\](.*)")


def has_other_places(request: GenerationRequest) -> bool:
    """Whether the request that is run may have tools in other places than `request`."""
    return bool(request.tools) and any(isinstance(tool, HostedTool) for tool in request.tools)


@contextmanager
def naming_places_of(request: GenerationRequest, hosted: Callable[[int], str] = lambda _: "tools") -> Iterator[None]:
    """Have errors that are raised in the block name places of `request`. There its own tools come first, without its servers of
    tools, and its messages; what comes behind is no entry of the client's. `hosted` gives the place in `request` of the server
    that the tool in a place behind its own is of."""
    try:
        yield
    except SmgError as error:
        if error.param is not None and (found := _PLACE.fullmatch(error.param)) is not None:
            _rename(error, _placed(found, request, hosted))
        raise


def _placed(found: re.Match[str], request: GenerationRequest, hosted: Callable[[int], str]) -> str:
    field, place, rest = found[1], int(found[2]), found[3]
    if field == "messages":
        return found[0] if place < len(request.messages) else "messages"
    own = [at for at, tool in enumerate(request.tools) if not isinstance(tool, HostedTool)]
    return f"tools[{own[place]}]{rest}" if place < len(own) else hosted(place)


def _rename(error: SmgError, param: str) -> None:
    error.message = error.message.replace(f"'{error.param}'", f"'{param}'")
    error.param = param
