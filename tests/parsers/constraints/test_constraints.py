"""Constraints accept what each family writes and nothing else; the grammars are compiled and run by llguidance.

Structural tags are translated into llguidance's Lark dialect by the small compiler below, so that a real matcher judges them.
"""

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from llguidance import LLMatcher, LLTokenizer
from tests.parsers.writers import WRITERS, Call, Format, calls

from smg_parsers.constraints.constraints import (
    SHAPES,
    ConstraintError,
    ConstraintUnsupported,
    FamilyConstraint,
    constrain,
    constrain_response,
)

pytestmark = pytest.mark.sampled(keep=24)

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TRIP = {
    "type": "object",
    "properties": {
        "who": {"$ref": "#/$defs/Person"},
        "on": {"type": "boolean"},
        "seat": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["who", "on", "seat"],
    "additionalProperties": False,
    "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def tool(name: str, parameters: dict[str, Any], *, strict: bool = True) -> dict[str, Any]:
    """A function tool as Chat Completions has it."""
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}


NONE: frozenset[str] = frozenset()
TOOLS = [tool("get_weather", WEATHER), tool("now", NOTHING), tool("trip", TRIP)]
PARIS = Call("get_weather", {"city": "Paris", "days": 2})
ROME = Call("get_weather", {"city": 'Rome ) ] } "x"', "unit": "C"})
NOW = Call("now", {})
WRONG_TYPE = Call("get_weather", {"city": "Paris", "days": "two"})
MISSING = Call("get_weather", {"days": 2})
OTHER_TOOL = Call("other", {})
TAGGED = sorted(set(SHAPES) & set(WRITERS))
MARKED = [family for family in TAGGED if SHAPES[family].trigger is not None]


class Lark:
    """A structural tag as rules of llguidance's Lark dialect."""

    def __init__(self, form: dict[str, Any]) -> None:
        self.rules: list[str] = []
        self.text = f"start: {self.expression(form)}\n" + "\n".join(self.rules)

    def rule(self, body: str, attributes: str = "", *, terminal: bool = False) -> str:
        name = f"{'T' if terminal else 'r'}{len(self.rules)}"
        self.rules.append(f"{name}{attributes}: {body}")
        return name

    def free(self, ended: str) -> str:
        """Any text up to and with ``ended``."""
        return self.rule("/(?s:.*)/", f"[suffix={quote(ended)}]")

    def expression(self, form: dict[str, Any]) -> str:
        kind = form["type"]
        if kind == "const_string":
            return quote(form["value"])
        if kind == "regex":
            return f"/{form['pattern'].replace('/', chr(92) + '/')}/"
        if kind == "grammar":
            return self.grammar(form["grammar"])
        if kind == "json_schema":
            schema = form["json_schema"]
            return self.rule(f"%json {json.dumps({} if schema is True else schema)}")
        if kind == "sequence":
            return " ".join(map(self.expression, form["elements"]))
        if kind == "or":
            return "(" + " | ".join(f"({self.expression(part)})" for part in form["elements"]) + ")"
        if kind in ("optional", "star"):
            return f"({self.expression(form['content'])}){'?' if kind == 'optional' else '*'}"
        if kind == "tag":
            return self.tag(form)
        if kind == "tags_with_separator":
            return self.separated(form)
        assert kind == "triggered_tags", f"unknown format {kind}"
        return self.triggered(form)

    def grammar(self, ebnf: str) -> str:
        """The rules of a grammar that do not call themselves, as terminals."""
        rules = dict(line.split(" ::= ") for line in ebnf.splitlines())
        made = {name: f"G{len(self.rules)}_{place}" for place, name in enumerate(rules)}
        for name, body in rules.items():
            words = re.split(r'("[^"]*"|\[[^\]]*\])', body)
            parts = [self.leaf(word) if place % 2 else self.named(word, made) for place, word in enumerate(words)]
            self.rules.append(f"{made[name]}: {''.join(parts)}")
        return made["root"]

    def leaf(self, written: str) -> str:
        """A string or a class of EBNF."""
        if written.startswith('"'):
            return written
        return "/" + re.sub(r"\\u(....)", r"\\x{\1}", written).replace("/", "\\/") + "/"

    def named(self, written: str, made: dict[str, str]) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda found: made[found[0]], written)

    def tag(self, form: dict[str, Any]) -> str:
        content = form["content"]
        parts = content["elements"] if content["type"] == "sequence" else [content]
        begin = [quote(form["begin"])] if form["begin"] else []
        if parts[-1]["type"] == "any_text":
            return " ".join([*begin, *map(self.expression, parts[:-1]), self.free(form["end"])])
        end = [quote(form["end"])] if form["end"] else []
        return " ".join([*begin, *map(self.expression, parts), *end])

    def separated(self, form: dict[str, Any]) -> str:
        one = self.rule(" | ".join(map(self.expression, form["tags"])))
        between = quote(form["separator"]) + " " if form["separator"] else ""
        return f"{one} ({between}{one})*"

    def triggered(self, form: dict[str, Any]) -> str:
        """Text without a trigger, or text up to a trigger, then what must follow it."""
        assert len(form["triggers"]) == 1, "one trigger is all that a suffix can say"
        trigger = form["triggers"][0]
        pattern = "".join("\\" + char if char in r"\.[]{}()*+?|^$/&~-" else char for char in trigger)
        plain = self.rule(f"/(?s:.*)/ & ~/(?s:.*){pattern}(?s:.*)/", terminal=True)
        lead = self.free(trigger)
        rests = [self.expression(tag | {"begin": tag["begin"].removeprefix(trigger)}) for tag in form["tags"]]
        called = self.rule(f"{lead} (" + " | ".join(f"({rest})" for rest in rests) + ")")
        return f"({plain})? | {called}" if form["stop_after_first"] else f"({called})* ({plain})?"


