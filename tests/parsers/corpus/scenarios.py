"""Situations that every family meets, laid out by the family's writer.

A scenario turns a format into a case: the raw output and the pieces a reader must find in it. What is true only of one family is
written by hand in ``by_hand_*.py``.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from writers import Call, Format, Piece, Segment, calls, dump, marker, reasoning, text

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["city"],
}
TRIP = {
    "type": "object",
    "properties": {
        "traveller": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        "stops": {"type": "array", "items": {"type": "string"}},
        "legs": {
            "type": "array",
            "items": {"type": "object", "properties": {"km": {"type": "number"}, "by": {"type": "string"}}},
        },
        "seat": {"type": ["integer", "null"]},
    },
}
STORE = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "ratio": {"type": "number"},
        "tiny": {"type": "number"},
        "on": {"type": "boolean"},
        "off": {"type": "boolean"},
        "gap": {"type": "null"},
        "big": {"type": "integer"},
    },
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": WEATHER,
    "book_trip": TRIP,
    "store": STORE,
    "run_python": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    "f2_0": {"type": "object", "properties": {"zone": {"type": "string"}}},
    "now": {"type": "object", "properties": {}},
    "get-time": {"type": "object", "properties": {"zone": {"type": "string"}}},
}

PARIS = Call("get_weather", {"city": "Paris", "days": 2})
ROME = Call("get_weather", {"city": "Rome", "unit": "C"})
CODE = 'def f(x):\n    """Twice."""\n    if x > 1:\n        return x * 2\n\n    return "\\n"'
NESTED = {
    "traveller": {"name": "Ada", "age": 36},
    "stops": ["Oslo", "Bergen"],
    "legs": [{"km": 463.5, "by": "rail"}, {"km": 12.25, "by": "foot"}],
    "seat": None,
}
SCALARS = {
    "id": -7, "ratio": 0.5, "tiny": 1e-07, "on": True, "off": False, "gap": None, "big": 123456789012345678901234567890,
}  # fmt: skip

WHY = "The user wants the weather. I need one call."


def tools_for(names: Sequence[str]) -> list[dict[str, Any]]:
    """OpenAI function tools for the names that have a schema here."""
    return [
        {
            "type": "function",
            "function": {"name": name, "description": f"The tool {name}.", "parameters": copy.deepcopy(SCHEMAS[name])},
        }
        for name in names
        if name in SCHEMAS
    ]


def in_order(form: Format, value: Any) -> Any:
    """The arguments with keys in the order the format writes them."""
    if isinstance(value, dict):
        keys = sorted(value, key=str.lower) if form.sorted_keys else value
        return {key: in_order(form, value[key]) for key in keys}
    return [in_order(form, item) for item in value] if isinstance(value, list) else value


def expected(form: Format, segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """What a reader must find: marks gone, adjacent pieces of a kind merged, whitespace between two calls gone."""
    found: list[dict[str, Any]] = []
    made = 0
    for segment in segments:
        if segment.kind == "calls":
            if (
                found
                and "text" in found[-1]
                and not found[-1]["text"].strip()
                and len(found) > 1
                and "call" in found[-2]
            ):
                found.pop()
            for call in segment.calls:
                found.append({"call": called(form, call, made)})
                made += 1
        elif segment.kind != "mark" and segment.body:
            if found and segment.kind in found[-1]:
                found[-1][segment.kind] += segment.body
            else:
                found.append({segment.kind: segment.body})
    return found


def called(form: Format, call: Call, index: int) -> dict[str, Any]:
    """An expected call, with its id where the format writes one."""
    entry: dict[str, Any] = {"name": call.name, "arguments": in_order(form, call.arguments)}
    if form.ids is not None:
        entry["id"] = form.ids(call, index)
    return entry


def case(
    form: Format,
    name: str,
    pieces: Sequence[Piece] = (),
    *,
    in_reasoning: bool = False,
    segments: Sequence[Segment] | None = None,
) -> dict[str, Any]:
    """A case of the pieces as the family writes them, or of ``segments`` where the output is not what a template would write."""
    laid = form.layout(pieces, in_reasoning=in_reasoning) if segments is None else segments
    used = [call.name for segment in laid for call in segment.calls]
    return {
        "name": name,
        "source": f"format: {form.source}",
        "tools": tools_for(list(dict.fromkeys(["get_weather", *used]))),
        "in_reasoning": in_reasoning,
        "text": "".join(segment.body for segment in laid),
        "expect": expected(form, laid),
    }


def plain_cases(form: Format) -> Iterator[dict[str, Any]]:
    """Text and calls in every order the format allows."""
    yield case(
        form, "prose", [text("It is 18 degrees.\n\n- Zürich, 東京\n- مرحبا, 👩‍👩‍👧 and \u2028 a line separator\n")]
    )
    yield case(form, "one call", [calls(PARIS)])
    yield (
        case(form, "a name with a hyphen", [calls(Call("get-time", {"zone": "UTC"}))])
        if form.value_kind != "python"
        else case(form, "a name with digits", [calls(Call("f2_0", {"zone": "UTC"}))])
    )
    if form.parallel:
        yield case(form, "two calls", [calls(PARIS, ROME)])
        yield case(form, "the same call twice", [calls(PARIS, PARIS)])
        yield case(form, "three calls, one without arguments", [calls(PARIS, Call("now", {}), ROME)])
    if not form.alone:
        yield case(form, "text before a call", [text("Let me check."), calls(PARIS)])
        yield case(form, "text that ends with a newline before a call", [text("Let me check:\n"), calls(PARIS)])
    if form.closed and not form.alone:
        yield case(form, "text after a call", [calls(PARIS), text("Done.")])
        yield case(
            form,
            "text before, between and after calls",
            [text("One."), calls(PARIS), text("Two."), calls(ROME), text("Three.")],
        )


def value_cases(form: Format) -> Iterator[dict[str, Any]]:
    """Arguments of every type."""
    yield case(form, "no arguments", [calls(Call("now", {}))])
    yield case(form, "nested arguments", [calls(Call("book_trip", NESTED))])
    yield case(form, "numbers, booleans, null and a big integer", [calls(Call("store", SCALARS))])
    yield case(form, "unicode in arguments", [calls(Call("get_weather", {"city": "São Paulo 東京 🌦️ é", "days": 1}))])
    yield case(
        form, "quotes and backslashes", [calls(Call("run_python", {"code": 'a = "x\\"y" + \'z\' # C:\\temp\\'}))]
    )
    yield case(form, "code with indentation and newlines", [calls(Call("run_python", {"code": CODE}))])
    if form.value_kind != "json":
        yield case(form, "a string that looks like a number", [calls(Call("get_weather", {"city": "0123", "days": 3}))])
        null = case(form, "a string that looks like null", [calls(Call("get_weather", {"city": "null"}))])
        if form.value_kind in ("schema", "nested"):  # nothing but the schema says that it is a string
            null["expect"][-1]["call"]["arguments"] = {"city": None}
        yield null
        yield case(form, "an empty string", [calls(Call("get_weather", {"city": ""}))])
    yield case(
        form,
        "markup and entities in a string",
        [calls(Call("get_weather", {"city": "<b>&lt;Paris&gt;</b> & {x: [1]}"}))],
    )
    yield case(form, "the call's own markers in a string", [calls(Call("run_python", {"code": marker_string(form)}))])
    unknown = case(form, "an unknown tool is forwarded", [calls(Call("mystery", {"topic": "alpha"}))])
    yield unknown if not form.alone else unknown | {
        "name": "an unknown tool is text where no marker opens a call", "expect": [{"text": unknown["text"]}],
    }  # fmt: skip
    if form.parallel:
        dropped = case(
            form,
            "an unknown tool is dropped and its siblings stay",
            [calls(PARIS, Call("mystery", {"topic": "a"}), ROME)],
        )
        dropped["expect"] = [piece for piece in dropped["expect"] if piece.get("call", {}).get("name") != "mystery"]
        yield dropped | {"unknown_tools": "drop"}
    if form.value_kind == "json":
        escaped = case(form, "an escaped surrogate pair", [calls(Call("get_weather", {"city": "a😀b"}))])
        escaped["text"] = escaped["text"].replace("😀", "\\ud83d\\ude00")
        yield escaped


def marker_string(form: Format) -> str:
    """A string that names the family's markers, without the one that would end a raw value."""
    marks = [form.opener, "</tool_call>", "<think>", "</think>", *(mark.strip() for mark in form.think or ())]
    safe = [mark for mark in marks if form.value_end is None or form.value_end not in mark]
    return "print('" + " ".join(safe) + "') # )] ]} 'end'"


