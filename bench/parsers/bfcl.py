"""The Berkeley Function Calling Leaderboard's own judge of calls, over calls that parsers read: one verdict each.

    pip download --no-deps bfcl-eval, and unpack the wheel into a folder

Its checker of calls is imported from there without what the rest of the package needs: the table of models that it looks one
switch up in is replaced by one entry. It compares names, the types that the schema declares, and values, strings without
regard to case, blanks and some punctuation; calls in any order. It knows no unions, references or null, so a transcript is
judged only if it accepts the right answer. One without calls is right when no call was read, which it calls irrelevance.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NAMED = {"object": "dict", "number": "float"}
MODEL = "any"


class Judge:
    """The checker of a `bfcl_eval` wheel that was unpacked into `folder`."""

    def __init__(self, folder: Path) -> None:
        sys.path.append(str(folder))
        models = types.ModuleType("bfcl_eval.constants.model_config")
        switches = types.SimpleNamespace(underscore_to_dot=False)
        models.MODEL_CONFIG_MAPPING = {MODEL: switches}  # type: ignore[attr-defined]
        sys.modules[models.__name__] = models
        self._check = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker
        self._python = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON

    def accepts(self, tools: Sequence[Mapping[str, Any]], wanted: Sequence[Any], got: Sequence[Any]) -> bool:
        """Whether these calls are the right ones. What its checker cannot read at all is not accepted."""
        if not wanted:
            return not got
        described = [_described(tool) for tool in tools]
        answers = [{name: {key: [_answer(value)] for key, value in arguments.items()}} for name, arguments in wanted]
        calls = [{name: arguments} for name, arguments in got]
        try:
            told = self._check(described, calls, answers, self._python, "parallel", MODEL)
        except (KeyError, TypeError, AttributeError):
            return False
        return bool(told["valid"])


def _described(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function", tool)
    parameters = function.get("parameters") or {}
    properties = {key: _typed(schema) for key, schema in (parameters.get("properties") or {}).items()}
    return {
        "name": function["name"],
        "parameters": {"type": "dict", "properties": properties, "required": list(parameters.get("required", ()))},
    }


def _typed(schema: Any) -> Any:
    """A schema with the leaderboard's names of types."""
    if not isinstance(schema, Mapping):
        return {}
    made = {key: value for key, value in schema.items() if key not in ("items", "properties")}
    kind = made.get("type")
    made["type"] = NAMED.get(kind, kind) if isinstance(kind, str) else None
    if "items" in schema:
        made["items"] = _typed(schema["items"])
    return made


def _answer(value: Any) -> Any:
    """A value as the leaderboard writes answers: in an object, every member has a list of values that will do."""
    if isinstance(value, dict):
        return {key: [_answer(member)] for key, member in value.items()}
    if isinstance(value, list):
        return [_answer(member) for member in value]
    return value
