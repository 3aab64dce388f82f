"""Fields that several APIs have alike: metadata, arguments of the chat template.

Each is checked against the limits here, for all of them. Pure. Above: the decoders. Below: decoding, settings.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, to_builtins

from smg_core.errors import InvalidRequest
from smg_core.json_types import Json
from smg_core.wire.decoding import brief, check_depth, too_many
from smg_core.wire.settings import LimitsConfig

__all__ = ["not_in_list", "read_limit", "read_metadata", "read_template_arguments"]

_LONGEST_NUMBER = 16  # digits
_NO_ARGUMENTS: Mapping[str, Json] = MappingProxyType({})
_RESERVED_ARGUMENTS = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "chat_template",
        "conversation",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
        "padding",
        "truncation",
        "return_dict",
        "return_tensors",
        "return_assistant_tokens_mask",
        "tokenizer_kwargs",
    }
)


def read_limit(query: Mapping[str, tuple[str, ...]], *, usual: int, most: int) -> int:
    """How many things a page of a list has, by the query's `limit`. Raises InvalidRequest."""
    text = query.get("limit", (str(usual),))[-1]
    known = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    if not (known and 1 <= int(text) <= most):
        raise InvalidRequest(f"Invalid 'limit': a number from 1 to {most}.", param="limit")
    return int(text)


def not_in_list(id: str, param: str = "after") -> InvalidRequest:
    """The error for a page that is to begin behind something that the list does not have, or no longer."""
    return InvalidRequest(f"Nothing with id '{id[:100]}' is in this list.", param=param)


def read_template_arguments(
    arguments: Mapping[str, Json] | None, verbosity: str | None, limits: LimitsConfig
) -> Mapping[str, Json]:
    """The variables of the chat template: `chat_template_kwargs`, and how long the answer is to be."""
    if arguments:
        if len(arguments) > limits.template_arguments:
            raise too_many("chat_template_kwargs", len(arguments), limits.template_arguments, "entries")
        for name in arguments:
            if name in _RESERVED_ARGUMENTS:
                at = f"chat_template_kwargs.{name}"
                raise InvalidRequest(f"Invalid '{at}': it is not the client's to set.", param=at, code="invalid_value")
        check_depth([arguments], limits.json_depth, "chat_template_kwargs")
    if verbosity is not None:
        # Engines have no such setting; some models' templates have.
        return {"verbosity": verbosity, **(arguments or {})}
    return arguments or _NO_ARGUMENTS


def read_metadata(metadata: Mapping[str, str], limits: LimitsConfig) -> Mapping[str, str]:
    """The metadata, within the limits."""
    if len(metadata) > limits.metadata:
        raise too_many("metadata", len(metadata), limits.metadata, "entries")
    for name, value in metadata.items():
        if len(name) > limits.metadata_name_characters or len(value) > limits.metadata_characters:
            param = f"metadata.{brief(name, limits.metadata_name_characters)}"
            raise InvalidRequest(
                f"Invalid '{param}': keys have at most {limits.metadata_name_characters} characters, values at most "
                f"{limits.metadata_characters}.",
                param=param,
                code="string_above_max_length",
            )
    return metadata


def read_own_fields(body: Struct, names: Mapping[str, str]) -> Mapping[str, Json]:
    """The fields of a body that the API's own provider alone can honour, by their names on the wire; `names` has those of the
    struct's attributes. They change nothing here."""
    given = {wire: getattr(body, name) for name, wire in names.items() if getattr(body, name) is not None}
    found: Mapping[str, Json] = _without_nulls(to_builtins(given)) if given else _NO_ARGUMENTS
    return found


def _without_nulls(value: Any) -> Any:
    """JSON without the members of objects that say nothing."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