PLAIN_TAGS = ("<think>", "<seed:think>", "<mm:think>", "<longcat_think>")


def thinking_cases(form: Format) -> Iterator[dict[str, Any]]:
    """Reasoning before, around and without the rest."""
    if form.think is None:
        return
    start = form.opened
    yield case(form, "reasoning then text", [reasoning(WHY), text("It is mild.")], in_reasoning=start)
    yield case(form, "reasoning then a call", [reasoning(WHY), calls(PARIS)], in_reasoning=start)
    yield case(
        form,
        "reasoning of several lines",
        [reasoning("First.\n\n  Second\n- third"), text("Mild.")],
        in_reasoning=start,
    )
    yield case(form, "empty reasoning", [reasoning(""), text("Mild.")], in_reasoning=start)
    if not form.alone:
        yield case(
            form, "reasoning, text and a call", [reasoning(WHY), text("I will look."), calls(PARIS)], in_reasoning=start
        )
    if form.think[0].strip() in PLAIN_TAGS and not form.alone:
        tag = form.think[0].strip()
        for number, answer in enumerate((f"Write `{tag}` first.", f"The tag {tag} opens it."), start=1):
            spoken = [reasoning(WHY), text(answer)]
            yield case(form, f"an opening tag that the answer speaks of, {number}", spoken, in_reasoning=start)
    if type(form) is not Format:
        return
    yield case(form, "the prompt opened the reasoning", [reasoning(WHY), text("Mild.")], in_reasoning=True)
    if form.first == "" and form.opened:
        yield case(form, "the model opens the reasoning itself", [reasoning(WHY), text("Mild.")])
    if form.closed and form.think_again:
        pieces = [reasoning("One."), calls(PARIS), reasoning("Two."), text("Mild.")]
        yield case(form, "reasoning again after a call", pieces, in_reasoning=start)
    opening = [] if start else marker(form.think[0], "text", "reasoning", whole=form.whole_think)
    thought = [*opening, Segment("reasoning", "The user wants")]
    yield case(form, "truncated inside reasoning", in_reasoning=start, segments=thought) | {"truncated": True}
    half = [*thought, Segment("reasoning", form.think[1].rstrip()[:-2])]
    yield case(form, "truncated inside the end of reasoning", in_reasoning=start, segments=half) | {"truncated": True}
    if start:
        repeated = [
            Segment("mark", form.think[0]),
            Segment("reasoning", WHY),
            *marker(form.think[1], "reasoning", "text"),
        ]
        if form.think[0] == form.think[0].strip():
            yield case(form, "the opening marker is repeated", in_reasoning=True, segments=repeated)
    yield from unclosed_thinking_cases(form, opening)


