"""What an operator may have an engine do beside serving: empty its cache, and take a profile of itself.

Records only; pure. Above: engines.base, whose `Codec.upkeep` writes such a request in a dialect, and the admin door, which asks
all workers.
"""

import attrs

__all__ = ["EngineReply", "EngineTask", "FlushCache", "StartProfile", "StopProfile"]


@attrs.frozen
class FlushCache:
    """Drop everything from the KV cache. An engine may refuse it while requests run; `wait_s` are the seconds that it waits for
    them to end first, where it can."""

    wait_s: float = 0.0


@attrs.frozen
class StartProfile:
    """Begin to write a profile: into `output_dir` on the engine's machine ("": the engine's own), from forward step `start_step`
    on (None: now), for `num_steps` steps (None: until it is stopped), of `activities` ("CPU", "GPU", "MEM"; none: the engine's
    own)."""

    output_dir: str = ""
    start_step: int | None = None
    num_steps: int | None = None
    activities: tuple[str, ...] = ()
    with_stack: bool = False
    record_shapes: bool = False
    by_stage: bool = False


@attrs.frozen
class StopProfile:
    """End the profile and write it."""


EngineTask = FlushCache | StartProfile | StopProfile


@attrs.frozen
class EngineReply:
    """Whether an engine did it, and what it says of that, for the operator."""

    done: bool
    message: str = ""
