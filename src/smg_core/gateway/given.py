"""Checks the arguments of a new `Gateway`, so that wrong usage is refused in its place (edge).

Decides what is read (a dictionary of settings), what is refused and in which words, and whether the author of a policy or plugin
is the one who reads the log: in a notebook and under pytest. Above: assembly, simulated. Below: config, fleet.
"""

import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import attrs

from smg_core.channel.base import Channel
from smg_core.clock import Clock
from smg_core.config.config import Config, config_of
from smg_core.fleet.connect import Reaching, given_spec
from smg_core.history.guard import Backend
from smg_core.history.store.blobs import BlobStore
from smg_core.hooks import Observer
from smg_core.settings import ConfigError
from smg_core.workers.worker import Board, WorkerRole, WorkerSpec

__all__ = ["check_lists", "check_others", "check_roles", "given_settings", "given_workers"]

_ROLES: Mapping[str, type] = {
    "board": Board,
    "channel": Channel,
    "clock": Clock,
    "files": BlobStore,
    "history": Backend,
    "observer": Observer,
}
_LISTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "apis": ("ApiSpecs", ("names", "permissions", "routes")),
    "guardrails": ("Guardrails", ("name", "check")),
    "history_hooks": ("hooks", ("before", "after")),
    "tools": ("functions, or PythonTools of such", ("function",)),
}
"""The arguments that are lists: what is in them, and what each has."""
_SETTINGS_OF = {
    "files": "the folder of files is set in the section files: config={'files': {'folder': ...}}",
    "history": "a store that is named by a text is a setting: config={'history': {'url': ...}}",
}
"""What somebody wants who gives a text."""


def given_settings(given: Config | Mapping[str, object] | None, *, on_trial: bool) -> Config:
    """The settings that a program gives, as a record or as a dictionary of sections. Where these do not say it, exceptions of
    policies and plugins are told with their text if the gateway is `on_trial`, in a notebook or in a test. Raises ConfigError."""
    if isinstance(given, Config):
        _check_sections(given)
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"config: expected a Config or a dictionary of sections, not {type(given).__name__}")
    config = config_of(given or {})
    observability = (given or {}).get("observability")
    words_set = isinstance(observability, Mapping) and "fault_words" in observability
    if words_set or not (on_trial or "ipykernel" in sys.modules or "PYTEST_VERSION" in os.environ):
        return config
    return attrs.evolve(config, observability=attrs.evolve(config.observability, author_words=True))


def _check_sections(config: Config) -> None:
    """Raise ConfigError for a section of a record of settings that is none, such as a dictionary."""
    wrong = []
    for field in attrs.fields(Config):
        expected, given = field.type or object, getattr(config, field.name)
        if not isinstance(given, expected):
            wrong.append(
                f"config: {field.name}: expected {expected.__name__}(...), not {type(given).__name__}; "
                f"a dictionary of sections is read: config={{'{field.name}': {{...}}}}"
            )
    if wrong:
        raise ConfigError(*wrong)


def check_roles(**given: object) -> None:
    """Raise ConfigError for an argument that is not what its role needs: a text, a class, or something else."""
    problems = [problem for name, value in given.items() if value is not None for problem in _problems(name, value)]
    if problems:
        raise ConfigError(*problems)


def check_lists(**given: object) -> None:
    """Raise ConfigError for an argument that is no list of what it has to be."""
    problems = [
        problem for name, value in given.items() if value is not None for problem in _list_problems(name, value)
    ]
    if problems:
        raise ConfigError(*problems)


def _list_problems(name: str, given: object) -> Iterator[str]:
    what, needed = _LISTS[name]
    if isinstance(given, str) or not isinstance(given, Sequence):
        yield f"{name}: expected a list of {what}, not {type(given).__name__}: {name}=[...]"
        return
    for at, each in enumerate(given):
        fits = all(hasattr(each, part) for part in needed) or (name == "tools" and callable(each))
        if not fits or isinstance(each, str):
            yield f"{name}[{at}]: expected one of {what}, not {type(each).__name__}"


def check_others(policies: object, rng: object, tokenizer: object, **called: object) -> None:
    """Raise ConfigError for other arguments of a wrong kind; `called` are those that have to be functions."""
    problems = [
        f"{name}: {type(value).__name__} cannot be called"
        for name, value in called.items()
        if not (value is None or callable(value))
    ]
    if not isinstance(policies, Mapping):
        problems.append(
            f"policies: expected a dictionary, not {type(policies).__name__}: policies={{'MODEL/ROLE': ...}}"
        )
    elif wrong := [each for each in policies if not isinstance(each, str)]:
        problems.append(f"policies: expected 'MODEL', 'MODEL/ROLE' or '*/ROLE' for a key, not {wrong[0]!r:.60}")
    if not isinstance(rng, random.Random):
        problems.append(f"rng: expected a random.Random, not {type(rng).__name__}")
    if isinstance(tokenizer, str | Path):
        if not Path(tokenizer).expanduser().is_dir():
            problems.append(
                f"tokenizer: there is no folder {tokenizer}; without one, an engine over gRPC sends its own"
            )
    elif tokenizer is not None:
        problems.append(f"tokenizer: expected a folder, not {type(tokenizer).__name__}")
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
    reaching, labels = Reaching(config), set[str]()
    found: list[WorkerSpec] = []
    problems: list[str] = []
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
        if spec.label in labels:
            problems.append(
                f"workers[{at}]: there is a worker {spec.label} already; two of one address have names: "
                "WorkerSpec(url, name=...)"
            )
        if spec.role is not None and spec.role not in get_args(WorkerRole):
            problems.append(f"workers[{at}]: role: {spec.role!r} is none of {', '.join(get_args(WorkerRole))}")
        labels.add(spec.label)
        found.append(spec)
    if problems:
        raise ConfigError(*problems)
    return found