def unclosed_thinking_cases(form: Format, opening: Sequence[Segment]) -> Iterator[dict[str, Any]]:
    """Calls while reasoning is open: a call is a call, and the block stays open until its end marker."""
    if form.alone or not form.closed or form.family == "kimi_k3" or form.think is None:
        return
    block = form.block([PARIS], 0).rstrip()
    start = form.opened
    begun = [*opening, Segment("reasoning", "I call it." + form.glue), Segment("calls", block, (PARIS,))]
    yield case(form, "no end of reasoning before a call", in_reasoning=start, segments=begun)
    ended = [
        *begun,
        Segment("reasoning", "Now I know."),
        *marker(form.think[1], "reasoning", "text"),
        Segment("text", "Mild."),
    ]
    yield case(form, "a call inside reasoning", in_reasoning=start, segments=ended)


LOOKALIKES: dict[str, str] = {
    "harmony": 'Write to=functions.get_weather {"city": "Paris"} by hand.',
    "inkling": 'The header get_weather and {"name": "get_weather"} are prose.',
    "gigachat3": 'A "function call" such as {"name": "x"} is prose.',
    "kimi_k3": 'A tag such as <call tool="get_weather"> is prose, as is <|sep.',
    "llama3": '{"answer": 42, "name": null}',
    "json": '{"answer": 42, "list": [1, 2]}',
    "xlam": "[1] and [2] are footnotes, {x} is a set.",
    "llama4": "[1] See https://example.org, or [the guide](guide.md).",
    "gemma3": "[1] See https://example.org, or [the guide](guide.md).",
    "pythonic": "[1] See https://example.org, or [the guide](guide.md).",
    "phi4": "Use functools[0], functools.reduce or functools[x] here.",
    "minicpm5": "A <functional> style, a <function> tag and </function> are prose.",
}


