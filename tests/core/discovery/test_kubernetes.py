"""Pods listed and watched at a server that speaks the real protocol, with all that may happen to a watch."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme
from tests.core.discovery.api_server import ApiServer, api_server, pod
from tests.shared import PATIENCE

from smg_core.apis import PERMISSIONS
from smg_core.config.check import check
from smg_core.config.config import Config
from smg_core.discovery.base import Missed, SourceAnswer, WorkersSeen
from smg_core.discovery.cluster import Cluster, namespace_of, server_url
from smg_core.discovery.kubernetes import KubernetesSource
from smg_core.discovery.pods import PodRules
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio


@attrs.define
class Watched:
    """A source before a server. `waits` has the pauses that it took."""

    server: ApiServer
    answers: AsyncIterator[SourceAnswer]
    waits: list[float]
    token: Path

    async def next(self) -> SourceAnswer:
        return await asyncio.wait_for(anext(self.answers), PATIENCE)

    async def until(self, *names: str) -> WorkersSeen:
        """The first answer with exactly these workers that are ready."""
        while True:
            answer = await self.next()
            if isinstance(answer, WorkersSeen):
                found = {each.spec.label: each.condition for each in answer.workers}
                if sorted(name for name, condition in found.items() if condition == "ready") == sorted(names):
                    return answer

    async def missed(self) -> str:
        while not isinstance(answer := await self.next(), Missed):
            pass
        return answer.reason


@asynccontextmanager
async def watched(tmp_path: Path, *, tls: ssl.SSLContext | None = None, **settings: Any) -> AsyncIterator[Watched]:
    token, waits = tmp_path / "token", []
    token.write_text("first\n")

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async with api_server(tls) as server:
        given = {"kubernetes_token_file": str(token), "kubernetes_ca_file": None, **settings}
        config = DiscoveryConfig(kubernetes_retry_s=1.0, kubernetes_retry_most_s=30.0, **given)
        rules = PodRules("regular", ports=config.ports_annotation)
        cluster = Cluster(server.url, config)
        source = KubernetesSource(cluster, "llm", "app=vllm", rules, pause, config, random.Random(7))
        async with aclosing(source.answers()) as answers:
            yield Watched(server, answers, waits, token)


async def test_pods_are_listed_and_then_watched(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(
            pod("a", "10.0.0.1", labels={"zone": "eu"}), pod("b", "fd00::2"), pod("other", labels={"app": "web"})
        )
        seen = await kube.until("a", "b")
        assert [each.spec.url for each in seen.workers] == ["grpc://10.0.0.1:50051", "grpc://[fd00::2]:50051"]
        assert [each.spec.labels for each in seen.workers] == [(("app", "vllm"), ("zone", "eu")), (("app", "vllm"),)]
        following = asyncio.ensure_future(kube.until("b", "c"))
        await kube.server.watched()
        kube.server.put(pod("c", "10.0.0.3"))
        kube.server.delete("a")
        await following
        assert kube.server.requests[0] == ("/api/v1/namespaces/llm/pods", {"labelSelector": "app=vllm", "limit": "250"})


async def test_a_pod_that_is_not_ready_is_kept_and_one_that_leaves_is_drained(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"), pod("b", ready=False), pod("c", phase="Pending", ip=""))
        seen = await kube.until("a")
        assert [(each.spec.label, each.condition) for each in seen.workers] == [("a", "ready"), ("b", "unready")]
        following = asyncio.ensure_future(kube.until("b"))
        await kube.server.watched()
        kube.server.put(pod("b"), pod("a", deleted=True))
        seen = await following
        assert [(each.spec.label, each.condition) for each in seen.workers] == [("a", "leaving"), ("b", "ready")]


async def test_a_list_is_read_in_pages(tmp_path: Path) -> None:
    async with watched(tmp_path, kubernetes_page=2) as kube:
        kube.server.put(*(pod(name) for name in "abcde"))
        await kube.until(*"abcde")
        assert [query.get("continue") is not None for _, query in kube.server.requests[:3]] == [False, True, True]


async def test_pages_that_expire_between_two_are_read_again_from_the_first(tmp_path: Path) -> None:
    async with watched(tmp_path, kubernetes_page=2) as kube:
        kube.server.put(*(pod(name) for name in "abcde"))
        kube.server.between_pages.append(kube.server.compact)
        await kube.until(*"abcde")
        assert [query.get("continue") is not None for _, query in kube.server.requests[:3]] == [False, True, False]


async def test_a_watch_that_ends_goes_on_from_where_it_was_and_loses_nothing(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
        following = asyncio.ensure_future(kube.until("a", "b"))
        first = await kube.server.watched()
        kube.server.watches.clear()
        first.end()
        kube.server.put(pod("b"))  # while nobody watches
        await following
        lists = [query for _, query in kube.server.requests if "watch" not in query]
        assert len(lists) == 1


async def test_a_bookmark_moves_the_place_where_a_watch_goes_on(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
        following = asyncio.ensure_future(kube.until("a", "b"))
        first = await kube.server.watched()
        kube.server.bookmark()
        kube.server.oldest = kube.server.version  # all before the bookmark is gone
        kube.server.watches.clear()
        first.end()
        await kube.server.watched()
        kube.server.put(pod("b"))
        await following
        assert len([query for _, query in kube.server.requests if "watch" not in query]) == 1


@pytest.mark.parametrize("as_event", [True, False])
async def test_a_version_that_is_gone_has_the_pods_listed_again(tmp_path: Path, as_event: bool) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"), pod("b"))
        await kube.until("a", "b")
        following = asyncio.ensure_future(kube.until("b", "c"))
        first = await kube.server.watched()
        watches, kube.server.watches = kube.server.watches, []
        kube.server.delete("a")
        kube.server.put(pod("c"))
        kube.server.compact()
        if as_event:
            kube.server.watches = watches
            kube.server.gone()
        else:
            first.end()
        await following
        assert len([query for _, query in kube.server.requests if "watch" not in query]) == 2
        assert not [each for each in kube.waits if each > 2]


async def test_an_object_that_is_cut_in_the_middle_is_read_anew(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
        cutting = asyncio.ensure_future(kube.missed())
        watch = await kube.server.watched()
        kube.server.watches.clear()
        kube.server.put(pod("b"))
        watch.cut(kube.server.event("ADDED", kube.server.pods["llm", "b"])[:90])
        assert "the watch was cut" in await cutting
        await kube.until("a", "b")


async def test_an_event_may_come_in_many_pieces(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
        following = asyncio.ensure_future(kube.until("a", "b"))
        watch = await kube.server.watched()
        kube.server.watches.clear()
        kube.server.put(pod("b"))
        for byte in kube.server.event("ADDED", kube.server.pods["llm", "b"]):
            watch.send(bytes([byte]))
        await following


async def test_a_server_that_is_busy_is_asked_again_when_it_says(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        kube.server.refusals += [(429, {"retry-after": "7"}), (503, {}), (429, {"retry-after": "999"})]
        assert [await kube.missed() for _ in range(3)] == [
            f"the API server answered {status}" for status in (429, 503, 429)
        ]
        await kube.until("a")
        assert kube.waits[0] == 7.0
        assert 1.0 <= kube.waits[1] <= 2.0
        assert kube.waits[2] == 30.0


async def test_pauses_double_up_to_their_bound(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.refusals += [(500, {})] * 8
        for _ in range(8):
            await kube.missed()
        await kube.until()
        assert all(
            bound / 2 <= wait <= bound for wait, bound in zip(kube.waits, (1, 2, 4, 8, 16, 30, 30), strict=False)
        )


async def test_a_token_that_is_replaced_is_used_from_the_next_request_on(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
        refused = asyncio.ensure_future(kube.missed())
        watch = await kube.server.watched()
        kube.server.token = "second"
        kube.server.watches.clear()
        watch.end()
        assert "does not take the token" in await refused
        kube.token.write_text("second\n")
        kube.server.put(pod("b"))
        await kube.until("a", "b")


async def test_a_token_that_cannot_be_read_is_said_without_asking(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.token.unlink()
        assert "kubernetes_token_file" in await kube.missed()
        assert kube.server.requests == []


async def test_what_is_known_is_kept_while_the_server_is_away(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        seen = await kube.until("a")
        cut = asyncio.ensure_future(kube.missed())
        watch = await kube.server.watched()
        kube.server.refusals += [(503, {})] * 3
        watch.cut()
        await cut
        assert await kube.until("a") is seen


async def test_a_redirection_is_not_followed(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.refusals.append((301, {"location": "http://169.254.169.254/"}))
        assert await kube.missed() == "the API server answered 301"


async def test_an_annotation_names_the_ports_and_one_that_is_wrong_leaves_the_pod_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(
            pod("a", annotations={"smg.ai/worker-ports": "7001, 7002"}),
            pod("b", annotations={"smg.ai/worker-ports": "http"}),
        )
        seen = await kube.until("a:7001", "a:7002")
        assert [each.spec.url for each in seen.workers] == ["grpc://10.0.0.1:7001", "grpc://10.0.0.1:7002"]
        assert caplog.text.count("pod llm/b is left out: annotation smg.ai/worker-ports is no list of ports") == 1


async def test_more_pods_than_the_bound_are_not_believed(tmp_path: Path) -> None:
    async with watched(tmp_path, most=2) as kube:
        kube.server.put(*(pod(name) for name in "abc"))
        assert "discovery.most" in await kube.missed()
        cleared = asyncio.ensure_future(kube.until("b", "c"))
        await kube.server.watched()
        kube.server.delete("a")
        await cleared


async def test_an_object_beyond_its_bound_is_missed(tmp_path: Path) -> None:
    async with watched(tmp_path, kubernetes_object_bytes=1024) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
        missed = asyncio.ensure_future(kube.missed())
        watch = await kube.server.watched()
        watch.send(b"{" + b" " * 4096)
        assert "more than 1024 bytes" in await missed


async def test_the_server_is_checked_against_the_clusters_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with watched(tmp_path, tls=context, kubernetes_ca_file=str(tmp_path / "ca.crt")) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
    async with watched(tmp_path, tls=context) as kube:
        assert "CERTIFICATE_VERIFY_FAILED" in await kube.missed()
        assert kube.server.requests == []


# ----------------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kubernetes": True}, "discovery.selector"),
        ({"model_from": "label:"}, "discovery.model_from"),
        ({"model_from": "name"}, "discovery.model_from"),
        ({"kubernetes": True, "selector": "app=x", "pod_scheme": "https"}, "discovery.pod_scheme"),
    ],
)
def test_settings_that_cannot_be_kept_stop_the_start(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(Config(discovery=DiscoveryConfig(**settings)), PERMISSIONS)


def test_the_server_and_the_namespace_are_those_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "namespace").write_text("llm\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    inside = DiscoveryConfig(kubernetes_namespace_file=str(tmp_path / "namespace"))

    assert (server_url(inside), namespace_of(inside)) == ("https://[fd00::1]:6443", "llm")
    assert namespace_of(DiscoveryConfig(kubernetes_namespace="*")) == ""


def test_outside_of_a_cluster_the_settings_must_say_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    outside = DiscoveryConfig(kubernetes_namespace_file=str(tmp_path / "namespace"))

    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        server_url(outside)
    with pytest.raises(ConfigError, match="kubernetes_namespace"):
        namespace_of(outside)


OF_7: dict[str, Any] = {"resourceVersion": "7"}
NO_LISTS: dict[str, Any] = {
    "an error with the status 200": {"kind": "Status", "status": "Failure", "metadata": {}, "code": 500},
    "other objects": {"kind": "ServiceList", "metadata": OF_7, "items": [{"metadata": {"name": "a"}}]},
    "objects of no kind": {"metadata": OF_7, "items": []},
    "a list of no version": {"kind": "PodList", "metadata": {}, "items": []},
    "a pod of another kind": {"kind": "PodList", "metadata": OF_7, "items": [pod("a") | {"kind": "Node"}]},
    "a pod without a name": {"kind": "PodList", "metadata": OF_7, "items": [pod("")]},
    "a pod with a line in its name": {"kind": "PodList", "metadata": OF_7, "items": [pod("a\nb")]},
    "a list that is gone each time": 410,
    "pages without an end": {"kind": "PodList", "metadata": OF_7 | {"continue": "more"}, "items": []},
    "pods without an end": {"kind": "PodList", "metadata": OF_7 | {"continue": "more"}, "items": [pod("a")] * 20},
}


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("lie", NO_LISTS.values(), ids=NO_LISTS)
async def test_what_is_no_list_of_pods_is_no_answer_and_what_was_known_is_kept(lie: Any, tmp_path: Path) -> None:
    async with watched(tmp_path, kubernetes_pods=50) as kube:
        kube.server.put(pod("a"), pod("b", "10.0.0.2"))
        await kube.until("a", "b")
        kube.server.lies = [lie]
        following = asyncio.ensure_future(kube.missed())
        await kube.server.watched()
        kube.server.compact()
        kube.server.gone()
        assert await following
        kube.server.lies = []
        while isinstance(answer := await kube.next(), Missed):
            pass
        assert isinstance(answer, WorkersSeen)
        assert [each.spec.label for each in answer.workers] == ["a", "b"]


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
async def test_an_event_of_another_object_changes_no_worker(kind: str, tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        await kube.until("a")
        service = {"kind": "Service", "metadata": {"name": "a", "namespace": "llm", "resourceVersion": "900"}}
        following = asyncio.ensure_future(kube.missed())
        watch = await kube.server.watched()
        watch.send(kube.server.event(kind, service))
        assert "Service" in await following
        await kube.until("a")


async def test_a_watch_that_ends_at_once_is_begun_anew_after_a_pause(tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a"))
        version = {"metadata": {"resourceVersion": str(kube.server.version)}}
        kube.server.events = [kube.server.event("BOOKMARK", version)]
        while len(kube.waits) < 5:
            await kube.next()
        asked = [query for _, query in kube.server.requests if "watch" in query]
        assert len(asked) <= len(kube.waits) + 1


async def test_no_more_pods_are_kept_than_the_settings_allow(tmp_path: Path) -> None:
    async with watched(tmp_path, kubernetes_pods=3) as kube:
        kube.server.put(pod("a"), pod("b"), pod("c"))
        await kube.until("a", "b", "c")
        following = asyncio.ensure_future(kube.missed())
        await kube.server.watched()
        kube.server.put(pod("d"))
        assert "discovery.kubernetes_pods" in await following


@pytest.mark.parametrize("address", ["engines.example", "10.0.0.1@elsewhere", "10.0.0.1/x", "fe80::1%eth0"])
async def test_a_pod_whose_address_is_none_is_left_out(address: str, tmp_path: Path) -> None:
    async with watched(tmp_path) as kube:
        kube.server.put(pod("a", address), pod("b"))
        await kube.until("b")


@pytest.mark.full
@pytest.mark.parametrize(
    ("part", "bound", "said"),
    [
        ("head", {"kubernetes_timeout_s": 0.5}, "no head of an answer in 0.5 s"),
        ("page", {"kubernetes_page_s": 0.5}, "kubernetes_page_s"),
        ("watch", {"kubernetes_timeout_s": 1.0, "kubernetes_watch_s": 1.0}, "was not ended by the server"),
    ],
)
async def test_an_answer_that_drips_has_a_time_in_which_it_must_have_come(
    part: str, bound: dict[str, float], said: str, tmp_path: Path
) -> None:
    async with watched(tmp_path, **bound) as kube:
        kube.server.put(pod("a"))
        kube.server.dripping = part
        answers = [await kube.next()]
        while not isinstance(answers[-1], Missed):
            answers.append(await kube.next())
        assert said in answers[-1].reason
        assert len(answers) <= 3  # the list, and that the watch began: a part of an event is no news
        kube.server.dripping = ""
        kube.server.put(pod("b"))
        await kube.until("a", "b")
