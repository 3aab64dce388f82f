"""Reads a script for the embedded engine from a file: replies, tool calls, pauses and faults, in the order of requests (edge).

Decides what the file means. Above: `simulate --script FILE`. Below: replies and faults of the simulator. The format is in
docs/simulator.md.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs
import msgspec
from msgspec import Meta, Struct

from smg_core.config.config import parse_file
from smg_core.events import FinishReason
from smg_core.regular_files import read_regular
from smg_core.settings import ConfigError
from smg_simulator.answers.faults import LONGEST, Fault, FaultKind
from smg_simulator.answers.replies import Reply, Rule

__all__ = ["ScriptFile", "parse_script", "read_script"]

_MOST_BYTES = 16 * 1024 * 1024

_Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
_Words = list[Annotated[str, Meta(min_length=1)]]


@attrs.frozen
class ScriptFile:
    """What a script says: `replies` in turn, with `repeat` again and again, and `rules` for all other requests."""

    replies: tuple[Reply, ...]
    rules: tuple[Rule, ...]
    repeat: bool


class _Fault(Struct, forbid_unknown_fields=True):
    kind: FaultKind
    after: Annotated[int, Meta(ge=0)] = 0
    seconds: _Seconds | None = None
    status: str = ""
    message: str = "a fault was asked for"


class _Turn(Struct, forbid_unknown_fields=True):
    """One reply as the file has it. Numbers in `say` are pauses."""

    say: str | list[str | _Seconds] = ""
    reasoning: str | None = None
    calls: dict[str, dict[str, Any] | list[dict[str, Any]]] = {}
    finish: FinishReason = "stop"
    fault: FaultKind | _Fault | None = None
    when: str | _Words = []


class _File(Struct, forbid_unknown_fields=True):
    turns: list[_Turn] = []
    rules: list[_Turn] = []
    repeat: bool = False


def read_script(path: Path) -> ScriptFile:
    """The script in a file of TOML, YAML or JSON. Raises ConfigError."""
    try:
        return parse_script(parse_file(read_regular(path.expanduser(), _MOST_BYTES).decode(), path.suffix.lower()))
    except OSError as error:
        raise ConfigError(f"--script: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"--script: {path}: {error}") from None


def parse_script(parsed: object) -> ScriptFile:
    """The script that a parsed file holds. Raises ValueError with the place of what is wrong."""
    try:
        file = msgspec.convert(parsed, _File)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if not file.turns and not file.rules:
        raise ValueError("it has neither 'turns' nor 'rules'")
    replies = tuple(_replies("turns", file.turns))
    rules = tuple(Rule(reply.when, attrs.evolve(reply, when=())) for reply in _replies("rules", file.rules))
    return ScriptFile(replies, rules, file.repeat)


def _replies(name: str, turns: Iterable[_Turn]) -> Iterable[Reply]:
    for number, turn in enumerate(turns):
        try:
            yield _reply(turn)
        except ValueError as error:
            raise ValueError(f"{error} - at `$.{name}[{number}]`") from None


def _check_sayable(turn: _Turn) -> None:
    """Raise ValueError for what a model cannot write: characters that are half of a pair, and arguments that are no JSON."""
    texts = [turn.say] if isinstance(turn.say, str) else turn.say
    for each in (turn.reasoning, *texts):
        if isinstance(each, str) and not each.isascii():
            try:
                each.encode()
            except UnicodeEncodeError:
                raise ValueError("a text has half of a surrogate pair") from None
    try:
        json.dumps(turn.calls, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"the arguments of a call are no JSON: {error}") from None


def _reply(turn: _Turn) -> Reply:
    _check_sayable(turn)
    texts = [turn.say] if isinstance(turn.say, str) else turn.say
    text, pauses = "", []
    for each in texts:
        if isinstance(each, str):
            text += each
        else:
            pauses.append((len(text), each))
    fault = Fault(turn.fault) if isinstance(turn.fault, str) else None
    if isinstance(turn.fault, _Fault):
        fault = Fault(**msgspec.structs.asdict(turn.fault))
    calls = tuple((name, each) for name, given in turn.calls.items() for each in _each(given))
    when = (turn.when,) if isinstance(turn.when, str) else tuple(turn.when)
    return Reply(
        text=text,
        reasoning=turn.reasoning,
        tool_calls=calls,
        finish=turn.finish,
        pauses=tuple(pauses),
        fault=fault,
        when=when,
    )


def _each(given: Mapping[str, Any] | list[dict[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """The arguments of each call of one tool."""
    return given if isinstance(given, list) else [given]
