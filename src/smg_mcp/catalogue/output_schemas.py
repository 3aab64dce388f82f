"""Whether a result is what its tool said it would be, by the tool's output schema.

Above: `sessions.session`. Below: jsonschema_rs, whose patterns take linear time and which is not let fetch anything. Pure.
"""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

__all__ = ["OutputSchemas"]


class OutputSchemas:
    """Validators of one session's tools, made once for each schema (the same object); at most `most` are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[str, tuple[Mapping[str, Any], Any]] = {}

    def fault(self, tool: str, schema: Mapping[str, Any], structured: Any) -> str | None:
        """What is wrong with a result's structured content; None if nothing is. A schema that cannot be used checks nothing."""
        validator = self._validator(tool, schema)
        if validator is None:
            return None
        if structured is None:
            return "the tool gave no structured result, though it has an output schema"
        error = next(iter(validator.iter_errors(structured)), None)
        return (
            None if error is None else f"the result does not fit the tool's output schema: {str(error.message)[:200]}"
        )

    def _validator(self, tool: str, schema: Mapping[str, Any]) -> Any:
        made = self._made.get(tool)
        if made is not None and made[0] is schema:
            return made[1]
        try:
            validator = jsonschema_rs.validator_for(
                dict(schema), retriever=_nothing, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (ValueError, jsonschema_rs.ReferencingError):
            validator = None
        self._made[tool] = (schema, validator)
        if len(self._made) > self._most:
            del self._made[next(iter(self._made))]
        return validator


def _nothing(uri: str) -> Any:
    raise ValueError("a schema may not refer to another document")
