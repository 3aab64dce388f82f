"""Fields of other servers' APIs that say nothing: which they are, and when a request that has them is taken.

Clients that were written for vLLM, SGLang or OpenRouter send fields that our wire types do not have, mostly at the value that
changes nothing. A strict decoder refuses them by name. Decides, for a deployment that is lenient, which are taken: a table of
fields and their neutral values, for all APIs; and what becomes of fields that nobody knows. A field of the table with another
value is refused in every mode, since nothing here can do what it asks for. Each field that is passed over is warned of once.

Above: decoding. Below: errors. It knows no API's own fields: only what a wire type does not have comes here.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

import attrs
import msgspec
from msgspec import inspect

from smg_core.errors import UnsupportedParameter

__all__ = ["EXTRAS", "STRICT", "Compat", "Extra", "Mode"]

log = logging.getLogger("smg.compat")

Mode = Literal["off", "vllm", "openai"]
"""Off: every unknown field is refused. Openai: neutral fields are taken, unknown ones refused, as OpenAI does. Vllm: neutral
fields are taken and unknown ones passed over, as vLLM does."""

_LONGEST = 80  # characters of a field's name in a warning


@attrs.frozen
class Extra:
    """A field of another server's API: `whose` it is and the values that change nothing. `hint`: it never changes the answer,
    whatever its value."""

    whose: str
    neutral: tuple[object, ...] = ()
    hint: bool = False

    def says_nothing(self, value: object) -> bool:
        """Whether a request with this value is the same as one without the field."""
        return value is None or self.hint or any(_equal(value, each) for each in self.neutral)


def _equal(value: object, other: object) -> bool:
    """As JSON has it: true is not 1, but 1 is 1.0."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


_VLLM: Mapping[str, Extra] = {
    "add_special_tokens": Extra("vLLM", (False,)),
    "allowed_token_ids": Extra("vLLM"),
    "bad_words": Extra("vLLM", ([],)),
    "best_of": Extra("vLLM", (1,)),
    "early_stopping": Extra("vLLM", (False,)),
    "echo": Extra("vLLM", (False,)),
    "guided_decoding_backend": Extra("vLLM", hint=True),
    "guided_whitespace_pattern": Extra("vLLM"),
    "kv_transfer_params": Extra("vLLM", ({},)),
    "length_penalty": Extra("vLLM", (1,)),
    "logits_processors": Extra("vLLM", ([],)),
    "mm_processor_kwargs": Extra("vLLM", ({},)),
    "request_id": Extra("vLLM", hint=True),
    "return_token_ids": Extra("vLLM", (False,)),
    "return_tokens_as_token_ids": Extra("vLLM", (False,)),
    "spaces_between_special_tokens": Extra("vLLM", (True,)),
    "truncate_prompt_tokens": Extra("vLLM"),
    "use_beam_search": Extra("vLLM", (False,)),
    "vllm_xargs": Extra("vLLM", ({},)),
}
_SGLANG: Mapping[str, Extra] = {
    "custom_logit_processor": Extra("SGLang"),
    "custom_params": Extra("SGLang", ({},)),
    "lora_path": Extra("SGLang"),
    "return_cached_tokens_details": Extra("SGLang", (False,)),
    "return_hidden_states": Extra("SGLang", (False,)),
    "return_meta_info": Extra("SGLang", (False,)),
    "return_routed_experts": Extra("SGLang", (False,)),
    "rid": Extra("SGLang", hint=True),
    "session_params": Extra("SGLang", ({},)),
    "stop_regex": Extra("SGLang", ([],)),
}
_OPENROUTER: Mapping[str, Extra] = {
    "include": Extra("OpenRouter", ([],)),
    "models": Extra("OpenRouter", ([],)),
    "plugins": Extra("OpenRouter", ([],)),
    "provider": Extra("OpenRouter", ({},)),
    "reasoning": Extra("OpenRouter", ({}, {"exclude": False})),
    "route": Extra("OpenRouter", hint=True),
    "top_a": Extra("OpenRouter", (0,)),
    "transforms": Extra("OpenRouter", ([],)),
    "usage": Extra("OpenRouter", ({}, {"include": False})),
}
EXTRAS: Mapping[str, Extra] = MappingProxyType({**_VLLM, **_SGLANG, **_OPENROUTER})
"""All fields of other servers that are known by name, with the values at which they change nothing; null always is one."""


