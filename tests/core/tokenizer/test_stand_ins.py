"""No control token begins with a character that a client wrote, whatever the template does to the text."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import smg_simulator
from smg_core.apis.chat import types as chat_types
from smg_core.apis.messages import types as messages_types
from smg_core.errors import TemplateFailed
from smg_core.request import (
    FunctionTool,
    Message,
    Reasoning,
    ReasoningSettings,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
)
from smg_core.tokenizer.base import Prompt, SpecialTokens
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer

ROOT = Path(__file__).parents[3]
FILES = [
    *sorted((Path(__file__).parent / "templates").glob("*.jinja")),
    Path(smg_simulator.__file__).parent / "model" / "chat_template.jinja",
    ROOT / "tests" / "engines" / "tinymodel" / "chat_template.jinja",
]
SWITCHED = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<SPECIAL_11>Assistant\n"
    "{% if '</think>' in m.content %}{{ m.content.split('</think>')[1].strip() }}{% else %}{{ m.content.strip() }}{% endif %}"
    "\n<SPECIAL_12>\n{% else %}<SPECIAL_10>{{ m.role }}\n"
    "{{ m.content.replace('/think', '').replace('/no_think', '').strip() }}\n{% endif %}{% endfor %}<SPECIAL_11>Assistant\n"
)
"""Switches thinking by words in a user's text, which it deletes, as Nemotron's templates do."""
PICTURED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n<image>\n{{ m.content | replace('<image>', '') | trim }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)
"""Puts the picture first, as LLaVA's templates do."""
JOINED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for word in m.content.split('##') %}{{ word | trim }}{% endfor %}"
    "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
SOURCES = {file.parent.name + "/" + file.stem: file.read_text() for file in FILES}
SOURCES |= {"switched": SWITCHED, "pictured": PICTURED, "joined": JOINED}
SPELLED = re.compile(r"<\|?/?[\w/]+\|?>|<[|｜][^<>]{1,40}[|｜]>|\[/?[A-Z_]{3,}\]|<\|\"\|>")
MARKERS = frozenset({"<think>", "</think>", "<tool_call>", "</tool_call>", "<tools>", "</tools>", "<image>"})
OTHERS = frozenset({"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<SPECIAL_10>", "<SPECIAL_11>", "[INST]"})


def special_of(source: str) -> SpecialTokens:
    """The control tokens that a template writes and some more, and the markers."""
    written = frozenset(token for token in SPELLED.findall(source) if token not in MARKERS and token.count("<") < 2)
    return SpecialTokens(bos="<s>", eos="</s>", control=written | OTHERS, markers=MARKERS)


TEMPLATES = {name: ChatTemplate(source, special=special_of(source)) for name, source in SOURCES.items()}


def control_in(prompt: Prompt, special: SpecialTokens) -> list[str]:
    """The control tokens that a tokenizer finds in the prompt."""
    tokens = sorted(special.control, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, tokens)))
    return [token for piece in prompt.pieces for token in pattern.findall(piece)]


