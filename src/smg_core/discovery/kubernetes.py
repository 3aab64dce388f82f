"""The pods of a Kubernetes cluster that a selector matches, listed and then watched (edge).

The list is read in pages, and the watch goes on from its version. A watch that ends goes on from the last version that it told,
in a bookmark too, so nothing that happens in between is lost; where that version is gone, the list is read again. What fails is
tried again after a pause that doubles, or that the server asks for. Above: operation.discovery. Below: cluster asks, watching
keeps.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator

from smg_core.discovery.base import Missed, SourceAnswer
from smg_core.discovery.cluster import Calls, Cluster
from smg_core.discovery.pods import PodRules
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.discovery.waiting import Pause
from smg_core.discovery.watching import Expired, Garbled, Lines, PodSet, ServerRefused, page_of

__all__ = ["KubernetesSource"]

log = logging.getLogger("smg.discovery")


class KubernetesSource:
    """The workers of the pods in `namespace` ("": in all) that `selector` matches, as the API server understands it."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        selector: str,
        rules: PodRules,
        pause: Pause,
        settings: DiscoveryConfig,
        rng: random.Random,
    ) -> None:
        self.name = "kubernetes" if rules.role == "regular" else f"kubernetes {rules.role}"
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._selector = selector
        self._rules = rules
        self._pause = pause
        self._settings = settings
        self._rng = rng
        self._logged: dict[tuple[str, str], str] = {}

    async def answers(self) -> AsyncIterator[SourceAnswer]:
        """The workers after each change, and whenever the server shows that nothing has changed."""
        pods, failures = PodSet(self._rules, self._settings.kubernetes_pods), 0
        while True:
            after, events = 0.0, pods.events
            try:
                async with self._cluster.opened() as calls:
                    async for answer in self._followed(calls, pods):
                        yield answer
                failures = 0
            except Expired:
                pods.expire()
            except (ServerRefused, Garbled) as error:
                after = error.retry_after if isinstance(error, ServerRefused) else 0.0
                yield Missed(str(error))
            failures = 1 + (failures if pods.events == events else 0)
            await self._pause(self._wait(failures, after))

    def _wait(self, failures: int, asked: float) -> float:
        """Seconds to wait after so many failures in a row, of which the last one asked for `asked` seconds."""
        most = self._settings.kubernetes_retry_most_s
        doubled = min(most, math.ldexp(self._settings.kubernetes_retry_s, min(failures - 1, 32)))
        return min(most, max(asked, doubled * self._rng.uniform(0.5, 1.0)))

    async def _followed(self, calls: Calls, pods: PodSet) -> AsyncIterator[SourceAnswer]:
        """What list and watch say, until a watch brings nothing new: one that ends again and again without a newer version is
        begun anew after a pause. Raises Expired, ServerRefused or Garbled."""
        before = None
        while before != pods.version:
            if not pods.version:
                await self._list(calls, pods)
                yield self._answer(pods)
            before = pods.version
            seconds = self._settings.kubernetes_watch_s
            query = {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": pods.version,
                "timeoutSeconds": str(max(1, round(seconds))),
                "labelSelector": self._selector,
            }
            lines = Lines(self._settings.kubernetes_object_bytes)
            async with calls.watch(self._path, query, seconds) as pieces:
                yield self._answer(pods)
                async for piece in pieces:
                    events = lines.feed(piece)
                    for line in events:
                        pods.event(line)
                    if events:  # a part of one says nothing
                        yield self._answer(pods)

    async def _list(self, calls: Calls, pods: PodSet) -> None:
        """Read the list to its end, of which there is one: each page has a pod at least, or is counted as if. Raises
        ServerRefused or Garbled."""
        pods.begin()
        query = {"labelSelector": self._selector, "limit": str(self._settings.kubernetes_page)}
        for _ in range(self._settings.kubernetes_pods):
            try:
                data = await calls.page(self._path, query)
            except Expired:  # no failure of the watch: there is no list to go on from
                raise ServerRefused("the list of pods was gone before it was read to its end") from None
            following = pods.page(await asyncio.to_thread(page_of, data, self._rules))
            if not following:
                return
            query["continue"] = following
        raise Garbled("the list of pods has no end")

    def _answer(self, pods: PodSet) -> SourceAnswer:
        """The workers, if they are not too many; what is wrong with a pod is logged once."""
        for key, problem in pods.problems.items():
            if self._logged.get(key) != problem:
                log.warning("%s: pod %s is left out: %s", self.name, "/".join(key), problem)
        self._logged = dict(pods.problems)
        if pods.count > self._settings.most:
            return Missed(f"it has {pods.count} workers; discovery.most allows {self._settings.most}")
        return pods.seen()
