"""A file's plan of what runs on this machine: engines, and the gateway before them.

Decides what is wrong with a file, which words start each program, and in which order they start and end. Ports that a file leaves
open are handed in. Pure. Above: `command`. Below: gateway.engine_commands, workers.worker_file.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import attrs
import msgspec

from smg_core.config.config import Config, config_of
from smg_core.engines.kinds.kind import EnginePlace
from smg_core.engines.kinds.table import check_place
from smg_core.gateway.engine_commands import COMMANDS, command_line
from smg_core.settings import ConfigError, nearest
from smg_core.workers.worker import WorkerSpec
from smg_core.workers.worker_file import workers_of

__all__ = ["GATEWAY", "EnginePlan", "UpPlan", "up_plan_of"]

GATEWAY = "gateway"
"""The name that the gateway has among the programs."""
_MOST_ENGINES = 64
_OF_ANY_ENGINE = ("name", "url", "role", "model", "labels", "weight")
"""What is said of a worker, whatever its engine is."""
_UNKNOWN_FIELD = "Object contains unknown field `"

_Seconds = Annotated[float, msgspec.Meta(ge=0.1, le=86400)]
_Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class _Engine(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An engine as it is written. `worker` has what the gateway's file of workers has of it, without its URL."""

    name: str
    command: str | list[str]
    model: str = ""
    options: list[str] = []
    simulated: list[str] = []
    environment: dict[str, str] = {}
    python: str = ""
    scheme: str = "grpc"
    port: _Port = 0
    after: list[str] = []
    start_s: _Seconds = 900.0
    hang_s: _Seconds = 120.0
    stop_s: _Seconds = 30.0
    worker: dict[str, Any] = {}


@attrs.frozen
class EnginePlan:
    """One engine: the words that start it, where it answers, and how long it may take to come up, stand still and end. `after`
    are the engines that are healthy before it starts; `fixed` says that the file names its port."""

    name: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    port: int
    fixed: bool
    after: tuple[str, ...]
    start_s: float
    hang_s: float
    stop_s: float
    entry: Mapping[str, object]
    spec: WorkerSpec


@attrs.frozen
class UpPlan:
    """All that runs. `sections` are the gateway's settings as they are written, `config` what they say."""

    engines: tuple[EnginePlan, ...]
    sections: Mapping[str, object]
    config: Config

    def levels(self) -> list[list[EnginePlan]]:
        """The engines in the order of their start: those of one list start beside each other."""
        done: set[str] = set()
        levels = []
        while len(done) < len(self.engines):
            level = [each for each in self.engines if each.name not in done and done.issuperset(each.after)]
            done |= {each.name for each in level}
            levels.append(level)
        return levels


def up_plan_of(written: object, *, free_port: Callable[[], int], python: str, simulated: bool = False) -> UpPlan:
    """What a file is to run, of its parsed content. `free_port` finds a port, `python` is this interpreter; `simulated` puts the
    engine without a model in the place of each. Raises ConfigError with every problem."""
    if not isinstance(written, Mapping):
        raise ConfigError("expected an object with engines and gateway")
    problems = [
        f"{name}: no such key{nearest(str(name), ('engines', GATEWAY))}"
        for name in written
        if name not in ("engines", GATEWAY)
    ]
    listed = written.get("engines")
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        problems, listed = [*problems, "engines: expected a list of engines, at least one"], []
    if len(listed) > _MOST_ENGINES:
        problems, listed = [*problems, f"engines: {len(listed)}, over {_MOST_ENGINES}"], []
    engines = []
    for at, each in enumerate(listed):
        try:
            engines.append(_planned(_read(each), free_port, python, simulated=simulated))
        except (ValueError, LookupError) as error:
            problems.append(f"engines[{at}]: {error}")
    problems += _order_problems(engines)
    sections = written.get(GATEWAY) or {}
    config = Config()
    try:
        config = config_of(sections, GATEWAY) if isinstance(sections, Mapping) else _no_sections()
        if config.workers.file is not None:
            problems.append("gateway: workers.file: the workers are the engines here; workers.urls may name others")
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return UpPlan(tuple(engines), sections, config)


