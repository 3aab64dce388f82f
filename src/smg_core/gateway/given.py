"""Checks what a program gives a `Gateway` when that is made, so that wrong usage is refused where it is written (edge).

Decides what is read (a dictionary of settings), what is refused and in which words, and whether the author of a policy or plugin
is the one who reads the log: in a notebook and under pytest. Above: assembly, simulated. Below: config, fleet.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import attrs

from smg_core.channel.base import Channel
from smg_core.clock import Clock
from smg_core.config.config import Config, config_of
from smg_core.fleet.connect import Reaching, given_spec
from smg_core.history.guard import Backend
from smg_core.history.store.blobs import BlobStore
from smg_core.hooks import Observer
from smg_core.settings import ConfigError
from smg_core.workers.worker import Board, WorkerSpec

__all__ = ["check_roles", "given_settings", "given_workers"]

_ROLES: Mapping[str, type] = {
    "board": Board,
    "channel": Channel,
    "clock": Clock,
    "files": BlobStore,
    "history": Backend,
    "observer": Observer,
}
_SETTINGS_OF = {
    "files": "the folder of files is set in the section files: config={'files': {'folder': ...}}",
    "history": "a store that is named by a text is a setting: config={'history': {'url': ...}}",
}
"""What somebody wants who gives a text."""


def given_settings(given: Config | Mapping[str, object] | None, *, on_trial: bool) -> Config:
    """The settings that a program gives, as a record or as a dictionary of sections. Where these do not say it, exceptions of
    policies and plugins are told with their text if the gateway is `on_trial`, in a notebook or in a test. Raises ConfigError."""
    if isinstance(given, Config):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"config: expected a Config or a dictionary of sections, not {type(given).__name__}")
    config = config_of(given or {})
    observability = (given or {}).get("observability")
    words_set = isinstance(observability, Mapping) and "fault_words" in observability
    if words_set or not (on_trial or "ipykernel" in sys.modules or "PYTEST_VERSION" in os.environ):
        return config
    return attrs.evolve(config, observability=attrs.evolve(config.observability, author_words=True))


def check_roles(**given: object) -> None:
    """Raise ConfigError for an argument that is not what its role needs: a text, a class, or something else."""
    problems = [problem for name, value in given.items() if value is not None for problem in _problems(name, value)]
    if problems:
        raise ConfigError(*problems)


def _problems(name: str, value: object) -> Iterator[str]:
    if name == "identity":
        if not callable(value):
            yield f"identity: {type(value).__name__} cannot be called; it needs `async def __call__(self, head)`"
        return
    if isinstance(value, type):
        yield f"{name}: this is the class {value.__qualname__}; give an object: {value.__qualname__}(...)"
        return
    lacking = [each for each in _needed(_ROLES[name]) if not hasattr(value, each)]
    if lacking:
        hint = _SETTINGS_OF.get(name, "") if isinstance(value, str) else ""
        yield f"{name}: {type(value).__name__} has no {', no '.join(lacking[:3])}" + (f"; {hint}" if hint else "")


def _needed(role: type) -> list[str]:
    """The methods that a role has, of all protocols that it is made of."""
    names = {name: None for each in role.__mro__ if each is not object for name in vars(each)}
    return [name for name in names if not name.startswith("_") and callable(getattr(role, name, None))]


def given_workers(workers: object, config: Config) -> list[WorkerSpec]:
    """The workers that a program gives. Raises ConfigError for what is no list of URLs and WorkerSpecs, and for one that could
    never be reached."""
    if isinstance(workers, str) or not isinstance(workers, Sequence):
        raise ConfigError(
            f"workers: expected a list of URLs, not {type(workers).__name__}: workers=['grpc://host:port']"
        )
    reaching, found, problems = Reaching(config), [], []
    for at, each in enumerate(workers):
        if not isinstance(each, str | WorkerSpec):
            problems.append(
                f"workers[{at}]: expected a URL or a WorkerSpec, not {type(each).__name__}; "
                "WorkerSpec(url, name=..., role=...) says more of a worker"
            )
            continue
        spec = given_spec(each)
        try:
            reaching.check(spec)
        except (ValueError, LookupError) as error:
            problems.append(f"workers[{at}]: {error}")
        found.append(spec)
    if problems:
        raise ConfigError(*problems)
    return found