def quote(text: str) -> str:
    """A Lark string."""
    return json.dumps(text, ensure_ascii=False)


BYTES = LLTokenizer("byte")


def accepts(constraint: FamilyConstraint | None, output: str) -> bool:
    """Whether the matcher takes all of ``output`` and lets the model stop there."""
    assert constraint is not None
    assert constraint.kind == "structural_tag"
    matcher = LLMatcher(BYTES, LLMatcher.grammar_from_lark(Lark(json.loads(constraint.value)["format"]).text))
    assert not matcher.is_error(), matcher.get_error()
    return bool(matcher.consume_tokens(BYTES.tokenize_str(output))) and bool(matcher.is_accepting())


def written(family: str, *made: Any) -> str:
    """The calls as the family's writer lays them out, without anything around them."""
    form = WRITERS[family]
    if type(form) is not Format:  # every call is a message of its own
        return str(form.render([calls(*made)]))
    body = str(form.block(made, 0))
    return f"[{body}]" if family == "json" and len(made) == 1 else body


@pytest.mark.parametrize("family", TAGGED)
def test_a_required_call_is_accepted_as_the_family_writes_it(family: str) -> None:
    constraint = constrain(family, TOOLS, "required")

    assert constraint is not None
    assert constraint.reads == family
    for call in (PARIS, ROME, NOW):
        assert accepts(constraint, written(family, call)), written(family, call)


@pytest.mark.parametrize("family", TAGGED)
@pytest.mark.parametrize("call", [WRONG_TYPE, MISSING, OTHER_TOOL], ids=["wrong type", "missing", "other tool"])
def test_a_call_that_breaks_its_schema_is_refused(family: str, call: Any) -> None:
    assert not accepts(constrain(family, TOOLS, "required"), written(family, call))


@pytest.mark.parametrize("family", TAGGED)
def test_a_required_call_ends_the_output(family: str) -> None:
    constraint = constrain(family, TOOLS, "required")

    assert not accepts(constraint, "")
    assert not accepts(constraint, "Sure.")
    assert not accepts(constraint, written(family, PARIS) + " and so on")