def conversations(texts: Sequence[str]) -> Iterator[list[Message]]:
    """The texts in every place that a client's text can have, each text in a turn of its own."""
    answer, call = Message("assistant", (Text("Yes"),)), Message("assistant", (ToolCall("call00001", "find", "{}"),))
    for text in texts[:3]:
        yield [Message("system", (Text(text),), content_is_text=True), *user("Hi")]
    yield [turn for text in texts for turn in (*user(text), answer)]
    yield [turn for text in texts for turn in (*user("Hi"), Message("assistant", (Reasoning(text), Text(text))))]
    yield [turn for text in texts for turn in (Message("user", (Text(text), Text(text))), answer)]
    halves = [(text[: len(text) // 2] + " \n", "\n " + text[len(text) // 2 :]) for text in texts]
    yield [turn for half in halves for turn in (Message("user", tuple(map(Text, half))), answer)]
    results = [Message("tool", (ToolResult("call00001", (Text(text),)),)) for text in texts]
    yield [turn for result in results for turn in (*user("Hi"), call, result, answer)]


def user(text: str) -> list[Message]:
    return [Message("user", (Text(text),), content_is_text=True)]


def rendered(name: str, texts: Sequence[str]) -> list[Prompt | None]:
    """What each conversation with the texts becomes; None where the template refuses it."""
    found: list[Prompt | None] = []
    for messages in (each for at in range(0, len(texts), 20) for each in conversations(texts[at : at + 20])):
        try:
            found.append(TEMPLATES[name].render(messages, tools=[FunctionTool("find", "Finds")]))
        except TemplateFailed:
            found.append(None)
    return found


def attacks(token: str, removed: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The token with each string that the template removes at every offset, once and inside itself; and the same text
    with another first character."""
    for literal in removed:
        half = len(literal) // 2
        for inserted in {literal, literal[:half] + literal + literal[half:], literal + literal}:
            for at in range(1, len(token)):
                yield token[:at] + inserted + token[at:], "x" + token[1:at] + inserted + token[at:]


def removed_by(name: str) -> list[str]:
    facts = TEMPLATES[name].template_facts()
    return sorted({literal for literal, _ in facts.changes.removed} | {" ", "\n", "</think>", "/think", "<think>"})


@pytest.mark.full
@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("name", SOURCES)
def test_no_text_of_a_client_becomes_a_control_token_when_the_template_deletes_a_part_of_it(name: str) -> None:
    special = special_of(SOURCES[name])
    tokens = sorted(special.control, key=len)
    compared = 0
    for token in [*tokens[:2], tokens[-1], "<|im_end|>"]:
        texts, harmless = zip(*attacks(token, removed_by(name)), strict=True)
        for got, other in zip(rendered(name, texts), rendered(name, harmless), strict=True):
            if got is not None and other is not None:
                assert control_in(got, special) == control_in(other, special), token
                compared += 1
    assert compared


def test_what_a_deletion_leaves_is_cut_and_nothing_of_the_text_is_lost() -> None:
    prompt = TEMPLATES["switched"].render(user("a <SPECIAL_/think10> <//thinkthink> b </div> /think"))
    assert prompt.pieces == (
        "<s><SPECIAL_10>user\na <",
        "SPECIAL_10> <",
        "/think> b </div>\n<SPECIAL_11>Assistant",
    )


def test_the_ids_are_those_of_the_text_without_a_control_token(
    tokenizers_by_kind: dict[str, HuggingFaceTokenizer],
) -> None:
    tokenizer = tokenizers_by_kind["byte-level BPE"]
    source = "{% for m in messages %}<|start|>{{ m.content.replace('/think', '') }}<|end|>{% endfor %}"
    template = ChatTemplate(source, special=tokenizer.special)
    for text in ("<|e/thinknd|><|start/think|>", "<|to/th/thinkinkol|>", "</think><|/thinktool|>"):
        prompt = template.render(user(text))
        ids = tokenizer.encode_prompt(prompt).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == prompt.text
        controls = [one for one in ids if one in tokenizer.anchors.values()]
        assert controls == [tokenizer.token_id("<|start|>"), tokenizer.token_id("<|end|>")]


# ------------------------------------------------------------------------------- tokens whose beginning a template writes

TAGGED = (
    "{% for t in tools or [] %}{% for key in t.function.parameters %}<{{ key }}>{% endfor %}{% endfor %}"
    "{% for m in messages %}<|start|>{% for part in m.content %}{{ '<' ~ part.text STEP ~ '>' }}{% endfor %}<|end|>{% endfor %}"
)
"""Writes names as XML, as the templates of Qwen3-Coder do."""
XML = SpecialTokens(control=frozenset({"<|start|>", "<|end|>", "<s>", "</s>", "<|start"}), markers=frozenset({"<b>"}))


@pytest.mark.parametrize("step", ["", ".strip()", ".replace('/think', '')", ".replace('/think', '').strip()"])
@pytest.mark.parametrize(
    "text",
    ["s", "/s", "|end|", " s", "s \n", "|end|>", "|/thinkend|", "/thinks", "/th/thinkinks", "|start", "|start|>x"],
)
def test_no_text_completes_a_control_token_that_the_template_begins(step: str, text: str) -> None:
    template = ChatTemplate(TAGGED.replace(" STEP", step), special=XML)
    tool = FunctionTool("f", None, {text: 1})
    prompt = template.render(user(text), tools=[tool])
    pattern = re.compile("|".join(map(re.escape, sorted(XML.control, key=len, reverse=True))))
    assert [token for piece in prompt.pieces for token in pattern.findall(piece)] == ["<|start|>", "<|end|>"]
    if not step:
        assert prompt.text == f"<{text}><|start|><{text}><|end|>"


def test_two_texts_do_not_complete_one_together() -> None:
    prompt = ChatTemplate(TAGGED.replace("~ '>'", "").replace(" STEP", ""), special=XML).render(
        [Message("user", (Text("|e"), Text("nd|>")))]
    )
    assert prompt.pieces == ("<|start|><|e<nd|><|end|>",)
    joined = "{{ '<' ~ messages[0].content[0].text ~ messages[0].content[1].text }}{% for p in messages[0].content %}{% endfor %}"
    prompt = ChatTemplate(joined, special=XML).render([Message("user", (Text("|e"), Text("nd|>")))])
    assert prompt.pieces == ("<", "|end|>")


def test_a_gap_that_no_token_reaches_across_is_no_cut() -> None:
    template = ChatTemplate(TAGGED.replace(" STEP", ""), special=XML)
    for text in ("sum", "|endless", "|", "st", "x"):
        assert template.render(user(text)).pieces == (f"<|start|><{text}><|end|>",)


# ------------------------------------------------------------------------------------------------------ any template

SPECIAL = SpecialTokens(
    control=frozenset({"<|start|>", "<|end|>", "<|END|>", "[X]", "<s>"}), markers=frozenset({"</think>", "<b>"})
)
PARTS = (
    "<|start|>",
    "<|end|>",
    "<|end",
    "|>",
    "<",
    "|",
    "end",
    "[",
    "X",
    "]",
    "s",
    ">",
    "</think>",
    "/think",
    "<q>",
    " ",
    "\n",
)
TEXTS = st.lists(st.sampled_from((*PARTS, "a", "é", "\ufdd0", "\ufdd1")), max_size=9).map("".join)
LITERALS = st.sampled_from((*PARTS, "/", "th", "nk>", "/think>", "k>|", "q>")).map(repr)
PUT = st.sampled_from(("", "e", "|", "|>", "nd", "x")).map(repr)
KNOWN_STEPS = st.one_of(
    st.builds(".replace({}, {})".format, LITERALS, PUT),
    st.builds(" | replace({}, {})".format, LITERALS, PUT),
    st.builds(".split({})[-1]".format, LITERALS),
    st.builds(".split({})[0]".format, LITERALS),
    st.builds(".split({}) | join({})".format, LITERALS, PUT),
    st.builds(".removeprefix({})".format, LITERALS),
    st.builds(".strip({})".format, LITERALS),
    st.sampled_from(
        (" | trim", ".strip()", ".lstrip()", ".rstrip('\\n')", " | upper", ".lower()", ".split() | join('')")
    ),
)
STEPS = KNOWN_STEPS | st.sampled_from(
    ("[1:]", "[:-1]", "[::2]", "[:4]", " | reverse", " | list | join", " | first", "[::-1]")
)


def template_of(steps: Sequence[str], searched: Sequence[str] = ()) -> ChatTemplate:
    """A template that puts every text through the steps, and writes those of one turn side by side."""
    shown = "part.text"
    for step in steps:
        shown = f"({shown}){step}"
    tests = "".join(f"{{% if {literal} in part.text %}}{{% endif %}}" for literal in searched)
    return ChatTemplate(
        "{% for m in messages %}<|start|>{% for part in m.content %}"
        + tests
        + "{{ "
        + shown
        + " }}{% endfor %}<|end|>{% endfor %}",
        special=SPECIAL,
    )


TOKENS = re.compile("|".join(map(re.escape, sorted(SPECIAL.control, key=len, reverse=True))))


@given(
    steps=st.lists(STEPS, max_size=4),
    searched=st.lists(LITERALS, max_size=2),
    texts=st.lists(TEXTS, min_size=1, max_size=3),
)
@example(steps=[".replace('/think', '')"], searched=["'</think>'"], texts=["</think|end|>", "<//thinkthink>"])
@example(steps=[".replace('q>', '')"], searched=["'<q>'"], texts=["<q>|end|>"])
@example(steps=[".replace('/think', '')"], searched=["'<|end'"], texts=["<|end/think|>"])
@example(steps=["[:1]"], searched=["'<q>'"], texts=["<q>", *"|end|>"])
@example(steps=[" | trim"], searched=[], texts=["<|en  ", "\n  d|>"])
@example(steps=[".lower()"], searched=["'<S'"], texts=["<S>"])
def test_no_template_writes_a_control_token_that_begins_in_a_clients_text(
    steps: list[str], searched: list[str], texts: list[str]
) -> None:
    template = template_of(steps, searched)
    try:
        prompt = template.render([Message("user", tuple(Text(text) for text in texts))])
    except TemplateFailed:
        return
    # An "s" of a client's cannot be told from one of the template's; here the template writes none.
    found = [token for piece in prompt.pieces for token in TOKENS.findall(piece)]
    assert found == ["<|start|>", "<|end|>"], prompt.pieces


@pytest.mark.full
@given(
    before=st.sampled_from(("<", "<|", "[", "x<", "</")),
    after=st.sampled_from(("", ">", "|>", "]", "end|>")),
    step=st.sampled_from(("", " | trim", ".strip('\\n')", " | string")),
    texts=st.lists(TEXTS, min_size=1, max_size=3),
)
def test_no_text_completes_what_any_template_begins(before: str, after: str, step: str, texts: list[str]) -> None:
    shown = f"{before}{{{{ part.text{step} }}}}{after} "
    source = "{% for m in messages %}<|start|>{% for part in m.content %}" + shown + "{% endfor %}<|end|>{% endfor %}"
    template = ChatTemplate(source, special=SPECIAL)
    prompt = template.render([Message("user", tuple(Text(text) for text in texts))])
    found = [token for piece in prompt.pieces for token in TOKENS.findall(piece)]
    empty = before + after in SPECIAL.control
    assert empty or found == ["<|start|>", "<|end|>"], prompt.pieces


ORDINARY = ("<q>", "</q>", "<div>", " < ", "a[0]", "q", "/think", "x", "é", " ", "\n")
NAMED = st.sampled_from(("<q>", "</q>", "/think", "x", "x<q>", "é")).map(repr)
HARMLESS_STEPS = st.one_of(
    # What is put in makes nothing, with the text beside it, that another step looks for: there a stand-in would stay in between.
    st.builds(".replace({}, {})".format, NAMED, st.sampled_from(("e", "|", "nd")).map(repr)),
    st.builds(".split({})[-1]".format, NAMED),
    st.builds(".removesuffix({})".format, NAMED),
    st.builds(".partition({}) | join(',')".format, NAMED),
    st.sampled_from((" | trim", ".strip('\\n')", " | upper", " | tojson", " | string")),
)


@pytest.mark.full
@given(
    steps=st.lists(HARMLESS_STEPS, max_size=4),
    searched=st.lists(NAMED, max_size=2),
    texts=st.lists(st.lists(st.sampled_from(ORDINARY), max_size=9).map("".join), min_size=1, max_size=3),
)
def test_ordinary_text_is_rendered_as_if_nothing_were_protected(
    steps: list[str], searched: list[str], texts: list[str]
) -> None:
    template = template_of(steps, searched)
    messages = [Message("user", tuple(Text(text) for text in texts))]
    assert template.render(messages) == template.render(messages, protect_control=False)


@pytest.mark.parametrize("name", SOURCES)
def test_a_family_renders_ordinary_text_as_if_nothing_were_protected(name: str) -> None:
    thought = "<think>\nhm\n</think>\n\n a < b[0] "
    told = [*user("Hi"), Message("assistant", (Text(thought),), content_is_text=True)]
    ordinary = [each for text in ("<div></div>\n", " a < b[0] /think", "<q></q>") for each in conversations([text])]
    for messages in [told, told + user("And?"), *ordinary]:
        try:
            plain = TEMPLATES[name].render(messages, protect_control=False)
        except TemplateFailed:
            continue
        assert TEMPLATES[name].render(messages) == plain


# -------------------------------------------------------------------------------------------- what no client has written

WORDS = (
    *("role", "content", "type", "text", "image", "function", "id", "name", "arguments", "tool_calls", "tool_call_id"),
    *("description", "parameters", "properties", "required", "reasoning_content", "thinking", "tool", "assistant"),
)
"""The words by which templates find what clients wrote."""
OPENED = "{% if false %}{{ '<' }}{{ '[' }}{{ '</' }}{% endif %}"
"""Makes every text that a control token ends with one that could complete it."""
FIND = {"type": "object", "properties": {"zone": {"type": "string", "description": "Z"}}, "required": ["zone"]}


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("name", SOURCES)
def test_words_that_no_client_has_written_are_found_whatever_the_control_tokens_are(name: str) -> None:
    tokens = frozenset(f"{before}{word}{after}" for word in WORDS for before, after in ("<>", "[]", ("</", "_x>")))
    special = special_of(SOURCES[name])
    template = ChatTemplate(
        OPENED + SOURCES[name],
        special=SpecialTokens(bos="<s>", eos="</s>", control=special.control | tokens, markers=special.markers),
    )
    call = Message(
        "assistant", (Reasoning("Hm"), Text("So"), ToolCall("call00001", "find", '{"zone": "b", "area": "c"}'))
    )
    result = Message("tool", (ToolResult("call00001", (Text("Found"),)),))
    two = Message("user", (Text("Hi"), Text("you")))
    tools = [FunctionTool("find", "Finds", FIND), FunctionTool("seek", None)]
    compared = 0
    for messages in (user("Hi"), [two], [*user("Hi"), call, result], [*user("Hi"), call, result, *user("And?")]):
        for offered in ((), tools):
            try:
                plain = template.render(messages, tools=offered, protect_control=False)
            except TemplateFailed:
                continue
            assert template.render(messages, tools=offered).text == plain.text
            compared += 1
    assert compared


@pytest.mark.parametrize("token", ["<function_calls>", "<function>", "<name>", "<type>", "<x>"])
def test_a_tool_is_written_whatever_the_control_tokens_begin_with(token: str) -> None:
    source = (
        "{% for t in tools or [] %}{% if t.type == 'function' and t.function.parameters.get('type') and "
        "'properties' in t.function.parameters %}{{ '<tool>' ~ t.function.name }}"
        "{% for key in t.function.parameters.properties %}{{ '<' ~ key ~ '>' }}"
        "{{ t.function.parameters.properties[key].type }}{% endfor %}{% endif %}{% endfor %}"
    )
    template = ChatTemplate(source, special=SpecialTokens(control=frozenset({token, "</s>"})))
    prompt = template.render(user("Hi"), tools=[FunctionTool("find", "Finds", FIND)])
    assert prompt.pieces == ("<tool>find<zone>string",)


CHOSEN = (
    "{{ '<' if false }}{% if tool_choice is mapping %}{{ tool_choice.type == 'function' }}{{ '<' ~ tool_choice.function.name }}"
    "{% elif tool_choice in ('auto', 'none', 'required') %}{{ tool_choice }}{% endif %}{{ reasoning_effort in EFFORTS }}"
)
"""Looks for the words of the settings."""
CHOICES = [ToolChoice(mode) for mode in ("auto", "none", "required")] + [ToolChoice("required", (ToolKey("find"),))]
EFFORTS = sorted({*get_args(chat_types.Effort), *get_args(messages_types.Effort)})
OF_WORDS = frozenset(f"<{word}>" for word in (*EFFORTS, "auto", "none", "required", "type", "function", "name"))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda each: each.mode + "".join(key.name for key in each.names))
@pytest.mark.parametrize("effort", EFFORTS)
def test_words_of_the_settings_are_found_whatever_the_control_tokens_are(choice: ToolChoice, effort: str) -> None:
    template = ChatTemplate(CHOSEN.replace("EFFORTS", repr(EFFORTS)), special=SpecialTokens(control=OF_WORDS))
    told = [
        template.render(
            user("Hi"), tool_choice=choice, reasoning=ReasoningSettings(effort=effort), protect_control=each
        )
        for each in (True, False)
    ]
    assert told[0].text == told[1].text


@pytest.mark.parametrize(
    "arguments",
    [
        {"tool_choice": "<s>"},
        {"tool_choice": {"type": "<s>", "function": {"name": "find"}}},
        {"tool_choice": {"type": "function", "function": {"name": "<s>"}}},
        {"tool_choice": {"type": "function", "function": {"name": "find", "type": "<s>"}}},
        {"tool_choice": {"type": "function", "function": {"name": "find"}, "<s>": 1}},
        {"reasoning_effort": "<s>"},
    ],
)
def test_what_a_client_puts_in_place_of_a_setting_is_protected(arguments: dict[str, object]) -> None:
    template = ChatTemplate(
        "{{ tool_choice }}{{ reasoning_effort }}", special=SpecialTokens(control=frozenset({"<s>"}))
    )
    prompt = template.render(user("Hi"), arguments=arguments)
    assert "<s>" in prompt.text
    assert not any("<s>" in piece for piece in prompt.pieces)


NAMES = st.dictionaries(
    st.lists(st.sampled_from(("<", "[", "a", "B", "b", "é", "~", "s", "_")), min_size=1, max_size=3).map("".join),
    st.integers(0, 9),
    max_size=5,
)


@given(NAMES, st.sampled_from(("", "true", "by='value'")), st.sampled_from(("", " | trim")))
@example({"<b": 1, "a": 2, "[c": 3, "Z": 4}, "", " | trim")
def test_names_are_sorted_as_clients_wrote_them(names: dict[str, int], order: str, step: str) -> None:
    source = (
        "{% for m in messages %}{% for call in m.tool_calls or [] %}{% for key, value in call.function.arguments"
        f" | dictsort({order}) %}}{{{{ '<' ~ key{step} }}}} {{{{ value }}}};{{% endfor %}}{{% endfor %}}{{% endfor %}}"
    )
    template = ChatTemplate(source, special=XML)
    messages = [*user("Hi"), Message("assistant", (ToolCall("call00001", "find", json.dumps(names)),))]
    assert template.render(messages).text == template.render(messages, protect_control=False).text


SORTED = (
    "{% for key in tools[0].function.parameters.required | sort %}",
    "{% for key in tools[0].function.parameters.required | sort(reverse=true, case_sensitive=true) %}",
    "{% for tool in tools | sort(attribute='function.name') %}{% set key = tool.function.name %}",
    "{% for key in tools | map(attribute='function.name') | sort %}",
    "{% for key in tools | map(attribute='function.description') | sort %}",
    "{% for key, value in tools[0].function.parameters.properties.copy() | dictsort %}",
    "{% for key, value in tools[0].function.parameters.properties | dictsort(by='value') %}",
    "{% for text in messages | map(attribute='content') | sort %}{% set key = text %}",
)


@given(NAMES, st.sampled_from(SORTED))
@example({"<b": 1, "a": 2, "[c": 3, "Z": 4}, SORTED[0])
def test_texts_are_sorted_as_clients_wrote_them_wherever_they_stand(names: dict[str, int], loop: str) -> None:
    template = ChatTemplate(loop + "{{ '<' ~ key ~ '>' }};{% endfor %}", special=XML)
    schema = {"type": "object", "properties": {name: name[::-1] for name in names}, "required": [*names]}
    tools = [FunctionTool(name, name[::-1], schema) for name in ("x", *names)]
    messages = [each for name in ("x", *names) for each in user(name)]
    told = [template.render(messages, tools=tools, protect_control=each).text for each in (True, False)]
    assert told[0] == told[1]


@given(NAMES)
def test_a_copy_of_an_object_is_asked_for_names_as_the_object_is(names: dict[str, int]) -> None:
    source = (
        "{% set found = tools[0].function.parameters.properties.copy() %}"
        f"{{% for name in {[*names]} %}}{{{{ name in found }}}}{{{{ found[name] }}}}{{{{ found.get(name) }}}}{{% endfor %}}"
    )
    template = ChatTemplate(source, special=XML)
    tools = [FunctionTool("find", None, {"type": "object", "properties": names})]
    told = [template.render(user("Hi"), tools=tools, protect_control=each).text for each in (True, False)]
    assert told[0] == told[1]
