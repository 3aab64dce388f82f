"""What an operator may have an engine do beside serving: empty its cache, take a profile of itself, load and unload adapters.

Records only; pure. Above: engines.base, whose `Codec.upkeep` writes such a request in a dialect, and the admin door, which asks
all workers.
"""

import attrs

__all__ = [
    "Adapter",
    "EngineReply",
    "EngineTask",
    "FlushCache",
    "LoadAdapter",
    "StartProfile",
    "StopProfile",
    "UnloadAdapter",
]


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


@attrs.frozen
class LoadAdapter:
    """Load the LoRA adapter in the folder `path` of the engine's machine, under the name that clients know. `id` is what requests
    of the engine will say, new for each load. `pinned` keeps it in the accelerator's memory."""

    name: str
    id: str
    path: str
    pinned: bool = False


@attrs.frozen
class UnloadAdapter:
    """Let go of the adapter of this name, which requests of the engine call `id`."""

    name: str
    id: str


EngineTask = FlushCache | StartProfile | StopProfile | LoadAdapter | UnloadAdapter


@attrs.frozen
class Adapter:
    """A LoRA adapter that an engine holds: its name, and the id by which requests of this engine ask for it."""

    name: str
    id: str


@attrs.frozen
class EngineReply:
    """Whether an engine did it, and what it says of that, for the operator."""

    done: bool
    message: str = ""
