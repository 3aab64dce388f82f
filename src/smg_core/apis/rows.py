"""The rows of all public APIs (edge), in the order in which their routes stand; batches are last, since they call the others.

Above: the assembly, by way of `apis.ALL`. Below: each API.
"""

from smg_core.apis.chat import api as chat
from smg_core.apis.completions import api as completions
from smg_core.apis.conversations import routes as conversations
from smg_core.apis.gemini import routes as gemini
from smg_core.apis.images import routes as images
from smg_core.apis.interactions import routes as interactions
from smg_core.apis.mcp import routes as mcp
from smg_core.apis.messages import routes as messages
from smg_core.apis.moderations import routes as moderations
from smg_core.apis.parse import routes as parse
from smg_core.apis.pooling import routes as pooling
from smg_core.apis.realtime import routes as realtime
from smg_core.apis.responses import routes as responses
from smg_core.apis.sglang import api as sglang
from smg_core.apis.speech import routes as speech
from smg_core.apis.status import routes as status
from smg_core.apis.tokenize import routes as tokenize
from smg_core.apis.transcriptions import routes as transcriptions
from smg_core.apis.usage import routes as usage
from smg_core.batches import routes as batches
from smg_core.containers import routes as containers
from smg_core.files import routes as files
from smg_core.serving.spec import ApiSpec, table_of, trials_of
from smg_core.vector_stores import routes as vector_stores

__all__ = ["ALL", "PERMISSIONS", "TRIALS"]

ALL: tuple[ApiSpec, ...] = tuple(
    room.SPEC
    for room in (
        gemini,
        pooling,
        moderations,
        transcriptions,
        speech,
        images,
        tokenize,
        chat,
        completions,
        sglang,
        responses,
        realtime,
        conversations,
        interactions,
        messages,
        mcp,
        parse,
        status,
        usage,
        files,
        containers,
        vector_stores,
        batches,
    )
)

PERMISSIONS = table_of(ALL).permissions
"""Every permission, and what it permits."""

TRIALS = trials_of(ALL)
"""What the APIs that have trials are tried with, by the name of each."""
