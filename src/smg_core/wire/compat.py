"""The unknown fields of a body that are ignored instead of refused.

Clients that were written for vLLM, SGLang or OpenRouter send fields that our wire types do not have, mostly with the value that
changes nothing (the neutral value). A strict decoder refuses them by name. In a lenient deployment, the fields in
`FOREIGN_FIELDS` are ignored at their neutral values, in every API; at another value they are refused in every mode, since
nothing here can do what they ask for. What happens to all other unknown fields depends on the mode. Each ignored field is
logged once.

Above: decoding. Below: errors. It knows no API's own fields: only those that a wire type does not have come here.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

import attrs
import msgspec
from msgspec import inspect

from smg_core.errors import UnsupportedParameter
from smg_core.outside_words import Outside

__all__ = ["FOREIGN_FIELDS", "STRICT", "Compat", "ForeignField", "Mode"]

log = logging.getLogger("smg.compat")

Mode = Literal["off", "vllm", "openai"]
"""off: every unknown field is refused. openai: foreign fields at neutral values are ignored, all others refused, as OpenAI does.
vllm: all others are ignored too, as vLLM does."""

_LONGEST = 80  # characters of a field's name in a warning


@attrs.frozen
class ForeignField:
    """A field of another server's API: the name of the server, and the values that change nothing. `hint`: no value of it changes
    the answer."""

    server: str
    neutral: tuple[object, ...] = ()
    hint: bool = False

    def is_neutral(self, value: object) -> bool:
        """Whether a request with this value is the same as one without the field."""
        return value is None or self.hint or any(_equal(value, each) for each in self.neutral)


def _equal(value: object, other: object) -> bool:
    """Equality of JSON values: true is not 1, but 1 is 1.0."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


_VLLM: Mapping[str, ForeignField] = {
    "add_special_tokens": ForeignField("vLLM", (False,)),
    "allowed_token_ids": ForeignField("vLLM"),
    "bad_words": ForeignField("vLLM", ([],)),
    "best_of": ForeignField("vLLM", (1,)),
    "early_stopping": ForeignField("vLLM", (False,)),
    "echo": ForeignField("vLLM", (False,)),
    "guided_decoding_backend": ForeignField("vLLM", hint=True),
    "guided_whitespace_pattern": ForeignField("vLLM"),
    "kv_transfer_params": ForeignField("vLLM", ({},)),
    "length_penalty": ForeignField("vLLM", (1,)),
    "logits_processors": ForeignField("vLLM", ([],)),
    "mm_processor_kwargs": ForeignField("vLLM", ({},)),
    "request_id": ForeignField("vLLM", hint=True),
    "return_tokens_as_token_ids": ForeignField("vLLM", (False,)),
    "spaces_between_special_tokens": ForeignField("vLLM", (True,)),
    "truncate_prompt_tokens": ForeignField("vLLM"),
    "use_beam_search": ForeignField("vLLM", (False,)),
    "vllm_xargs": ForeignField("vLLM", ({},)),
}
_SGLANG: Mapping[str, ForeignField] = {
    "custom_logit_processor": ForeignField("SGLang"),
    "custom_params": ForeignField("SGLang", ({},)),
    "lora_path": ForeignField("SGLang"),
    "return_cached_tokens_details": ForeignField("SGLang", (False,)),
    "return_hidden_states": ForeignField("SGLang", (False,)),
    "return_meta_info": ForeignField("SGLang", (False,)),
    "return_routed_experts": ForeignField("SGLang", (False,)),
    "rid": ForeignField("SGLang", hint=True),
    "session_params": ForeignField("SGLang", ({},)),
    "stop_regex": ForeignField("SGLang", ([],)),
}
_OPENROUTER: Mapping[str, ForeignField] = {
    "include": ForeignField("OpenRouter", ([],)),
    "models": ForeignField("OpenRouter", ([],)),
    "plugins": ForeignField("OpenRouter", ([],)),
    "provider": ForeignField("OpenRouter", ({},)),
    "reasoning": ForeignField("OpenRouter", ({}, {"exclude": False})),
    "route": ForeignField("OpenRouter", hint=True),
    "top_a": ForeignField("OpenRouter", (0,)),
    "transforms": ForeignField("OpenRouter", ([],)),
    "usage": ForeignField("OpenRouter", ({}, {"include": False})),
}
FOREIGN_FIELDS: Mapping[str, ForeignField] = MappingProxyType({**_VLLM, **_SGLANG, **_OPENROUTER})
"""The known fields of other servers by name. null is neutral for each."""


