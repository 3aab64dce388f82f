"""The markers of reasoning.

Decides: what a family says about its reasoning, and whether a rendered prompt has already opened a block of it.
Above: `table`, `parser`. Below: `checked`.
Does not know: models or calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from smg_parsers.pieces.checked import Checked

TURNS: Final = (
    "<|im_start|>assistant",
    "<｜Assistant｜>",
    "<|assistant|>",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|header_start|>assistant<|header_end|>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "<|im_assistant|>",
    "<start_of_turn>model",
    "<|turn>model",
    "<seed:bos>assistant",
    "<|start|>assistant",
    "]~b]ai",
    "<|message_model|>",
    "<SPECIAL_11>Assistant",
    "[|assistant|]",
    "[/INST]",
    "<|Assistant|>",
    "<|hy_Assistant|>",
    '<|open|>message role="assistant"<|sep|>',
    "<assistant>",
    "<|im:start|>assistant<|im:content|>",
)
"""Texts that begin the assistant's turn in prompts. Text before the last one does not count: users wrote it."""


@dataclass(frozen=True, slots=True)
class Thinking(Checked):
    """The markers of one family's reasoning.

    `breaks` end reasoning like `closes`, and are dropped everywhere. `opens_in_prompt`: the usual chat template opens
    reasoning in the prompt (for callers who do not have the rendered prompt). `interleaved`: an opening marker counts
    anywhere in the answer, because it is a special token, which an answer does not quote.
    """

    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    opens_in_prompt: bool = False
    interleaved: bool = False


THINK: Final = Thinking(opens=("<think>",), closes=("</think>",))
THINK_OPEN: Final = Thinking(opens=("<think>",), closes=("</think>",), opens_in_prompt=True)
NONE: Final = Thinking()


def left_at(prompt: str, thinking: Thinking) -> tuple[str | None, bool]:
    """Where a rendered prompt leaves the reasoning: the marker of the block that it ends inside, so that the output begins
    there, None outside of one; and whether it ends behind reasoning of the assistant's turn, so that the output begins with the
    answer, which is how templates switch reasoning off."""
    turn = max(map(prompt.rfind, TURNS))
    if turn < 0:
        end = prompt.rstrip()
        ended = [marker for marker in thinking.opens if end.endswith(marker.rstrip())]
        return max(ended, key=len, default=None), bool(thinking.closes) and end.endswith(thinking.closes)
    answer, opened, marker = prompt[turn:], -1, ""
    for each in thinking.opens:
        at = answer.rfind(each)
        if (at, len(each)) > (opened, len(marker)):
            opened, marker = at, each
    closed = max(map(answer.rfind, (*thinking.closes, *thinking.breaks)), default=-1)
    return (marker, False) if opened > closed else (None, closed >= 0)


def left_open(prompt: str, thinking: Thinking) -> bool:
    """Whether a rendered prompt ends inside reasoning, so that the output begins there."""
    return left_at(prompt, thinking)[0] is not None


def marks_of(thinking: Thinking) -> tuple[tuple[str, str], ...]:
    """The markers between which the family's reasoning stands, as pairs; none where it is not told by a pair."""
    opens, closes = thinking.opens, thinking.closes
    if len(opens) == len(closes):
        return tuple(zip(opens, closes, strict=True))
    return tuple((marker, closes[0]) for marker in opens) if closes else ()
