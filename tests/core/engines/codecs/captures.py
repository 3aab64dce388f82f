"""Exchanges with real engines, taken down message by message as protobuf text: tests/captures has one file for each case."""

import re
from pathlib import Path
from typing import Any

import attrs
from google.protobuf import text_format

from smg_core.engines.base import EngineLogprob
from smg_simulator.engine.engine import Choice

__all__ = ["Exchange", "Scored", "exchanges", "no_text"]

FOLDER = Path(__file__).parents[3] / "captures"
_HEAD = re.compile(r"(?:===|---) [\d.]+ ms (REQUEST \w+|RESPONSE|STATUS StatusCode\.(\w+)) ?(.*)")


@attrs.define
class Exchange:
    """One call: its method, request and responses as messages, and its status."""

    method: str
    request: Any
    responses: list[Any] = attrs.field(factory=list)
    status: str = ""


def exchanges(engine: str, case: str, messages: Any) -> list[Exchange]:
    """The calls of one case in order; `messages` is the module of the engine's messages."""
    found: list[Exchange] = []
    text = (FOLDER / engine / f"{engine}-{case}.txt").read_text()
    for block in re.split(r"\n(?=(?:===|---) )", text)[1:]:
        head, _, body = block.partition("\n")
        kind, status, rest = _HEAD.fullmatch(head).groups()  # type: ignore[union-attr]
        if status is not None:
            next(each for each in found if not each.status).status = status
            continue
        message = getattr(messages, rest.strip("()").rpartition(".")[2])()
        lines = [line for line in body.splitlines() if line.startswith(" ") and line.strip() != "(empty message)"]
        text_format.Parse("\n".join(lines), message)
        if kind == "RESPONSE":
            _called(found, message).responses.append(message)
        else:
            found.append(Exchange(kind.removeprefix("REQUEST "), message))
    return found


def _called(found: list[Exchange], message: Any) -> Exchange:
    """The open call that such a message answers."""
    wanted = type(message).__name__.removesuffix("Response")
    return next(each for each in found if not each.status and each.method == wanted)


def no_text(text: str) -> list[int]:
    """Stands where the embedded engine's tokenizer does."""
    raise AssertionError("a prompt of ids is not tokenized")


class Scored:
    """Stands where the embedded engine's core does: it has the real engine's logprobs."""

    def __init__(self, rows: list[EngineLogprob]) -> None:
        self._rows = rows

    def logprobs(self, choice: Choice, start: int, end: int, most: int) -> list[EngineLogprob]:
        return self._rows[start:end]
