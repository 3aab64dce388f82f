"""The time-outs of one request, as one record that every part of its path reads.

Made once a request, from settings, its model and its headers (`serving.timeouts`), and carried by `driver.Run`. The driver keeps
the bound of the whole request, `patience` those on an engine's silence, the engines' clients the one on connecting, the HTTP
protocol the one on writing. Pure.
"""

from msgspec import Struct

from smg_core.errors import EngineTimeout, SmgError, WorkerGone

__all__ = ["Timeouts"]


class Timeouts(Struct, frozen=True):
    """In seconds; None: no bound.

    `connect`: to get a connection to an engine. `first_token`: from asking an engine to its first token, so queue and prefill
    are in it. `token`: between two tokens. `request`: from the request's arrival to the last byte that is made for it, over all
    engines that are tried. `write`: how long the client may read nothing while data waits for it. `hasty`: the request asked for
    shorter time-outs of connecting or between tokens than the settings have, so a time-out does not count against the worker.
    """

    connect: float | None = None
    first_token: float | None = None
    token: float | None = None
    request: float | None = None
    write: float | None = None
    hasty: bool = False

    def impatient(self, error: SmgError | None) -> bool:
        """Whether a call failed with `error` since the client waits for less than the gateway would."""
        return self.hasty and isinstance(error, EngineTimeout | WorkerGone)
