"""The embedded engine's own door: its faults, set while it runs (`smg.simulator.v1.Control`).

Turns messages into a plan of faults and back. Pure: `simulator.server` answers the calls. A gateway never makes them.
"""

from collections.abc import Mapping
from typing import cast

from smg_core.simulator._pb import control_pb2 as pb
from smg_core.simulator.faults import Fault, FaultKind, Faults

__all__ = ["SERVICE", "apply_faults", "fault_plan", "faults_request"]

SERVICE = "smg.simulator.v1.Control"


def faults_request(
    *script: Fault | None, rates: Mapping[Fault, float] | None = None, clear: bool = False
) -> "pb.SetFaultsRequest":
    """The message that lets the next requests meet `script`, one each (None: spared), and shares of the others `rates`."""
    return pb.SetFaultsRequest(
        script=[pb.Turn(fault=_message(fault)) if fault is not None else pb.Turn() for fault in script],
        rates=[pb.Rate(fault=_message(fault), share=share) for fault, share in (rates or {}).items()],
        clear=clear,
    )


def apply_faults(request: "pb.SetFaultsRequest", faults: Faults) -> None:
    """Do what the message says. Raises ValueError for what is no plan; then nothing has changed."""
    script = [_fault(turn.fault) if turn.HasField("fault") else None for turn in request.script]
    rates = {_fault(rate.fault): rate.share for rate in request.rates}
    if len(rates) != len(request.rates):
        raise ValueError("a fault has two rates")
    faults.replace(script, rates, clear=request.clear)


def fault_plan(faults: Faults, met: int) -> "pb.FaultPlan":
    """What is set, and how many requests have met a fault."""
    rates = [pb.Rate(fault=_message(fault), share=share) for fault, share in faults.rates.items()]
    return pb.FaultPlan(waiting=faults.waiting, rates=rates, met=met)


def _fault(message: "pb.Fault") -> Fault:
    """The fault of a message. Raises ValueError for one that is none."""
    return Fault(
        cast("FaultKind", message.kind),
        message.after,
        message.seconds if message.HasField("seconds") else None,
        message.status,
        message.message or "a fault was asked for",
    )


def _message(fault: Fault) -> "pb.Fault":
    return pb.Fault(
        kind=fault.kind, after=fault.after, seconds=fault.seconds, status=fault.status, message=fault.message
    )
