"""The rows of the Interactions API: one for each wire revision, and how it is made in the background.

Apart from `apis`, since it is made for a gateway: it has a memory. Above: apis.interactions.routes. Below: the protocol, the
records.
"""

from collections.abc import Callable

import msgspec

from smg_core.apis.interactions.decode import (
    REVISION_HEADER,
    STEPS_FROM,
    InteractionRequest,
    Revision,
    interaction_decoder,
)
from smg_core.apis.interactions.encode import CLOSING, InteractionStreamEncoder, InteractionWholeEncoder
from smg_core.apis.interactions.object import rendered_interaction
from smg_core.apis.interactions.records import INTERACTION_PREFIX, stored_interaction
from smg_core.apis.interactions.resume import (
    InteractionLog,
    changed_interaction,
    ends_interaction,
    interaction_events,
    interaction_frame,
    interaction_gone,
)
from smg_core.background.api import BackgroundApi, BackgroundMemory, StoredWords
from smg_core.pipeline.tools.loop import without_hosted_tools
from smg_core.serving.api import Api, Memory
from smg_core.wire.errors import gemini_error

__all__ = ["INTERACTION_WORDS", "background_interactions", "interactions_api"]

_BEFORE_STEPS = "2025-01-01"
"""A value of the header that means the earlier revision."""

INTERACTION_WORDS = StoredWords(
    noun="interaction",
    items="steps",
    events=interaction_events,
    frame=interaction_frame,
    is_terminal=ends_interaction,
    gone=interaction_gone,
    log=InteractionLog,
    changed=changed_interaction,
    closing=CLOSING,
    has_ids=False,
)


def interactions_api(
    usual: Revision, now: Callable[[], float], memory: Memory[InteractionRequest], log_bytes: int
) -> Api[InteractionRequest]:
    """The Interactions API where requests that name no revision are of the `usual` one. `now` is the clock that its objects are
    stamped by, `memory` what it keeps of them; the events of a stream are kept up to `log_bytes` of frames."""
    return Api(
        name="interactions",
        id_prefix=INTERACTION_PREFIX,
        decode=interaction_decoder(usual),
        stream=lambda decoded, created: InteractionStreamEncoder(
            decoded, created, now, keeps=log_bytes if decoded.store else 0
        ),
        whole=lambda decoded, created: InteractionWholeEncoder(decoded, created, now),
        error=gemini_error,
        memory=memory,
    )


def background_interactions(
    api: Api[InteractionRequest], memory: BackgroundMemory[InteractionRequest], now: Callable[[], float]
) -> BackgroundApi[InteractionRequest]:
    """Interactions in the background, by the row `api`; the rest as for that. The revision is kept with the request."""
    return BackgroundApi(
        api=api,
        path="/v1beta/interactions",
        memory=memory,
        words=INTERACTION_WORDS,
        stream=lambda decoded, created: InteractionStreamEncoder(decoded, created, now),
        whole=lambda decoded, created: InteractionWholeEncoder(decoded, created, now),
        body=lambda decoded: msgspec.json.encode(decoded.body),
        prompt=lambda decoded: without_hosted_tools(decoded.generation),
        stored=stored_interaction,
        headers=lambda decoded: {REVISION_HEADER: STEPS_FROM if decoded.revision == "steps" else _BEFORE_STEPS},
        rendered=lambda decoded, found: rendered_interaction(found, decoded.revision),
    )
