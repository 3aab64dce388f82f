"""The moments of sources of workers and of the mesh: those moments of `hooks` that tell of it. Records; pure."""

from msgspec import Struct

__all__ = ["MeshSampled", "SourceAnswered", "SourceChanged", "SourceSampled"]


class SourceAnswered(Struct, frozen=True):
    """A source of workers (`discovery`) was asked. `outcome` is "ok", or "failed": what it named before still holds."""

    source: str
    outcome: str


class SourceChanged(Struct, frozen=True):
    """A worker was changed since its source says so: `change` is "add", "update", "drain" (it leaves) or "resume"."""

    source: str
    change: str


class MeshSampled(Struct, frozen=True):
    """The mesh at an interval: gateways on this side of a split and in the whole, bytes kept, seconds since one was heard."""

    here: int
    whole: int
    size: int
    silent: float


class SourceSampled(Struct, frozen=True):
    """How a source of workers stands, at an interval: `age` is the time in seconds since its last usable answer, in which it
    named `workers` workers."""

    source: str
    age: float
    workers: int