@pytest.mark.parametrize("family", TAGGED)
def test_several_calls_pass_only_when_they_may_be_parallel(family: str) -> None:
    if not WRITERS[family].parallel:
        assert not accepts(constrain(family, TOOLS, "required"), written(family, PARIS) * 2)
        return
    both = written(family, PARIS, NOW)

    assert accepts(constrain(family, TOOLS, "required"), both)
    assert not accepts(constrain(family, TOOLS, "required", parallel_tool_calls=False), both)
    assert accepts(constrain(family, TOOLS, "required", parallel_tool_calls=False), written(family, PARIS))


@pytest.mark.parametrize("family", TAGGED)
def test_a_named_call_is_that_tool_and_only_once(family: str) -> None:
    constraint = constrain(family, TOOLS, {"type": "function", "function": {"name": "now"}})

    assert accepts(constraint, written(family, NOW))
    assert not accepts(constraint, written(family, PARIS))
    if WRITERS[family].parallel:
        assert not accepts(constraint, written(family, NOW, NOW))


@pytest.mark.parametrize(
    "family", [family for family in TAGGED if WRITERS[family].think and type(WRITERS[family]) is Format]
)
def test_reasoning_may_come_before_a_required_call(family: str) -> None:
    form = WRITERS[family]
    thought = "I need [this]." + form.think[1]

    opened = constrain(family, TOOLS, "required", in_reasoning=True)
    assert accepts(opened, thought + written(family, PARIS))
    assert not accepts(opened, thought + "No call.")
    assert accepts(constrain(family, TOOLS, "required"), form.think[0].lstrip() + thought + written(family, PARIS))


@pytest.mark.parametrize("family", [family for family in MARKED if family != "inkling"])
def test_auto_with_a_strict_tool_leaves_text_free_and_holds_calls_to_their_schema(family: str) -> None:
    constraint = constrain(family, TOOLS[:1], "auto")

    assert accepts(constraint, "No call is needed.")
    assert accepts(constraint, "Let me look. " + written(family, PARIS))
    assert not accepts(constraint, "Let me look. " + written(family, WRONG_TYPE))
    assert not accepts(constraint, "Let me look. " + written(family, OTHER_TOOL))


@pytest.mark.parametrize(
    "family", [family for family in TAGGED if WRITERS[family].value_kind in ("json", "schema", "marked")]
)
def test_references_and_unions_hold_inside_arguments(family: str) -> None:
    constraint = constrain(family, TOOLS, "required")

    assert accepts(constraint, written(family, Call("trip", {"who": {"name": "Ada"}, "on": True, "seat": 3})))
    assert accepts(constraint, written(family, Call("trip", {"who": {"name": "Ada"}, "on": False, "seat": None})))
    assert not accepts(constraint, written(family, Call("trip", {"who": {"nom": "Ada"}, "on": True, "seat": 3})))
    assert not accepts(constraint, written(family, Call("trip", {"who": {"name": "Ada"}, "on": "perhaps", "seat": 3})))


@pytest.mark.parametrize("family", ["qwen3_coder", "glm45", "minimax_m2", "deepseek_v32", "kimi_k3", "qwen3", "lfm2"])
def test_a_tool_without_declared_parameters_takes_any(family: str) -> None:
    open_tool = [{"type": "function", "function": {"name": "log"}}]

    constraint = constrain(family, open_tool, "required")

    assert accepts(constraint, written(family, Call("log", {"line": "hello"})))
    assert accepts(constraint, written(family, Call("log", {})))


