"""`/parse/reasoning` and `/parse/function_call`: parse a text that a model wrote, without generating anything.

Decides the bodies of the two, and which parser is used: that of the family named in the request, else that of the model named.
Each answer holds the whole text (reasoning, calls, the rest), so nothing is lost. The text's length is checked first; it is
parsed in pieces, and the work can be stopped between two. Pure. Above: the server, which knows its models' families and runs
this off its event loop. Below: smg_parsers.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from smg_core.errors import ClientGone, InvalidRequest
from smg_core.json_types import JsonObject
from smg_core.wire.decoding import WireDecoder, check_depth, too_many
from smg_core.wire.json_text import encode_object
from smg_core.wire.scalars import ModelName
from smg_core.wire.settings import LimitsConfig
from smg_parsers import CallArguments, CallStart, Family, Parser, Piece, Reasoning, Text, UnknownModelFamily, explain
from smg_parsers.families.models import family as family_named

__all__ = ["FamilyOf", "ParseBody", "parse_function_call", "parse_reasoning"]

FamilyOf = Callable[[str], Family | None]
"""The parser family of a served model; None for a name that is no served model."""


class _Function(msgspec.Struct):
    name: str
    parameters: JsonObject | None = None
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
    model: ModelName | None = None
    tools: list[_Tool] = []
    in_reasoning: bool | None = None


_DECODER = WireDecoder(ParseBody, {})


_SLICE_CHARACTERS = 4096
"""Characters that are parsed at once: some tens of milliseconds at most."""


def _never() -> bool:
    return False


def parse_function_call(
    body: bytes, limits: LimitsConfig, family_of: FamilyOf, given_up: Callable[[], bool] = _never
) -> bytes:
    """`{"remaining_text", "reasoning_text", "tool_calls", "family", "success"}`. Raises InvalidRequest, and ClientGone
    when `given_up`, which is called between two pieces, says that the client has left."""
    wire = _wire(body, limits)
    family, tools = _family(wire, family_of), _tools(wire, limits)
    # A request for calls that names no tools wants all of them.
    parser = Parser(family, tools=tools, any_tool=tools is None, in_reasoning=_begins_in_reasoning(wire, family))
    found = _parse(parser, wire.text, given_up)
    return _answer(family, {"remaining_text": "".join(found.text), "tool_calls": found.calls()}, found)


def parse_reasoning(
    body: bytes, limits: LimitsConfig, family_of: FamilyOf, given_up: Callable[[], bool] = _never
) -> bytes:
    """`{"normal_text", "reasoning_text", "family", "success"}`; calls stay in the text, even those before the end of the
    reasoning, so that `/parse/function_call` finds them there. Raises as `parse_function_call`."""
    wire = _wire(body, limits)
    family = _family(wire, family_of)
    parser = Parser(family, tools=_tools(wire, limits), in_reasoning=wire.in_reasoning, keep_calls=True)
    found = _parse(parser, wire.text, given_up)
    return _answer(family, {"normal_text": "".join(found.text)}, found)


def _tools(wire: ParseBody, limits: LimitsConfig) -> list[JsonObject] | None:
    """The tools in the parser's form; None when the request names none."""
    if len(wire.tools) > limits.tools:
        raise too_many("tools", len(wire.tools), limits.tools, "tools")
    tools: list[JsonObject] = [
        {"name": tool.function.name, "parameters": tool.function.parameters or {}} for tool in wire.tools
    ]
    return tools or None


def _begins_in_reasoning(wire: ParseBody, family: Family) -> bool:
    """Whether a text to find calls in begins inside reasoning. When the request does not say: only if the text has the
    end of that reasoning, since clients have mostly removed reasoning before."""
    thinking = family.thinking
    if wire.in_reasoning is not None or not thinking.opens_in_prompt:
        return bool(wire.in_reasoning)
    ends = min((at for at in map(wire.text.find, thinking.closes) if at >= 0), default=-1)
    return ends >= 0 and not any(opening in wire.text[:ends] for opening in thinking.opens)


def _wire(body: bytes, limits: LimitsConfig) -> ParseBody:
    """Decode the body. Raises InvalidRequest when its text is too long or a schema is too deep."""
    wire = _DECODER.decode(body, limits)
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
    """The parts of a text, kept as strings only: with an object for each of a hundred thousand pieces, the garbage collector,
    which stops all threads, would walk over all of them again and again."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.thought: list[str] = []
        self._calls: list[bytes] = []
        self._open: CallStart | None = None
        self._arguments: list[str] = []  # of the call that is open

    def add(self, pieces: Iterable[Piece]) -> None:
        """Take in more pieces. Pieces that are not part of the answer are ignored."""
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
        """The calls as a JSON list, in order. A call ends when the next one begins."""
        self._close()
        return msgspec.Raw(b"[%b]" % b",".join(self._calls))

    def _close(self) -> None:
        call, self._open = self._open, None
        if call is not None:
            function = {"name": call.name, "arguments": "".join(self._arguments)}
            self._calls.append(encode_object({"id": call.id, "type": "function", "function": function}))
            self._arguments.clear()


def _parse(parser: Parser, text: str, given_up: Callable[[], bool]) -> _Found:
    found = _Found()
    for start in range(0, len(text), _SLICE_CHARACTERS):
        if given_up():
            raise ClientGone("The client left before its text was read.")
        found.add(parser.feed(text[start : start + _SLICE_CHARACTERS]))
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


def _answer(family: Family, fields: Mapping[str, object], found: _Found) -> bytes:
    return encode_object({**fields, "reasoning_text": "".join(found.thought), "family": family.name, "success": True})
