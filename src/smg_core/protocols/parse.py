"""`/parse/reasoning` and `/parse/function_call`: read a text that a model wrote, without generating anything.

Decides the wire of the two, and which parser reads: the family named, else that of the model named. Both answers hold what
the other kind of piece would be, so nothing of the text is lost. A text is bounded before it is read, and read in pieces, between
which the work can be given up. Pure. Above: the server, which says what its models are read as, and runs this off its event
loop. Below: smg_parsers.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from smg_core.errors import ClientGone, InvalidRequest
from smg_core.protocols.decoding import WireDecoder, check_depth, too_many
from smg_core.protocols.json_text import encode_object
from smg_core.protocols.settings import LimitsConfig
from smg_parsers import CallArguments, CallStart, Family, Parser, Piece, Reasoning, Text, UnknownModelFamily, explain
from smg_parsers.models import family as family_named

__all__ = ["FamilyOf", "ParseBody", "parse_function_call", "parse_reasoning"]

FamilyOf = Callable[[str], Family | None]
"""The family a served model is read as, None for a name that is no served model."""


class _Function(msgspec.Struct):
    name: str
    parameters: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct):
    function: _Function
    type: str = "function"


class ParseBody(msgspec.Struct, forbid_unknown_fields=True):
    """`parser`, or its older names, is a family; `model` a served model's name or a Hugging Face id."""

    text: str
    parser: str | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    model: str | None = None
    tools: list[_Tool] = []
    in_reasoning: bool | None = None


_BODIES = WireDecoder(ParseBody, {})


_SLICE = 4096
"""Characters that are read in one go: some tens of milliseconds at most."""


def _never() -> bool:
    return False


def parse_function_call(
    body: bytes, limits: LimitsConfig, family_of: FamilyOf, given_up: Callable[[], bool] = _never
) -> bytes:
    """`{"remaining_text", "reasoning_text", "tool_calls", "family", "success"}`. Raises InvalidRequest, and ClientGone when
    `given_up` says that nobody waits any more."""
    wire = _wire(body, limits)
    family, tools = _family(wire, family_of), _tools(wire, limits)
    # Who asks for the calls of a text and names no tools wants all of them.
    parser = Parser(family, tools=tools, any_tool=tools is None, in_reasoning=_begins_inside(wire, family))
    found = _read(parser, wire.text, given_up)
    return _answer(family, {"remaining_text": "".join(found.text), "tool_calls": found.calls()}, found)


def parse_reasoning(
    body: bytes, limits: LimitsConfig, family_of: FamilyOf, given_up: Callable[[], bool] = _never
) -> bytes:
    """`{"normal_text", "reasoning_text", "family", "success"}`; calls stay in the text, also those that come before the end of
    the reasoning, so that `/parse/function_call` finds them there. Raises as `parse_function_call`."""
    wire = _wire(body, limits)
    family = _family(wire, family_of)
    parser = Parser(family, tools=_tools(wire, limits), in_reasoning=wire.in_reasoning, keep_calls=True)
    found = _read(parser, wire.text, given_up)
    return _answer(family, {"normal_text": "".join(found.text)}, found)


def _tools(wire: ParseBody, limits: LimitsConfig) -> list[dict[str, Any]] | None:
    """The tools in the parser's form; None where the request names none."""
    if len(wire.tools) > limits.tools:
        raise too_many("tools", len(wire.tools), limits.tools, "tools")
    tools = [{"name": tool.function.name, "parameters": tool.function.parameters or {}} for tool in wire.tools]
    return tools or None


def _begins_inside(wire: ParseBody, family: Family) -> bool:
    """Whether a text that is to have its calls found begins inside reasoning. Where the request does not say: only if it shows
    where that reasoning ends, since reasoning has mostly been taken from such a text already."""
    thinking = family.thinking
    if wire.in_reasoning is not None or not thinking.opens_in_prompt:
        return bool(wire.in_reasoning)
    ends = min((at for at in map(wire.text.find, thinking.closes) if at >= 0), default=-1)
    return ends >= 0 and not any(opening in wire.text[:ends] for opening in thinking.opens)


def _wire(body: bytes, limits: LimitsConfig) -> ParseBody:
    """The body, whose text is not too long and whose schemas are not too deep."""
    wire = _BODIES.decode(body, limits)
    if len(wire.text) > limits.parse_characters:
        raise InvalidRequest(
            f"Invalid 'text': string too long. Expected at most {limits.parse_characters} characters, but got "
            f"{len(wire.text)} instead.",
            param="text",
            code="string_above_max_length",
        )
    check_depth([tool.function.parameters for tool in wire.tools], limits.json_depth, "tools")
    return wire


class _Found:
    """What a text consists of, as strings and nothing else: a passing object for each of a hundred thousand pieces would have the
    garbage collector, during whose passes no thread of the process runs, look at all of them again and again."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.thought: list[str] = []
        self._calls: list[bytes] = []
        self._open: CallStart | None = None
        self._arguments: list[str] = []  # of the call that is open

    def add(self, pieces: Iterable[Piece]) -> None:
        """More of the text. Pieces that say nothing of the answer are left out."""
        for piece in pieces:
            match piece:
                case Text():
                    self.text.append(piece.text)
                case Reasoning():
                    self.thought.append(piece.text)
                case CallStart():
                    self._close()
                    self._open = piece
                case CallArguments():
                    self._arguments.append(piece.delta)

    def calls(self) -> msgspec.Raw:
        """The list of the calls as the answer has them, in their order. One ends before the next begins."""
        self._close()
        return msgspec.Raw(b"[%b]" % b",".join(self._calls))

    def _close(self) -> None:
        call, self._open = self._open, None
        if call is not None:
            function = {"name": call.name, "arguments": "".join(self._arguments)}
            self._calls.append(encode_object({"id": call.id, "type": "function", "function": function}))
            self._arguments.clear()


def _read(parser: Parser, text: str, given_up: Callable[[], bool]) -> _Found:
    found = _Found()
    for start in range(0, len(text), _SLICE):
        if given_up():
            raise ClientGone("The client left before its text was read.")
        found.add(parser.feed(text[start : start + _SLICE]))
    found.add(parser.finish())
    return found


def _family(wire: ParseBody, family_of: FamilyOf) -> Family:
    for param in ("parser", "tool_call_parser", "reasoning_parser", "model"):
        name: str | None = getattr(wire, param)
        if name is None:
            continue
        try:
            return (family_of(name) or explain(name).family) if param == "model" else family_named(name)
        except UnknownModelFamily as unknown:
            raise InvalidRequest(f"{unknown}.", param=param) from unknown
    raise InvalidRequest("Name a parser family with 'parser', or a model with 'model'.", param="parser")


def _answer(family: Family, fields: Mapping[str, Any], found: _Found) -> bytes:
    return encode_object({**fields, "reasoning_text": "".join(found.thought), "family": family.name, "success": True})
