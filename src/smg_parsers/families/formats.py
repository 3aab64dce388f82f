"""The formats that rows of the table use: each is a grammar with the markers of one family.

Decides: the markers and tags of every format that more than one row uses, or that is too long to stand in a row.
Above: `table`. Below: the grammars, `reasoning`.
Does not know: which model writes which format.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from smg_parsers.families.reasoning import Thinking
from smg_parsers.grammars.citations import CitationMarks
from smg_parsers.grammars.tool_blocks import BlockCalls, TypedBlocks
from smg_parsers.grammars.tool_json import JsonCalls
from smg_parsers.grammars.tool_pythonic import PythonCalls
from smg_parsers.grammars.tool_xml import XmlCalls
from smg_parsers.grammars.tool_xml_tags import Tag

# The grammars that several families share.

HERMES: Final = JsonCalls(opens=("<tool_call>",), closes=("</tool_call>",))
QWEN_XML: Final = XmlCalls(
    opens=("<tool_call>", "<function="),
    unwrapped=("<function=",),
    misspelt=("<function ", "<function:"),
    closes=("</tool_call>",),
    call=Tag("<function="),
    close="</function>",
    param=Tag("<parameter=", loose=True),
    value_end="</parameter>",
    newline=True,
)
QWEN_EITHER: Final = replace(QWEN_XML, json=HERMES)
# MiMo's and Seed-OSS's templates write the same tags with nothing added around a value: a newline there is the value's own.
QWEN_INLINE: Final = replace(QWEN_XML, newline=False)
GLM: Final = XmlCalls(
    opens=("<tool_call>",),
    call=Tag("<tool_call>", ends=(), stops=("<arg_key>", "</tool_call>")),
    close="</tool_call>",
    param=Tag("<arg_key>", ends=("</arg_key>",), stops=("<arg_value>",), loose=True),
    value="<arg_value>",
    value_end="</arg_value>",
)
DEEPSEEK: Final = BlockCalls(
    opens=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    header=Tag("<｜tool▁call▁begin｜>", ends=("<｜tool▁sep｜>",)),
    close="<｜tool▁call▁end｜>",
    section_ends=("<｜tool▁calls▁end｜>",),
    line=True,
)
KIMI_K2: Final = BlockCalls(
    opens=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>", "<|tool_call_begin|>"),
    header=Tag("<|tool_call_begin|>", ends=("<|tool_call_argument_begin|>",)),
    close="<|tool_call_end|>",
    section_ends=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    identity=True,
)
MISTRAL: Final = BlockCalls(
    opens=("[TOOL_CALLS]",),
    header=Tag("[TOOL_CALLS]", ends=("[ARGS]", "[CALL_ID]"), stops=("{",)),
    json=JsonCalls(opens=("[TOOL_CALLS]",)),
)
PYTHON_LIST: Final = PythonCalls(opens=("[",), bare=True)
ANY_JSON: Final = JsonCalls(opens=("{", "["), strict=True)
TOOLCALL: Final = JsonCalls(opens=("<TOOLCALL>",), closes=("</TOOLCALL>",))


_DSML_BLOCKS: Final = ("function_calls", "tool_calls", "tool_use")
_DSML_BARS: Final = (
    *((bar, bar) for bar in ("｜", "|", "｜｜", "||", "‖", " | ")),
    ("｜", "|"),
    ("|", "｜"),
    ("", "｜"),
    ("｜", ""),
)
"""How the bars before and behind DSML's name are written; the first ones are right. Tags without either are plain ones."""


def dsml(block: str, word: str = "DSML") -> tuple[XmlCalls, ...]:
    """DeepSeek's markup language, in which tag names differ from version to version (4.1's begin with a space), and how models
    misspell its tags: with another bar, or with the names of another version."""
    right = word.join(_DSML_BARS[0])
    own = _dsml(right, (block,))
    others = tuple(
        name for name in (*_DSML_BLOCKS, " calls") if name != block and name[0].isspace() == block[0].isspace()
    )
    misspelt = tuple(f"<{right}{name}>" for name in others)
    ends = tuple(f"</{right}{name}>" for name in others)
    own = replace(
        own,
        opens=(*own.opens, *misspelt),
        unwrapped=(*own.unwrapped, *misspelt),
        misspelt=misspelt,
        closes=(*own.closes, *ends),
    )
    marks = (*(word.join(bars) for bars in _DSML_BARS), "")
    written = [
        _dsml(mark, names) for mark in marks for names in (_DSML_BLOCKS, (" calls",)) if mark or names == _DSML_BLOCKS
    ]
    return (
        own,
        *(replace(each, unwrapped=each.opens, misspelt=each.opens) for each in written if each.call != own.call),
    )


