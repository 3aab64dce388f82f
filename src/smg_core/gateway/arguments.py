"""The keyword arguments of `Gateway`, for the constructors and functions that pass them on (edge: of the types that it names).

Above: `gateway` and `assembly`, `simulated`, `launched`. Below: the roles that an argument may fill. Pure.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from smg_core.auth.base import Authenticator
from smg_core.channel.base import Channel
from smg_core.clock import CallLater, Clock, IdSource
from smg_core.config.config import Config
from smg_core.history.guard import Backend
from smg_core.history.hooks import Hook
from smg_core.history.store.blobs import BlobStore
from smg_core.hooks import Observer
from smg_core.models.policies import GivenPolicies, GivenPolicy
from smg_core.serving.spec import ApiSpec
from smg_core.tools.opening import ToolFunctions
from smg_core.workers.worker import Board, WorkerSpec

if TYPE_CHECKING:
    from smg_core.guardrails.records import Guardrail

__all__ = ["GatewayArguments"]


class GatewayArguments(TypedDict, total=False):
    """The keyword arguments of `Gateway`, for the constructors and functions that pass them on."""

    workers: Sequence[str | WorkerSpec]
    policy: GivenPolicy
    policies: GivenPolicies
    middleware: Sequence[type | str]
    tokenizer: str | Path | None
    config: Config | Mapping[str, object] | None
    observer: Observer | None
    history: Backend | None
    history_hooks: Sequence[Hook]
    files: BlobStore | None
    identity: Authenticator | None
    clock: Clock | None
    ids: IdSource | None
    rng: random.Random | None
    board: Board | None
    channel: Channel | None
    call_later: CallLater | None
    apis: Sequence[ApiSpec] | None
    tools: ToolFunctions
    guardrails: "Sequence[Guardrail]"
