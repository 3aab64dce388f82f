"""Scripted replies of the embedded engine, rules, and calls of tools that the question is about.

Decides which reply a prompt gets: the next of a script, or that of the first rule whose words are in the prompt, or a call of
an offered tool that the last question names. Pure. Above: engine.engine, which tokenizes the reply. The prompt is text in
the format of the shipped chat template; in other formats no tools are found, so that only the script and the rules apply.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from random import Random

import attrs

from smg_core.events import FinishReason
from smg_simulator.answers.faults import LONGEST, Fault
from smg_simulator.answers.shapes import Shapes

__all__ = ["Reply", "Rule", "Script", "called_tool"]

_TOOLS_OPEN, _TOOLS_CLOSE = "\n<tools>\n", "\n</tools>"
_TURN, _USER, _END = "<|im_start|>", "<|im_start|>user\n", "<|im_end|>"
_RESPONSE = "<tool_response>"
_PLACE = re.compile(r"\b(?:in|for|at) ([A-Z]\w+)")
_WORD = re.compile(r"[a-z]{4,}")
_IDLE_WORDS = frozenset(
    {"with", "from", "this", "that", "call", "tool", "function", "fetch", "make", "list", "find", "show"}
)


@attrs.frozen
class Reply:
    """One reply: `reasoning` in <think> tags, then `text`, then `tool_calls`, each `(name, arguments)`.

    `pieces` replace `text` and are sent one in each message. `pauses` are `(characters, seconds)`: behind so many characters of
    `text` nothing is sent for so many seconds. `finish` is the finish reason; with "length" the end token is left out. `fault`
    is met by the request that gets the reply. In a script it waits for a prompt that has all words of `when`, in any case.
    """

    text: str = ""
    reasoning: str | None = None
    tool_calls: tuple[tuple[str, Mapping[str, object]], ...] = ()
    pieces: tuple[str, ...] = ()
    finish: FinishReason = "stop"
    pauses: tuple[tuple[int, float], ...] = ()
    fault: Fault | None = None
    when: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.pauses and self.pieces:
            raise ValueError("a reply of pieces has no pauses; they are behind characters of a text")
        places = [at for at, _ in self.pauses]
        if places != sorted(places) or not all(0 <= at <= len(self.text) for at in places):
            raise ValueError(f"pauses come in order, behind 0 to {len(self.text)} characters of the text")
        if not all(0 <= seconds <= LONGEST for _, seconds in self.pauses):
            raise ValueError(f"a pause takes 0 to {LONGEST} seconds")

    def texts(self, *, thinking: bool) -> tuple[str, ...]:
        """The texts to send, in order: the pieces, or what stands before, between and behind the pauses. `thinking`: the prompt
        ends with an open <think> tag."""
        head = ""
        if self.reasoning is not None:
            head = f"{'' if thinking else '<think>'}\n{self.reasoning}\n</think>\n\n".removeprefix(
                "\n" if thinking else ""
            )
        elif thinking:
            head = "</think>\n\n"
        calls = "\n".join(_hermes(name, arguments) for name, arguments in self.tool_calls)
        if self.pieces:
            return tuple(piece for piece in (head, *self.pieces, calls) if piece)
        gap = "\n" if self.text and calls else ""
        cuts = [0, *[at for at, _ in self.pauses], len(self.text)]
        first, *rest = [self.text[start:end] for start, end in pairwise(cuts)]
        *before, last = [f"{head}{first}", *rest]
        return (*before, f"{last}{gap}{calls}")


@attrs.frozen
class Rule:
    """Every prompt that contains all of `words` (in any case) gets `reply`."""

    words: tuple[str, ...]
    reply: Reply

    def fits(self, prompt: str) -> bool:
        """Whether the rule applies to `prompt`."""
        return _has_all(prompt, self.words)


class Script:
    """Replies in turn, one a request; at most `limit` wait. With `repeat` a reply that was given waits again, as the last."""

    def __init__(self, replies: Iterable[Reply] = (), *, repeat: bool = False, limit: int = 10_000) -> None:
        self._limit = limit
        self._repeat = repeat
        self._replies: deque[Reply] = deque()
        self.add(*replies)

    def __len__(self) -> int:
        return len(self._replies)

    def add(self, *replies: Reply) -> None:
        """Append replies. Raises ValueError where more than `limit` would wait."""
        if len(self._replies) + len(replies) > self._limit:
            raise ValueError(f"more than {self._limit} replies are waiting")
        self._replies.extend(replies)

    def next(self, prompt: str = "") -> Reply | None:
        """Take the next reply off the script; None when it is empty, and when the next one waits for another prompt."""
        if not self._replies or not _has_all(prompt, self._replies[0].when):
            return None
        reply = self._replies.popleft()
        if self._repeat:
            self._replies.append(reply)
        return reply


def _has_all(prompt: str, words: Sequence[str]) -> bool:
    """Whether a prompt has all of `words`, in any case."""
    if not words:
        return True
    folded = prompt.casefold()
    return all(word.casefold() in folded for word in words)


def called_tool(prompt: str, shapes: Shapes, rng: Random) -> Reply | None:
    """A call of the offered tool whose name shares a word with the last question; its arguments are an example of the tool's
    schema. None without such a tool, and when the last message is a tool's result."""
    if _TOOLS_OPEN not in prompt or _TURN not in prompt:
        return None
    offered = prompt.split(_TOOLS_OPEN, 1)[1].split(_TOOLS_CLOSE, 1)[0]
    question = prompt.rsplit(_USER, 1)[-1].split(_END, 1)[0] if _USER in prompt else ""
    if _RESPONSE in question:
        return None
    asked = set(_WORD.findall(question.casefold())) - _IDLE_WORDS
    for function in _functions(offered):
        words = set(_WORD.findall(str(function.get("name", "")).casefold())) - _IDLE_WORDS
        if words & asked:
            arguments = shapes.example(function.get("parameters") or {"type": "object"}, rng)
            return Reply(tool_calls=((str(function["name"]), _with_city(arguments, question)),))
    return None


def _with_city(arguments: object, question: str) -> dict[str, object]:
    """The arguments, of which "city" and "location" become the place that the question names."""
    if not isinstance(arguments, dict):
        return {}
    place = _PLACE.search(question)
    return {
        name: place[1] if place and name in ("city", "location") and isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _functions(offered: str) -> Iterable[Mapping[str, object]]:
    for line in offered.splitlines():
        try:
            tool = json.loads(line)
        except ValueError:
            continue
        if isinstance(tool, dict):
            function = tool.get("function", tool)
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                yield function


def _hermes(name: str, arguments: Mapping[str, object]) -> str:
    """A tool call as models of the Hermes format write it."""
    call = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"
