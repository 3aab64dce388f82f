"""The rows of the Responses API: responses, how they are made in the background, and their compaction alone.

Apart from `apis`, since it is made for a gateway: it has a memory. Above: app.generating_routes. Below: the protocol, the flow.
"""

from collections.abc import Callable

import msgspec

from smg_core.apis.responses.flow import prompted_as, respond_to
from smg_core.apis.responses.records import PREFIX, stored_response, turn_of
from smg_core.apis.responses.wire.builder import SealSummary
from smg_core.apis.responses.wire.compact import CompactionEncoder, decode_compact
from smg_core.apis.responses.wire.decode import ResponsesRequest, decode_responses
from smg_core.apis.responses.wire.encode import ResponsesStreamEncoder, ResponsesWholeEncoder
from smg_core.apis.responses.wire.object import error_object
from smg_core.apis.responses.wire.resume import EventLog, frame_of, is_terminal, response_gone, split_frames
from smg_core.background.api import BackgroundApi, BackgroundMemory, StoredWords
from smg_core.errors import SmgError
from smg_core.json_types import JsonObject
from smg_core.serving.api import Api, Memory
from smg_core.wire.errors import responses_error

__all__ = ["RESPONSES_WORDS", "background_responses", "compaction_api", "responses_api"]


def responses_api(
    now: Callable[[], float], memory: Memory[ResponsesRequest], seal: SealSummary
) -> Api[ResponsesRequest]:
    """The Responses API. `now` is the clock that its responses are stamped by, `memory` what it keeps of them, `seal` seals its
    compactions."""
    return Api(
        name="responses",
        id_prefix=PREFIX,
        decode=decode_responses,
        stream=lambda decoded, created: ResponsesStreamEncoder(decoded, created, now, seal),
        whole=lambda decoded, created: ResponsesWholeEncoder(decoded, created, now, seal),
        error=responses_error,
        flow=respond_to,
        refusals_in_stream=(503,),
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


def _changed(body: JsonObject, status: str, error: SmgError | None, now: float) -> JsonObject:
    fields: JsonObject = {} if error is None else {"error": error_object(error)}
    return {**body, **fields, "status": status}


RESPONSES_WORDS = StoredWords(
    noun="response",
    items="output",
    events=split_frames,
    frame=frame_of,
    is_terminal=is_terminal,
    gone=lambda error, id, number: response_gone(error, number),
    log=EventLog,
    changed=_changed,
)


def background_responses(
    api: Api[ResponsesRequest], memory: BackgroundMemory[ResponsesRequest], now: Callable[[], float], seal: SealSummary
) -> BackgroundApi[ResponsesRequest]:
    """Responses in the background, by the row `api`; the rest as for that."""
    return BackgroundApi(
        api=api,
        path="/v1/responses",
        memory=memory,
        words=RESPONSES_WORDS,
        stream=lambda decoded, created: ResponsesStreamEncoder(decoded, created, now, seal),
        whole=lambda decoded, created: ResponsesWholeEncoder(decoded, created, now, seal),
        body=lambda decoded: msgspec.json.encode(decoded.body),
        prompt=prompted_as,
        stored=lambda decoded, response, pending: stored_response(decoded, response, pending=pending),
        turn=turn_of,
    )
