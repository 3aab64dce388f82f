"""Sets the faults of an embedded engine in another process, for the command line (edge).

Below: `control`, which has the messages. Above: cli.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import grpc

from smg_core.engines.target import Target
from smg_core.simulator._pb import control_pb2 as pb
from smg_core.simulator.control import SERVICE, faults_request
from smg_core.simulator.faults import Fault

if TYPE_CHECKING:
    from smg_core.simulator._pb.control_pb2 import FaultPlan

__all__ = ["set_faults"]

PATIENCE = 10.0  # seconds


def set_faults(
    url: str, script: Sequence[Fault | None], rates: Mapping[Fault, float], *, clear: bool = False
) -> "FaultPlan":
    """Set them and return what is set; without any, and without `clear`, only the latter.

    Raises ValueError for a URL or a plan that is none, ConnectionError where no such engine answers.
    """
    target = Target.parse(url)
    with grpc.insecure_channel(target.authority) as channel:
        changes = script or rates or clear
        call = channel.unary_unary(
            f"/{SERVICE}/{'SetFaults' if changes else 'GetFaults'}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.FaultPlan.FromString,
        )
        request = faults_request(*script, rates=rates, clear=clear) if changes else pb.GetFaultsRequest()
        try:
            plan: FaultPlan = call(request, timeout=PATIENCE)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                raise ValueError(error.details()) from None
            why = error.details() or error.code().name
            raise ConnectionError(f"no simulated engine answers at {url}: {why}") from None
    return plan
