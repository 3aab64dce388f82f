"""Response formats: the constraint for the engine, and the check of the finished answer.

Pure. A JSON schema is compiled once per request, with a linear-time regex engine and without fetching anything; an invalid schema
is the client's error, before any worker is asked. An answer whose check would take too many steps is not checked.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, Protocol

import msgspec

from smg_core.engines.base import Constraint
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json
from smg_core.pipeline.schema_work import over_steps
from smg_core.request import (
    ChoiceFormat,
    GrammarFormat,
    JsonFormat,
    RegexFormat,
    ResponseFormat,
    SchemaFormat,
    StructuralTagFormat,
    TextFormat,
)

__all__ = ["constraint_of", "light", "output_check", "schema_validator"]

_LIGHT_SCHEMA = 4096
"""Bytes of a schema that is compiled in well under a millisecond, if it has no pattern."""

_MOST_STEPS = 20_000
"""Steps of checking an answer against its schema on the event loop, about ten milliseconds; if more are needed, there is no
check."""

_QUICKLY_CHECKED = 1 << 20
"""Bytes of the schema times characters of the answer. Without references each part of a schema looks at each value at most once,
so below this product the steps need not be counted."""


class ValidationError(Protocol):
    """One place where a value breaks its schema."""

    @property
    def message(self) -> str: ...


class Validator(Protocol):
    """A compiled JSON schema."""

    def iter_errors(self, value: Json, /) -> Iterator[ValidationError]:
        """The errors of `value`; none if it conforms."""
        ...


def light(asked: ResponseFormat) -> bool:
    """Whether the format can be compiled on the event loop. A schema with a pattern cannot: a few characters of a pattern can
    take tens of milliseconds."""
    if not isinstance(asked, SchemaFormat):
        return True
    text = msgspec.json.encode(asked.schema)
    return len(text) <= _LIGHT_SCHEMA and b'"pattern' not in text


def constraint_of(asked: ResponseFormat, kinds: frozenset[str], *, checked: bool = False) -> Constraint | None:
    """The constraint for a response format, for an engine that takes constraints of `kinds`; None for plain text. Raises
    UnsupportedParameter if the engine does not take the kind that the format needs. With `checked`, JSON needs no constraint: an
    answer of another form fails or is mended (structured.on_violation)."""
    if isinstance(asked, TextFormat):
        return None
    constraint = _constraint(asked)
    if constraint.kind not in kinds:
        if checked and isinstance(asked, SchemaFormat | JsonFormat):
            return None
        raise UnsupportedParameter(
            f"This model's engine cannot hold its output to a {constraint.kind}.", param="response_format"
        )
    return constraint


def _constraint(asked: ResponseFormat) -> Constraint:
    match asked:
        case SchemaFormat():
            return Constraint("json_schema", msgspec.json.encode(asked.schema).decode())
        case RegexFormat():
            return Constraint("regex", asked.pattern)
        case GrammarFormat():
            return Constraint("grammar", asked.grammar)
        case ChoiceFormat():
            return Constraint("choice", choices=asked.choices)
        case StructuralTagFormat():
            return Constraint("structural_tag", asked.tag)
        case _:
            return Constraint("json_object")


def output_check(asked: ResponseFormat) -> Callable[[str], str | None] | None:
    """A function that returns why a finished text violates the format (None if it does not); None if there is nothing to check.

    Raises InvalidRequest when the schema itself is wrong.
    """
    if isinstance(asked, JsonFormat):
        return _not_an_object
    if isinstance(asked, SchemaFormat):
        return _conforms_to(asked)
    return None


def schema_validator(schema: Mapping[str, Json], of: str, param: str) -> Validator:
    """A validator for a schema of the client. Raises InvalidRequest naming `of` and `param` if the schema is invalid."""
    import jsonschema_rs  # 3 MiB that a gateway without structured output does not need

    try:
        validator: Validator = jsonschema_rs.validator_for(
            dict(schema), retriever=_refuse_reference, pattern_options=jsonschema_rs.RegexOptions()
        )
    except ValueError as error:
        raise InvalidRequest(f"Invalid schema for {of}: {str(error).partition(chr(10))[0]}", param=param) from error
    return validator


def _conforms_to(asked: SchemaFormat) -> Callable[[str], str | None]:
    validator = schema_validator(asked.schema, f"response_format '{asked.name}'", "response_format.schema")
    written = msgspec.json.encode(asked.schema)
    refers = b'"$' in written

    def check(text: str) -> str | None:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            return f"not JSON: {error}"
        if (refers or len(written) * len(text) > _QUICKLY_CHECKED) and over_steps(asked.schema, value, _MOST_STEPS):
            return None
        fault = next(iter(validator.iter_errors(value)), None)
        return None if fault is None else fault.message

    return check


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"the schema refers to {uri}, and nothing is fetched for a schema")


def _not_an_object(text: str) -> str | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return f"not JSON: {error}"
    return None if isinstance(value, dict) else "not a JSON object"