class Compat:
    """How lenient one deployment is. At most `most_warnings` fields are logged, so that clients cannot fill the log."""

    __slots__ = ("_most_warnings", "_warned", "mode")

    def __init__(self, mode: Mode = "off", most_warnings: int = 256) -> None:
        self.mode: Mode = mode
        self._most_warnings = most_warnings
        self._warned: set[str] = set()

    def relax(self, plain: object, wire_type: type[msgspec.Struct]) -> None:
        """Remove the ignored fields from a body, in place: foreign fields at neutral values, and in the mode "vllm" all other
        unknown fields, at any depth that the wire type describes. Raises UnsupportedParameter for a foreign field at another
        value."""
        if self.mode == "off" or type(plain) is not dict:
            return
        own = _shape(wire_type).names
        for name in [name for name in plain if name in FOREIGN_FIELDS and name not in own]:
            known = FOREIGN_FIELDS[name]
            if not known.is_neutral(plain[name]):
                raise UnsupportedParameter(_refusal(name, known), param=name)
            del plain[name]
            self._warn(name, known.server)
        if self.mode == "vllm":
            for path in _delete_unknown(plain, inspect.type_info(wire_type), ""):
                self._warn(path)

    def _warn(self, path: str, server: str = "") -> None:
        """Say once that a field is passed over; the name of one that no server has is a part of a client's body."""
        path = path[:_LONGEST]
        if path in self._warned or len(self._warned) >= self._most_warnings:
            return
        self._warned.add(path)
        name, known = (path, server) if server else (Outside(path), "nobody here")
        log.warning("the field '%s' (known to: %s) is taken and passed over", name, known)


STRICT = Compat()


def _refusal(name: str, known: ForeignField) -> str:
    values = ", ".join(["null", *(msgspec.json.encode(each).decode() for each in known.neutral)])
    return f"Unsupported value: '{name}' ({known.server}) is taken on this server as {values} only."


# ------------------------------------------------------------------------------------------------ what a type has fields for


@attrs.frozen
class _Shape:
    names: frozenset[str]
    fields: Mapping[str, inspect.Type]


@cache
def _shape(wire_type: type[msgspec.Struct]) -> _Shape:
    """The fields of a wire type. The cache holds one entry for each wire type."""
    found = inspect.type_info(wire_type)
    if not isinstance(found, inspect.StructType):
        raise TypeError(f"{wire_type} is no Struct")
    fields = {field.encode_name: field.type for field in found.fields}
    tag = {found.tag_field} if found.tag_field else set()
    return _Shape(frozenset(fields) | tag, MappingProxyType(fields))


def _delete_unknown(value: object, kind: inspect.Type, path: str) -> Iterator[str]:
    """Delete from `value` the members that its type has no fields for; yields the path of each, without indexes."""
    if isinstance(kind, inspect.UnionType):
        chosen = next((each for each in kind.types if _may_be(value, each)), None)
        if chosen is not None:
            yield from _delete_unknown(value, chosen, path)
    elif isinstance(kind, inspect.ListType) and type(value) is list:
        for item in value:
            yield from _delete_unknown(item, kind.item_type, f"{path}[]")
    elif isinstance(kind, inspect.StructType) and type(value) is dict:
        shape = _shape(kind.cls)
        for name in list(value):
            place = f"{path}.{name}" if path else name
            if name not in shape.names:
                del value[name]
                yield place
            elif name in shape.fields:
                yield from _delete_unknown(value[name], shape.fields[name], place)


def _may_be(value: object, kind: inspect.Type) -> bool:
    """Whether a value belongs to this member of a union. Only its JSON kind and its tag are compared."""
    if isinstance(kind, inspect.ListType):
        return type(value) is list
    if not isinstance(kind, inspect.StructType) or type(value) is not dict:
        return False
    return kind.tag_field is None or value.get(kind.tag_field) == kind.tag
