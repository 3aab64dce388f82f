"""Makes the sources of workers from the settings, and changes the gateway's workers for them (edge).

Decides nothing: what is to be changed is decided in the room `discovery`. The sources that ask servers are loaded where the
settings name one. Above: gateway.gateway starts it with the gateway, the admin door shows how the sources stand. Below: the
runtime.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from smg_core.clock import CallLater
from smg_core.config.config import Config
from smg_core.discovery.base import PresentWorker, WorkerSource
from smg_core.discovery.file import WorkerFileSource
from smg_core.discovery.names import dns_name
from smg_core.discovery.pods import PodRules, model_reader
from smg_core.discovery.running import Discovery
from smg_core.discovery.waiting import pauses
from smg_core.engines.connections.target import Tls
from smg_core.extras import needs
from smg_core.fleet.connect import worker_file
from smg_core.serving.services import Services
from smg_core.settings import ConfigError
from smg_core.workers.worker import WorkerSpec

__all__ = ["Discovering", "discovery_of"]


class Discovering(Discovery):
    """The discovery of one gateway. Of several processes the one that leads asks the sources; what it changes reaches all."""

    def __init__(self, services: Services) -> None:
        config = services.live.config
        super().__init__(
            tuple(_all_sources(services)),
            _Roster(services),
            services.observer,
            config.discovery,
            clock=services.clock,
            call_later=services.call_later,
            faults=services.faults,
        )
        self._leading = services.leading

    async def run(self) -> None:
        """Ask the sources whenever this process leads, until it is cancelled."""
        await self._leading.while_leading(super().run)


def discovery_of(services: Services) -> Discovering:
    """The discovery of a gateway, which runs while that is started."""
    return services.side_tasks.one_of(Discovering, lambda: Discovering(services))


def _all_sources(services: Services) -> Iterator[WorkerSource]:
    yield from _sources(services.live.config, services.call_later)
    if services.live.config.discovery.kubernetes:
        yield from _pods(services)


def _sources(config: Config, call_later: CallLater) -> Iterator[WorkerSource]:
    """The sources that the settings name. Raises ConfigError where a package is missing that one needs."""
    settings, pause = config.discovery, pauses(call_later)
    if config.workers.file is not None and settings.file_interval_s:
        path = Path(config.workers.file).expanduser()
        yield WorkerFileSource(
            path,
            lambda: worker_file(path, config),
            pause,
            interval=settings.file_interval_s,
            most=settings.most,
        )
    if settings.dns:
        if find_spec("dns") is None:
            raise ConfigError(needs("discovery.dns", "dns"))
        from smg_core.discovery.dns import DnsSource
        from smg_core.discovery.resolver import DnsResolver

        resolver, own = DnsResolver(settings), config.workers
        tls = Tls(ca=own.tls_ca, cert=own.tls_cert, key=own.tls_key)
        for text in settings.dns:
            yield DnsSource(dns_name(text), resolver.ask, pause, settings, tls)


def _pods(services: Services) -> Iterator[WorkerSource]:
    """A source for each selector. Raises ConfigError where the API server or the namespace is not known."""
    if find_spec("httpx") is None:
        raise ConfigError(needs("discovery.kubernetes", "httpx"))
    from smg_core.discovery.cluster import Cluster, namespace_of, server_url
    from smg_core.discovery.kubernetes import KubernetesSource

    config = services.live.config
    settings, namespace = config.discovery, namespace_of(config.discovery)
    cluster, pause = Cluster(server_url(settings), settings), pauses(services.call_later)
    for role, selector in settings.selectors().items():
        rules = PodRules(
            role,
            settings.pod_scheme,
            settings.pod_port,
            settings.ports_annotation,
            settings.bootstrap_annotation,
            model_reader(settings.model_from),
            namespaced=not namespace,
            tls=_certificates(config, settings.pod_server_name),
        )
        yield KubernetesSource(cluster, namespace, selector, rules, pause, settings, services.rng)


def _certificates(config: Config, server_name: str | None) -> Tls | None:
    """The certificates of the settings, with another name in the engine's."""
    own = config.workers
    return Tls(ca=own.tls_ca, cert=own.tls_cert, key=own.tls_key, server_name=server_name) if server_name else None


class _Roster:
    """The workers of a gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def present(self) -> Iterator[PresentWorker]:
        roster = self._services.running.roster
        return (PresentWorker(each.spec, each.source, roster.retires(each.name)) for each in self._services.registry)

    async def add(self, spec: WorkerSpec, source: str) -> None:
        await self._services.running.roster.add(spec, source)

    async def update(self, spec: WorkerSpec) -> None:
        await self._services.running.roster.change(spec.label, spec)

    async def retire(self, name: str, within_s: float) -> None:
        await self._services.running.roster.retire(name, within_s)

    async def resume(self, spec: WorkerSpec) -> None:
        await self._services.running.roster.restore(spec.label, spec)
