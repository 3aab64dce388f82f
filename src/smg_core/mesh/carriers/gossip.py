"""A mesh without a server: members find each other from seeds and probe each other, by SWIM with Lifeguard (edge).

The library kinship does that in a thread of its own, so a busy event loop makes nobody look dead. Packets and connections are
sealed with the mesh's key; without one it runs on this machine's own addresses alone. To kinship each start of a member is one of
its own ("name#start"), so a gateway that starts again, at another address perhaps, is known at once. Above: the table of
carriers. Below: kinship.
"""

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncIterator, Sequence

import kinship

from smg_core.mesh.base import Ears, MemberState, SeenMember, Unreachable
from smg_core.mesh.carriers.rows import LinkTerms
from smg_core.mesh.settings import MeshConfig
from smg_core.settings import ConfigError

__all__ = ["GossipLink"]

_log = logging.getLogger("smg.mesh")

_LARGEST = 64 << 10
_LONGEST_NAME = 48
_BETWEEN = "#"
_REJOIN_S = 2.0
"""Seconds between two looks whether seeds are to be asked again, and for which one may take to answer."""
_PACE: dict[str, float] = {
    "probe_interval": 0.5,
    "probe_timeout": 0.25,
    "suspicion_mult": 2,
    "suspicion_max_mult": 2,
    "expected_confirmations": 2,
    "awareness_max": 3,
    "gossip_interval": 0.1,
    "push_pull_interval": 15.0,
    "reconnect_interval": 5.0,
}
"""Faster than a cluster's usual pace: a gateway that crashed is known after two to four seconds. A third one waits for no more
than two that do not reach it, since the larger side of a split may have no more: whom it looks at last is given up in time, too.
One that hears little itself probes at most four times as slowly (`awareness_max`), so that the smaller side of a split knows in
14 seconds what it is."""


