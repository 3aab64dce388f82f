"""Chat templates: messages to the same text that Hugging Face's apply_chat_template gives.

A template is a program written by the maker of the model. It runs in jinja2's immutable sandbox with what transformers
gives it (`tojson` as json.dumps, `raise_exception`, `strftime_now`, `{% generation %}`, loop controls) and nothing else;
every error in it becomes TemplateFailed. The sandbox limits what a template can reach, not how long it runs: templates come
from the operator, never from a request.

Control tokens that somebody spells out in a message stay ordinary text: before rendering, a mark (a Unicode noncharacter
that occurs in no input) is put inside each, and the rendered text is cut at the marks into the prompt's pieces.
`ChatTemplate` says which strings are protected, and in whose turns.

Above: loader makes templates, the pipeline renders. Below: messages, template_facts, protection, control; the clock is an
argument.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NoReturn

import attrs
import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.utils import Namespace

from smg_core.clock import Clock, SystemClock
from smg_core.errors import InvalidRequest, TemplateFailed
from smg_core.request import EFFORT_TOKENS, Message, ReasoningSettings, Text, Tool, ToolChoice
from smg_core.tokenizer.base import Prompt, SpecialTokens
from smg_core.tokenizer.control import ControlScan
from smg_core.tokenizer.efforts import Efforts, read_efforts
from smg_core.tokenizer.messages import MessageShaper, TemplateObject, count_media, with_reminders
from smg_core.tokenizer.protection import Protection
from smg_core.tokenizer.template_code import TemplateEnvironment, renderer_of
from smg_core.tokenizer.template_facts import TemplateFacts, read_facts

__all__ = ["ChatTemplate", "InvalidTemplate"]

_RESERVED = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template",
        "strftime_now",
    }
)
_PLACES = {"image": "\U0001fffe", "audio": "\U0001ffff", "video": "\U0002fffe"}
"""Noncharacters that stand for a medium while the template runs, if its own text holds a control token."""
_TAG = "\ufffe\u2003 "
"""Stands behind the text that is to be continued while the template runs: a noncharacter, white space that no template
writes, and the space, which alone is gone where a template removes spaces only."""
_REASONING_MARKS = frozenset({"<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>"})
_REASONING_MARKS |= {"◁think▷", "◁/think▷", "<|START_THINKING|>", "<|END_THINKING|>"}
_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class InvalidTemplate(ValueError):
    """The template's source is not valid. This is the operator's fault, not the request's."""


# ------------------------------------------------------------------------------------------------------- environment


