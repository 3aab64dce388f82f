"""Answers in fields, as programs of DSPy ask for them: each behind a marker with its name, in the type that the prompt names.

A model that draws words would be refused by them. Pure. Above: engine.engine. Below: prose, replies, shapes.
"""

import json
import re
from random import Random

from smg_simulator.answers.expressions import Unfollowable
from smg_simulator.answers.prose import sentence
from smg_simulator.answers.replies import Reply
from smg_simulator.answers.shapes import Shapes

__all__ = ["asked_fields"]

_ASKED = "Respond with the corresponding output fields, starting with the field `[[ ## "
_FIELD = re.compile(r"`\[\[ ## (\w{1,64}) ## \]\]`(?: \(must be formatted as a valid Python ([^`\n]{1,200}?)\)[,.]? )?")
_SCHEMA = "must adhere to the JSON schema: "
_DONE = "completed"
_PLAIN = {"int": "7", "float": "0.5", "bool": "True"}
_MOST_FIELDS = 64


def asked_fields(prompt: str, shapes: Shapes, rng: Random) -> Reply | None:
    """A value for each field that the last lines of the prompt ask for, None where they ask for none."""
    at = prompt.rfind(_ASKED)
    if at < 0:
        return None
    fields = [(found[1], found[2] or "str") for found in _FIELD.finditer(prompt, at) if found[1] != _DONE]
    parts = [f"[[ ## {name} ## ]]\n{_value(prompt, name, kind, shapes, rng)}\n" for name, kind in fields[:_MOST_FIELDS]]
    return Reply("\n".join([*parts, f"[[ ## {_DONE} ## ]]\n"]))


def _value(prompt: str, name: str, kind: str, shapes: Shapes, rng: Random) -> str:
    """A value of a type, as text."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind.startswith("Literal["):
        return kind.removeprefix("Literal[").split(",")[0].strip("]'\" ")
    schema = _schema(prompt, name)
    try:
        return sentence(rng) if schema is None else json.dumps(shapes.example(schema, rng), ensure_ascii=False)
    except Unfollowable:
        return "null"


def _schema(prompt: str, name: str) -> object:
    """The JSON schema that the prompt has of a field, None without one."""
    begin = prompt.find(f"\n{{{name}}}")
    line = prompt[begin + 1 :].partition("\n")[0] if begin >= 0 else ""
    _, found, written = line.partition(_SCHEMA)
    if not found:
        return None
    try:
        schema: object = json.JSONDecoder().raw_decode(written)[0]
    except (ValueError, RecursionError):
        return None
    return schema
