"""The requests that a public API is tried with, and what the answer to each must have: a part of its row.

`smg-gateway conform` sends them to any server, and the matrix of engines has a row for each API that has some. Pure. Above: the
rows of the APIs. What an answer must have (`Wants`) is

- "text": an answer with text                      - "call": an answer that calls the tool
- "schema": text that is JSON of `PERSON`          - "logprobs": an answer with the logprobs of its tokens
- "refusal": a 4xx in the API's envelope           - "count": a number of tokens
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import attrs

from smg_core.json_types import Json, JsonObject

__all__ = ["ARGUMENTS", "CITY", "MOST_TOKENS", "PERSON", "QUESTION", "TOOL", "WHO", "ApiTrial", "ApiTrials", "Wants"]

Wants = Literal["text", "call", "schema", "logprobs", "refusal", "count"]
ApiTrial = tuple[str, Wants, JsonObject]
"""A name, what the answer must have, and the fields of the body beside those that every body has."""

PERSON: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
CITY: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: JsonObject = {"name": "get_weather", "description": "The weather of a city."}
QUESTION = "What is the weather in Paris? Use the tool."
ARGUMENTS = '{"city":"Paris"}'
WHO = "Invent a person. Answer in JSON."
MOST_TOKENS = 1024
"""Most tokens of an answer: room for a model that thinks first."""


@attrs.frozen
class ApiTrials:
    """`asks` makes the trials for a model; `path` is where they are sent, `bounded_by` the field that bounds an answer's tokens
    ("": none has it). `always` and `streamed` are added to every body and to those that ask for a stream, `headers` to every
    request. `settings` is the object that the bound and the temperature stand in ("": in the body itself). `count` are the
    fields of a request that counts tokens, below the path, where the API has one."""

    api: str
    path: str
    asks: Callable[[str], Iterable[ApiTrial]]
    bounded_by: str = ""
    always: JsonObject = attrs.field(factory=dict)
    streamed: JsonObject = attrs.field(factory=dict)
    settings: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    count: Mapping[str, Json] = attrs.field(factory=dict)

    def request(self, model: str, fields: JsonObject, *, streamed: bool) -> tuple[str, JsonObject]:
        """The path and the body of one request."""
        bounds: JsonObject = {self.bounded_by: MOST_TOKENS, "temperature": 0} if self.bounded_by else {}
        body: JsonObject = {"model": model, **({} if self.settings else bounds), **self.always, **fields}
        if self.settings:
            given = fields.get(self.settings)
            body[self.settings] = {**bounds, **(given if isinstance(given, dict) else {})}
        return self.path, {**body, "stream": True, **self.streamed} if streamed else body