def _dsml(mark: str, blocks: tuple[str, ...]) -> XmlCalls:
    space = " " if blocks[0].startswith(" ") else ""
    invoke, parameter = f"{mark}{space}invoke", f"{mark}{space}parameter"
    return XmlCalls(
        opens=(*(f"<{mark}{block}>" for block in blocks), f"<{invoke}"),
        unwrapped=(f"<{invoke}",),
        closes=tuple(f"</{mark}{block}>" for block in blocks),
        call=Tag(f"<{invoke}", attribute="name"),
        close=f"</{invoke}>",
        param=Tag(f"<{parameter}", attribute="name"),
        value_end=f"</{parameter}>",
        kind_attribute="string",
        body=("", ""),
    )


def invokes(opens: str, closes: str, space: str = "") -> XmlCalls:
    """`<invoke name="…"><parameter name="…">…` inside a wrapper; with `space`, parameters are elements of their own."""
    return XmlCalls(
        opens=(opens,),
        closes=(closes,),
        call=Tag(f"{space}<invoke", attribute="name"),
        close=f"{space}</invoke>",
        param=Tag(f"{space}<") if space else Tag("<parameter", attribute="name"),
        value_end="" if space else "</parameter>",
        space=space,
    )


def pairs(prefix: str, closing: str) -> XmlCalls:
    """GLM's shape inside tags of another name."""
    return replace(
        GLM,
        opens=(prefix,),
        call=Tag(prefix, ends=(), stops=("<arg_key>", closing)),
        close=closing,
    )


def hunyuan(separators: tuple[str, ...], suffix: str = "") -> XmlCalls:
    calls, call, key, value = (f"{name}{suffix}>" for name in ("tool_calls", "tool_call", "arg_key", "arg_value"))
    return XmlCalls(
        opens=(f"<{calls}", f"<{call}"),
        closes=(f"</{calls}",),
        call=Tag(f"<{call}", ends=separators, stops=(f"<{key}", f"</{call}")),
        close=f"</{call}",
        param=Tag(f"<{key}", ends=(f"</{key}",), stops=(f"<{value}",), loose=True),
        value=f"<{value}",
        value_end=f"</{value}",
    )


def horizon() -> XmlCalls:
    def tag(name: str) -> str:
        return f"<ifm|{name}>"

    def end(name: str) -> str:
        return f"</ifm|{name}>"

    return XmlCalls(
        opens=(tag("tool_calls"), tag("tool_call")),
        closes=(end("tool_calls"),),
        call=Tag(tag("tool_call"), ends=(), stops=(tag("arg_key"), end("tool_call"))),
        close=end("tool_call"),
        param=Tag(tag("arg_key"), ends=(end("arg_key"),), stops=(tag("arg_type"), tag("arg_value")), loose=True),
        kind=(tag("arg_type"), end("arg_type")),
        value=tag("arg_value"),
        value_end=end("arg_value"),
        json=JsonCalls(opens=(tag("tool_call"),), closes=(end("tool_call"),)),
    )


def plamo(name: str, edge: str) -> str:
    return f"<|plamo:{edge}_{name}:plamo|>"


NS: Final = "]<]minimax[>["
KIMI_K3_CHANNELS: Final = (
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|open|>message<|sep|>",
    "<|close|>message<|sep|>",
)
GIGACHAT_CALL: Final = "function call<|role_sep|>\n"
RESPONSES: Final = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")
COHERE_CITES: Final = CitationMarks(
    begins=("<co>", "<co:"), ends=("</co>", "</co:"), listing=(("<co:", "", ">"), ("</co:", "", ">"))
)
GRANITE_CITES: Final = CitationMarks(
    begins=("<|start_of_cite|>",), ends=("<|end_of_cite|>",), listing=(("<|start_of_cite|>", "{", "}"),)
)
ACTION: Final = JsonCalls(opens=("<|START_ACTION|>",), closes=("<|END_ACTION|>",))