@pytest.mark.parametrize("family", ["plain", "kimi_vl"])
def test_a_family_that_no_tag_describes_is_forced_by_a_json_schema(family: str) -> None:
    constraint = constrain(family, TOOLS, "required", parallel_tool_calls=False)

    assert constraint is not None
    assert (constraint.kind, constraint.reads) == ("json_schema", "json")
    schema = jsonschema_rs.validator_for(json.loads(constraint.value))
    assert schema.is_valid([{"name": "trip", "parameters": {"who": {"name": "Ada"}, "on": True, "seat": None}}])
    assert not schema.is_valid([{"name": "trip", "parameters": {"who": {}, "on": True, "seat": None}}])
    assert not schema.is_valid([{"name": "other", "parameters": {}}])
    assert not schema.is_valid([])
    assert not schema.is_valid([{"name": "now", "parameters": {}}] * 2)


def test_definitions_of_two_tools_with_one_name_stay_apart() -> None:
    number = {"type": "object", "properties": {"v": {"$ref": "#/$defs/V"}}, "$defs": {"V": {"type": "integer"}}}
    word = {"type": "object", "properties": {"v": {"$ref": "#/$defs/V"}}, "$defs": {"V": {"type": "string"}}}

    constraint = constrain("plain", [tool("a", number), tool("b", word)], "required")

    assert constraint is not None
    schema = jsonschema_rs.validator_for(json.loads(constraint.value))
    assert schema.is_valid([{"name": "a", "parameters": {"v": 1}}, {"name": "b", "parameters": {"v": "x"}}])
    assert not schema.is_valid([{"name": "a", "parameters": {"v": "x"}}])


@pytest.mark.parametrize("family", TAGGED)
def test_every_schema_inside_a_tag_is_a_valid_schema(family: str) -> None:
    constraint = constrain(family, TOOLS, "required")
    assert constraint is not None
    pending: list[Any] = [json.loads(constraint.value)]
    while pending:
        part = pending.pop()
        if isinstance(part, dict) and part.get("type") == "json_schema":
            assert jsonschema_rs.meta.is_valid(part["json_schema"])
        elif isinstance(part, dict | list):
            pending.extend(part.values() if isinstance(part, dict) else part)


def custom(name: str, pattern: str | None = None) -> dict[str, Any]:
    """A tool that takes free text, as Chat Completions has it."""
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": pattern}}
    return {"type": "custom", "custom": {"name": name, **({} if pattern is None else {"format": grammar})}}


def in_lark(definition: str) -> dict[str, Any]:
    """The tool `shell` with a Lark grammar."""
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": definition}}
    return {"type": "custom", "custom": {"name": "shell", "format": grammar}}


GRAMMAR = r"""
start: "say " word (", " word)* (LF CNAME)?
word: "\"" /[^"\n,]+/ "\"" | "'" INNER "'" "\\"?
INNER: /[^'\n,]+/
%import common (LF, CNAME)
"""
QUOTED = r"say [\"'][^\n\"']+[\"']\\?(\n\w+)?"
SHELL = custom("shell", QUOTED)
NAMED_SHELL = {"type": "custom", "custom": {"name": "shell"}}


def shell(text: str) -> Call:
    return Call("shell", {"input": text})


@pytest.mark.parametrize("family", TAGGED)
def test_free_text_is_held_to_its_expression_however_the_family_spells_strings(family: str) -> None:
    constraint = constrain(family, [SHELL, *TOOLS], NAMED_SHELL)

    for text in ('say "hi"', "say 'Zürich'\\", 'say "a b"\nmore'):
        assert accepts(constraint, written(family, shell(text))), written(family, shell(text))
    for text in ("say hi", 'say "hi', 'say "hi" there', ""):
        assert not accepts(constraint, written(family, shell(text))), written(family, shell(text))


@pytest.mark.parametrize("family", TAGGED)
def test_free_text_is_held_to_its_grammar_however_the_family_spells_strings(family: str) -> None:
    constraint = constrain(family, [in_lark(GRAMMAR), *TOOLS], NAMED_SHELL)

    for text in ('say "hi"', "say 'Zürich'\\", 'say "a b", "c"\nmore'):
        assert accepts(constraint, written(family, shell(text))), written(family, shell(text))
    for text in ("say hi", 'say "hi', 'say "hi" there', "", 'say "a",\nmore'):
        assert not accepts(constraint, written(family, shell(text))), written(family, shell(text))


