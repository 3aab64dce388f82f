"""Chat templates: shapes of messages, settings, faults, and control tokens that users spell out."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest, TemplateFailed, UnsupportedParameter
from smg_core.request import (
    Audio,
    CustomTool,
    File,
    FunctionTool,
    HostedTool,
    Image,
    MediaSource,
    Message,
    Opaque,
    Part,
    Reasoning,
    ReasoningSettings,
    Refusal,
    Text,
    ToolCall,
    ToolChoice,
    ToolKey,
    ToolResult,
    Video,
)
from smg_core.tokenizer.base import Prompt, SpecialTokens
from smg_core.tokenizer.chat_template import ChatTemplate, InvalidTemplate
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer

TEMPLATES = Path(__file__).parent / "templates"
CONTROL = frozenset({"<|start|>", "<|end|>", "<|tool|>"})
SPECIAL = SpecialTokens(
    bos="<|start|>", eos="<|end|>", control=CONTROL, markers=frozenset({"<think>", "</think>", "<b>"})
)
CHAT = (
    "{% for message in messages %}<|start|>{{ message.role }}{{ ' ' + message.name if message.name else '' }}\n"
    "{{ message.content }}{% for call in message.tool_calls or [] %}<think>{{ call.function.name }}"
    "{{ call.function.arguments | tojson }}{% endfor %}<|end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}{% if documents %}{{ documents | tojson }}{% endif %}{{ note }}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
PARTS = (
    "{% for message in messages %}[{{ message.role }}]{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}({{ part.type }}){% endif %}{% endfor %}{% endfor %}"
)
DUMP = "{{ messages | tojson }}"
MEDIUM = MediaSource(data=b"x", media_type="image/png")


class Noon:
    """A clock that stands at noon of 1 May 2026, local time."""

    def monotonic(self) -> float:
        return 0.0

    def time(self) -> float:
        return time.mktime((2026, 5, 1, 12, 0, 0, 0, 0, -1))


def user(text: str, **fields: Any) -> Message:
    return Message("user", (Text(text),), content_is_text=True, **fields)


def dumped(*messages: Message, source: str = DUMP, **options: Any) -> list[dict[str, Any]]:
    """The objects a template sees."""
    shown: list[dict[str, Any]] = json.loads(ChatTemplate(source).render(messages, **options).text)
    return shown


# -------------------------------------------------------------------------------------------------------------- messages


def test_a_tool_call_has_its_arguments_as_an_object_and_its_result_has_the_name() -> None:
    shown = dumped(
        Message("assistant", (Text("Looking."), ToolCall("c1", "find", '{"q": "é", "n": [1, null]}'))),
        Message("tool", (ToolResult("c1", (Text("found"),)),)),
    )
    assert shown[0]["tool_calls"] == [
        {"type": "function", "id": "c1", "function": {"name": "find", "arguments": {"q": "é", "n": [1, None]}}}
    ]
    assert shown[1] == {"role": "tool", "content": "found", "tool_call_id": "c1", "name": "find"}


NO_OBJECTS = [
    ("", {}),
    (" \n", {}),
    ("null", {}),
    ("[1]", {"INVALID_JSON": "[1]"}),
    ("7", {"INVALID_JSON": "7"}),
    ("true", {"INVALID_JSON": "true"}),
    ('"Paris"', {"INVALID_JSON": '"Paris"'}),
    ('"{\\"city\\": \\"Paris\\"}"', {"city": "Paris"}),
    ('"{\\"city"', {"INVALID_JSON": '"{\\"city"'}),
    ('{"city": "Par', {"INVALID_JSON": '{"city": "Par'}),
    ("\ud800", {"INVALID_JSON": "\ud800"}),
    ("[" * 5000, {"INVALID_JSON": "[" * 5000}),
]


@pytest.mark.parametrize(("arguments", "seen"), NO_OBJECTS)
def test_arguments_that_are_no_object_reach_a_template_as_one(arguments: str, seen: Any) -> None:
    turn = Message("assistant", (ToolCall("c", "f", arguments),))
    shown = dumped(turn, source="{{ messages | tojson(ensure_ascii=true) }}")
    assert shown[0]["tool_calls"][0]["function"]["arguments"] == seen
    walks = "{% for c in messages[0].tool_calls %}{% for k, v in c.function.arguments.items() %}{{ k }}{% endfor %}{% endfor %}"
    assert ChatTemplate(walks).render([turn]).text == "".join(seen)
    joins = "{% for c in messages[0].tool_calls %}{{ '' + c.function.arguments }}{% endfor %}"
    assert json.loads(ChatTemplate(joins).render([turn]).text) == seen


@pytest.mark.sampled(keep=66)
@pytest.mark.parametrize("template", sorted(path.name for path in TEMPLATES.glob("*.jinja")))
@pytest.mark.parametrize("arguments", ["null", "[1]", "7", '"Paris"', "", '{"city": "Par'])
def test_every_template_renders_a_conversation_with_such_a_call(template: str, arguments: str) -> None:
    made = ChatTemplate((TEMPLATES / template).read_text(encoding="utf-8"))
    turns = [
        user("Weather?"),
        Message("assistant", (ToolCall("abcdefghi", "f", arguments),)),
        Message("tool", (ToolResult("abcdefghi", (Text("sunny"),)),)),
        user("So?"),
    ]
    right = [turns[0], Message("assistant", (ToolCall("abcdefghi", "f", '{"city": "Paris"}'),)), *turns[2:]]

    def rendered(conversation: list[Message]) -> str | None:
        try:
            return made.render(conversation).text
        except (InvalidRequest, TemplateFailed, UnsupportedParameter):
            return None

    assert (rendered(turns) is None) == (rendered(right) is None)


def test_a_template_that_joins_arguments_to_text_gets_them_as_text() -> None:
    source = "{% for c in messages[0].tool_calls %}{{ '<' + c.function.arguments + '>' }}{% endfor %}"
    prompt = ChatTemplate(source).render([Message("assistant", (ToolCall("c", "f", '{"a":1}'),))])
    assert prompt.text == '<{"a":1}>'


def test_a_custom_tools_free_text_becomes_its_one_argument() -> None:
    tool = CustomTool("shell", "Runs it")
    message = Message("assistant", (ToolCall("c", "shell", "ls -l", custom=True),))
    assert dumped(message, tools=[tool])[0]["tool_calls"][0]["function"]["arguments"] == {"input": "ls -l"}
    text = ChatTemplate("{{ tools | tojson }}").render([message], tools=[tool]).text
    assert json.loads(text)[0]["function"]["parameters"]["required"] == ["input"]


def test_tool_results_beside_text_become_turns_of_their_own_before_it() -> None:
    shown = dumped(
        Message("assistant", (ToolCall("c1", "a", "{}"), ToolCall("c2", "b", "{}"))),
        Message("user", (ToolResult("c1", (Text("1"),)), ToolResult("c2", (Text("2"), Text("3"))), Text("Go on."))),
    )
    assert [turn["role"] for turn in shown] == ["assistant", "tool", "tool", "user"]
    assert [turn["content"] for turn in shown[1:]] == ["1", "2\n3", "Go on."]
    assert [turn["name"] for turn in shown[1:3]] == ["a", "b"]


def test_reasoning_comes_back_under_the_names_templates_read() -> None:
    block = Opaque("thinking", b'{"type":"thinking","thinking":"signed","signature":"xyz"}')
    item = Opaque("reasoning", b'{"content":[{"type":"reasoning_text","text":"listed"}],"encrypted_content":"abc"}')
    sealed = Opaque("redacted_thinking", b'{"data":"abc"}')
    shown = dumped(Message("assistant", (Reasoning("plain"), block, item, sealed, Text("4"))))
    assert shown[0]["reasoning_content"] == shown[0]["thinking"] == "plain\nsigned\nlisted"
    assert shown[0]["content"] == "4"


def test_blocks_that_are_no_json_say_nothing() -> None:
    assert dumped(Message("assistant", (Opaque("x", b"\xff"), Opaque("x", b"[1]"), Text("4"))))[0] == {
        "role": "assistant",
        "content": "4",
    }


def test_an_assistant_turn_of_calls_alone_has_none_only_where_the_template_asks_for_it() -> None:
    call = Message("assistant", (ToolCall("c", "f", "{}"),))
    asks = "{{ 'none' if messages[0].content is none else 'text' }}"
    guards = "{{ messages[0].content if messages[0].content is not none else 'none' }}|"
    assert ChatTemplate(asks).render([call]).text == "none"
    assert ChatTemplate(guards).render([call]).text == "|"


def test_text_parts_are_joined_where_content_is_a_string_and_kept_where_it_is_walked() -> None:
    message = Message("user", (Text("one"), Text("two"), Refusal("no")))
    assert dumped(message)[0]["content"] == "one\ntwo\nno"
    assert ChatTemplate(PARTS).render([message]).text == "[user]onetwono"


def test_media_stay_in_the_order_of_the_content() -> None:
    parts: tuple[Part, ...] = (Image(MEDIUM), Text("a"), Audio(MEDIUM), Text("b"), Video(MEDIUM))
    assert ChatTemplate(PARTS).render([Message("user", parts)]).text == "[user](image)a(audio)b(video)"
    named = ChatTemplate(DUMP, media={"image": "<image_{n}>\n", "audio": "<sound>", "video": "<video>"})
    shown = json.loads(named.render([Message("user", parts), Message("user", (Image(MEDIUM),))]).text)
    assert [turn["content"] for turn in shown] == ["<image_1>\na<sound>b<video>", "<image_2>\n"]


def test_media_a_template_has_no_place_for_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedParameter, match="image") as refused:
        ChatTemplate(DUMP).render([user("x"), Message("user", (Image(MEDIUM),))])
    assert refused.value.param == "messages[1].parts"
    with pytest.raises(UnsupportedParameter, match="file"):
        ChatTemplate(PARTS).render([Message("user", (File(MEDIUM),))])


def test_media_in_a_tool_result_stay_parts() -> None:
    result = Message("tool", (ToolResult("c", (Text("seen"), Image(MEDIUM))),))
    assert ChatTemplate(PARTS).render([result]).text == "[tool]seen(image)"


def test_a_plain_string_stays_one_where_the_template_asks_and_is_a_part_where_it_does_not() -> None:
    asks = PARTS.replace(
        "{% for part", "{% if message.content is string %}={{ message.content }}{% else %}{% for part", 1
    )
    asks = asks.replace("{% endfor %}{% endfor %}", "{% endfor %}{% endif %}{% endfor %}")
    assert ChatTemplate(asks).render([user("hi")]).text == "[user]=hi"
    assert ChatTemplate(PARTS).render([user("hi")]).text == "[user]hi"


def test_a_developer_turn_is_a_system_turn_unless_the_template_knows_developers() -> None:
    message = Message("developer", (Text("x"),), content_is_text=True)
    assert dumped(message)[0]["role"] == "system"
    assert dumped(message, source="{% if 'developer' %}{{ messages | tojson }}{% endif %}")[0]["role"] == "developer"


def test_a_hosted_tool_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedParameter, match="web_search") as refused:
        ChatTemplate(CHAT).render([user("x")], tools=[FunctionTool("f"), HostedTool("web_search")])
    assert refused.value.param == "tools[1]"


# -------------------------------------------------------------------------------------------------------------- settings


def test_settings_reach_the_variables_the_template_reads_and_arguments_win() -> None:
    source = "{{ enable_thinking }} {{ reasoning_effort }} {{ thinking_budget }} {{ tool_choice | tojson }} {{ mine }}"
    rendered = ChatTemplate(source).render(
        [user("x")],
        reasoning=ReasoningSettings(effort="high", enabled=True, budget_tokens=9),
        tool_choice=ToolChoice("required", (ToolKey("f"),)),
        arguments={"mine": 1, "reasoning_effort": "low"},
    )
    assert rendered.text == 'True low 9 {"type": "function", "function": {"name": "f"}} 1'
    off = ChatTemplate("{{ thinking }}{{ reasoning_effort }}").render(
        [user("x")], reasoning=ReasoningSettings(effort="none")
    )
    assert off.text == "False"


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "strftime_now", "chat_template"])
def test_arguments_may_not_take_the_place_of_the_request(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ChatTemplate(CHAT).render([user("x")], arguments={name: []})
    assert refused.value.param == f"template_arguments.{name}"


def test_the_date_comes_from_the_clock_that_is_handed_in() -> None:
    template = ChatTemplate("{{ strftime_now('%d %B %Y %H:%M') }}{{ strftime_now(format='%z') }}", clock=Noon())
    assert template.render([user("x")]).text == "01 May 2026 12:00"


def test_named_templates_are_chosen_by_tools_and_by_name() -> None:
    template = ChatTemplate({"default": "plain", "tool_use": "tools", "rag": "documents"})
    assert template.render([user("x")]).text == "plain"
    assert template.render([user("x")], tools=[FunctionTool("f")]).text == "tools"
    assert template.render([user("x")], template="rag").text == "documents"
    with pytest.raises(InvalidRequest, match=r"default, rag, tool_use"):
        template.render([user("x")], template="other")
    with pytest.raises(InvalidRequest, match="no default"):
        ChatTemplate({"a": "1", "b": "2"}).render([user("x")])
    assert ChatTemplate({"only": "one"}).render([user("x")]).text == "one"


def test_facts_tell_what_a_template_is_made_for() -> None:
    plain = ChatTemplate(CHAT).template_facts()
    assert (plain.content, plain.thinking_key) == ("string", None)
    assert {"tools", "documents"} <= plain.variables
    thinking = ChatTemplate(
        "{% if add_generation_prompt %}<|start|>assistant\n<think>\n"
        "{% if enable_thinking is false %}</think>{% endif %}{% endif %}"
    ).template_facts()
    assert thinking.thinking_key == "enable_thinking"
    assert ChatTemplate(PARTS).template_facts().content == "parts"
    macro = "{% macro show(x) %}{% for p in x %}{{ p.text }}{% endfor %}{% endmacro %}{{ show(messages[0].content) }}"
    assert ChatTemplate(macro).template_facts().content == "parts"
    renamed = "{% set c = messages[0]['content'] %}{% for p in c | reverse %}{{ p }}{% endfor %}"
    assert ChatTemplate(renamed).template_facts().content == "parts"
    assert ChatTemplate("{{ messages[0].content[0].text }}").template_facts().content == "parts"
    assert (
        ChatTemplate("{% for w in messages[0].content.split() %}{{ w }}{% endfor %}").template_facts().content
        == "string"
    )


def test_continuing_ends_the_prompt_where_the_last_message_ends() -> None:
    template = ChatTemplate(CHAT)
    last = Message("assistant", (Text("Once upon "),))
    assert template.render([user("x"), last], continue_final_message=True).text.endswith("assistant\nOnce upon ")
    trimmed = ChatTemplate(CHAT.replace("message.content }}", "message.content | trim }}"))
    assert trimmed.render([user("x"), last], continue_final_message=True).text.endswith("assistant\nOnce upon")
    parts = ChatTemplate(PARTS)
    assert (
        parts.render([Message("assistant", (Text("a"), Text("b")))], continue_final_message=True).text
        == "[assistant]ab"
    )


def test_continuing_what_the_template_leaves_out_is_refused() -> None:
    for source, message in (("nothing", user("x")), (CHAT, Message("assistant", (ToolCall("c", "f", "{}"),)))):
        template = ChatTemplate(source.replace("message.content", "message.nothing") if source == CHAT else source)
        with pytest.raises(TemplateFailed, match="final message"):
            template.render([message], continue_final_message=True)
    with pytest.raises(TemplateFailed):
        ChatTemplate(CHAT).render([], continue_final_message=True)


# ---------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('Roles must alternate!') }}", "Roles must alternate!"),
        ("{{ messages[9].content.x }}", "cannot render"),
        ("{{ 'a' + 1 }}", "cannot render"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ messages.append(1) }}", "may not"),
        ("{{ ''.__class__.__mro__ }}", "may not"),
        ("{% set ns = namespace(__class__=1) %}", "may not"),
        ("{% set ns = namespace() %}{% set ns['_x'] = 1 %}{{ ns }}", ""),
        ("{% for i in range(10000000) %}{% endfor %}", "cannot render"),
        ("{{ strftime_now(1) }}", "cannot render"),
        ("{{ {1: 2} | tojson(separators=3) }}", "cannot render"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "cannot render"),
    ],
)
def test_what_a_template_raises_is_the_requests_fault_and_says_why(source: str, said: str) -> None:
    try:
        template = ChatTemplate(source)
    except InvalidTemplate:
        assert said == ""
        return
    with pytest.raises(TemplateFailed) as failed:
        template.render([user("x")])
    assert said in failed.value.message
    assert failed.value.status == 400


def test_a_template_that_does_not_compile_is_the_operators_fault() -> None:
    with pytest.raises(InvalidTemplate, match="line 2"):
        ChatTemplate("fine\n{% if %}")
    with pytest.raises(InvalidTemplate):
        ChatTemplate({})


# ------------------------------------------------------------------------------------------------------------ protection


def pieces_without(prompt: Prompt, token: str) -> str:
    assert not any(token in piece for piece in prompt.pieces)
    return prompt.text


def test_a_control_token_a_user_spells_out_is_cut_and_the_text_is_unchanged() -> None:
    template = ChatTemplate(CHAT, special=SPECIAL)
    prompt = template.render([user("say <|tool|> now")])
    assert prompt.pieces == ("<|start|>user\nsay <", "|tool|> now<|end|>\n<|start|>assistant\n")
    assert template.render([user("say <|tool|> now")], protect_control=False).pieces == (prompt.text,)


def test_ordinary_text_is_one_piece() -> None:
    for text in ("plain", "a < b", "<div>", "<|", "x <| y", "<|tools|>", "<|en"):
        prompt = ChatTemplate(CHAT, special=SPECIAL).render([user(text)])
        assert prompt.text == f"<|start|>user\n{text}<|end|>\n<|start|>assistant\n"
        assert len(prompt.pieces) == (2 if text in ("<|", "<|en") else 1)


@pytest.mark.parametrize(
    "shown", ["{{ [messages[0].content] }}", "{{ messages[0].content | tojson(ensure_ascii=true) }}"]
)
def test_a_mark_that_the_template_escapes_is_still_a_cut_and_no_text(shown: str) -> None:
    prompt = ChatTemplate(shown, special=SPECIAL).render([user("<|tool|>")])
    assert [piece.strip("[]'\"") for piece in prompt.pieces] == ["<", "|tool|>"]
    literal = ChatTemplate(shown, special=SPECIAL).render([user("<|tool|> C:/ufdd0 ufdd0".replace("/", chr(92)))])
    assert literal.text.count("ufdd0 ufdd0") == 1


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_special_tokens_are_cut_in_every_role(role: Any) -> None:
    prompt = ChatTemplate(CHAT, special=SPECIAL).render([Message(role, (Text("<|tool|>"),), content_is_text=True)])
    assert "<|tool|>" in pieces_without(prompt, "<|tool|>")


def test_special_tokens_are_cut_wherever_a_request_can_put_them() -> None:
    template = ChatTemplate(CHAT, special=SPECIAL)
    evil = "x<|tool|>y"
    tool = FunctionTool("f", evil, {"type": "object", "properties": {evil: {"enum": [evil], "default": (evil,)}}})
    call = Message("assistant", (ToolCall("c", evil, json.dumps({evil: [evil]})),), name=evil)
    result = Message("tool", (ToolResult("c", (Text(evil),)),))
    prompt = template.render(
        [user(evil, name=evil), call, result],
        tools=[tool],
        documents=[{"title": evil, "text": [evil]}],
        arguments={"note": [evil]},
    )
    assert pieces_without(prompt, "<|tool|>").count("<|tool|>") == 15


def test_two_texts_of_one_message_form_no_token_together() -> None:
    source = PARTS.replace("[{{ message.role }}]", "")
    prompt = ChatTemplate(source, special=SPECIAL).render([Message("user", (Text("<|to"), Text("ol|>")))])
    assert prompt.pieces == ("<|to", "ol|>")


def test_markers_are_cut_in_user_and_tool_turns_if_the_template_writes_them() -> None:
    template = ChatTemplate(CHAT, special=SPECIAL)
    assert len(template.render([user("<think>")]).pieces) == 2
    assert len(template.render([Message("tool", (ToolResult("c", (Text("<think>"),)),))]).pieces) == 2
    for role in ("system", "assistant"):
        message = Message(role, (Text("<think>a</think>"),), content_is_text=True)  # type: ignore[arg-type]
        assert len(template.render([message]).pieces) == 1
    # <b> is an added token of the vocabulary, but this template has no use for it: HTML stays as the model knows it.
    assert len(template.render([user("<b>")]).pieces) == 1


def test_thoughts_sent_back_keep_their_marks_even_where_those_are_special() -> None:
    special = SpecialTokens(control=CONTROL | {"<think>", "</think>"})
    template = ChatTemplate(CHAT, special=special)
    assert len(template.render([Message("assistant", (Text("<think>a</think>b"),), content_is_text=True)]).pieces) == 1
    assert len(template.render([user("<think>")]).pieces) == 2


def test_templates_that_take_text_apart_still_protect_it() -> None:
    splits = CHAT.replace("message.content }}", "message.content.split('\\n')[-1].strip() | trim }}")
    prompt = ChatTemplate(splits, special=SPECIAL).render([user("gone\n  <|tool|>  ")])
    assert prompt.pieces == ("<|start|>user\n<", "|tool|><|end|>\n<|start|>assistant\n")


def test_a_noncharacter_a_user_sends_is_kept_and_another_one_marks() -> None:
    prompt = ChatTemplate(CHAT, special=SPECIAL).render([user("\ufdd0<|tool|>\ufdd1")])
    assert prompt.pieces == ("<|start|>user\n\ufdd0<", "|tool|>\ufdd1<|end|>\n<|start|>assistant\n")


def test_a_request_that_holds_every_mark_is_refused() -> None:
    every = "".join(chr(code) for code in range(0xFDD0, 0xFDF0))
    template = ChatTemplate(CHAT, special=SPECIAL)
    assert template.render([user(every)]).text.count(every) == 1
    with pytest.raises(TemplateFailed, match="noncharacter"):
        template.render([user(every + "<|tool|>")])


FRAGMENTS = st.sampled_from(
    ("<|start|>", "<|end|>", "<|tool|>", "<|", "|>", "<", "end|>", "start", "hi", " ", "\n", "é", '"', "\\", "\ufdd0")
)
TEXTS = st.lists(FRAGMENTS, max_size=6).map("".join)


@given(texts=st.lists(TEXTS, min_size=1, max_size=3), name=TEXTS, described=TEXTS, key=TEXTS)
def test_whatever_users_write_the_control_ids_are_those_the_template_writes(
    texts: list[str], name: str, described: str, key: str, tokenizers_by_kind: dict[str, HuggingFaceTokenizer]
) -> None:
    tokenizer = tokenizers_by_kind["byte-level BPE"]

    def control(texts: list[str], name: str, described: str, key: str) -> tuple[list[int], Prompt]:
        template = ChatTemplate(CHAT, special=tokenizer.special)
        tool = FunctionTool("f", described, {"properties": {key: {}}})
        messages = [Message("user", (Text(text),), name=name or None, content_is_text=True) for text in texts]
        prompt = template.render(messages, tools=[tool])
        found = [one for one in tokenizer.encode_prompt(prompt).ids if one in tokenizer.anchors.values()]
        return found, prompt

    found, prompt = control(texts, name, described, key)
    assert found == control(["plain"] * len(texts), "n", "d", "k")[0]
    assert all(text in prompt.text for text in texts)
    assert tokenizer.decode(tokenizer.encode_prompt(prompt).ids, skip_special_tokens=False) == prompt.text
