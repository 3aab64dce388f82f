"""A prompt that continues the last assistant message ends where the template ends its text: nothing less, nothing more."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smg_simulator
from smg_core.errors import TemplateFailed
from smg_core.request import Message, Text
from smg_core.tokenizer.base import SpecialTokens
from smg_core.tokenizer.chat_template import ChatTemplate

TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n\n{{ TEXT }}FOOT{% endfor %}"
PARTS = TURNS.replace("{{ TEXT }}", "{% for part in m.content %}{{ part.text | trim }}{% endfor %}")
OWN = {
    "as it is": TURNS.replace("TEXT", "m.content"),
    "trimmed": TURNS.replace("TEXT", "m.content | trim"),
    "trimmed before a space": TURNS.replace("TEXT", "' ' + m.content.strip() + ' '"),
    "trimmed before a line": TURNS.replace("TEXT", "m.content.strip() + '\n'"),
    "trimmed behind": TURNS.replace("TEXT", "m.content.rstrip()"),
    "spaces trimmed": TURNS.replace("TEXT", "m.content.rstrip(' ')"),
    "lines trimmed before it": TURNS.replace("TEXT", "m.content.lstrip('\n')"),
    "after its thoughts": TURNS.replace("TEXT", "m.content.split('</think>')[-1] | trim"),
    "parts": PARTS,
}
FILES = [
    *sorted((Path(__file__).parent / "templates").glob("*.jinja")),
    Path(smg_simulator.__file__).parent / "model" / "chat_template.jinja",
]
SOURCES = {file.stem: file.read_text() for file in FILES} | {
    name: source.replace("FOOT", "<|im_end|>\n") for name, source in OWN.items()
}
SPECIAL = SpecialTokens(bos="<s>", eos="</s>", control=frozenset({"<s>", "</s>", "<|im_start|>", "<|im_end|>"}))
TEMPLATES = {name: ChatTemplate(source, special=SPECIAL) for name, source in SOURCES.items()}
TEXTS = (
    "",
    " ",
    "\n",
    "\n\n",
    "I am",
    "I am ",
    " I am\n\n",
    "\n I am \n ",
    "a <b> \n",
    "<|im_end|>\n",
    "é\u2003",
    "x\t",
)
END = "An end."


def rendered(name: str, text: str, *, continued: bool) -> str:
    messages = [Message("user", (Text("Hi"),), content_is_text=True)]
    messages.append(Message("assistant", (Text(text),), content_is_text=True))
    return TEMPLATES[name].render(messages, add_generation_prompt=False, continue_final_message=continued).text


def footer(name: str) -> str:
    """What the template writes behind the last message's text."""
    return rendered(name, END, continued=False).rpartition(END)[2]


@pytest.mark.full
@pytest.mark.sampled(per=("name",), keep=4)
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("text", TEXTS)
def test_the_prompt_and_what_the_template_writes_behind_a_text_are_the_whole_conversation(name: str, text: str) -> None:
    assert rendered(name, text, continued=True) + footer(name) == rendered(name, text, continued=False)


@given(name=st.sampled_from(sorted(OWN)), text=st.text(alphabet="a <\n\té\u2003|", max_size=12))
def test_whatever_the_text_is(name: str, text: str) -> None:
    assert rendered(name, text, continued=True) + footer(name) == rendered(name, text, continued=False)


def test_what_the_template_writes_before_an_answer_behind_thoughts_is_kept() -> None:
    text = "<think>\nhm\n</think>\n\n"
    assert rendered("qwen3", text, continued=True).endswith("assistant\n<think>\nhm\n</think>\n\n")


def test_a_text_that_the_template_changes_is_refused() -> None:
    with pytest.raises(TemplateFailed, match="final message"):
        rendered("after its thoughts", "thoughts</think>answer", continued=True)
