"""The shape of each family's calls: the table from which constraints are made.

Decides: nothing. Above: ``constraints``, which turns a row into a structural tag, and ``transcripts``. Below: the standard
library. The parsers have a table of their own: a constraint says what a model must write, a parser accepts all that a
model may write.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Body:
    """How arguments are written. ``open`` and ``close`` stand around one value, with ``{key}``, ``{type}`` and
    ``{is_string}`` filled in; ``between`` joins values. If ``open`` is None, the arguments are one JSON object.

    ``string`` is how a string is spelled: "raw" unchanged, "json" as a JSON string, "python" as a Python literal, else the
    quote that stands on both sides of it. ``words`` are the spellings of true, false and null, alternatives joined by
    ``|``. ``sort``: members are written in alphabetical order. ``nested``: nested values are elements, not JSON.
    """

    open: str | None = None
    close: str = ""
    between: str = ""
    string: str = "raw"
    words: tuple[str, str, str] = ("true", "false", "null")
    sort: bool = False
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """What stands around calls: ``begin`` and ``end`` around each (``{name}`` filled in, ``{n}`` a number), ``outer`` around
    all of them.

    ``trigger`` begins a call in free text, None if nothing marks a call; ``between`` joins calls. ``think`` are the
    reasoning markers. ``lead`` may come before forced calls and ``tail`` after them. ``single``: the family writes at most
    one call. ``excludes`` may not occur in free text. ``answer`` are the texts that may come before the answer, and those that
    may come after it, in their order; ``headed``: before an answer they must.
    """

    begin: str
    end: str
    trigger: str | None
    body: Body = Body()
    outer: tuple[str, str] = ("", "")
    between: str = ""
    think: tuple[str, str] | None = None
    single: bool = False
    lead: str = ""
    tail: str = ""
    excludes: tuple[str, ...] = ()
    answer: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    headed: bool = False


THINK = ("<think>", "</think>")
ARGUMENTS = '{"name": "{name}", "arguments": '
PARAMETERS = '{"name": "{name}", "parameters": '
_GEMMA = ("true", "false", "null|None")
_EITHER = ("true|True", "false|False", "null|None")
CODER = Body("<parameter={key}>\n", "\n</parameter>\n", words=_EITHER)
INLINE = Body("<parameter={key}>", "</parameter>\n", words=_EITHER)
PAIRS = Body("<arg_key>{key}</arg_key><arg_value>", "</arg_value>")
PAIR_LINES = Body("<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>\n")
NAMED = Body('<parameter name="{key}">', "</parameter>\n")
PYTHON = Body("{key}=", "", ", ", "python", ("True", "False", "None"))


def _hermes(before: str = "\n", think: tuple[str, str] | None = None) -> Shape:
    return Shape(f"<tool_call>{before}{ARGUMENTS}", f"}}{before}</tool_call>", "<tool_call>", between="\n", think=think)


def _array(
    begin: str, end: str, *, gap: tuple[str, str, str] = ("", ", ", ""), think: tuple[str, str] | None = None
) -> Shape:
    return Shape(ARGUMENTS, "}", begin, outer=(begin + gap[0], gap[2] + end), between=gap[1], think=think)


def _coder(body: Body, between: str, think: tuple[str, str] | None, tag: str = "tool_call") -> Shape:
    return Shape(
        f"<{tag}>\n<function={{name}}>\n", f"</function>\n</{tag}>", f"<{tag}>", body, between=between, think=think
    )


def _pairs(tag: str, body: Body, *, line: str = "", between: str = "") -> Shape:
    return Shape(f"<{tag}>{{name}}{line}", f"</{tag}>", f"<{tag}>", body, between=between, think=THINK)


def _dsml(name: str, block: str, space: str = "", think: tuple[str, str] | None = THINK) -> Shape:
    mark = f"｜{name}｜{space}"
    body = Body(f'<{mark}parameter name="{{key}}" string="{{is_string}}">', f"</{mark}parameter>\n")
    outer = (f"<{mark}{block}>\n", f"</{mark}{block}>")
    return Shape(
        f'<{mark}invoke name="{{name}}">\n', f"</{mark}invoke>\n", outer[0].rstrip("\n"), body, outer, think=think
    )


def _kimi(think: tuple[str, str] | None) -> Shape:
    begin = "<|tool_call_begin|>functions.{name}:{n}<|tool_call_argument_begin|>"
    section = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
    return Shape(begin, "<|tool_call_end|>", section[0], outer=section, think=think)


_V3 = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_V3_CALL = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n"
_COHERE_CALL = '{"tool_call_id": "{n}", "tool_name": "{name}", "parameters": '
_COHERE = ("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>")
_FENCED = '    {\n        "tool_name": "{name}",\n        "parameters": '
_HARMONY = "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
_INKLING = '<|message_model|>{name}<|content_invoke_tool_json|>{"name":"{name}","args":'
_K3_ARGUMENT = '<|open|>argument key="{key}" type="{type}"<|sep|>'
_PLAMO = (
    "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|>"
    "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
)
_PLAMO_END = "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
_PLAMO_OUTER = ("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>")
_PLAMO_THINK = ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>")
_HORIZON = Body("<ifm|arg_key>{key}</ifm|arg_key><ifm|arg_value>", "</ifm|arg_value>")
_M3 = "]<]minimax[>["
_STEP3 = '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">'
_STEP3_BODY = Body('<steptml:parameter name="{key}">', "</steptml:parameter>")

_ATEM = Shape(
    ' to={name}<|message|><atem:function_calls>\n<atem:invoke name="{name}">\n', "</atem:invoke>\n</atem:function_calls>", None,
    Body('<atem:parameter name="{key}">', "</atem:parameter>\n"), between="<|eom|><|start|>assistant",
    think=(" to=self<|message|>", "<|eom|><|start|>assistant"), answer=((" to=user<|message|>",), ()), headed=True,
)  # fmt: skip
_V31 = Shape("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>", "<｜tool▁call▁end｜>", _V3[0], outer=_V3, think=THINK)
_MISTRAL_V11 = Shape("[TOOL_CALLS]{name}[ARGS]", "", "[TOOL_CALLS]")
_PYTHONIC = Shape("{name}(", ")", None, PYTHON, ("[", "]"), ", ")
_LFM2 = Shape("{name}(", ")", "<|tool_call_start|>", PYTHON, ("<|tool_call_start|>[", "]<|tool_call_end|>"), ", ")
_INVOKE = ('<invoke name="{name}">\n', "</invoke>\n")

SHAPES: dict[str, Shape] = {
    "deepseek_r1": Shape(_V3_CALL, "\n```<｜tool▁call▁end｜>", _V3[0], outer=_V3, between="\n", think=THINK),
    "deepseek_v3": Shape(_V3_CALL, "\n```<｜tool▁call▁end｜>", _V3[0], outer=_V3, between="\n"),
    "deepseek_v31": _V31,
    "deepseek_v32": _dsml("DSML", "function_calls"),
    "deepseek_v4": _dsml("DSML", "tool_calls"),
    "deepseek_v41": _dsml("DSML", "calls", " "),
    "gigachat35": _dsml("GCML", "tool_calls"),
    **{family: _hermes() for family in ("qwen25", "granite4")},
    **{family: _hermes(think=THINK) for family in ("qwen3", "qwen3_thinking", "qwq", "hermes")},
    "ernie45": Shape(
        "<tool_call>\n" + ARGUMENTS, "}\n</tool_call>\n", "<tool_call>", think=THINK,
        answer=(("<response>\n",), ("\n</response>\n",)),
    ),
    "exaone4": _hermes("", THINK),
    "longcat": Shape(
        "<longcat_tool_call>\n" + ARGUMENTS, "}\n</longcat_tool_call>", "<longcat_tool_call>",
        think=("<longcat_think>", "</longcat_think>"),
    ),
    "qwen3_coder": _coder(CODER, "\n", None),
    **{family: _coder(CODER, "\n", THINK) for family in ("qwen35", "nemotron_v3")},
    "step35": _coder(CODER, "", THINK),
    "mimo": _coder(INLINE, "\n", THINK),
    "seed_oss": _coder(INLINE, "\n", ("<seed:think>", "</seed:think>"), "seed:tool_call"),
    "kimi_k2": _kimi(None),
    "kimi_k2_thinking": _kimi(THINK),
    "kimi_k25": _kimi(THINK),
    "kimi_k3": Shape(
        '<|open|>call tool="{name}" index="{n}"<|sep|>', "<|close|>call<|sep|>", "<|open|>tools<|sep|>",
        Body(_K3_ARGUMENT, "<|close|>argument<|sep|>"), ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        think=("<|open|>think<|sep|>", "<|close|>think<|sep|>"), lead="<|close|>response<|sep|>", tail="<|close|>message<|sep|>",
        answer=(("<|open|>response<|sep|>",), ("<|close|>response<|sep|>", "<|close|>message<|sep|>")),
    ),
    **{family: _pairs("tool_call", PAIR_LINES, line="\n", between="\n") for family in ("glm45", "glm46")},
    **{family: _pairs("tool_call", PAIRS) for family in ("glm47", "glm5", "ling")},
    "iquest": _pairs("iquest_tool_call", PAIRS),
    "hunyuan_v3": Shape(
        "<tool_call>{name}<tool_sep>\n", "</tool_call>\n", "<tool_calls>", PAIR_LINES,
        ("<tool_calls>\n", "</tool_calls>"), think=THINK,
    ),
    "hunyuan_v4": Shape(
        "<tool_call>{name}", "</tool_call>", "<tool_calls>", PAIRS, ("<tool_calls>", "</tool_calls>"), think=THINK
    ),
    "k2_horizon": Shape(
        "<ifm|tool_call>{name}", "</ifm|tool_call>", "<ifm|tool_calls>", _HORIZON,
        ("<ifm|tool_calls>", "</ifm|tool_calls>"), "\n", ("<ifm|think>", "</ifm|think>"),
    ),
    "llama3": Shape(PARAMETERS, "}", '{"name": "', between="; "),
    "json": Shape(ARGUMENTS, "}", None, outer=("[", "]"), between=", "),
    "xlam": Shape(ARGUMENTS, "}", None, outer=("[", "]"), between=", ", think=THINK),
    "llama4": _PYTHONIC,
    "gemma3": _PYTHONIC,
    "pythonic": _PYTHONIC,
    "lfm2": _LFM2,
    "lfm25": replace(_LFM2, think=THINK),
    "olmo3": Shape("{name}(", ")", "<function_calls>", PYTHON, ("<function_calls>", "</function_calls>"), "\n", THINK),
    "functiongemma": Shape(
        "<start_function_call>call:{name}{", "}<end_function_call>", "<start_function_call>",
        Body("{key}:", "", ",", "<escape>", _GEMMA, sort=True),
    ),
    "gemma4": Shape(
        "<|tool_call>call:{name}{", "}<tool_call|>", "<|tool_call>", Body("{key}:", "", ",", '<|"|>', _GEMMA, sort=True),
        think=("<|channel>thought\n", "<channel|>"),
    ),
    "mistral": _array("[TOOL_CALLS] [", "]"),
    "mistral_v11": _MISTRAL_V11,
    "magistral": Shape("[TOOL_CALLS]{name}[ARGS]", "", "[TOOL_CALLS]", think=("[THINK]", "[/THINK]")),
    "command_r": Shape(_FENCED, "\n    }", "Action: ```json", outer=("Action: ```json\n[\n", "\n]\n```"), between=",\n"),
    "command_a": Shape(
        _COHERE_CALL, "}", "<|START_ACTION|>", outer=_COHERE, between=",\n    ", think=("<|START_THINKING|>", "<|END_THINKING|>"),
        answer=(("<|START_RESPONSE|>",), ("<|END_RESPONSE|>",)),
    ),
    "nemotron_nano_v2": _array("<TOOLCALL>[", "]</TOOLCALL>", think=THINK),
    "nemotron_super": _array("<TOOLCALL>[", "]</TOOLCALL>", think=THINK),
    "granite3": replace(_array("<|tool_call|>[", "]", think=THINK), answer=(("<response>",), ("</response>",))),
    "phi4": _array("functools[", "]", think=THINK),
    "hunyuan": replace(
        _array("<tool_calls>[", "]</tool_calls>", think=THINK), answer=(("<answer>\n",), ("\n</answer>",))
    ),
    "jamba": _array("<tool_calls>[", "]</tool_calls>", gap=("\n    ", ",\n    ", "\n")),
    "minimax_m1": Shape(ARGUMENTS, "}\n", "<tool_calls>", outer=("<tool_calls>\n", "</tool_calls>"), think=THINK),
    "minimax_m3": Shape(
        _M3 + '<invoke name="{name}">', _M3 + "</invoke>\n", _M3 + "<tool_call>",
        Body(_M3 + "<{key}>", _M3 + "</{key}>", nested=True), (_M3 + "<tool_call>\n", _M3 + "</tool_call>"),
        think=("<mm:think>", "</mm:think>"),
    ),
    "sarashina": Shape(
        "{'name': '{name}', 'arguments': {", "}}", "<|tool_calls|>", replace(PYTHON, open="'{key}': "),
        ("<|tool_calls|>[", "]"), ", ",
    ),
    "minimax_m2": Shape(
        *_INVOKE, "<minimax:tool_call>", NAMED, ("<minimax:tool_call>\n", "</minimax:tool_call>"), think=THINK
    ),
    "dots": Shape(*_INVOKE, "<dots_function_call>", NAMED, ("<dots_function_call>\n", "</dots_function_call>"), think=THINK),
    "step3": Shape(
        _STEP3, "</steptml:invoke><｜tool_call_end｜>", "<｜tool_calls_begin｜>", _STEP3_BODY,
        ("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"), "\n", THINK,
    ),
    "minicpm5": Shape(
        '<function name="{name}">', "</function>", "<function name=", Body('<param name="{key}">', "</param>"),
        between="\n", think=THINK,
    ),
    "internlm2": Shape(f"<|action_start|><|plugin|>\n{PARAMETERS}", "}<|action_end|>\n", "<|action_start|><|plugin|>"),
    "apertus": Shape(
        '{"{name}": ', "}", "<|tools_prefix|>", outer=("<|tools_prefix|>[", "]<|tools_suffix|>"), between=", ",
        think=("<|inner_prefix|>", "<|inner_suffix|>"),
    ),
    "gigachat3": Shape(f"<|message_sep|>\n\nfunction call<|role_sep|>\n{ARGUMENTS}", "}", "<|message_sep|>", single=True),
    "plamo3": Shape(_PLAMO, _PLAMO_END, _PLAMO_OUTER[0], outer=_PLAMO_OUTER, think=_PLAMO_THINK),
    "granite_20b_fc": Shape(f"<function_call> {ARGUMENTS}", "}", "<function_call>", between="\n"),
    "harmony": Shape(
        _HARMONY, "<|call|>", "<|channel|>commentary to=functions.", between="<|start|>assistant",
        think=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        answer=(("<|channel|>final<|message|>",), ()), headed=True,
    ),
    "inkling": Shape(
        _INKLING, "}<|end_message|>", "<|message_model|>{name}<|content_invoke_tool", tail="<|content_model_end_sampling|>",
        excludes=("<|content_invoke_tool_json|>",),
        think=("<|message_model|><|content_thinking|>", "<|end_message|>"),
        answer=(("<|message_model|>", "<|content_text|>"), ("<|end_message|>", "<|content_model_end_sampling|>")),
    ),
    "muse_glimmer": _ATEM,
    "muse_spark": _ATEM,
    "beam": Shape(
        " to={name}<|channel|>analysis <|constrain|>xml<|message|>", "<|call|>", None,
        Body('<rfl:parameter name="{key}">\n', "\n</rfl:parameter>"), between="<|start|>assistant",
        think=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        answer=(("<|channel|>final<|message|>",), ()), headed=True,
    ),
    "hyperclovax_think_14b": Shape(
        ARGUMENTS, "}", None, outer=(" -> tool/function_call\n[", "]<|im_end|>"), between=", ", tail="<|stop|>",
        think=("/think\n", "<|im_end|>\n<|im_start|>assistant"),
        answer=(("\n",), ("<|im_end|>", "<|endofturn|>")), headed=True,
    ),
    **{family: _pairs("tool_call", PAIR_LINES, line="\n", between="\n") for family in ("laguna", "hyperclovax_think")},
    "spark25": _pairs("tool_call", replace(PAIRS, close="</arg_value>\n"), line="\n", between="\n"),
    "trinity": _hermes(think=THINK),
    **{family: _coder(CODER, "\n", THINK) for family in ("trinity_thinking", "step5")},
    "cohere_north": Shape(
        _COHERE_CALL, "}", "<|START_ACTION|>", outer=_COHERE, between=",\n    ", think=("<|START_THINKING|>", "<|END_THINKING|>"),
        answer=(("<|START_TEXT|>",), ("<|END_TEXT|>",)),
    ),
    "solar_open2": Shape(
        "<|tool_call:start|>{name}\n", "<|tool_call:end|>", "<|tool_call:start|>",
        Body("<|tool_arg:start|>{key}<|tool_arg:value|>", "<|tool_arg:end|>\n"), between="\n",
        think=("<|think:start|>", "<|think:end|>"),
    ),
}  # fmt: skip
"""How each family writes calls. Families without a row (kimi_vl, plain) are forced by JSON schema."""
