"""Looks at a deployment for `smg-gateway doctor`: what is wrong, and what to do about it (edge).

Decides what is looked at: the configuration, its security, the engines, the stores, the clocks, and what the machine allows. Asks
engines and stores, starts nothing and changes nothing. Above: doctor. Below: diagnosing_stores, config.check,
operation.deployment, fleet.connect.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path

import attrs

from smg_core.apis.rows import PERMISSIONS
from smg_core.clock import Clock
from smg_core.commands.diagnosing_stores import look_at_stores
from smg_core.commands.diagnosis import Diagnosis, FindingState, of_clock
from smg_core.config.check import check
from smg_core.config.config import Config, without_password
from smg_core.engines.base import EngineFacts, ModelInfo
from smg_core.engines.kinds.opening import open_engine
from smg_core.errors import SmgError
from smg_core.fleet.connect import Reaching, specs_of, workers_in
from smg_core.machine.cpus import usable_cpus
from smg_core.operation.deployment import audit_deployment
from smg_core.server.http_server import connections_within
from smg_core.settings import ConfigError
from smg_core.workers.worker import WorkerSpec

__all__ = ["diagnoses"]

AT_ONCE = 16
"""Engines that are asked beside each other."""


async def diagnoses(config: Config, problems: Sequence[str], timeout: float, clock: Clock) -> AsyncIterator[Diagnosis]:
    """All that is looked at, in the order of a start; `clock` is what other clocks are held against."""
    for each in _configuration(config, problems):
        yield each
    for each in _security(config):
        yield each
    try:
        specs = [*specs_of(config.workers), *await workers_in(config)]
    except ConfigError as error:
        specs = []
        yield Diagnosis("engines", "FAIL", str(error), "mend the file that workers.file names")
    for each in await _engines(config, specs, timeout):
        yield each
    stores = await look_at_stores(config, timeout, clock)
    for each in stores.diagnoses:
        yield each
    for each in await _clocks(config, specs, stores.ahead, timeout, clock):
        yield each
    for each in _machine(config):
        yield each


# --------------------------------------------------------------------------------------------- configuration and security


def _configuration(config: Config, problems: Sequence[str]) -> Iterator[Diagnosis]:
    found = list(problems)
    try:
        check(config, PERMISSIONS)
    except ConfigError as error:
        found += error.problems
    for each in found:
        yield Diagnosis(
            "configuration", "FAIL", each, f"change the setting {each.partition(':')[0]} (docs/configuration.md)"
        )
    if not found:
        yield Diagnosis("configuration", "ok", "every setting has a value that can work")


def _security(config: Config) -> Iterator[Diagnosis]:
    """What the hardening check finds."""
    try:
        findings = audit_deployment(config)
    except ConfigError as error:
        yield Diagnosis("security", "FAIL", str(error), "name a file that is there, and that this user may look at")
        return
    for each in findings:
        for fault in each.faults:
            yield Diagnosis("security", "FAIL", fault, f"{each.check.name}: {each.check.why} (docs/hardening.md)")
    kept = sum(not each.faults for each in findings)
    yield Diagnosis("security", "ok", f"{kept} of {len(findings)} hardening checks hold")


# ---------------------------------------------------------------------------------------------------------------- engines


@attrs.frozen
class _Met:
    """An engine that answered."""

    spec: WorkerSpec
    info: ModelInfo
    facts: EngineFacts
    seconds: float
    healthy: bool


async def _engines(config: Config, specs: Sequence[WorkerSpec], timeout: float) -> list[Diagnosis]:
    if not specs:
        found = config.discovery.dns or config.discovery.kubernetes
        if found:
            return [Diagnosis("engines", "ok", "they are found while the gateway runs (discovery)")]
        return [Diagnosis("engines", "FAIL", "there is none", "give --worker grpc://HOST:PORT, or --workers-file FILE")]
    reaching, turn = Reaching(config), asyncio.Semaphore(AT_ONCE)

    async def met(spec: WorkerSpec) -> _Met | Diagnosis:
        async with turn:
            return await _met(reaching, spec, timeout)

    answers = await asyncio.gather(*map(met, specs))
    diagnoses = [each for each in answers if isinstance(each, Diagnosis)]
    engines = [each for each in answers if isinstance(each, _Met)]
    return [*diagnoses, *map(_of_engine, engines), *_of_models(engines)]


async def _met(reaching: Reaching, spec: WorkerSpec, timeout: float) -> _Met | Diagnosis:
    """What an engine says of itself, or what is wrong with it."""
    start = "start it, or correct its URL; a firewall or a wrong scheme (grpc, http) looks alike"
    try:
        reaching.check(spec)
        async with asyncio.timeout(timeout):
            began = time.monotonic()
            engine = await open_engine(reaching.place(spec))
            try:
                healthy = await engine.health(timeout)
                info, facts = await engine.describe()
            finally:
                await engine.close()
        return _Met(spec, info, facts, time.monotonic() - began, healthy)
    except TimeoutError:
        return Diagnosis("engines", "FAIL", f"{spec.label}: no answer within {timeout:g} s", start)
    except SmgError as error:
        reason = (error.detail or str(error)).removeprefix(f"{spec.url}: ")
        return Diagnosis("engines", "FAIL", f"{spec.label}: {reason}", start)
    except (OSError, ValueError, LookupError) as error:
        return Diagnosis("engines", "FAIL", f"{spec.label}: {error}", "correct the worker (docs/workers.md)")


def _of_engine(met: _Met) -> Diagnosis:
    label, role = met.spec.label, met.facts.kv.role
    if not met.healthy:
        return Diagnosis(
            "engines", "warn", f"{label}: it says that it is not healthy", "look into the engine's own log"
        )
    if met.spec.role and role and role != met.spec.role:
        what = f"{label}: the settings say {met.spec.role}, the engine says {role}"
        return Diagnosis("engines", "FAIL", what, "give it the role that it was started with")
    model = met.spec.model or met.info.model or "no model by name"
    context = met.facts.context_length or met.info.context_length
    return Diagnosis(
        "engines",
        "ok",
        f"{label}: {met.facts.dialect}, {model}, context {context or 'unknown'}, {met.seconds * 1000:.0f} ms",
    )


def _of_models(engines: Sequence[_Met]) -> Iterator[Diagnosis]:
    """What engines of one model do not agree on."""
    by_model: dict[str, list[_Met]] = {}
    for each in engines:
        by_model.setdefault(each.spec.model or each.info.model, []).append(each)
    for model, members in by_model.items():
        roles = {each.spec.role or each.facts.kv.role or "regular" for each in members}
        for part, other in (("prefill", "decode"), ("decode", "prefill")):
            if part in roles and other not in roles:
                what = f"{model}: there are {part} engines and none that {other}s"
                yield Diagnosis("engines", "FAIL", what, f"add a worker with role: {other} (docs/prefill-decode.md)")
        lengths = {each.facts.context_length or each.info.context_length for each in members} - {0}
        if len(lengths) > 1:
            what = f"{model}: its engines have contexts of {', '.join(map(str, sorted(lengths)))} tokens"
            yield Diagnosis("engines", "warn", what, "start them alike: a long request fits only some of them")


# ----------------------------------------------------------------------------------------------------------------- clocks


async def _clocks(
    config: Config, specs: Sequence[WorkerSpec], stores: Mapping[str, float], timeout: float, clock: Clock
) -> list[Diagnosis]:
    """How far this machine's clock is from those that say theirs: stores, HTTP engines and the issuer of tokens."""
    urls = [each.url for each in specs if each.url.startswith(("http://", "https://"))]
    urls += [config.oidc.issuer] if config.oidc.issuer else []
    asked = [*dict.fromkeys(urls)]
    ahead = await asyncio.gather(*(_skew(url, timeout, clock) for url in asked))
    servers = {without_password(url): each for url, each in zip(asked, ahead, strict=True) if each is not None}
    found = [of_clock(who, each) for who, each in {**stores, **servers}.items()]
    return found or [Diagnosis("clocks", "ok", "nobody in the settings says its own time")]