class _Generation(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}`: training marks the model's own text with it; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012 - declared by the base class

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller: Macro) -> str:
        return str(caller())


def _tojson(
    x: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


class _Dict:
    """`dict(...)` and `dict.fromkeys(...)` for templates, which may not reach the class `dict` itself."""

    def __call__(self, *args: Any, **kwargs: object) -> dict[object, object]:
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[object], value: object = None) -> dict[object, object]:
        return dict.fromkeys(keys, value)


class _Namespace(Namespace):
    """`namespace(...)` that refuses names with a leading underscore: through them a template could reach the interpreter."""

    def __init__(*args: Any, **kwargs: object) -> None:
        own, *given = args
        fields = dict(*given, **kwargs)
        for name in fields:
            _check_name(name)
        Namespace.__init__(own, fields)

    def __setitem__(self, name: str, value: object) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace keeps no underscored names, but got {name!r}")


@lru_cache(maxsize=1)
def _environment() -> TemplateEnvironment:
    environment = TemplateEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment


@lru_cache(maxsize=64)
def _compiled(source: str) -> tuple[Callable[[dict[str, object]], str], TemplateFacts]:
    """What renders the template, and its facts. Compiling takes 2 to 18 ms, so the 64 last used are kept."""
    environment = _environment()
    try:
        tree = environment.parse(source)
        template = environment.from_string(source)
        return renderer_of(template), read_facts(tree)
    except jinja2.TemplateSyntaxError as fault:
        raise InvalidTemplate(f"the chat template does not compile: line {fault.lineno}: {fault.message}") from fault


# ---------------------------------------------------------------------------------------------------------- template


@attrs.frozen
class _Program:
    """One compiled template, and what messages must look like for it. `efforts`: the levels of reasoning that it tells apart.
    `late_system`: it takes a system prompt amid them."""

    run: Callable[[dict[str, object]], str] = attrs.field(repr=False)
    facts: TemplateFacts
    shaper: MessageShaper
    protection: Protection
    efforts: Efforts
    late_system: bool = False


class ChatTemplate:
    """Renders conversations for one model.

    `source` is the template's text, or texts by name, of which "tool_use" is taken when there are tools and "default"
    otherwise. `special` gives the token variables (`bos_token` ...) and the strings to protect:

    - special tokens (`special.control`) are protected wherever a request's text can reach the prompt: every role's
      content, names, tool definitions and calls, documents, template arguments;
    - other added tokens (`special.markers`) that the template itself writes (`<tool_call>`, `<think>`) are protected in
      user and tool turns only: system prompts describe tool formats with them, and assistant turns repeat what the
      model wrote;
    - `reasoning_marks` are never protected in assistant turns, because clients may send reasoning back.

    `media` maps a kind of medium to the text that stands for it if the template takes content as one string (see
    `MessageShaper`).
    """

    def __init__(
        self,
        source: str | Mapping[str, str],
        *,
        special: SpecialTokens = SpecialTokens(),  # noqa: B008 - frozen
        name: str = "chat template",
        clock: Clock | None = None,
        media: Mapping[str, str] | None = None,
        separator: str = "\n",
        reasoning_marks: frozenset[str] = _REASONING_MARKS,
    ) -> None:
        self.name = name
        self._clock = clock or SystemClock()
        self._variables = _token_variables(special)
        sources = {"default": source} if isinstance(source, str) else dict(source)
        if not sources:
            raise InvalidTemplate("there is no chat template")
        own = ControlScan(special.control | special.markers)
        self._media = {kind: text for kind, text in (media or {}).items() if own.cuts(text)}
        placed = {kind: _PLACES[kind] if own.cuts(text) else text for kind, text in (media or {}).items()}
        self._programs: dict[str, _Program] = {}
        for key, text in sources.items():
            render, facts = _compiled(text)
            shaper = MessageShaper(facts, placed, separator)
            protection = Protection.of(special, facts.literals, facts.changes, reasoning_marks)
            late = _takes_late_system(render, facts)
            efforts = _efforts(render, facts)
            self._programs[key] = _Program(render, facts, shaper, protection, efforts, late)
        self.sources: Mapping[str, str] = sources

    def template_facts(self, *, tools: bool = False) -> TemplateFacts:
        """Facts of the template that renders requests with tools, or without."""
        return self._choose(tools, None).facts

    def tells_budget(self, *, tools: bool) -> bool:
        """Whether the template, with tools or without, tells the model its budget for reasoning."""
        return "thinking_budget" in self._choose(tools, None).facts.variables

    def efforts(self, *, tools: bool) -> Efforts:
        """The levels of reasoning of the template that renders requests with tools, or without."""
        return self._choose(tools, None).efforts

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        documents: Sequence[Mapping[str, object]] = (),
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        arguments: Mapping[str, object] | None = None,
        protect_control: bool = True,
        tool_choice: ToolChoice | None = None,
        reasoning: ReasoningSettings | None = None,
        template: str | None = None,
        reminders: bool = False,
    ) -> Prompt:
        """The prompt of a conversation.

        `arguments` are further variables; they replace those that `tool_choice` and `reasoning` set. `template` names one
        of several templates. With `continue_final_message` the prompt ends where the last message's text ends, and no
        generation prompt is added. With `reminders`, a system prompt amid the conversation is a reminder in the user's words
        where the template has no place for it. With `protect_control` False, control tokens in messages become control tokens.
        Raises TemplateFailed if the template refuses or fails, UnsupportedParameter for content that it has no place for,
        InvalidRequest for `arguments` that have a field of their own and for an unknown `template`.
        """
        program = self._choose(bool(tools), template)
        if reminders and not program.late_system:
            messages = with_reminders(messages)
        shaped = program.shaper.messages(messages)
        variables: dict[str, object] = {
            **self._variables,
            "strftime_now": self._strftime_now,
            **_settings(program.facts, program.efforts, tool_choice, reasoning),
            **_checked(arguments),
            "messages": shaped,
            "tools": program.shaper.tools(tools) if tools else None,
            "documents": [dict(document) for document in documents] or None if documents else None,
            "add_generation_prompt": add_generation_prompt and not continue_final_message,
        }
        marks = program.protection.protect(shaped, variables, self._variables) if protect_control else None
        text = self._continued(program, variables, shaped) if continue_final_message else self._run(program, variables)
        pieces = marks.pieces(text) if marks is not None else (text,)
        return Prompt(_with_media(pieces, self._media, messages) if self._media else pieces)

    def _choose(self, tools: bool, name: str | None) -> _Program:
        programs = self._programs
        if name is not None:
            if name not in programs:
                known = ", ".join(sorted(programs))
                raise InvalidRequest(f"There is no chat template named '{name}'; there are: {known}.", param="template")
            return programs[name]
        if tools and "tool_use" in programs:
            return programs["tool_use"]
        chosen = programs.get("default") or (next(iter(programs.values())) if len(programs) == 1 else None)
        if chosen is None:
            known = ", ".join(sorted(programs))
            raise InvalidRequest(f"This model has several chat templates and no default: {known}.", param="template")
        return chosen

    def _run(self, program: _Program, variables: dict[str, object]) -> str:
        try:
            return program.run(variables)
        except _FAULTS as fault:
            raise _failed(fault) from fault

    def _continued(self, program: _Program, variables: dict[str, object], shaped: Sequence[TemplateObject]) -> str:
        """The conversation up to the end of the last message's text. A tag behind that text shows where it ends.

        A template that trims text does not trim what stands before the tag. So if the tag's own white space is gone, the text
        is trimmed here and rendered again: only white space of the text goes, none that the template wrote before it.
        """
        holder, key = _last_text(shaped[-1] if shaped else {})
        plain = str(holder[key])

        def rendered(text: str) -> tuple[str, str]:
            """What stands before the tag behind `text`, and what is left of the tag with all that follows it."""
            holder[key] = text + _TAG
            before, tag, after = self._run(program, variables).rpartition(_TAG[0])
            if not tag or text.strip() not in before:
                raise TemplateFailed(
                    "The chat template changes or leaves out the final message, so it cannot be continued.",
                    param="messages",
                )
            return before, tag + after

        before, tag = rendered(plain)
        if tag.startswith(_TAG):
            return before
        trimmed = plain.rstrip(" ") if tag.startswith(_TAG[:-1]) else plain.rstrip()
        return before if trimmed == plain else rendered(trimmed)[0]

    def _strftime_now(self, format: str) -> str:
        local = datetime.fromtimestamp(self._clock.time(), UTC).astimezone()
        return local.replace(tzinfo=None).strftime(format)


_LATE = "late-system-prompt"
_PROBE = (
    Message("system", (Text("early"),), content_is_text=True),
    Message("user", (Text("question"),), content_is_text=True),
    Message("system", (Text(_LATE),), content_is_text=True),
    Message("assistant", (Text("answer"),), content_is_text=True),
    Message("user", (Text("question"),), content_is_text=True),
)


_QUESTION = (Message("user", (Text("question"),), content_is_text=True),)


def _takes_late_system(render: Callable[[dict[str, object]], str], facts: TemplateFacts) -> bool:
    """Whether the template writes a system prompt that comes after the first turn, in its place."""
    text = _probed(render, facts, _PROBE, {})
    return (
        text is not None and text.count(_LATE) == 1 and text.find("question") < text.find(_LATE) < text.find("answer")
    )


def _probed(
    render: Callable[[dict[str, object]], str],
    facts: TemplateFacts,
    messages: Sequence[Message],
    settings: Mapping[str, object],
) -> str | None:
    """The prompt of a conversation that is rendered to see what the template does; None where it refuses it."""
    variables = {"messages": MessageShaper(facts).messages(messages), "add_generation_prompt": True}
    variables |= {"strftime_now": lambda _: "", "bos_token": "", "eos_token": "", **settings}
    try:
        return render(variables)
    except _FAULTS:
        return None


def _efforts(render: Callable[[dict[str, object]], str], facts: TemplateFacts) -> Efforts:
    """The levels of reasoning that a template tells apart, with reasoning switched on."""
    on: dict[str, object] = {} if facts.thinking_key is None else {facts.thinking_key: True}
    return read_efforts(
        lambda level: _probed(render, facts, _QUESTION, {**on, "reasoning_effort": level}),
        reads="reasoning_effort" in facts.variables,
        switch=facts.thinking_key is not None,
    )


def _with_media(pieces: tuple[str, ...], texts: Mapping[str, str], messages: Sequence[Message]) -> tuple[str, ...]:
    """The pieces with each medium's text (its number filled in) instead of its `_PLACES` character. Raises TemplateFailed
    if there are more or fewer of these characters than media: a message may hold one itself."""
    for kind, text in texts.items():
        place = _PLACES[kind]
        found = sum(piece.count(place) for piece in pieces)
        if not found:
            continue
        if found != count_media(messages, kind):
            raise TemplateFailed("The messages hold a character that has no meaning in text.", param="messages")
        number = 0
        written = []
        for piece in pieces:
            first, *rest = piece.split(place)
            for following in rest:
                number += 1
                first += text.replace("{n}", str(number)) + following
            written.append(first)
        pieces = tuple(written)
    return pieces


def _last_text(message: TemplateObject) -> tuple[TemplateObject, str]:
    """Where the message's last text stands: an object and a key."""
    content = message.get("content")
    if isinstance(content, str):
        return message, "content"
    for part in reversed(content if isinstance(content, list) else []):
        if part.get("type") == "text":
            return part, "text"
    raise TemplateFailed("continue_final_message needs a final message with text.", param="messages")


def _token_variables(special: SpecialTokens) -> dict[str, str]:
    roles = {"bos_token": special.bos, "eos_token": special.eos, "unk_token": special.unk, "pad_token": special.pad}
    return {**{role: token for role, token in roles.items() if token is not None}, **special.named}


def _checked(arguments: Mapping[str, object] | None) -> Mapping[str, object]:
    if not arguments:
        return {}
    taken = _RESERVED.intersection(arguments)
    if taken:
        raise InvalidRequest(
            f"'{min(taken)}' is not an argument of the chat template; it has a field of its own.",
            param=f"template_arguments.{min(taken)}",
        )
    return arguments


def _settings(
    facts: TemplateFacts, efforts: Efforts, choice: ToolChoice | None, reasoning: ReasoningSettings | None
) -> dict[str, object]:
    """The request's tool choice and reasoning settings as variables; only those that the template reads."""
    found: dict[str, object] = {}
    if choice is not None and "tool_choice" in facts.variables:
        single = choice.mode == "required" and len(choice.names) == 1
        found["tool_choice"] = (
            {"type": "function", "function": {"name": choice.names[0].name}} if single else choice.mode
        )
    if reasoning is None:
        return found
    effort, enabled, budget = reasoning.effort, reasoning.enabled, reasoning.budget_tokens
    if enabled is None and effort is not None:
        enabled = effort != "none"
    if enabled is not None and facts.thinking_key is not None:
        found[facts.thinking_key] = enabled
    if effort is not None and "reasoning_effort" in facts.variables and (effort != "none" or "none" in efforts.levels):
        found["reasoning_effort"] = effort
    if budget is None and effort is not None and effort not in efforts.levels:
        budget = EFFORT_TOKENS.get(effort)
    if budget is not None and "thinking_budget" in facts.variables:
        found["thinking_budget"] = budget
    return found


def _failed(fault: Exception) -> TemplateFailed:
    if isinstance(fault, jinja2.exceptions.SecurityError):
        return TemplateFailed(
            "The model's chat template does what a template may not.",
            param="messages",
            detail=str(fault),
            outside_text=str(fault),
        )
    if isinstance(fault, jinja2.TemplateError) and not isinstance(fault, jinja2.TemplateRuntimeError):
        return TemplateFailed(
            f"The model's chat template refused the messages: {fault.message}",
            param="messages",
            outside_text=fault.message or "",
        )
    return TemplateFailed(
        f"The model's chat template cannot render these messages: {fault}",
        param="messages",
        detail=type(fault).__name__,
        outside_text=str(fault),
    )
