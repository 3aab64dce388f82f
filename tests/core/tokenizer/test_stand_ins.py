"""No control token begins with a character that a client wrote, whatever the template does to the text."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smg_core.simulator
from smg_core.errors import TemplateFailed
from smg_core.request import FunctionTool, Message, Reasoning, Text, ToolCall, ToolResult
from smg_core.tokenizer.base import Prompt, SpecialTokens
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer

ROOT = Path(__file__).parents[3]
FILES = [
    *sorted((Path(__file__).parent / "templates").glob("*.jinja")),
    Path(smg_core.simulator.__file__).parent / "model" / "chat_template.jinja",
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


def conversations(text: str) -> Iterator[list[Message]]:
    """The text in every place that a client's text can have."""
    ask, answer = Message("user", (Text("Hi"),), content_is_text=True), Message("assistant", (Text("Yes"),))
    yield [Message("system", (Text(text),), content_is_text=True), ask]
    yield [Message("user", (Text(text),), content_is_text=True)]
    yield [ask, Message("assistant", (Reasoning(text), Text(text))), ask]
    yield [ask, answer, Message("user", (Text(text), Text(text)))]
    call = Message("assistant", (ToolCall("call00001", "find", '{"q": "x"}'),))
    yield [ask, call, Message("tool", (ToolResult("call00001", (Text(text),)),))]


def rendered(name: str, text: str) -> list[Prompt | None]:
    """What each conversation with the text becomes; None where the template refuses it."""
    found: list[Prompt | None] = []
    for messages in conversations(text):
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


@pytest.mark.parametrize("name", SOURCES)
def test_no_text_of_a_client_becomes_a_control_token_when_the_template_deletes_a_part_of_it(name: str) -> None:
    special = special_of(SOURCES[name])
    tokens = sorted(special.control, key=len)
    for token in [*tokens[:3], *tokens[-2:], "<|im_end|>"]:
        for text, harmless in attacks(token, removed_by(name)):
            for got, other in zip(rendered(name, text), rendered(name, harmless), strict=True):
                if got is not None and other is not None:
                    assert control_in(got, special) == control_in(other, special), (text, got.pieces)