async def _skew(url: str, timeout: float, clock: Clock) -> float | None:
    """Seconds by which the server's clock is ahead, None where it does not say."""
    import httpx

    try:
        async with httpx.AsyncClient(timeout=timeout, follow_redirects=False) as client:
            before = clock.time()
            answer = await client.head(url)
            middle = (before + clock.time()) / 2
        return parsedate_to_datetime(answer.headers["date"]).timestamp() + 0.5 - middle
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError):
        return None


# ---------------------------------------------------------------------------------------------------------- the machine


def _machine(config: Config) -> Iterable[Diagnosis]:
    yield _files(config)
    processes, cpus = config.server.processes or usable_cpus(), usable_cpus()
    if processes > cpus:
        yield Diagnosis("limits", "warn", f"server.processes: {processes} on {cpus} CPUs", f"--processes {cpus}")
    else:
        yield Diagnosis("limits", "ok", f"{processes} of {cpus} CPUs are used by processes")
    memory = processes * (config.limits.pending_body_bytes + config.tokenizer.l0_bytes + config.tokenizer.l1_bytes)
    free = _free_memory()
    if free is not None:
        state: FindingState = "ok" if memory <= free else "warn"
        do = (
            ""
            if state == "ok"
            else "lower limits.pending_body_bytes or the caches of tokenizer, or give it more memory"
        )
        yield Diagnosis(
            "limits", state, f"bodies and caches may take {memory >> 20} MiB of {free >> 20} MiB that are free", do
        )
    yield _port(config.server.host, config.server.port)


def _files(config: Config) -> Diagnosis:
    try:
        import resource
    except ModuleNotFoundError:
        return Diagnosis("limits", "ok", "this system has no limit of open files that could be read")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    server = config.server
    possible = connections_within(
        server.connections, -1 if hard == resource.RLIM_INFINITY else hard, server.spare_files
    )
    if possible >= server.connections:
        return Diagnosis("limits", "ok", f"{server.connections} connections fit into the limit of open files")
    wanted = max(server.connections + server.spare_files, server.connections * 10 // 9 + 1)
    what = f"server.connections: {possible} of {server.connections}: this user may open {hard} files"
    return Diagnosis("limits", "warn", what, f"raise the limit (ulimit -Hn {wanted}, LimitNOFILE={wanted} in systemd)")


def _free_memory() -> int | None:
    """Bytes that are free on this machine, None where that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _port(host: str, port: int) -> Diagnosis:
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        what = f"{host}:{port}: {error.strerror or error}"
        return Diagnosis(
            "limits", "warn", what, "if that is not this gateway, which runs already: give another --port or --host"
        )
    return Diagnosis("limits", "ok", f"{host}:{port} is free")