def _no_sections() -> Config:
    raise ConfigError("gateway: expected sections of settings")


def _read(written: object) -> _Engine:
    """An engine as it is written. Raises ValueError, which suggests a field in place of one that is unknown."""
    try:
        engine = msgspec.convert(written, _Engine)
    except msgspec.ValidationError as error:
        reason = str(error)
        name = reason.removeprefix(_UNKNOWN_FIELD)
        meant = nearest(name.removesuffix("`"), _Engine.__struct_fields__) if name != reason else ""
        raise ValueError(reason + meant) from None
    if not engine.name or not engine.name.isprintable() or engine.name == GATEWAY:
        raise ValueError(f"name: {engine.name!r} cannot be the name of an engine")
    return engine


def _planned(engine: _Engine, free_port: Callable[[], int], python: str, *, simulated: bool) -> EnginePlan:
    """What is to run of one engine. Raises ValueError for what cannot be."""
    port = engine.port or free_port()
    scheme = "grpc" if simulated else engine.scheme
    entry = {**engine.worker, "name": engine.name, "url": f"{scheme}://127.0.0.1:{port}"}
    if simulated:
        entry = {name: value for name, value in entry.items() if name in _OF_ANY_ENGINE}
    for name in ("name", "url"):
        if name in engine.worker:
            raise ValueError(f"worker: {name}: it is the engine's own")
    try:
        (spec,) = workers_of([entry], _no_file, Config().engines.metadata_bytes)
    except ConfigError as error:
        raise ValueError(str(error).replace("workers.file: worker 1", "worker")) from None
    check_place(EnginePlace(spec.url, kind=spec.dialect, headers=spec.headers))
    words = _words(engine, simulated=simulated)
    return EnginePlan(
        engine.name,
        tuple(command_line(words, port=port, model=engine.model, python=engine.python or python)),
        engine.environment,
        port,
        bool(engine.port),
        tuple(engine.after),
        engine.start_s,
        engine.hang_s,
        engine.stop_s,
        entry,
        spec,
    )


def _words(engine: _Engine, *, simulated: bool) -> list[str]:
    """The words of a command, before ports and names are put into them. Raises ValueError."""
    if simulated:
        return [*COMMANDS["simulator"], *engine.simulated]
    if not isinstance(engine.command, str):
        words = list(engine.command)
    elif engine.command in COMMANDS:
        words = list(COMMANDS[engine.command])
        if not engine.model:
            raise ValueError(f"model: say which one {engine.command} is to serve")
    else:
        words = shlex.split(engine.command)
    if not words:
        raise ValueError("command: it has no words")
    return [*words, *engine.options]


def _no_file(name: str) -> str:
    raise ValueError("name files of keys in the gateway's workers.file, not here")


def _order_problems(engines: Sequence[EnginePlan]) -> list[str]:
    names = [each.name for each in engines]
    problems = [f"engines: {name} is there twice" for name in sorted({each for each in names if names.count(each) > 1})]
    for each in engines:
        problems += [
            f"engines: {each.name}: after: there is no engine {name}{nearest(name, names)}"
            for name in each.after
            if name not in names
        ]
    if problems:
        return problems
    fixed = [each.port for each in engines if each.fixed]
    problems += [f"engines: port {port} is there twice" for port in sorted({p for p in fixed if fixed.count(p) > 1})]
    waiting = {each.name: set(each.after) for each in engines}
    while free := [name for name, wanted in waiting.items() if not wanted & waiting.keys()]:
        for name in free:
            del waiting[name]
    return [*problems, f"engines: {', '.join(sorted(waiting))} wait for each other"] if waiting else problems
