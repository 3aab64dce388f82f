"""Checks the text of one choice against the response format, while it comes and when it is complete.

Decides what happens to a text that violates its format, by `structured.on_violation`: it is sent unchanged and reported, it fails
the response, or it is repaired if there is only one way (`smg_parsers.json_text.json_mending`), else sent unchanged. A text
that was cut off by the client's `max_tokens` is no violation; it is closed if possible. Pure. Above: output and chat_reader,
one for each choice. Below: formats makes the check.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from smg_core.errors import FormatViolated
from smg_core.events import FinishReason
from smg_parsers.json_text.json_mending import JsonMender

__all__ = ["Check", "Conformance", "OnViolation", "Verdict"]

Check = Callable[[str], str | None]
"""Returns why a complete text violates the format, None if it does not."""

OnViolation = Literal["report", "error", "repair"]


class Verdict(Struct, frozen=True):
    """The `rest` of a choice's text to send, and the violation of the format, if any; `mended`: the text was repaired."""

    rest: str = ""
    violation: str | None = None
    mended: bool = False


class Conformance:
    """One choice's text against its format."""

    __slots__ = ("_check", "_mender", "_sent", "_strict")

    def __init__(self, check: Check, on_violation: OnViolation) -> None:
        self._check = check
        self._strict = on_violation == "error"
        self._mender = JsonMender() if on_violation == "repair" else None
        self._sent: list[str] = []

    def feed(self, text: str) -> str:
        """Take more text; returns the part that can be sent now."""
        if self._mender is not None:
            text = self._mender.feed(text)
        self._sent.append(text)
        return text

    def finish(self, reason: FinishReason, *, calls: bool) -> Verdict:
        """To be called at the end of the text. With `calls`, the text need not be of the format. Raises FormatViolated."""
        mender = self._mender
        if calls or reason not in ("stop", "length"):
            return Verdict(mender.as_written() if mender is not None else "")
        sent = "".join(self._sent)
        rest = ""
        if mender is not None:
            ended = mender.finish(sent, lambda text: self._check(text) is None)
            if ended.faults:
                return Verdict(ended.rest, ", and ".join(ended.faults), mended=True)
            rest = ended.rest
        fault = self._check(sent + rest) if reason == "stop" else None
        if fault is not None and self._strict:
            raise FormatViolated(
                f"The model's output does not conform to the requested format: {fault}", outside_text=fault
            )
        return Verdict(rest, fault)
