"""Writers of the families of 2026."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .json_formats import JSON_FORMATS, THINK, THINK_LINE
from .model import Call, Format, Piece, Segment, dump
from .xml_formats import XML_FORMATS, as_json

_ROWS = {form.family: form for form in (*JSON_FORMATS, *XML_FORMATS)}


def _message(begin: str, kind: str, body: str, end: str) -> list[Segment]:
    return [Segment("mark", begin), Segment(kind, body), Segment("mark", end)]


def _atem(call: Call) -> str:
    values = "".join(
        f'<atem:parameter name="{key}">{as_json(value)}</atem:parameter>\n' for key, value in call.arguments.items()
    )
    return f'<atem:function_calls>\n<atem:invoke name="{call.name}">\n{values}</atem:invoke>\n</atem:function_calls>'


@dataclass(frozen=True, slots=True)
class Muse(Format):
    """Muse: every piece is a message to somebody; the prompt holds the first ``<|start|>assistant``."""

    def layout(self, pieces: Sequence[Piece], *, in_reasoning: bool = False) -> list[Segment]:
        """Messages joined by the header of the next one; the token that ends the turn is no part of it."""
        messages: list[list[Segment]] = []
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            end = "" if last else "<|eom|>"
            if piece.kind == "reasoning":
                messages.append(_message(" to=self<|message|>", "reasoning", piece.body, end))
            elif piece.kind == "text":
                messages.append(_message(" to=user<|message|>", "text", piece.body, end))
            else:
                for index, call in enumerate(piece.calls):
                    ended = "" if last and index == len(piece.calls) - 1 else "<|eom|>"
                    written = f" to={call.name}<|message|>{_atem(call)}"
                    messages.append([Segment("calls", written, (call,)), Segment("mark", ended)])
        joined = messages[0]
        for message in messages[1:]:
            joined = [*joined, Segment("mark", "<|start|>assistant"), *message]
        return joined


def _beam_call(call: Call) -> str:
    values = "".join(
        f'<rfl:parameter name="{key}">\n{as_json(value)}\n</rfl:parameter>' for key, value in call.arguments.items()
    )
    return f" to={call.name}<|channel|>analysis <|constrain|>xml<|message|>{values}<|call|>"


@dataclass(frozen=True, slots=True)
class Beam(Format):
    """Beam: every piece is a message with a channel or a recipient; the prompt holds the first ``<|start|>assistant``."""

    def layout(self, pieces: Sequence[Piece], *, in_reasoning: bool = False) -> list[Segment]:
        """Messages joined by the header of the next one."""
        messages: list[list[Segment]] = []
        for number, piece in enumerate(pieces):
            if piece.kind == "reasoning":
                messages.append(_message("<|channel|>analysis<|message|>", "reasoning", piece.body, "<|end|>"))
            elif piece.kind == "text":
                end = "<|return|>" if number == len(pieces) - 1 else "<|end|>"
                messages.append(_message("<|channel|>final<|message|>", "text", piece.body, end))
            else:
                messages.extend([Segment("calls", _beam_call(call), (call,))] for call in piece.calls)
        joined = messages[0]
        for message in messages[1:]:
            joined = [*joined, Segment("mark", "<|start|>assistant"), *message]
        return joined


@dataclass(frozen=True, slots=True)
class Clova(Format):
    """HyperCLOVA X SEED Think 14B: every piece is a turn; the prompt holds the first ``<|im_start|>assistant``."""

    def layout(self, pieces: Sequence[Piece], *, in_reasoning: bool = False) -> list[Segment]:
        """Turns joined by the beginning of the next one; with ``in_reasoning`` the prompt holds ``/think`` too."""
        turns: list[list[Segment]] = []
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            if piece.kind == "reasoning":
                turns.append(
                    _message("" if in_reasoning and not number else "/think\n", "reasoning", piece.body, "<|im_end|>\n")
                )
            elif piece.kind == "text":
                turns.append(_message("\n", "text", piece.body, "<|im_end|><|endofturn|>" if last else "<|im_end|>\n"))
            else:
                end = "<|im_end|><|stop|>" if last else "<|im_end|>\n"
                written = f" -> tool/function_call\n{self.block(piece.calls, 0)}"
                turns.append([Segment("calls", written, piece.calls), Segment("mark", end)])
        joined = turns[0]
        for turn in turns[1:]:
            joined = [*joined, Segment("mark", "<|im_start|>assistant"), *turn]
        return joined


def _listed(made: Sequence[Call], _: int) -> str:
    return dump([{"name": call.name, "arguments": call.arguments} for call in made])


def _pairs(between: str, line: str) -> Callable[[Sequence[Call], int], str]:
    def one(call: Call) -> str:
        values = "".join(
            f"<arg_key>{key}</arg_key>{between}<arg_value>{as_json(value)}</arg_value>{line}"
            for key, value in call.arguments.items()
        )
        return f"<tool_call>{call.name}\n{values}</tool_call>"

    return lambda made, _: "\n".join(map(one, made))


def _solar(made: Sequence[Call], _: int) -> str:
    def one(call: Call) -> str:
        values = "".join(
            f"<|tool_arg:start|>{key}<|tool_arg:value|>{as_json(value)}<|tool_arg:end|>\n"
            for key, value in call.arguments.items()
        )
        return f"<|tool_call:start|>{call.name}\n{values}<|tool_call:end|>"

    return "\n".join(map(one, made))


FORMATS_2026 = [
    *(
        Muse(
            family,
            source,
            lambda made, _: "",
            opener="<atem:function_calls>",
            think=(" to=self<|message|>", "<|eom|>"),
            value_end="</atem:parameter>",
            value_kind="schema",
        )
        for family, source in (
            ("muse_glimmer", "prompts of Muse Glimmer's chat template that public tests quote"),
            ("muse_spark", "public Muse parser"),
        )
    ),
    Beam(
        "beam",
        "public response template of Beam",
        lambda made, _: "",
        opener="<|channel|>analysis <|constrain|>xml",
        think=("<|channel|>analysis<|message|>", "<|end|>"),
        value_end="</rfl:parameter>",
        value_kind="schema",
    ),
    Clova(
        "hyperclovax_think_14b",
        "naver-hyperclovax/HyperCLOVAX-SEED-Think-14B model card",
        _listed,
        opener=" -> tool/function_call\n",
        think=("/think\n", "<|im_end|>"),
    ),
    Format(
        "laguna",
        "poolside/Laguna-XS.2 chat template",
        _pairs("\n", "\n"),
        opener="<tool_call>",
        think=THINK,
        value_end="</arg_value>",
        value_kind="schema",
    ),
    Format(
        "spark25",
        "public Spark-X2.5 parser",
        _pairs("", "\n"),
        opener="<tool_call>",
        think=THINK,
        value_end="</arg_value>",
        value_kind="schema",
    ),
    Format("trinity", "public Trinity parser", _ROWS["qwen3"].block, opener="<tool_call>", think=THINK),
    Format(
        "trinity_thinking",
        "serving guide for arcee-ai/Trinity-Large-Thinking",
        _ROWS["qwen35"].block,
        opener="<tool_call>",
        think=THINK,
        opened=True,
        value_end="</parameter>",
        value_kind="schema",
    ),
    Format(
        "step5",
        "public Step 5 parser",
        _ROWS["qwen35"].block,
        opener="<tool_call>",
        think=THINK_LINE,
        opened=True,
        value_end="</parameter>",
        value_kind="schema",
    ),
    Format(
        "cohere_north",
        "public Cohere Command 4 parser",
        _ROWS["command_a"].block,
        opener="<|START_ACTION|>",
        think=("<|START_THINKING|>", "<|END_THINKING|>"),
        answer=("<|START_TEXT|>", "<|END_TEXT|>"),
        ids=_ROWS["command_a"].ids,
    ),
    Format(
        "solar_open2",
        "public Solar Open 2 parser",
        _solar,
        opener="<|tool_call:start|>",
        think=("<|think:start|>", "<|think:end|>"),
        opened=True,
        value_end="<|tool_arg:end|>",
        value_kind="schema",
    ),
    Format(
        "hyperclovax_think",
        "public HyperCLOVA X SEED Think parser",
        _pairs("\n", "\n"),
        opener="<tool_call>",
        think=("<think>\n", "</think>\n\n"),
        opened=True,
        value_end="</arg_value>",
        value_kind="schema",
    ),
]