def edge_cases(form: Format) -> Iterator[dict[str, Any]]:
    """Prose that looks like a call, and output cut off."""
    likeness = LOOKALIKES.get(form.family, f"The marker {form.opener} begins a call; nothing follows here.")
    yield case(form, "prose that looks like a call", [text(likeness)])
    if form.alone:
        yield from bare_cases(form)
    partial = form.opener[: max(1, len(form.opener) - 1)]
    if type(form) is Format and not form.tail and not any(form.answer):
        yield case(form, "text that ends with half a marker", [text("See " + partial)])
    whole = form.render([calls(PARIS)])
    yield from truncated_cases(form, whole)


BARE_PROSE = (
    "Use `df[df.apply(axis=1)]` and `[P(X=2)]`, then [f(x=1), g()] and [mystery(topic='alpha')].",
    'Send {"name": "mystery", "arguments": {}} or [{"name": "x", "parameters": {"a": [1]}}] as the body.',
    "[mystery()]",
    '{"name": "mystery", "parameters": {"topic": "alpha"}}',
)


def bare_cases(form: Format) -> Iterator[dict[str, Any]]:
    """Prose with the shape of a call and the name of no tool, and a call where no tools are declared."""
    for number, likeness in enumerate(BARE_PROSE, start=1):
        yield case(form, f"prose with the shape of a call, {number}", [text(likeness)])
    undeclared = case(form, "a call where no tools are declared", [calls(PARIS)])
    yield undeclared | {"tools": None, "expect": [{"text": undeclared["text"]}]}
    asked = case(form, "a call where any name will do", [calls(PARIS)])
    yield asked | {"tools": None, "any_tool": True}


def truncated_cases(form: Format, whole: str) -> Iterator[dict[str, Any]]:
    """One call, cut off at three places."""
    if type(form) is Format:
        cut = [Segment("text", whole[: whole.index("get_weather") + 3])]
        yield case(form, "truncated before the name ends", segments=cut) | {"truncated": True}
        before = whole[: len(whole) - len(whole.lstrip())]
        limited = case(form, "a limit cuts off the header", segments=cut) | {"truncated": True, "cut_off": True}
        yield limited | {"expect": [{"text": before}] if before else []}
    if form.alone and form.value_kind == "python":
        return
    yield cut_off(form, "truncated inside the arguments", [PARIS])
    if form.parallel:
        yield cut_off(form, "truncated inside the second call", [Call("now", {}), PARIS])


