"""Sets the faults of an embedded engine in another process over gRPC, for `smg-gateway` (edge).

Above: cli. Below: `control`, which has the messages.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import grpc

from smg_core.engines.connections.target import Target
from smg_simulator.answers.faults import Fault
from smg_simulator.server._pb import control_pb2 as pb
from smg_simulator.server.control import SERVICE, faults_request

if TYPE_CHECKING:
    from smg_simulator.server._pb.control_pb2 import FaultPlan

__all__ = ["set_faults"]

TIMEOUT = 10.0  # seconds for the one call


def set_faults(
    url: str, script: Sequence[Fault | None], rates: Mapping[Fault, float], *, clear: bool = False
) -> "FaultPlan":
    """Set the faults of the engine at `url` and return those that are now set. Without changes it only asks for them.

    Raises ValueError for a wrong URL or a refused fault, ConnectionError where no embedded engine answers.
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
            plan: FaultPlan = call(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                raise ValueError(error.details()) from None
            why = error.details() or error.code().name
            raise ConnectionError(f"no simulated engine answers at {url}: {why}") from None
    return plan