STEP3: Final = XmlCalls(
    opens=("<｜tool_calls_begin｜>",),
    closes=("<｜tool_calls_end｜>",),
    call=Tag("<steptml:invoke", attribute="name"),
    close="</steptml:invoke>",
    param=Tag("<steptml:parameter", attribute="name"),
    value_end="</steptml:parameter>",
    fillers=("<｜tool_call_begin｜>", "<｜tool_sep｜>"),
    behind=("<｜tool_call_end｜>",),
    words=True,
    inline=True,
)
KIMI_K3: Final = XmlCalls(
    opens=("<|open|>tools<|sep|>",),
    closes=("<|close|>tools<|sep|>",),
    call=Tag("<|open|>call", ends=("<|sep|>",), attribute="tool", entities=True),
    close="<|close|>call<|sep|>",
    param=Tag("<|open|>argument", ends=("<|sep|>",), attribute="key", entities=True),
    value_end="<|close|>argument<|sep|>",
    kind_attribute="type",
    body=('<|open|>json type="object"<|sep|>', "<|close|>json<|sep|>"),
    inline=True,
)
MINICPM5: Final = XmlCalls(
    opens=("<function ",),
    unwrapped=("<function ",),
    call=Tag("<function ", attribute="name"),
    close="</function>",
    param=Tag("<param", attribute="name"),
    value_end="</param>",
    cdata=True,
    inline=True,
)
DOTS: Final = replace(
    invokes("<dots_function_call>", "</dots_function_call>"), json=replace(HERMES, closes=("</dots_function_call>",))
)
LONGCAT: Final = XmlCalls(
    opens=("<longcat_tool_call>",),
    call=Tag("<longcat_tool_call>", ends=(), stops=("<longcat_arg_key>", "</longcat_tool_call>")),
    close="</longcat_tool_call>",
    param=Tag("<longcat_arg_key>", ends=("</longcat_arg_key>",), stops=("<longcat_arg_value>",), loose=True),
    value="<longcat_arg_value>",
    value_end="</longcat_arg_value>",
    json=replace(HERMES, closes=("</longcat_tool_call>",)),
)
PLAMO3: Final = BlockCalls(
    opens=(plamo("tool_requests", "begin"),),
    header=Tag(plamo("tool_name", "begin"), ends=(plamo("tool_name", "end"),)),
    close=plamo("tool_arguments", "end"),
    section_ends=(plamo("tool_requests", "end"),),
    fillers=(
        plamo("tool_request", "begin"),
        plamo("tool_arguments", "begin"),
        "<|plamo:constrain|>json<|plamo:msg|>",
    ),
    behind=(plamo("tool_request", "end"),),
)
HORIZON: Final = horizon()
SARASHINA: Final = (
    JsonCalls(opens=("<|tool_calls|>",), python=True),
    JsonCalls(opens=("[", "{"), at_start=True, strict=True, python=True),
)
# Python-like by default; JSON where the system prompt asks for it, between the same markers.
LFM2: Final = PythonCalls(
    opens=("<|tool_call_start|>",),
    closes=("<|tool_call_end|>",),
    json=JsonCalls(opens=("<|tool_call_start|>",), closes=("<|tool_call_end|>",)),
)
LLAMA4: Final = (
    PythonCalls(
        opens=("<|python_start|>",),
        closes=("<|python_end|>",),
        json=JsonCalls(opens=("<|python_start|>",), closes=("<|python_end|>",)),
    ),
    replace(PYTHON_LIST, closes=("<|python_end|>",)),
    JsonCalls(opens=("{",), closes=("<|python_end|>",), at_start=True, strict=True),
)
INKLING: Final = TypedBlocks(
    json=JsonCalls(
        opens=("<|content_invoke_tool_json|>",),
        closes=("<|end_message|>", "<|content_model_end_sampling|>"),
    )
)


def think(opens: str, closes: str, *breaks: str, interleaved: bool = False, opened: bool = False) -> Thinking:
    return Thinking((opens,), (closes,), breaks, opens_in_prompt=opened, interleaved=interleaved)
