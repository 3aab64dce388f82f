"""Read what language models write: reasoning, text and tool calls, from any family's format, cut anywhere.

    from smg_parsers import Parser

    parser = Parser.for_model("Qwen/Qwen3-Coder-30B-A3B-Instruct", tools=tools, in_reasoning=False)
    for piece in [*parser.feed("some text"), *parser.finish()]:
        ...  # Reasoning | Text | Citation | CallStart | CallArguments | CallEnd, in the order the model wrote them

Above: `smg_core`, or any program. Below: the standard library.
"""

from smg_parsers.base import (
    CallArguments,
    CallEnd,
    CallStart,
    Citation,
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
from smg_parsers.families import FAMILIES
from smg_parsers.family import Family
from smg_parsers.models import Explanation, explain, reasoning_open, register
from smg_parsers.parser import Parser
from smg_parsers.reasoning import Thinking

__all__ = [
    "FAMILIES",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Citation",
    "Explanation",
    "Family",
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
