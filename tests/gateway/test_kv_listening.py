"""What engines tell of their caches reaches the decisions: another gateway's prompts are known, losses are found and repaired."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs
import httpx
import pytest
from tests.core.engines.test_kv_events import PUBLISHING
from tests.gateway.conftest import CHAT, House, body, eventually
from tests.gateway.fleet import CALM, Member, fleet
from tests.gateway.vision_models import image_part, picture, qwen2_vl, text_part

from smg_core import Config, Gateway
from smg_core.auth.base import Head
from smg_core.engines.kv_events import KvEvent
from smg_core.request import Caller
from smg_core.routing import KvKnown, RoutingDecision
from smg_core.routing.cache_aware import CacheAware
from smg_core.routing.settings import RoutingConfig
from smg_core.sealing.settings import SealingConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

LONG = "The lighthouse keeper wrote down every ship that passed. " * 30


class Heard(CacheAware):
    """cache_aware, which keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(RoutingConfig(tie_tokens=0), Random(1))
        self.changes: list[tuple[str, int]] = []
        self.known: list[tuple[str, int, KvKnown]] = []

    def kv_changed(self, worker: str, rank: int, events: Sequence[KvEvent], now: float) -> None:
        super().kv_changed(worker, rank, events, now)
        self.changes.append((worker, rank))

    def kv_known(self, worker: str, rank: int, known: KvKnown, *, salted: bool = True) -> None:
        super().kv_known(worker, rank, known, salted=salted)
        self.known.append((worker, rank, known))


async def by_name(head: Head) -> Caller | None:
    """The tenant is the credential."""
    return None if head.credential is None else Caller(head.credential.text)


@asynccontextmanager
async def listening(
    dialect: str = "vllm", *engines: SimulatorConfig, config: Config = CALM, **arguments: Any
) -> AsyncIterator[tuple[House, Heard]]:
    """A gateway that listens to two engines."""
    heard = Heard()
    configs = engines or (SimulatorConfig(), SimulatorConfig())
    members = [Member(name, dialect, each) for name, each in zip(("one", "two"), configs, strict=True)]
    async with fleet(*members, config=config, policy=heard, **arguments) as house:
        await eventually(lambda: all(each.counters["subscribers"] for each in house.own))
        yield house, heard


async def asked(house: House, text: Any = LONG, key: str = "") -> RoutingDecision:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = await house.http.post(CHAT, json=body(text, max_tokens=2), headers=headers)
    assert answer.status_code == 200, answer.text
    (decision,) = house.gateway.decisions.of(answer.json()["id"])
    return decision


async def asked_elsewhere(house: House, engine: int, dialect: str, key: str = "", text: Any = LONG) -> None:
    """Another gateway, with the same secrets, sends a prompt to one of the engines."""
    worker = Member("same", dialect).spec(house.own[engine])
    config = attrs.evolve(house.gateway.config, routing=RoutingConfig())
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        Gateway([worker], config=config, identity=by_name if key else None) as other,
        other.http_client(httpx, base_url="http://gateway") as http,
    ):
        answer = await http.post(CHAT, json=body(text, max_tokens=2), headers=headers)
        assert answer.status_code == 200, answer.text


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("dialect", PUBLISHING)
async def test_a_prompt_that_another_gateway_sent_is_known_exactly(dialect: str) -> None:
    async with listening(dialect) as (house, heard):
        await asked_elsewhere(house, 1, dialect)
        await eventually(lambda: ("two", 0, "all") in heard.known)
        decision = await asked(house)

        assert (decision.worker, decision.basis, decision.why) == ("two", "exact", "has the prefix")
        assert decision.cached == decision.prompt_tokens // 64 * 64  # of whole blocks of routing.block_tokens
        assert [each.name for each in decision.candidates] == ["one", "two"]
        assert decision.bases[1] == "exact"
        assert decision.matched[0] == 0
        assert decision.stale_s is not None
        assert decision.stale_s >= 0
        assert decision.stale[1] == decision.stale_s


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("dialect", PUBLISHING)
async def test_what_one_tenant_has_asked_is_cached_for_another_only_where_the_engine_keeps_them_together(
    dialect: str,
) -> None:
    config = attrs.evolve(CALM, sealing=SealingConfig(keys=("a secret of this test, long enough",)))
    async with listening(dialect, config=config, identity=by_name) as (house, heard):
        await asked_elsewhere(house, 1, dialect, "acme")
        await eventually(lambda: ("two", 0, "all") in heard.known)
        parted = next(iter(house.gateway.registry)).facts.cache_salt
        other, same = await asked(house, key="umbrella"), await asked(house, key="acme")

        assert (other.matched[1] == 0) is parted
        assert (same.worker, same.basis) == ("two", "exact")