def _is_loopback(place: str) -> bool:
    host = place.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class GossipLink:
    """One member's link, by gossip."""

    largest = _LARGEST

    def __init__(self, terms: LinkTerms) -> None:
        settings = terms.settings
        if not terms.keys and not _is_loopback(settings.bind):
            raise ConfigError("mesh.keys: gossip beyond this machine's own addresses needs a key")
        if not 0 < len(terms.name.encode()) <= _LONGEST_NAME or _BETWEEN in terms.name:
            raise ConfigError(f"mesh.name: 1 to {_LONGEST_NAME} bytes without {_BETWEEN}")
        self._terms = terms
        self._keys = tuple(terms.keys)
        self._full = f"{terms.name}{_BETWEEN}{int(terms.clock.time() * 1000):x}"
        self._config = self._config_of(settings)
        self._cluster: kinship.Cluster | None = None
        self._starts: dict[str, str] = {}  # the full name of each member's last start
        self._most = 0  # members that were there at once
        self._ears: Ears | None = None

    def _config_of(self, settings: MeshConfig) -> kinship.Config:
        terms = self._terms
        try:
            return kinship.Config.lan(
                name=self._full,
                bind=settings.bind,
                cluster=settings.cluster,
                seeds=list(settings.seeds),
                meta={"p": terms.formats, "v": terms.version},
                max_user_message=_LARGEST,
                max_members=settings.members,
                **({"advertise": settings.advertise} if settings.advertise else {}),
                **({"keys": list(terms.keys)} if terms.keys else {"insecure_plaintext": True}),
                **_PACE,
            )
        except kinship.ConfigError as error:
            raise ConfigError(f"mesh: {error}") from None

    @property
    def members(self) -> Sequence[SeenMember]:
        if self._cluster is None:
            return ()
        found = ((each, self._cluster.member(full)) for each, full in self._starts.items())
        return [_seen(name, member) for name, member in found if member is not None]

    @property
    def refused(self) -> int:
        if self._cluster is None:
            return 0
        stats = self._cluster.stats()
        return stats.decrypt_failures + stats.decode_errors + stats.replays_dropped

    @property
    def place(self) -> str:
        return self._cluster.local.addr if self._cluster is not None else self._terms.settings.bind

    @contextlib.asynccontextmanager
    async def opened(self, ears: Ears) -> AsyncIterator[None]:
        self._ears = ears
        cluster = kinship.Cluster(self._config)
        try:
            async with cluster:
                self._cluster = cluster
                events = cluster.events()
                self._look_again()
                tasks = [
                    asyncio.create_task(self._reads(events), name="mesh events"),
                    asyncio.create_task(self._rejoins(cluster), name="mesh seeds"),
                ]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
        except kinship.JoinError as error:
            raise ConfigError(f"mesh.seeds: {error}") from None
        finally:
            self._cluster = None
            self._starts.clear()

    async def adopt_keys(self, keys: Sequence[bytes]) -> None:
        if self._cluster is None or not keys or not self._keys:
            return
        ring = self._cluster.keyring
        for key in keys:
            await ring.install(key)
        await ring.use(keys[0])
        for key in self._keys:
            if key not in keys:
                await ring.remove(key)
        self._keys = tuple(keys)

    async def send(self, to: str, data: bytes) -> None:
        if self._cluster is None:
            raise Unreachable("not open")
        try:
            await self._cluster.send(self._starts[to], data)
        except (kinship.KinshipError, KeyError) as error:
            raise Unreachable(f"{to}: {type(error).__name__}") from None

    async def send_all(self, data: bytes) -> None:
        if self._cluster is None or len(data) > _LARGEST:
            raise Unreachable("not open, or too large")
        for name in list(self._starts):
            with contextlib.suppress(Unreachable):
                await self.send(name, data)

    async def _rejoins(self, cluster: kinship.Cluster) -> None:
        """Ask the seeds again while somebody is missing: a seed that has left and begun anew may know nobody else."""
        settings = self._terms.settings
        while True:
            await asyncio.sleep(_REJOIN_S)
            there = {each.place for each in self.members} | {self.place, settings.bind, settings.advertise}
            for seed in settings.seeds if not self._starts or len(self._starts) < self._most else ():
                if seed not in there:
                    with contextlib.suppress(kinship.KinshipError, TimeoutError):
                        async with asyncio.timeout(_REJOIN_S):
                            await cluster.join([seed])

    # --------------------------------------------------------------------------------------------------------------- events

    async def _reads(self, events: kinship.EventStream) -> None:
        with contextlib.suppress(kinship.KinshipClosed):
            async for event in events:
                self._take(event)
            return
        _log.error("gossip has ended by a fault of its own: this gateway is alone")

    def _take(self, event: kinship.Event) -> None:
        ears = self._ears
        if ears is None:
            return
        if isinstance(event, kinship.EventsLost):
            self._look_again()
            return
        if isinstance(event, kinship.UserMessage):
            name = self._last_start(event.sender)
            if name is not None:
                ears.heard(name, event.data)
            return
        if isinstance(event, kinship.MemberJoined | kinship.MemberUpdated):
            self._note(event.member)
            return
        name = self._last_start(event.member)
        if name is None:
            return
        if isinstance(event, kinship.MemberSuspect):
            ears.suspected(name)
        elif isinstance(event, kinship.MemberRecovered):
            ears.recovered(name)
        elif isinstance(event, kinship.MemberDead | kinship.MemberLeft):
            del self._starts[name]
            (ears.lost if isinstance(event, kinship.MemberDead) else ears.left)(name)

    def _last_start(self, member: kinship.Member) -> str | None:
        """The name of a member, if this is its last start that is known."""
        name = member.name.rpartition(_BETWEEN)[0]
        return name if self._starts.get(name) == member.name else None

    def _note(self, member: kinship.Member) -> None:
        """A member is there, perhaps as a later start than was known."""
        name, _, start = member.name.rpartition(_BETWEEN)
        if self._ears is None or not name or name == self._terms.name or not _is_start(start):
            if name == self._terms.name and member.name != self._full:
                _log.warning("mesh.name: another start of %s is there", name)
            return
        known = self._starts.get(name)
        if known is None or int(known.rpartition(_BETWEEN)[2], 16) < int(start, 16):
            self._starts[name] = member.name
            self._most = max(self._most, len(self._starts))
            self._ears.came(_seen(name, member))

    def _look_again(self) -> None:
        """More has happened than was heard of: compare with who is there."""
        there = self._cluster.members() if self._cluster is not None else []
        names = {each.name for each in there}
        for name in [name for name, full in self._starts.items() if full not in names]:
            del self._starts[name]
            if self._ears is not None:
                self._ears.lost(name)
        for each in there:
            self._note(each)


def _is_start(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME and all(each in "0123456789abcdef" for each in text)


def _seen(name: str, member: kinship.Member) -> SeenMember:
    state: MemberState = "suspected" if member.state is kinship.State.SUSPECT else "alive"
    return SeenMember(name, member.meta.get("p", ""), member.meta.get("v", ""), member.addr, state)
