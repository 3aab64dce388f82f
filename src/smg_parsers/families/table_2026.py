"""The rows of the families that came out in 2026, and the formats that only they use.

Decides: markers, grammars, ids and special tokens of these families.
Above: `table`, which lists them. Below: `family`, `formats`, the grammars.
Does not know: how output is parsed, or how a model id finds its row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from smg_parsers.families.family import Family
from smg_parsers.families.formats import ACTION, COHERE_CITES, GLM, HERMES, QWEN_XML, RESPONSES, think
from smg_parsers.families.reasoning import THINK, THINK_OPEN, Thinking
from smg_parsers.grammars.tool_json import ARGUMENTS, JsonCalls
from smg_parsers.grammars.tool_messages import MESSAGE, START, AddressedCalls, ChannelCalls, RoleCalls
from smg_parsers.grammars.tool_xml import XmlCalls
from smg_parsers.grammars.tool_xml_tags import Tag

ATEM: Final = XmlCalls(
    opens=("<atem:function_calls>",),
    closes=("</atem:function_calls>",),
    call=Tag("<atem:invoke", attribute="name"),
    close="</atem:invoke>",
    param=Tag("<atem:parameter", attribute="name"),
    value_end="</atem:parameter>",
    doubled=True,
    message=("<|eom|>", START, MESSAGE),
)
MUSE: Final = Thinking(breaks=("<|eom|>", "<|eot|>"))
# The header in front of the parameters names the tool, so it is the call's tag.
BEAM: Final = XmlCalls(
    opens=("<|start|>assistant to=",),
    closes=("<|end|>",),
    call=Tag("<|start|>assistant to=", ends=("<|channel|>",)),
    close="<|call|>",
    param=Tag("<rfl:parameter", attribute="name"),
    value_end="</rfl:parameter>",
    newline=True,
    header=MESSAGE,
)
SOLAR_OPEN2: Final = XmlCalls(
    opens=("<|tool_call:start|>",),
    call=Tag("<|tool_call:start|>", ends=(), stops=("<|tool_arg:start|>", "<|tool_call:end|>")),
    close="<|tool_call:end|>",
    param=Tag("<|tool_arg:start|>", ends=("<|tool_arg:value|>",), loose=True),
    value_end="<|tool_arg:end|>",
)
CLOVA_CALLS: Final = JsonCalls(
    opens=(" -> tool/function_call\n",), closes=("<|im_end|>",), arguments=(*ARGUMENTS, "input")
)

ROWS: Final = (
    Family(
        "muse_glimmer",
        ("muse-glimmer",),
        MUSE,
        (AddressedCalls(ATEM),),
        special=True,
        headed=True,
        templates=("<atem:function_calls>",),
        source="chat template, as public tests quote its prompts",
    ),
    Family(
        "muse_spark",
        ("muse-spark",),
        MUSE,
        (AddressedCalls(ATEM, unnamed_thinks=True),),
        special=True,
        headed=True,
        source="public parser",
    ),
    Family(
        "laguna",
        ("laguna-xs", "laguna-s", "laguna-m"),
        THINK,
        (GLM,),
        drops=("</assistant>",),
        special=True,
        templates=("unescaped XML-like object", "All available function signatures are listed below"),
        source="chat template, as public renderers of it quote it",
    ),
    Family("spark25", ("spark-x2.5", "spark-2.5"), THINK, (GLM,), special=True, source="public parser"),
    Family("trinity", ("trinity-nano", "trinity-mini", "trinity-large"), THINK, (HERMES,), source="public parser"),
    Family(
        "trinity_thinking",
        ("trinity-*-thinking",),
        THINK_OPEN,
        (QWEN_XML,),
        source="reference notes",
    ),
    Family(
        "cohere_north",
        ("north-mini-code", "north-micro", "north-small"),
        think("<|START_THINKING|>", "<|END_THINKING|>", *RESPONSES, interleaved=True),
        (ACTION, COHERE_CITES),
        special=True,
        source="public parser",
    ),
    Family("step5", ("step-5-preview",), THINK_OPEN, (QWEN_XML,), source="public parser"),
    Family(
        "solar_open2",
        ("solar-open-2",),
        think("<|think:start|>", "<|think:end|>", interleaved=True, opened=True),
        (SOLAR_OPEN2,),
        drops=("<|im:end|>",),
        special=True,
        templates=("<|tool_call:start|>",),
        source="public parser",
    ),
    Family(
        "hyperclovax_think",
        ("hyperclovax-seed-think",),
        THINK_OPEN,
        (replace(GLM, quoted=True),),
        drops=("<|im_end|>",),
        special=True,
        source="public parser",
    ),
    Family(
        "hyperclovax_think_14b",
        ("hyperclovax-seed-think-14b",),
        Thinking(
            opens=("<|im_start|>assistant/think\n",),
            closes=("<|im_end|>",),
            breaks=("<|im_end|>\n", "<|im_end|>"),
            interleaved=True,
        ),
        (RoleCalls(CLOVA_CALLS),),
        drops=("<|stop|>", "<|endofturn|>"),
        special=True,
        headed=True,
        templates=("tool/function_call",),
        source="reference notes",
    ),
    Family(
        "beam",
        (),
        Thinking(breaks=("<|end|>", "<|return|>", "<|call|>")),
        (ChannelCalls(BEAM),),
        special=True,
        headed=True,
        templates=("<rfl:parameter",),
        source="public parser",
    ),
)
"""The rows, in the order of `table.FAMILIES`, behind those of the table."""