@pytest.mark.full
@pytest.mark.parametrize("dialect", ["vllm", "neutral"])
async def test_a_gap_is_found_and_what_is_known_afterwards_is_right(dialect: str) -> None:
    faulty = SimulatorConfig(faults=(None, Fault("gap")), blocks=64)
    async with listening(dialect, SimulatorConfig(), faulty) as (house, heard):
        await asked_elsewhere(house, 1, dialect)
        await eventually(lambda: ("two", 0, "all") in heard.known)
        await asked_elsewhere(house, 1, dialect, text="x" + LONG)  # of which nobody hears
        before = house.own[1].counters["subscribers"]
        await asked_elsewhere(house, 1, dialect, text="y" + LONG)
        await eventually(lambda: house.own[1].counters["subscribers"] > before)
        if dialect == "neutral":  # it tells again what was missed
            await eventually(lambda: heard.changes.count(("two", 0)) >= 3)
            assert (await asked(house, "x" + LONG)).basis == "exact"
        else:
            assert ("two", 0, "part") in heard.known
            assert {"approximate"} == set((await asked(house, "x" + LONG)).bases)


@pytest.mark.full
async def test_what_an_engine_told_is_forgotten_when_its_worker_leaves() -> None:
    async with listening() as (house, heard):
        await asked_elsewhere(house, 1, "vllm")
        await eventually(lambda: ("two", 0, "all") in heard.known)
        await house.gateway.remove_worker("two")
        decision = await asked(house)

        assert [known for worker, _, known in heard.known if worker == "two"][-1] == "nothing"
        assert (decision.worker, decision.cached) == ("one", 0)


@pytest.mark.full
async def test_an_engine_that_does_not_tell_is_known_by_what_was_sent() -> None:
    config = attrs.evolve(CALM, routing=RoutingConfig(kv_events=False))
    async with fleet(Member("own"), config=config, policy="cache_aware") as deaf:
        first, second = await asked(deaf), await asked(deaf)

        assert deaf.own[0].counters["subscribers"] == 0
    assert (first.basis, first.cached, first.stale_s) == ("approximate", 0, None)
    assert (second.basis, second.why) == ("approximate", "has the prefix")


@pytest.mark.parametrize("before", ["cache_aware", "round_robin"])
async def test_after_a_change_of_the_routing_the_new_policy_is_told_what_engines_hold(before: str) -> None:
    routing = RoutingConfig(policy=before, decisions=CALM.routing.decisions)
    workers = attrs.evolve(CALM.workers, join_interval_s=0.01)
    members = [Member("one", "vllm", SimulatorConfig()), Member("two", "vllm", SimulatorConfig())]
    async with fleet(*members, config=attrs.evolve(CALM, routing=routing, workers=workers)) as house:
        await asked(house)
        subscribed = [each.counters["subscribers"] for each in house.own]
        changed = attrs.evolve(routing, policy="cache_aware", tie_tokens=161)
        house.gateway.adopt(attrs.evolve(house.gateway.config, routing=changed))
        await eventually(lambda: all(each.counters["subscribers"] > 0 for each in house.own))
        await eventually(
            lambda: (
                before != "cache_aware"
                or all(each.counters["subscribers"] > was for each, was in zip(house.own, subscribed, strict=True))
            )
        )
        worker = (await asked(house, f"Another one. {LONG}")).worker
        chosen: Any = house.gateway.services.policies.of("sim", "regular")

        await eventually(lambda: chosen._caches._events.known((worker, 0)) is not None)


async def test_a_policy_that_does_not_listen_has_nobody_subscribe() -> None:
    async with fleet(Member("own"), policy="least_load") as house:
        await asked(house)
        assert house.own[0].counters["subscribers"] == 0


async def test_equal_pictures_are_one_prefix_and_unlike_ones_are_not(tmp_path: Path) -> None:
    folder = str(qwen2_vl(tmp_path / "model"))
    engines = SimulatorConfig(model_folder=folder), SimulatorConfig(model_folder=folder)
    async with listening("vllm", *engines) as (house, heard):
        red, blue = (
            [text_part("x" + LONG), image_part(picture(200, 160, color)), text_part(LONG)] for color in ("red", "blue")
        )
        await asked_elsewhere(house, 1, "vllm", text=red)
        await eventually(lambda: ("two", 0, "all") in heard.known)
        other, same = await asked(house, blue), await asked(house, red)

        assert (same.worker, same.basis) == ("two", "exact")
        assert same.matched[1] > other.matched[1] > 0
