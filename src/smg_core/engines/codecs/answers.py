"""Shared by the decoders of all dialects: joining outputs, parsing messages, and the errors for what an engine may not send.

Pure. Above: the codecs. Knows our records and protobuf's framing, but no dialect.
"""

import json
from collections.abc import Callable, Sequence
from operator import itemgetter, sub
from typing import TypeVar, overload

from google.protobuf.message import DecodeError, Message

from smg_core.engines.base import EngineOutput
from smg_core.errors import EngineGarbled

__all__ = [
    "LazyRows",
    "after_the_end",
    "all_short",
    "empty_response",
    "garbled",
    "join",
    "json_object",
    "parse",
    "unknown_choice",
]

M = TypeVar("M", bound=Message)
R = TypeVar("R")

_first_byte: Callable[[bytes], int] = itemgetter(0)
_second_byte: Callable[[bytes], int] = itemgetter(1)


def all_short(messages: Sequence[bytes], tag: int) -> bool:
    """Whether each message is exactly one field with this tag and a one-byte length. Such messages can be concatenated and
    parsed at once: protobuf merges them, and merging joins repeated fields."""
    # This runs for every token: without a loop in Python it takes half as long.
    return set(map(_first_byte, messages)) == {tag} and set(
        map(sub, map(len, messages), map(_second_byte, messages))
    ) == {2}


def join(outputs: list[EngineOutput], new: list[EngineOutput]) -> list[EngineOutput]:
    """Append `new` to `outputs`; adjacent outputs of one choice become one. Changes and returns `outputs`, or returns `new`."""
    if not outputs:
        return new
    for output in new:
        last = outputs[-1]
        if last.index != output.index or last.finish is not None:
            outputs.append(output)
            continue
        if output.ids:
            last.ids = [*last.ids, *output.ids]
        if output.logprobs:
            last.logprobs = [*last.logprobs, *output.logprobs]
        last.prompt_logprobs = last.prompt_logprobs or output.prompt_logprobs
        if output.finish is not None:
            last.finish, last.matched, last.kv_transfer = output.finish, output.matched, output.kv_transfer
            last.completion_tokens, last.reasoning_tokens = output.completion_tokens, output.reasoning_tokens
        last.prompt_tokens = output.prompt_tokens or last.prompt_tokens
        last.cached_tokens = output.cached_tokens or last.cached_tokens
    return outputs


class LazyRows(Sequence[R]):
    """`count` rows, row i of which `make(i)` makes each time it is read: one message may have the logprobs of thousands of
    tokens."""

    __slots__ = ("_make", "_numbers")

    def __init__(self, count: int, make: Callable[[int], R]) -> None:
        self._numbers = range(count)
        self._make = make

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> R: ...
    @overload
    def __getitem__(self, at: slice) -> list[R]: ...
    def __getitem__(self, at: int | slice) -> R | list[R]:
        numbers = self._numbers[at]
        return self._make(numbers) if isinstance(numbers, int) else [self._make(each) for each in numbers]


def parse(kind: type[M], message: bytes) -> M:
    """Parse `message` as a protobuf message of class `kind`. Raises EngineGarbled."""
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise garbled(error) from error


def json_object(text: str) -> dict[str, object]:
    """Parse default sampling parameters, an object in JSON; {} for an empty text. Raises EngineGarbled."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise EngineGarbled(
            "The engine's default sampling parameters are not JSON.", detail=str(error), outside_text=str(error)
        ) from error
    if not isinstance(value, dict):
        raise EngineGarbled("The engine's default sampling parameters are not a JSON object.")
    return value


def garbled(error: Exception) -> EngineGarbled:
    """The error for a message that cannot be parsed."""
    return EngineGarbled(
        "The engine sent a message that its protocol does not allow.", detail=str(error), outside_text=str(error)
    )


def empty_response() -> EngineGarbled:
    """The error for a message with neither tokens nor an end."""
    return EngineGarbled("The engine sent an answer that is neither tokens nor an end.")


def unknown_choice(index: int) -> EngineGarbled:
    """The error for a choice that was not asked for."""
    return EngineGarbled(f"The engine answered for choice {index}, which was not asked for.")


def after_the_end(index: int) -> EngineGarbled:
    """The error for more output of a finished choice."""
    return EngineGarbled(f"The engine sent more for choice {index} after its end.")
