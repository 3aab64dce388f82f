"""gRPC over HTTP/2, made for streams of small messages. Everything but `transport` is pure: bytes in, bytes out, no socket.

transport    `H2Transport`: asyncio sockets, timers, reconnecting; the only edge here
connection   `Connection`: what each frame means, windows, limits, the life of a connection
stream       one call: its window and its messages, cut out of DATA frames
sender       requests on their way out, within the windows the peer grants
headers      request heads encoded, response heads decoded
frames       frame formats and numbers
keepalive    when to ping a silent engine and when to give it up
waiting      which calls are sent when a stream is free

    from smg_core.engines.grpc.h2 import Connection

The names below load their modules when they are first used.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.engines.base import Receiver as Receiver
    from smg_core.engines.grpc.h2.connection import Connection as Connection
    from smg_core.engines.grpc.h2.stream import H2Stream as H2Stream
    from smg_core.engines.grpc.h2.transport import H2Transport as H2Transport
    from smg_core.engines.settings import EnginesConfig as EnginesConfig
    from smg_core.errors import SmgError as SmgError
    from smg_core.errors import WorkerGone as WorkerGone

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "smg_core.engines.base": ("Receiver",),
        "smg_core.engines.grpc.h2.connection": ("Connection",),
        "smg_core.engines.grpc.h2.stream": ("H2Stream",),
        "smg_core.engines.grpc.h2.transport": ("H2Transport",),
        "smg_core.engines.settings": ("EnginesConfig",),
        "smg_core.errors": ("SmgError", "WorkerGone"),
    },
)
