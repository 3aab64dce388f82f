"""The input and output of the admin door's routes of workers, for its `/admin/openapi.json`. Above: the routes. Pure."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from smg_core.engines.upkeep import PauseMode, TransferStep

__all__ = [
    "FlushCacheBody",
    "LoadAdapterBody",
    "LoadWeightsBody",
    "PauseBody",
    "RankRow",
    "ResumeBody",
    "SleepBody",
    "StartProfileBody",
    "StopProfileBody",
    "TransferWeightsBody",
    "UnloadAdapterBody",
    "WakeBody",
    "WorkerAnswer",
    "WorkerAnswers",
    "WorkersBody",
]

_Text = Annotated[str, Meta(max_length=4096)]
_Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
_Step = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]


class WorkersBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`workers`: the names of those that are asked, at least one; without the field, all. A list that came out empty by mistake
    must not reach the whole fleet."""

    workers: Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=10_000)] | None = None


class FlushCacheBody(WorkersBody, kw_only=True):
    """`wait_s`: seconds that an engine waits for its requests to end first, where it can."""

    wait_s: Annotated[float, Meta(ge=0, le=86400)] = 0.0


class StartProfileBody(WorkersBody, kw_only=True):
    """Where the engines write the profile, on their own machines, and what of; each has its own defaults. Without `num_steps` it
    runs until it is stopped."""

    output_dir: _Text = ""
    start_step: _Step | None = None
    num_steps: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None
    activities: Annotated[tuple[_Text, ...], Meta(max_length=16)] = ()
    with_stack: bool = False
    record_shapes: bool = False
    by_stage: bool = False


class StopProfileBody(WorkersBody):
    """The end of a profile says nothing more."""


class LoadAdapterBody(WorkersBody, kw_only=True):
    """A LoRA adapter: the name by which clients ask for it, and its folder on the engines' machines. `pinned`: it stays in the
    accelerator's memory, where the engine can do that."""

    name: _Name
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    pinned: bool = False


class UnloadAdapterBody(WorkersBody, kw_only=True):
    """The name of the adapter that the engines are to let go of."""

    name: _Name


class PauseBody(WorkersBody, kw_only=True):
    """What becomes of requests that run: "abort" ends them, "keep" lets them go on after the pause, "wait" waits for their ends,
    "retract" lets them go on with a cache made anew."""

    mode: PauseMode = "abort"


class SleepBody(WorkersBody, kw_only=True):
    """The engines that are to sleep."""


class WakeBody(WorkersBody, kw_only=True):
    """The engines that are to wake."""


class ResumeBody(WorkersBody, kw_only=True):
    """Which workers are to generate again."""


class LoadWeightsBody(WorkersBody, kw_only=True):
    """The folder of a checkpoint on the engines' machines, and a name for these weights."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    version: Annotated[str, Meta(max_length=256)] = ""


class TransferWeightsBody(WorkersBody, kw_only=True):
    """One step of taking weights from a trainer; `info` describes it in the engine's own words."""

    step: TransferStep
    info: dict[str, Any] = {}
    version: Annotated[str, Meta(max_length=256)] = ""


class RankRow(Struct):
    """The load of one data-parallel rank. `token_usage` is the share of its KV cache in use, 0 to 1."""

    rank: int
    running: int
    waiting: int
    used_tokens: int
    max_tokens: int
    token_usage: float
    tokens_per_second: float
    cache_hit_rate: float
    max_running: int


class WorkerAnswer(Struct):
    """What came of it at one worker: 200 done, 409 refused by the engine, 501 the engine has no such call, 503 the worker is not
    there, else the status of the error; `message` says more. `ranks` is its load, where that was asked for."""

    worker: str
    dialect: str
    status: int
    message: str
    ranks: list[RankRow] | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if self.ranks is None:
            self.ranks = UNSET


class WorkerAnswers(Struct):
    """A row for each worker that was asked."""

    workers: list[WorkerAnswer]
