"""The service `smg.simulator.v1.Control`, which sets the faults of a running engine. Gateways do not call it.

Turns its messages into faults and back; pure. Above: server.grpc_server answers the calls, server.remote makes them.
"""

from collections.abc import Mapping
from typing import cast

from google.protobuf.message import DecodeError

from smg_simulator.answers.faults import Fault, FaultKind, Faults
from smg_simulator.server._pb import control_pb2 as pb

__all__ = ["SERVICE", "apply_faults", "fault_plan", "faults_request", "parse_request"]

SERVICE = "smg.simulator.v1.Control"


def faults_request(
    *script: Fault | None, rates: Mapping[Fault, float] | None = None, clear: bool = False
) -> "pb.SetFaultsRequest":
    """The message that appends `script` to the faults (one for each request, None: no fault) and sets `rates`; `clear` drops
    the faults that wait."""
    return pb.SetFaultsRequest(
        script=[pb.Turn(fault=_message(fault)) if fault is not None else pb.Turn() for fault in script],
        rates=[pb.Rate(fault=_message(fault), share=share) for fault, share in (rates or {}).items()],
        clear=clear,
    )


def parse_request(message: bytes) -> "pb.SetFaultsRequest":
    """Parse the bytes of a SetFaults call. Raises ValueError."""
    try:
        return pb.SetFaultsRequest.FromString(message)
    except DecodeError as error:
        raise ValueError(str(error)) from error


def apply_faults(request: "pb.SetFaultsRequest", faults: Faults) -> None:
    """Change `faults` as the request asks. Raises ValueError for a fault or a rate that is not allowed; then nothing has
    changed."""
    script = [_fault(turn.fault) if turn.HasField("fault") else None for turn in request.script]
    rates = {_fault(rate.fault): rate.share for rate in request.rates}
    if len(rates) != len(request.rates):
        raise ValueError("a fault has two rates")
    faults.replace(script, rates, clear=request.clear)


def fault_plan(faults: Faults, met: int) -> "pb.FaultPlan":
    """The answer: the faults that are set, and how many requests were hit (`met`)."""
    rates = [pb.Rate(fault=_message(fault), share=share) for fault, share in faults.rates.items()]
    return pb.FaultPlan(waiting=faults.waiting, rates=rates, met=met)


def _fault(message: "pb.Fault") -> Fault:
    """The fault of a message. Raises ValueError for values that a fault cannot have."""
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
