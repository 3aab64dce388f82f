"""Read what language models write: reasoning, text and tool calls, from any family's format, cut anywhere.

    from smg_parsers import Parser

    parser = Parser.for_model("Qwen/Qwen3-Coder-30B-A3B-Instruct", tools=tools, in_reasoning=False)
    for piece in [*parser.feed("some text"), *parser.finish()]:
        ...  # Reasoning | Text | Citation | CallStart | CallArguments | CallEnd, in the order the model wrote them

The modules, in the order of a reading:

    base                    the pieces, the errors, `Sink`, and what a grammar is
    parser                  `Parser`: splits one output into pieces
    models, model_ids       which family a model belongs to; how model ids are compared
    family, table, table_2026, formats  what a family is, the table of all families, and the formats in it
    response_templates (with template_patterns)    a family made of what a model's own files say of its output
    checked                 what a field of a family may be
    reasoning, markers, channels, citations    the markers of reasoning, how markers are found, what else they mark
    tool_json, tool_xml (with tool_xml_tags, tool_xml_ends), tool_pythonic, tool_blocks, tool_messages    one grammar per kind
    partial_json, literals, coerce    JSON and other values, read as they arrive; text to JSON by a schema
    constraints (with constraint_shapes, patterns)    what an engine is told so that calls conform
    free_text, json_mending    tools that take free text; answers that must be JSON
    lab, laws, lab_page, transcripts, pytest_plugin    tests for parsers, also for those of others
    families                the names of `models` and `table` that callers use

Above: `smg_core`, or any program. Below: the standard library.
"""

from smg_parsers.base import (
    CallArguments,
    CallEnd,
    CallStart,
    Citation,
    InvalidFamily,
    MalformedCall,
    MalformedCalls,
    ParserError,
    Piece,
    Reasoning,
    Text,
    UnknownModelFamily,
    UnknownTool,
    UnknownTools,
    merge,
)
from smg_parsers.family import Family
from smg_parsers.models import FamilyChoice, explain, reasoning_open, register
from smg_parsers.parser import Parser
from smg_parsers.reasoning import Thinking
from smg_parsers.table import FAMILIES

__all__ = [
    "FAMILIES",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Citation",
    "Family",
    "FamilyChoice",
    "InvalidFamily",
    "MalformedCall",
    "MalformedCalls",
    "Parser",
    "ParserError",
    "Piece",
    "Reasoning",
    "Text",
    "Thinking",
    "UnknownModelFamily",
    "UnknownTool",
    "UnknownTools",
    "explain",
    "merge",
    "reasoning_open",
    "register",
]