@pytest.mark.parametrize("family", TAGGED)
def test_free_text_without_an_expression_is_any_string(family: str) -> None:
    constraint = constrain(family, [custom("shell")], "required")
    assert accepts(constraint, written(family, shell('say "hi"')))
    assert not accepts(constraint, written(family, Call("shell", {"other": "x"})))


@pytest.mark.parametrize("family", [family for family in MARKED if family != "inkling"])
def test_an_expression_holds_a_call_that_the_model_chooses_to_make(family: str) -> None:
    constraint = constrain(family, [SHELL, tool("note", WEATHER, strict=False)], "auto")
    assert accepts(constraint, "No call is needed.")
    assert accepts(constraint, "Let me. " + written(family, shell("say 'hi'")))
    assert not accepts(constraint, "Let me. " + written(family, shell("ls")))
    assert constrain(family, [custom("shell")], "auto") is None


def test_an_expression_that_cannot_be_used_is_an_error() -> None:
    with pytest.raises(ConstraintError, match="look-around"):
        constrain("qwen3", [custom("shell", "(?=a)")], "required")
    with pytest.raises(ConstraintError, match="in line 1: 'a' is not defined"):
        constrain("qwen3", [in_lark("start: a")], "required")
    flat = {"type": "custom", "name": "shell", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}}
    assert accepts(constrain("qwen3", [flat], {"type": "custom", "name": "shell"}), written("qwen3", shell("aa")))


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_nothing_is_constrained_without_a_strict_tool_or_with_calls_forbidden(choice: str) -> None:
    loose = [tool("get_weather", WEATHER, strict=choice == "none")]

    assert constrain("qwen3", loose, choice) is None
    assert constrain("qwen3", loose, choice, kinds=NONE) is None
    assert constrain("qwen3", [], "required") is None


def test_allowed_tools_narrow_the_choice_and_keep_its_mode() -> None:
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]},
    }
    responses = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "now"}]}

    for choice in (allowed, responses):
        constraint = constrain("qwen3", TOOLS, choice)
        assert accepts(constraint, written("qwen3", NOW))
        assert not accepts(constraint, written("qwen3", PARIS))
    assert accepts(constrain("qwen3", TOOLS, responses | {"mode": "auto"}), "No call.")


def test_in_auto_only_strict_tools_are_held_to_their_schema() -> None:
    constraint = constrain("qwen3", [tool("get_weather", WEATHER), tool("note", WEATHER, strict=False)], "auto")

    assert accepts(constraint, written("qwen3", Call("note", {"anything": [1]})))
    assert not accepts(constraint, written("qwen3", Call("get_weather", {"anything": [1]})))


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "now"}, "auto"])
def test_an_engine_that_cannot_constrain_says_so(choice: Any) -> None:
    for kinds in (NONE, frozenset({"json_schema", "regex"})):
        with pytest.raises(ConstraintUnsupported, match="cannot constrain output to a structural_tag"):
            constrain("qwen3", TOOLS, choice, kinds=kinds)


def test_only_the_kind_that_is_needed_has_to_be_there() -> None:
    assert constrain("qwen3", TOOLS, "required", kinds={"structural_tag"}) is not None
    assert constrain("plain", TOOLS, "required", kinds={"json_schema", "haiku"}) is not None
    with pytest.raises(ConstraintUnsupported, match="to a json_schema"):
        constrain("plain", TOOLS, "required", kinds={"structural_tag"})


