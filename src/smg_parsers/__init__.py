"""smg_parsers: Reads what models write: reasoning, text and tool calls, cut anywhere.

    from smg_parsers import Parser

    parser = Parser.for_model("Qwen/Qwen3-Coder-30B-A3B-Instruct", tools=tools, in_reasoning=False)
    for piece in [*parser.feed("some text"), *parser.finish()]:
        ...  # Reasoning | Text | Citation | CallStart | CallArguments | CallEnd, in the order the model wrote them

The packages, in the order of a reading:

    parser         `Parser`: splits one output into pieces
    pieces         the pieces, the errors, `Sink`, what a grammar is, and what a field of a family may be
    families       what a family is, the table of all, and which one a model belongs to
    grammars       one grammar for each kind of call: JSON, tags, Python, blocks, messages; channels and citations
    values         nearly-JSON arguments, literals, and text to JSON by a schema
    json_text      JSON read as it arrives, answers that must be JSON, and tools that take free text
    constraints    what an engine is told so that calls and answers conform
    lab            tests for parsers, also for those of others; `pytest_plugin` has them as a fixture

Above: `smg_core`, or any program. Below: the standard library.
"""

from smg_parsers.families.family import Family
from smg_parsers.families.models import FamilyChoice, explain, reasoning_open, register
from smg_parsers.families.reasoning import Thinking
from smg_parsers.families.table import FAMILIES
from smg_parsers.parser import Parser
from smg_parsers.pieces.base import (
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
