"""The legs of one request, prefill and decode and sometimes encode, as one call of an engine.

Decides what happens when something happens to one of them: when the decode engine is asked, when the other legs are cancelled,
and when the client may see the first token. Pure: it is pushed to by the readers of the calls, and has its timer set and its
calls made by whoever made it (`Doing`). Above: pipeline.pairs.pairing. Below: engines.base.

    state      means                                                     what is held back
    encode     all three were asked; encode has not accepted the media   -
    early      the same, but decode has begun                            all that decode says
    prefill    the prefill engine works; decode is not asked yet         -
    both       both were asked; decode has said nothing                  -
    held       both were asked; decode has begun before prefill said     all that decode says
               that it was done
    transfer   prefill is done; decode has said nothing                  -
    decode     decode answers alone                                      -
    over       done, failed or given up                                  everything

`TRANSITIONS` has every pair of state and event that means something; any other changes nothing. Nothing reaches the client before
the prefill engine has said that it is done, or for `end_s` seconds after decode has begun: so a request can still be tried
elsewhere when an engine fails. Whichever fails, the others are cancelled in the same call.

The encode leg is over when its engines have accepted the media: that they made embeddings of them is told by the prefill engine,
which has waited for these. Once that one is done, the embeddings are no longer needed, and what becomes of the encode leg
changes nothing for the client; its outcome is still awaited, and reported with its worker, until the request is over.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from smg_core.engines.base import EngineLogprob, EngineOutput, EngineSink
from smg_core.engines.calls import AnswerCall
from smg_core.errors import EngineFailed, EngineGarbled, EngineStalled, SmgError

__all__ = ["TRANSITIONS", "Action", "Doing", "Leg", "LegEvent", "LegState", "Legs"]

Leg = Literal["encode", "prefill", "decode"]
LegState = Literal["encode", "early", "prefill", "both", "held", "transfer", "decode", "over"]
LegEvent = Literal[
    "encode_done",
    "encode_failed",
    "prefill_done",
    "prefill_failed",
    "decode_output",
    "decode_failed",
    "decode_done",
    "overdue",
    "given_up",
]
Action = Literal[
    "ask_decode",
    "drop_encode",
    "drop_prefill",
    "drop_decode",
    "await_transfer",
    "await_end",
    "stop_timer",
    "handed_over",
    "release",
    "fail",
    "stall",
    "end",
]

TRANSITIONS: dict[tuple[LegState, LegEvent], tuple[LegState, tuple[Action, ...]]] = {
    ("encode", "encode_done"): ("both", ()),
    ("encode", "encode_failed"): ("over", ("drop_encode", "drop_prefill", "drop_decode", "fail")),
    ("encode", "prefill_done"): ("transfer", ("await_transfer",)),
    ("encode", "prefill_failed"): ("over", ("drop_encode", "drop_decode", "fail")),
    ("encode", "decode_output"): ("early", ("await_end",)),
    ("encode", "decode_done"): ("early", ("await_end",)),
    ("encode", "decode_failed"): ("over", ("drop_encode", "drop_prefill", "fail")),
    ("encode", "given_up"): ("over", ("drop_encode", "drop_prefill", "drop_decode")),
    ("early", "encode_done"): ("held", ()),
    ("early", "encode_failed"): ("over", ("stop_timer", "drop_encode", "drop_prefill", "drop_decode", "fail")),
    ("early", "prefill_done"): ("decode", ("stop_timer", "handed_over", "release")),
    ("early", "prefill_failed"): ("over", ("stop_timer", "drop_encode", "drop_decode", "fail")),
    ("early", "decode_failed"): ("over", ("stop_timer", "drop_encode", "drop_prefill", "fail")),
    ("early", "overdue"): ("decode", ("drop_prefill", "release")),
    ("early", "given_up"): ("over", ("stop_timer", "drop_encode", "drop_prefill", "drop_decode")),
    ("prefill", "prefill_done"): ("transfer", ("await_transfer", "ask_decode")),
    ("prefill", "prefill_failed"): ("over", ("fail",)),
    ("prefill", "given_up"): ("over", ("drop_prefill",)),
    ("both", "prefill_done"): ("transfer", ("await_transfer",)),
    ("both", "prefill_failed"): ("over", ("drop_decode", "fail")),
    ("both", "decode_output"): ("held", ("await_end",)),
    ("both", "decode_done"): ("held", ("await_end",)),
    ("both", "decode_failed"): ("over", ("drop_prefill", "fail")),
    ("both", "given_up"): ("over", ("drop_prefill", "drop_decode")),
    ("held", "prefill_done"): ("decode", ("stop_timer", "handed_over", "release")),
    ("held", "prefill_failed"): ("over", ("stop_timer", "drop_decode", "fail")),
    ("held", "decode_failed"): ("over", ("stop_timer", "drop_prefill", "fail")),
    ("held", "overdue"): ("decode", ("drop_prefill", "release")),
    ("held", "given_up"): ("over", ("stop_timer", "drop_prefill", "drop_decode")),
    ("transfer", "decode_output"): ("decode", ("stop_timer", "handed_over")),
    ("transfer", "decode_failed"): ("over", ("stop_timer", "drop_encode", "fail")),
    ("transfer", "decode_done"): ("over", ("stop_timer", "drop_encode", "end")),
    ("transfer", "overdue"): ("over", ("drop_encode", "drop_decode", "stall")),
    ("transfer", "given_up"): ("over", ("stop_timer", "drop_encode", "drop_decode")),
    ("decode", "decode_failed"): ("over", ("drop_encode", "fail")),
    ("decode", "decode_done"): ("over", ("drop_encode", "end")),
    ("decode", "given_up"): ("over", ("drop_encode", "drop_decode")),
}
"""(state, event) to the next state and what is done, in order."""

_READING: frozenset[LegState] = frozenset({"encode", "early", "prefill", "both", "held"})
"""While the prefill engine works."""
_SLOW: dict[LegState, Leg] = {
    "encode": "encode",
    "early": "encode",
    "prefill": "prefill",
    "both": "prefill",
    "held": "prefill",
}
"""Whose engine is to blame when nothing comes for too long: the one that must speak first. In any other state, that of decode."""

_DROPPED: dict[Action, Leg] = {"drop_encode": "encode", "drop_prefill": "prefill", "drop_decode": "decode"}

_FAILURES = ("error", "abort")
"""Ends of an output that are no end of an answer."""

_STALLED = "The engine did not answer in time."


class Doing(Protocol):
    """What the legs have done for them."""

    def ask_decode(self, answered: EngineOutput) -> None:
        """Ask the decode engine, told what the prefill engine `answered`; its outputs go to `Legs.decode`."""
        ...

    def not_handed_over(self, answered: EngineOutput) -> SmgError | None:
        """The error of a prefill engine whose last output does not say where the cache lies, and should."""
        ...

    def drop(self, leg: Leg) -> None:
        """Cancel the calls of a leg, or the attempt to make them, and tell its engine to forget the request. Nothing is done for
        a leg that is over."""
        ...

    def set_timer(self, kind: Literal["transfer", "end"]) -> None:
        """Call `Legs.overdue` after the time that this may take."""
        ...

    def stop_timer(self) -> None: ...

    def handed_over(self) -> None:
        """The engine that answers has the cache of the other."""
        ...

    def ended(self, leg: Leg, error: SmgError | None) -> None:
        """A leg is over: its engine ended it, or it failed with `error`. Not called for one that was dropped."""
        ...


class Legs:
    """The `AnswerCall` of all legs, whose outputs go to `sink`. `together`: both engines are asked at once; `encodes`: encode
    workers too, which takes engines that are asked at once. `failed` is the leg whose engine is to blame when the call was not
    completed; `error` is what that engine ended with, None where it was only given up. `handed_nothing`: the engine that answers
    failed, or was silent for too long, while it waited for the cache of the other: either may be to blame. `waited`: it
    was given up in the midst of that."""

    def __init__(self, sink: EngineSink[EngineOutput], doing: Doing, *, together: bool, encodes: bool = False) -> None:
        self.state: LegState = "encode" if encodes else "both" if together else "prefill"
        self.failed: Leg | None = None
        self.prefill: EngineSink[EngineOutput] = _PrefillSink(self)
        self.decode: EngineSink[EngineOutput] = _DecodeSink(self)
        self._sink = sink
        self._doing = doing
        self._calls: dict[Leg, AnswerCall] = {}
        self._paused = False
        self.error: SmgError | None = None
        self.handed_nothing = False
        self.waited = False
        self._held: list[EngineOutput] = []
        self._held_end = False
        self._cached: int | None = None
        self._answered = EngineOutput()
        self._scores: Sequence[EngineLogprob | None] = ()

    # ------------------------------------------------------------------------------------------------ told by its maker

    def attach(self, leg: Leg, call: AnswerCall) -> bool:
        """Take the call of a leg, whose outputs may have come already. False: the legs are over, so the call is not taken."""
        if self.state == "over":
            return False
        self._calls[leg] = call
        if leg == "decode" and (self._paused or self.state in ("held", "early")):
            call.pause()
        return True

    def needs(self, leg: Leg) -> bool:
        """Whether the engine of a leg is still needed for the answer: those of the media until the prompt is read, the one that
        reads it until its cache is handed over, and the one that answers always."""
        if leg == "encode":
            return self.state in _READING
        return leg == "decode" or self.state not in ("decode", "over")

    @property
    def over(self) -> bool:
        return self.state == "over"

    def overdue(self) -> None:
        """The timer has run out."""
        self._happened("overdue")

    def detach(self, leg: Leg) -> AnswerCall | None:
        """The call of a leg, which is no longer one of theirs."""
        return self._calls.pop(leg, None)

    # ------------------------------------------------------------------------------------------------ told by the owner

    def cancel(self) -> None:
        if self.state != "over":
            self.waited = self.state == "transfer"
            self.failed = _SLOW.get(self.state, "decode")
        self._happened("given_up")

    def leave(self) -> None:
        """The answer is whole, so whatever still runs is over for the client; the ends of the streams are due."""
        calls = list(self._calls.values())
        self._calls.clear()
        self._happened("decode_done")
        for call in calls:
            call.leave()

    def pause(self) -> None:
        self._paused = True
        self._pause_decode()

    def _pause_decode(self) -> None:
        if (call := self._calls.get("decode")) is not None:
            call.pause()

    def resume(self) -> None:
        self._paused = False
        self._resume_decode()

    def _resume_decode(self) -> None:
        if not self._paused and self.state not in ("held", "early") and (call := self._calls.get("decode")) is not None:
            call.resume()

    # --------------------------------------------------------------------------------------------- pushed by the engines

    def encoded(self) -> None:
        """The encode workers have accepted all media."""
        self._happened("encode_done")

    def encode_failed(self, error: SmgError) -> None:
        """An encode worker has not accepted a medium."""
        if self.state in ("encode", "early"):
            self.failed, self.error = "encode", error
            self._happened("encode_failed")

    def prefill_pushed(self, outputs: Sequence[EngineOutput]) -> None:
        """Outputs of the prefill engine. The one with the end of its choice says where the cache lies."""
        for each in outputs:
            if each.prompt_logprobs:
                self._scores = each.prompt_logprobs
            if each.finish in _FAILURES:
                detail = f"the prefill engine ended with {each.finish}"
                self._fail("prefill", EngineFailed("The engine failed while it worked on the request.", detail=detail))
            elif each.finish is not None and self.state in _READING:
                self._prefill_done(each)

    def _prefill_done(self, answered: EngineOutput) -> None:
        if (error := self._doing.not_handed_over(answered)) is not None:
            self._fail("prefill", error)
            return
        self._cached = answered.cached_tokens
        self._doing.ended("prefill", None)
        self._answered = answered
        self._happened("prefill_done")

    def prefill_closed(self, error: SmgError | None) -> None:
        """The prefill engine's stream is over."""
        self._calls.pop("prefill", None)
        if self.state in _READING:
            detail = "the prefill engine's stream ended before it had read the prompt"
            self._fail("prefill", error or EngineGarbled("The engine broke its own protocol.", detail=detail))

    def decode_pushed(self, outputs: Sequence[EngineOutput]) -> None:
        """Outputs of the decode engine. A failure alone is none: the engine has answered nothing."""
        end = next((each.finish for each in outputs if each.finish in _FAILURES), None)
        if end is not None and self.state != "decode" and not any(each.ids for each in outputs):
            detail = f"the decode engine ended with {end}"
            self._fail("decode", EngineFailed("The engine failed while it worked on the request.", detail=detail))
            return
        self._happened("decode_output")
        if self.state in ("held", "early"):
            self._held += outputs
        elif self.state == "decode":
            self._pass_on(outputs)

    def decode_closed(self, error: SmgError | None) -> None:
        """The decode engine's stream is over, or could not be opened."""
        self._calls.pop("decode", None)
        if error is not None:
            self._fail("decode", error)
            return
        self._held_end = True
        self._happened("decode_done")

    # -------------------------------------------------------------------------------------------------------- decided

    def _fail(self, leg: Leg, error: SmgError) -> None:
        if self.state == "over" or (leg == "prefill" and self.state in ("transfer", "decode")):
            return
        self.failed, self.error = leg, error
        # Engines say no more than that they failed, also where the one that has the cache is gone.
        self.handed_nothing = leg == "decode" and self.state == "transfer" and isinstance(error, EngineFailed)
        self._doing.ended(leg, error)
        self._happened("prefill_failed" if leg == "prefill" else "decode_failed")

    def _happened(self, event: LegEvent) -> None:
        found = TRANSITIONS.get((self.state, event))
        if found is None:
            return
        self.state, actions = found
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case "ask_decode":
                self._doing.ask_decode(self._answered)
            case "drop_encode" | "drop_prefill" | "drop_decode":
                self._doing.drop(_DROPPED[action])
            case "await_transfer":
                self._doing.set_timer("transfer")
            case "await_end":
                self._pause_decode()
                self._doing.set_timer("end")
            case "stop_timer":
                self._doing.stop_timer()
            case "handed_over":
                self._doing.handed_over()
            case "release":
                self._release()
            case "stall":
                self.failed, self.handed_nothing = "decode", True
                stalled = EngineStalled(_STALLED, detail="the decode engine got no cache in time")
                self.error = stalled
                self._doing.ended("decode", stalled)
                self._sink.closed(stalled)
            case "fail":
                self._sink.closed(self.error)
            case "end":
                self._doing.ended("decode", None)
                self._sink.closed(None)

    def _release(self) -> None:
        held, self._held = self._held, []
        if held:
            self._pass_on(held)
        if self._held_end:
            self._happened("decode_done")
        else:
            self._resume_decode()

    def _pass_on(self, outputs: Sequence[EngineOutput]) -> None:
        """Pass on what decode says, with what prefill knows of the prompt: to decode, all of it was computed elsewhere."""
        if self._cached is not None:
            for each in outputs:
                each.cached_tokens = self._cached
        if self._scores:
            outputs[0].prompt_logprobs, self._scores = self._scores, ()
        self._sink.push(outputs)


class _PrefillSink:
    """Where the prefill engine's call is pushed."""

    __slots__ = ("_legs",)

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    def push(self, outputs: Sequence[EngineOutput]) -> None:
        self._legs.prefill_pushed(outputs)

    def closed(self, error: SmgError | None) -> None:
        self._legs.prefill_closed(error)


class _DecodeSink:
    """Where the decode engine's call is pushed."""

    __slots__ = ("_legs",)

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    def push(self, outputs: Sequence[EngineOutput]) -> None:
        self._legs.decode_pushed(outputs)

    def closed(self, error: SmgError | None) -> None:
        self._legs.decode_closed(error)
