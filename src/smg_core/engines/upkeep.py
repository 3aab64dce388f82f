"""Operators' commands to an engine, other than serving: empty its cache, take a profile of itself, load and unload adapters,
sleep and wake, stop generating for a while, take new weights.

Records only; pure. Above: engines.base, whose `Codec.upkeep` writes such a request in a dialect, and the admin door, which asks
all workers.
"""

from typing import Literal

import attrs

__all__ = [
    "Adapter",
    "EngineReply",
    "EngineTask",
    "FallAsleep",
    "FlushCache",
    "LoadAdapter",
    "LoadWeights",
    "PauseGeneration",
    "PauseMode",
    "ResumeGeneration",
    "StartProfile",
    "StopProfile",
    "TransferStep",
    "TransferWeights",
    "UnloadAdapter",
    "WakeUp",
]

PauseMode = Literal["abort", "keep", "wait", "retract"]
TransferStep = Literal["connect", "begin", "update", "end", "disconnect"]


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


@attrs.frozen
class FallAsleep:
    """Give the accelerator's memory free until `WakeUp`, when no request runs any more. The weights stay at hand, in host memory
    or where they are, so that nothing but waking is needed; the KV cache is lost."""


@attrs.frozen
class WakeUp:
    """Take the memory back, and serve again."""


@attrs.frozen
class PauseGeneration:
    """Stop generating until `ResumeGeneration`. What becomes of the requests that run: "abort" ends them, "keep" lets them go on
    afterwards with the cache that they have, "wait" waits for their ends, "retract" lets them go on with a cache made anew. An
    engine that lacks a mode has no such call."""

    mode: PauseMode = "abort"


@attrs.frozen
class ResumeGeneration:
    """Generate again."""


@attrs.frozen
class LoadWeights:
    """Load the weights of the checkpoint in the folder `path` of the engine's machine, in place. `version` names them ("": as
    before)."""

    path: str
    version: str = ""


@attrs.frozen
class TransferWeights:
    """One step of taking weights from a trainer over a network of their own: to `connect`, to `begin`, to `update` some weights
    (repeated), to `end`, to `disconnect`. `info` is the engine's own description of the step, in JSON; `version` names the
    weights once they are all there."""

    step: TransferStep
    info: bytes = b"{}"
    version: str = ""


EngineTask = (
    FlushCache
    | StartProfile
    | StopProfile
    | LoadAdapter
    | UnloadAdapter
    | FallAsleep
    | WakeUp
    | PauseGeneration
    | ResumeGeneration
    | LoadWeights
    | TransferWeights
)


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
