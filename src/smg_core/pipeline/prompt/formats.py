"""Response formats: the constraint for the engine, alone or as a part of one, and the check of the finished answer.

Pure. A JSON schema is compiled once per request, with a linear-time regex engine and without fetching anything; an invalid schema
is the client's error, before any worker is asked. An answer whose check would take too many steps is not checked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn, Protocol

import msgspec
from msgspec.structs import replace

from smg_core.engines.constraint import Constraint
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.prompt.schema_work import over_steps
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
from smg_parsers.constraints.lark import LarkError, ebnf
from smg_parsers.constraints.patterns import RAW, PatternError

__all__ = [
    "answer_form",
    "binds",
    "checked_format",
    "constraint_of",
    "holdable",
    "legal",
    "light",
    "light_schemas",
    "output_check",
    "schema_validator",
    "unheld",
]

_LIGHT_SCHEMA = 4096
"""Bytes of schemas that are compiled in well under a millisecond, if they have no pattern."""

_DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
)

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
    """Whether the format can be compiled on the event loop."""
    return not isinstance(asked, SchemaFormat) or light_schemas([asked.schema])


def light_schemas(schemas: Iterable[Mapping[str, Json]]) -> bool:
    """Whether all these schemas can be compiled on the event loop. One with a pattern cannot: a few characters of a pattern can
    take tens of milliseconds."""
    size = 0
    for schema in schemas:
        text = msgspec.json.encode(schema)
        size += len(text)
        if size > _LIGHT_SCHEMA or b'"pattern' in text:
            return False
    return True


def binds(asked: ResponseFormat) -> bool:
    """Whether an answer must be of the format: not where a schema is only wished for (`strict` false)."""
    return asked.strict if isinstance(asked, SchemaFormat) else not isinstance(asked, TextFormat)


def unheld(asked: ResponseFormat, *, checked: bool) -> bool:
    """Whether an answer of the format may be asked of an engine that cannot be held to it: one that need not be of it, and with
    `checked` JSON, since an answer of another form then fails or is mended (structured.on_violation)."""
    return not binds(asked) or (checked and isinstance(asked, SchemaFormat | JsonFormat))


def constraint_of(asked: ResponseFormat, kinds: frozenset[str], *, checked: bool = False) -> Constraint | None:
    """The constraint for a response format, for an engine that takes constraints of `kinds`; None for plain text, and for what
    may go `unheld`. Raises UnsupportedParameter if the engine does not take the kind that the format needs."""
    if isinstance(asked, TextFormat) or (isinstance(asked, SchemaFormat) and asked.strength == "none"):
        return None
    constraint = _constraint(asked)
    if constraint.kind in kinds:
        return constraint
    if unheld(asked, checked=checked):
        return None
    raise UnsupportedParameter(
        f"This model's engine cannot hold its output to a {constraint.kind}.", param="response_format"
    )


def _constraint(asked: ResponseFormat) -> Constraint:
    match asked:
        case SchemaFormat():
            return Constraint("json_schema", msgspec.json.encode(asked.schema).decode(), binding=asked.strict)
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


def answer_form(asked: ResponseFormat) -> JsonObject | None:
    """The format as a part of a structural tag, in which other things may come before it or instead of it; None for a tag, which
    is of the whole output, and for a grammar that cannot be a part of one."""
    match asked:
        case SchemaFormat():
            return {"type": "json_schema", "json_schema": dict(asked.schema)} if asked.strength != "none" else None
        case JsonFormat():
            return {"type": "json_schema", "json_schema": {"type": "object"}}
        case RegexFormat():
            return {"type": "regex", "pattern": asked.pattern}
        case GrammarFormat():
            grammar = _in_ebnf(asked.grammar)
            return None if grammar is None else {"type": "grammar", "grammar": grammar}
        case ChoiceFormat():
            return {"type": "or", "elements": [{"type": "const_string", "value": each} for each in asked.choices]}
        case _:
            return None


def _in_ebnf(grammar: str) -> str | None:
    """The grammar as engines read one inside a tag. One without the sign of EBNF's rules is Lark, which engines translate only
    where it stands alone."""
    if "::=" in grammar:
        return grammar
    try:
        return ebnf(grammar, RAW, "")
    except (LarkError, PatternError):
        return None


def checked_format(asked: ResponseFormat) -> tuple[ResponseFormat, Callable[[str], str | None] | None]:
    """The format and its `output_check`. A schema that cannot be compiled, such as one with a look-ahead in a pattern or of an
    older draft, is not enforced where it does not bind or was only wished for. Raises InvalidRequest where it binds, and for
    what is a schema of no draft."""
    if not isinstance(asked, SchemaFormat) or (asked.strict and asked.strength == "bound"):
        return asked, output_check(asked)
    if "$schema" in asked.schema and not holdable(asked.schema) and legal(asked.schema):
        return replace(asked, strict=False, strength="none"), None
    try:
        return asked, output_check(asked)
    except InvalidRequest:
        if not legal(asked.schema):
            raise
        return replace(asked, strict=False, strength="none"), None


def holdable(schema: Mapping[str, Json]) -> bool:
    """Whether an output can be held to the schema: as one of the present draft, which is what engines read whatever the schema
    says of itself, with patterns that can be compiled."""
    try:
        schema_validator({name: value for name, value in schema.items() if name != "$schema"}, "", "")
    except InvalidRequest:
        return False
    return True


def legal(schema: Mapping[str, Json]) -> bool:
    """Whether it is a schema of any draft, whatever it says of itself; a null is what is left out, as some clients write it, and
    words of draft 3 say nothing: a property that is `required` itself, and the type `any`."""
    import jsonschema_rs

    bare = _bare(dict(schema))
    return isinstance(bare, dict) and any(jsonschema_rs.meta.is_valid({**bare, "$schema": draft}) for draft in _DRAFTS)


def _bare(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {name: _bare(each) for name, each in value.items() if each is not None and not _of_draft_3(name, each)}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _of_draft_3(name: str, value: Json) -> bool:
    return (name == "required" and isinstance(value, bool)) or (name == "type" and value == "any")


def output_check(asked: ResponseFormat) -> Callable[[str], str | None] | None:
    """A function that returns why a finished text violates the format (None if it does not); None if there is nothing to check,
    and for a schema that does not bind.

    Raises InvalidRequest when the schema itself is wrong.
    """
    if isinstance(asked, JsonFormat):
        return _not_an_object
    if isinstance(asked, SchemaFormat):
        check = _conforms_to(asked)
        return check if asked.strict else None
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