@pytest.mark.parametrize("family", ["pythonic", "json", "xlam", "plain"])
def test_auto_is_refused_where_nothing_marks_a_call(family: str) -> None:
    with pytest.raises(ConstraintUnsupported, match="nothing marks"):
        constrain(family, TOOLS, "auto")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"type": "function", "function": {"name": "gone"}}, "'gone'"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "gone"}]}, "'gone'"),
        ({"type": "allowed_tools", "mode": "never", "tools": []}, "'never'"),
        ({"type": "function"}, "names no tool"),
        ("sometimes", "'sometimes'"),
    ],
)
def test_a_choice_that_makes_no_sense_is_named(choice: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        constrain("qwen3", TOOLS, choice)


def test_a_tool_without_a_proper_name_is_refused() -> None:
    with pytest.raises(ConstraintError, match="a tool's name"):
        constrain("qwen3", [tool('a"b', NOTHING)], "required")


def test_a_response_format_becomes_a_schema_a_pattern_or_a_grammar() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    chat = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    responses = {"type": "json_schema", "name": "x", "schema": schema}

    for form in (chat, responses):
        made = constrain_response(form)
        assert made is not None
        assert (made.kind, json.loads(made.value)) == ("json_schema", schema)
    assert constrain_response({"type": "json_object"}) == FamilyConstraint("json_schema", '{"type":"object"}', "plain")
    assert constrain_response({"type": "regex", "regex": "a+"}) == FamilyConstraint("regex", "a+", "plain")
    assert constrain_response({"type": "grammar", "grammar": 'root ::= "a"'}) == FamilyConstraint(
        "ebnf", 'root ::= "a"', "plain"
    )
    assert constrain_response({"type": "text"}, kinds=NONE) is None
    assert constrain_response(None) is None
    with pytest.raises(ConstraintUnsupported, match="response_format 'json_object'"):
        constrain_response({"type": "json_object"}, kinds=NONE)
    with pytest.raises(ConstraintError, match="'poem'"):
        constrain_response({"type": "poem"})


@pytest.mark.parametrize("family", ["gemma4", "minimax_m3", "glm45", "qwen3"])
def test_a_schema_that_refers_to_itself_ends_in_a_finite_constraint(family: str) -> None:
    node = {
        "type": "object",
        "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
        "required": ["v"],
    }
    chain = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "required": ["node"],
        "$defs": {"Node": node},
    }

    constraint = constrain(family, [tool("walk", chain)], "required")

    assert accepts(constraint, written(family, Call("walk", {"node": {"v": 1, "next": {"v": 2}}})))
    assert not accepts(constraint, written(family, Call("walk", {"node": {"v": "one"}})))
    assert constraint is not None
    assert len(constraint.value) < 20_000


def test_a_number_in_the_call_is_free_so_that_any_turn_can_count_on() -> None:
    constraint = constrain("kimi_k2", TOOLS, "required")

    assert accepts(constraint, written("kimi_k2", Call("now", {}, "functions.now:17")))
    assert not accepts(constraint, written("kimi_k2", Call("now", {}, "functions.now:x")))


@pytest.mark.parametrize("family", ["glm45", "plain"])
def test_a_schema_that_is_taken_apart_may_not_refer_to_its_whole(family: str) -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}

    with pytest.raises(ConstraintUnsupported, match="refers to itself as a whole"):
        constrain(family, [tool("grow", tree)], "required")
    assert constrain("qwen3", [tool("grow", tree)], "required") is not None


@pytest.mark.parametrize(
    ("tools", "choice", "told"),
    [
        ("weather", "required", "not 'weather'"),
        ({"name": "weather"}, "required", "not {'name': 'weather'}"),
        (["weather"], "required", "not 'weather'"),
        ([{"type": "function", "function": 3}], "required", "not 3"),
        ([{"name": "a", "parameters": [1]}], "required", r"not \[1\]"),
        ([{"name": "a"}], 5, "not 5"),
        ([{"name": "a"}], {"type": "function", "function": 5}, "5"),
        ([{"name": "a"}], {"type": "allowed_tools", "allowed_tools": 5}, "not 5"),
        ([{"name": "a"}], {"type": "allowed_tools", "tools": [5]}, "names no tool: 5"),
    ],
)
def test_malformed_tools_and_choices_are_value_errors_that_name_the_value(tools: Any, choice: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        constrain("qwen3", tools, choice)
