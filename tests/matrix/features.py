"""What is tried on every engine: a feature is a request, what the engine says, and what must come of it.

A check gets an `Answered`, which is the same whether the answer was streamed or not. To add a feature, add a row; to add an API,
write how it is asked.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
import pytest

from smg_simulator.answers.replies import Reply

UNTOLD = {"cached tokens": frozenset({"MLX", "MLX, grpcio"})}
"""Features whose number some engines never say; it is 0 then."""

TAKES_FILES = frozenset({"TensorRT-LLM", "TensorRT-LLM, grpcio"})
"""The engines that are sent pictures as the files that they are; all others get tensors."""


class SentAsFiles(Exception):
    """The engine says that it got files."""


WORDS = "one two three four five six seven eight nine ten"


COUNTS = Reply(WORDS)
TEXT_FILE = {"type": "file", "file": {"filename": "notes.txt", "file_data": "data:text/plain;base64,YSBiIGM="}}


@attrs.define
class Choice:
    """One choice of an answer. `calls` are names and arguments (or a custom tool's input); `tokens` those with logprobs."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = attrs.field(factory=list)
    tokens: list[str] = attrs.field(factory=list)
    alternatives: int = 0
    finish: str = ""


@attrs.define
class Answered:
    """An answer: its choices, and counts of tokens."""

    choices: list[Choice]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def only(self) -> Choice:
        (choice,) = self.choices
        return choice


@attrs.frozen
class Feature:
    """`fields` are added to a plain request; `reply` is what the engine says (None: what it likes); `model` is the kind of model
    that it needs; with `twice`, the check gets the second answer to the same request."""

    name: str
    check: Callable[[Answered], object]
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    reply: Reply | None = COUNTS
    messages: tuple[Mapping[str, Any], ...] = ({"role": "user", "content": "Count."},)
    model: str = "text"
    twice: bool = False


class Checked(Protocol):
    """A feature of any API."""

    @property
    def name(self) -> str: ...
    @property
    def check(self) -> Callable[[Any], object]: ...


def checked(feature: Checked, engine: str, answer: Any) -> str:
    """What came of a cell that was answered: the check holds, or the engine does not say what is checked."""
    if engine in UNTOLD.get(feature.name, ()):
        with pytest.raises(AssertionError):
            feature.check(answer)
        return "not told"
    in_files = False
    try:
        feature.check(answer)
    except SentAsFiles:
        in_files = True
    assert in_files == (engine in TAKES_FILES and feature.name.startswith("pictures")), engine
    return "yes"


def shapes_told(told: str, *words: str) -> None:
    """Check that the engine names the shapes of the tensors that it got. Raises SentAsFiles where it got files instead."""
    if "in files" in told:
        raise SentAsFiles(told)
    assert all(word in told for word in words), told


def _function(name: str, *required: str) -> dict[str, Any]:
    properties = {each: {"type": "string"} for each in required}
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _structured(**constraint: Any) -> dict[str, Any]:
    return {"structured_outputs": constraint}


TOOLS = [_function("get_weather", "city"), _function("get_time", "zone")]
CALL = Reply(tool_calls=(("get_weather", {"city": "Paris"}),))
CALLS = Reply(tool_calls=(("get_weather", {"city": "Paris"}), ("get_time", {"zone": "CET"})))
CUSTOM = {"type": "custom", "custom": {"name": "run", "description": "Run a command."}}
LEGACY = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ROUND_TRIP: tuple[Mapping[str, Any], ...] = (
    {"role": "user", "content": "How is the weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
)


def said(text: str) -> Callable[[Answered], object]:
    """The only choice says `text` and ended by itself."""

    def check(answered: Answered) -> None:
        assert (answered.only.text, answered.only.finish) == (text, "stop")

    return check


def ended(finish: str, tokens: int) -> Callable[[Answered], object]:
    def check(answered: Answered) -> None:
        assert (answered.only.finish, answered.completion_tokens) == (finish, tokens)

    return check


def called(*names: str, finish: str = "tool_calls") -> Callable[[Answered], object]:
    """The only choice calls these functions, with arguments that are JSON objects."""

    def check(answered: Answered) -> None:
        assert [name for name, _ in answered.only.calls] == list(names)
        assert all(isinstance(json.loads(arguments), dict) for _, arguments in answered.only.calls)
        assert answered.only.finish == finish

    return check


def custom_call(answered: Answered) -> None:
    assert answered.only.calls == [("run", "ls -l")]
    assert answered.only.finish == "tool_calls"


def thought(answered: Answered) -> None:
    assert (answered.only.reasoning.strip(), answered.only.text.strip()) == ("Let me see.", "Yes.")
    assert 0 < answered.reasoning_tokens < answered.completion_tokens


def matching(pattern: str) -> Callable[[Answered], object]:
    def check(answered: Answered) -> None:
        assert re.fullmatch(pattern, answered.only.text)

    return check


def is_person(answered: Answered) -> None:
    found = json.loads(answered.only.text)
    assert isinstance(found["name"], str)
    assert isinstance(found["age"], int)


def is_object(answered: Answered) -> None:
    assert isinstance(json.loads(answered.only.text), dict)


def two_choices(answered: Answered) -> None:
    assert [choice.text for choice in answered.choices] == [WORDS] * 2


def spelled(answered: Answered) -> None:
    assert "".join(answered.only.tokens) == WORDS
    assert answered.only.alternatives == 2


def counted(answered: Answered) -> None:
    assert answered.prompt_tokens > 0
    assert answered.completion_tokens > 0


def from_cache(answered: Answered) -> None:
    assert answered.cached_tokens > 0


def shaped(*words: str) -> Callable[[Answered], object]:
    """The engine names the shapes of the tensors that it got."""

    def check(answered: Answered) -> None:
        shapes_told(answered.only.text, *words)

    return check


FEATURES: tuple[Feature, ...] = (
    Feature("text", said(WORDS)),
    Feature("usage", counted),
    Feature(
        "cached tokens",
        from_cache,
        twice=True,
        messages=({"role": "user", "content": "word " * 100},),
    ),
    Feature("max_tokens", ended("length", 3), {"max_tokens": 3}),
    Feature("stop: a string", said("one two three "), {"stop": "four"}),
    Feature("stop_token_ids", lambda answered: counted(answered), {"stop_token_ids": [5]}),
    Feature("min_tokens", counted, {"min_tokens": 1}),
    Feature("n = 2", two_choices, {"n": 2, "temperature": 1}),
    Feature("logprobs", spelled, {"logprobs": True, "top_logprobs": 2}),
    Feature("logit_bias", counted, {"logit_bias": {"5": 1}}),
    Feature(
        "temperature, top_p, penalties",
        said(WORDS),
        {"temperature": 0.5, "top_p": 0.5, "frequency_penalty": 1, "presence_penalty": 1},
    ),
    Feature("seed", said(WORDS), {"seed": 7}),
    Feature("top_k, min_p, repetition_penalty", said(WORDS), {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1}),
    Feature("ignore_eos", ended("length", 30), {"ignore_eos": True, "max_tokens": 30}, None),
    Feature("tools: auto", called("get_weather"), {"tools": TOOLS}, CALL),
    Feature("tools: several calls", called("get_weather", "get_time"), {"tools": TOOLS}, CALLS),
    Feature(
        "tools: parallel_tool_calls false", called("get_weather"), {"tools": TOOLS, "parallel_tool_calls": False}, CALLS
    ),
    Feature(
        "tools: required",
        lambda answered: called(answered.only.calls[0][0])(answered),
        {"tools": TOOLS[:1], "tool_choice": "required"},
        None,
    ),
    Feature("tools: by name", called("get_time"), {"tools": TOOLS, "tool_choice": _named("get_time")}, None),
    Feature("tools: none", said(WORDS), {"tools": TOOLS, "tool_choice": "none"}),
    Feature("tools: a result", said(WORDS), {"tools": TOOLS}, messages=ROUND_TRIP),
    Feature("tools: custom", custom_call, {"tools": [CUSTOM]}, Reply(tool_calls=(("run", {"input": "ls -l"}),))),
    Feature("functions (the older form)", called("get_weather", finish="function_call"), {"functions": [LEGACY]}, CALL),
    Feature("reasoning", thought, {}, Reply("Yes.", reasoning="Let me see.")),
    Feature("json_object", is_object, {"response_format": {"type": "json_object"}}, None),
    Feature(
        "json_schema",
        is_person,
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "person", "schema": PERSON, "strict": True},
            }
        },
        None,
    ),
    Feature("regex", matching(r"[0-9]{3}-[a-z]{2}"), _structured(regex=r"[0-9]{3}-[a-z]{2}"), None),
    Feature("grammar", matching(r"(yes|no)"), _structured(grammar='root ::= "yes" | "no"'), None),
    Feature("choice", matching(r"red|green"), _structured(choice=["red", "green"]), None),
    Feature("files of text", said(WORDS), messages=({"role": "user", "content": [TEXT_FILE]},)),
    Feature("pictures", shaped("pixel_values"), model="picture"),
    Feature("clips", shaped("video"), model="clip"),
    Feature("recordings", shaped("features"), model="recording"),
)