def cut_off(form: Format, name: str, made: Sequence[Call]) -> dict[str, Any]:
    """A case whose last call ends inside the value "Paris"."""
    full = case(form, name, [calls(*made)])
    full["text"] = full["text"][: full["text"].index("Paris") + 3]
    last = next(piece for piece in reversed(full["expect"]) if "call" in piece)
    full["expect"] = full["expect"][: full["expect"].index(last) + 1]
    del last["call"]["arguments"]
    last["call"]["complete"] = False
    if form.value_kind == "json":
        last["call"]["arguments_text"] = dump(made[-1].arguments).partition("Paris")[0] + "Par"
    return full | {"truncated": True}


def careless_cases(form: Format) -> Iterator[dict[str, Any]]:
    """Tagged calls of which a marker is missing or misspelt: each stays a call of its own, and says that it was repaired."""
    if form.value_kind not in ("schema", "marked", "nested") or form.value_end is None:
        return
    for end, what in (("", "no end tag"), ("1", "a misspelt end tag"), ("/", "an end tag with a slash")):
        first = [Call("get_weather", {"city": "Paris", "days": 2}), ROME]
        yield careless(form, f"{what} before the next parameter", first, "Paris", end)
        last = [Call("run_python", {"code": "print('one')\nprint('two')"}), Call("run_python", {"code": "rm -rf x"})]
        yield careless(form, f"{what} at the end of a call", last, "print('two')", end)


def careless(form: Format, name: str, made: Sequence[Call], value: str, wrong: str) -> dict[str, Any]:
    """A case in which the end tag behind `value` is left out, or has something too much before its last character."""
    spoilt = case(form, name, [calls(*made)])
    tag = form.value_end or ""
    if form.family == "minimax_m3":
        tag = f"{tag}</{next(key for key, given in made[0].arguments.items() if value in str(given))}>"
    begin = spoilt["text"].index(tag, spoilt["text"].index(value))
    other = tag[:-1] + wrong + tag[-1:] if wrong else ""
    rest = spoilt["text"][begin + len(tag) :]
    if not wrong and spoilt["text"][begin - 1] == "\n":
        rest = rest.removeprefix("\n")
    spoilt["text"] = spoilt["text"][:begin] + other + rest
    found = [piece["call"] for piece in spoilt["expect"] if "call" in piece]
    # A call behind a value that has no end of its own may be a part of that value, so it is told as repaired too.
    for each in found if len(made[0].arguments) == 1 and not wrong else found[:1]:
        each["repaired"] = True
    return spoilt


HEADER_MARKERS = (
    "<|tool_call_argument_begin|>",
    "<｜tool▁sep｜>",
    "[ARGS]",
    "<arg_key>",
    "<longcat_arg_key>",
    "<ifm|arg_key>",
    "<tool_sep>",
    "<|constrain|>",
    "<|message|>",
    "<|content_invoke_tool_json|>",
    "<|plamo:end_tool_name:plamo|>",
    "<|plamo:begin_tool_arguments:plamo|>",
)


def spaced_cases(form: Format) -> Iterator[dict[str, Any]]:
    """White space before the markers of a call's header belongs to the header."""
    whole = form.render([calls(PARIS)])
    found = [marked for marked in HEADER_MARKERS if marked in whole]
    if not found:
        return
    for name, space in (("newlines", "\n"), ("tabs", "\t"), ("carriage returns", "\r\n"), ("blanks", "  ")):
        spaced = case(form, f"{name} before the header's markers", [calls(PARIS)])
        for marked in found:
            spaced["text"] = spaced["text"].replace(marked, space + marked)
        yield spaced


SCENARIOS: tuple[Callable[[Format], Iterator[dict[str, Any]]], ...] = (
    plain_cases,
    value_cases,
    thinking_cases,
    edge_cases,
    careless_cases,
    spaced_cases,
)