class Compat:
    """How lenient one deployment is. It warns of `most_warnings` fields at most, so that clients cannot fill a log."""

    __slots__ = ("_most_warnings", "_warned", "mode")

    def __init__(self, mode: Mode = "off", most_warnings: int = 256) -> None:
        self.mode: Mode = mode
        self._most_warnings = most_warnings
        self._warned: set[str] = set()

    def relax(self, plain: Any, wire_type: type[msgspec.Struct]) -> None:
        """Take out of a body what is passed over: neutral fields of other servers, and in the mode of vLLM what nobody knows, at
        any depth of what has a fixed shape. Raises UnsupportedParameter for a known field with a value that is not neutral."""
        if self.mode == "off" or type(plain) is not dict:
            return
        own = _shape(wire_type).names
        for name in [name for name in plain if name in EXTRAS and name not in own]:
            extra = EXTRAS[name]
            if not extra.says_nothing(plain[name]):
                raise UnsupportedParameter(_refusal(name, extra), param=name)
            del plain[name]
            self._warn(name, extra.whose)
        if self.mode == "vllm":
            for path in _prune(plain, inspect.type_info(wire_type), ""):
                self._warn(path, "nobody here")

    def _warn(self, path: str, whose: str) -> None:
        path = path[:_LONGEST]
        if path in self._warned or len(self._warned) >= self._most_warnings:
            return
        self._warned.add(path)
        log.warning("the field %r (known to: %s) is taken and passed over", path, whose)


STRICT = Compat()


def _refusal(name: str, extra: Extra) -> str:
    values = ", ".join(["null", *(msgspec.json.encode(each).decode() for each in extra.neutral)])
    return f"Unsupported value: '{name}' ({extra.whose}) is taken on this server as {values} only."


# ------------------------------------------------------------------------------------------------ what a type has fields for


@attrs.frozen
class _Shape:
    names: frozenset[str]
    fields: Mapping[str, inspect.Type]


@cache
def _shape(wire_type: type[msgspec.Struct]) -> _Shape:
    """The fields of a wire type; as many are kept as there are wire types."""
    found = inspect.type_info(wire_type)
    if not isinstance(found, inspect.StructType):
        raise TypeError(f"{wire_type} is no Struct")
    fields = {field.encode_name: field.type for field in found.fields}
    tag = {found.tag_field} if found.tag_field else set()
    return _Shape(frozenset(fields) | tag, MappingProxyType(fields))


def _prune(value: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    """Delete from `value` the members that its type has no fields for; yields the path of each, without indexes."""
    if isinstance(kind, inspect.UnionType):
        chosen = next((each for each in kind.types if _fits(value, each)), None)
        if chosen is not None:
            yield from _prune(value, chosen, path)
    elif isinstance(kind, inspect.ListType) and type(value) is list:
        for item in value:
            yield from _prune(item, kind.item_type, f"{path}[]")
    elif isinstance(kind, inspect.StructType) and type(value) is dict:
        shape = _shape(kind.cls)
        for name in list(value):
            place = f"{path}.{name}" if path else name
            if name not in shape.names:
                del value[name]
                yield place
            elif name in shape.fields:
                yield from _prune(value[name], shape.fields[name], place)


def _fits(value: Any, kind: inspect.Type) -> bool:
    """Whether a value is of this member of a union, as far as that decides which it is."""
    if isinstance(kind, inspect.ListType):
        return type(value) is list
    if not isinstance(kind, inspect.StructType) or type(value) is not dict:
        return False
    return kind.tag_field is None or value.get(kind.tag_field) == kind.tag
