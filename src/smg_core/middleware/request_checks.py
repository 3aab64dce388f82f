"""Checks a request that a plugin put in place of another, by the rules for clients.

Only what the plugin changed is looked at, so that the work is small where the change is. Pure. Above: `chain`. Below: `base`,
`request_types`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import replace

from smg_core.errors import SmgError
from smg_core.middleware.base import MiddlewareFault
from smg_core.middleware.request_types import Misfit, TooMuch, Walk
from smg_core.outside_words import known_words
from smg_core.request import GenerationRequest, HostedTool, Message

__all__ = ["BoundRequest", "changed_request", "unbound", "weight_of"]

BoundRequest = Callable[[GenerationRequest, GenerationRequest], None]
"""Raises SmgError where a request, put in the place of another, is over a limit that holds for those of clients."""

_FIXED = ("id", "stream", "background", "caller", "origin", "history", "generate", "compact", "size", "live")
"""Fields of a request that say who asks, through which API, and in which form the answer leaves."""
_WORDS = 100  # characters of an error's message in a reason


_NODE = 16  # characters that an object counts for beside those of its texts
_LIGHT = 32 * 1024  # characters from which on a change counts as heavy


def weight_of(request: GenerationRequest, changed: GenerationRequest) -> int:
    """About how many characters have to be looked at to check a change. Looks at few, and counts a change of many as all of the
    request."""
    left, known = _LIGHT, {id(each) for each in request.messages}
    waiting: list[object] = [
        value
        for name in changed.__struct_fields__
        if (value := getattr(changed, name)) is not getattr(request, name, None)
    ]
    while waiting and left > 0:
        value = waiting.pop()
        left -= _NODE
        if id(value) in known:
            continue
        if isinstance(value, str | bytes):
            left -= len(value)
        elif isinstance(value, msgspec.Struct):
            waiting += (getattr(value, each) for each in value.__struct_fields__)
        elif isinstance(value, dict | list | tuple | frozenset):
            left -= _NODE * len(value)
            if left > 0 and type(value) in (dict, list, tuple, frozenset):  # others are refused
                waiting += (*value, *value.values()) if isinstance(value, dict) else value
        elif isinstance(value, Sequence):
            left -= len(value)
    return _LIGHT - left if left > 0 else max(request.size, _LIGHT + 1)


def unbound(request: GenerationRequest, changed: GenerationRequest) -> None:
    """No limits beside those of the middleware itself."""


def changed_request(
    request: GenerationRequest, changed: GenerationRequest, most: int, bound: BoundRequest = unbound
) -> GenerationRequest:
    """A request that a plugin put in the place of another, within `most` bytes and the limits of `bound`. Raises MiddlewareFault
    for a change that is not allowed."""
    for name in _FIXED:
        if getattr(request, name) != getattr(changed, name):
            raise MiddlewareFault(f"changes {name} of a request, which is the gateway's")
    different = [each for each in changed.__struct_fields__ if getattr(changed, each) is not getattr(request, each)]
    _check_types(request, changed, different, max(most, request.size))
    _check_hosted(request, changed)
    if request.sampling.n != changed.sampling.n:
        raise MiddlewareFault("changes how many choices a request asks for")
    if (request.prompt is None) != (changed.prompt is None):
        raise MiddlewareFault("changes whether a request has messages or a prompt")
    if bool(request.messages) != bool(changed.messages) and (request.messages or changed.prompt is not None):
        raise MiddlewareFault("changes whether a request has messages")
    if not changed.caller.grants.may_use(changed.model):
        raise MiddlewareFault(f"asks for the model {changed.model[:60]}, which the caller may not use")
    size = _size(request, changed, different)
    if size > max(most, request.size):
        raise MiddlewareFault(f"gave a request with {size} new bytes, over the limit of {most}")
    try:
        bound(request, changed)
    except SmgError as error:
        raise MiddlewareFault(f"gave a request over a limit: {known_words(error.message[:_WORDS])}") from None
    return replace(changed, size=max(request.size, size))


@cache
def _types() -> Mapping[str, Any]:
    return get_type_hints(GenerationRequest)


def _check_types(request: GenerationRequest, changed: GenerationRequest, different: Sequence[str], most: int) -> None:
    walk = Walk(most, [*request.messages, *request.tools, *(part for each in request.messages for part in each.parts)])
    try:
        for name in different:
            walk.check(getattr(changed, name), _types()[name], name)
    except Misfit as found:
        raise MiddlewareFault(f"gave a request whose {found}") from None
    except TooMuch:
        raise MiddlewareFault(f"gave a request over the limit of {most} bytes") from None


def _check_hosted(request: GenerationRequest, changed: GenerationRequest) -> None:
    """What such a tool may be, and who may use it, is the decoders' to know: a plugin may take one away."""
    if changed.tools is not request.tools:
        for each in changed.tools:
            if isinstance(each, HostedTool) and each not in request.tools:
                raise MiddlewareFault("adds a tool that is run by a server")


def _size(request: GenerationRequest, changed: GenerationRequest, different: Sequence[str]) -> int:
    """Bytes of what was changed: fields, messages, and in those the parts, media among them, that were not there before. Raises
    MiddlewareFault for what cannot be written."""
    found = [getattr(changed, each) for each in different if each != "messages"]
    return _written((found, _new_messages(request, changed)))


def _new_messages(request: GenerationRequest, changed: GenerationRequest) -> list[Message]:
    """The messages that were not there before, and those that are there more often, with the parts of which that holds."""
    before = {id(each) for each in request.messages}
    parts = {id(part) for each in request.messages for part in each.parts}
    found = []
    for each in changed.messages:
        if id(each) in before:
            before.discard(id(each))
            parts.difference_update(map(id, each.parts))
            continue
        new = tuple(part for part in each.parts if id(part) not in parts)
        parts.difference_update(map(id, each.parts))
        found.append(replace(each, parts=new))
    return found


def _written(values: object) -> int:
    try:
        return len(msgspec.json.encode(values, enc_hook=_plain))
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError) as error:
        raise MiddlewareFault(f"gave a request that cannot be written: {known_words(str(error)[:_WORDS])}") from None


def _plain(value: object) -> object:
    """Token ids in a list of a kind of its own as a plain one. Raises TypeError for anything else that is no JSON."""
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError("a value that is no JSON")
