"""The rows of the Responses API: responses, and their compaction alone.

Apart from `apis`, since it is made for a gateway: it has a memory. Above: server.generating. Below: the protocol, the flow.
"""

from collections.abc import Callable

from smg_core.protocols.errors import responses_error
from smg_core.protocols.responses import ResponsesRequest, decode_responses
from smg_core.protocols.responses_compact import CompactionEncoder, decode_compact
from smg_core.protocols.responses_encode import ResponsesStreamEncoder, ResponsesWholeEncoder, SealSummary
from smg_core.server.apis import Api, Memory
from smg_core.server.responses_flow import respond_to

__all__ = ["compaction_api", "responses_api"]


def responses_api(
    now: Callable[[], float], memory: Memory[ResponsesRequest], seal: SealSummary
) -> Api[ResponsesRequest]:
    """The Responses API. `now` is the clock that its responses are stamped by, `memory` what it keeps of them, `seal` seals its
    compactions."""
    return Api(
        name="responses",
        id_prefix="resp_",
        decode=decode_responses,
        stream=lambda decoded, created: ResponsesStreamEncoder(decoded, created, now, seal),
        whole=lambda decoded, created: ResponsesWholeEncoder(decoded, created, now, seal),
        error=responses_error,
        flow=respond_to,
        told_in_stream=(503,),
        memory=memory,
    )


def compaction_api(
    now: Callable[[], float], memory: Memory[ResponsesRequest], seal: SealSummary
) -> Api[ResponsesRequest]:
    """POST /v1/responses/compact. Arguments as for `responses_api`."""
    return Api(
        name="compact",
        id_prefix="resp_",
        decode=decode_compact,
        stream=lambda decoded, created: ResponsesStreamEncoder(decoded, created, now, seal),
        whole=lambda decoded, created: CompactionEncoder(decoded, created, now, seal),
        error=responses_error,
        flow=respond_to,
        memory=memory,
    )
