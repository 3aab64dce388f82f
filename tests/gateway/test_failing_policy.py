"""A user's policy that raises: every request is answered, its explanation names the policy, and it is logged once and counted."""

import json
from collections.abc import Sequence

import attrs
import pytest
from tests.gateway.conftest import CHAT, body
from tests.gateway.fleet import CALM, Member, fleet
from tests.gateway.test_metrics import meter_of, read

from smg_core.hooks import PolicyFailed
from smg_core.observability.settings import ObservabilityConfig
from smg_core.routing import Candidate, Observing, Pick, RequestEnded, RoutingContext

pytestmark = pytest.mark.anyio

KEY = "a-session-of-somebody"


class Mine(Observing):
    """Fails with a part of the request in what it raises."""

    name = "mine"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        raise LookupError(context.cache_key)

    def request_ended(self, ended: RequestEnded) -> None:
        raise ZeroDivisionError(ended.worker)


async def test_requests_are_answered_the_explanation_names_the_policy_and_the_log_tells_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = attrs.evolve(CALM, observability=ObservabilityConfig(explain=True))
    meter = meter_of()
    async with fleet(Member("one"), Member("two"), config=config, policy=Mine) as house:
        house.gateway.services.policies.of("sim", "regular")
        headers = {"x-smg-explain": "1", "x-smg-routing-key": KEY}
        answers = [await house.http.post(CHAT, json=body(max_tokens=2), headers=headers) for _ in range(6)]
        told = [json.loads(answer.headers["x-smg-explain"]) for answer in answers]
        decisions = [house.gateway.decisions.of(answer.json()["id"]) for answer in answers]
        failed = house.observer.of(PolicyFailed)
    for moment in failed:
        meter.recorder.report(moment)
    counted = (await read(meter))["smg_router_policy_failures_total"]

    assert [answer.status_code for answer in answers] == [200] * 6
    assert {each["worker"] for each in told} == {"one", "two"}
    assert {(each["policy"], each["why"]) for each in told} == {
        ("mine", "the policy mine failed (LookupError): the fewest requests")
    }
    assert {each.why for (each,) in decisions} == {each["why"] for each in told}
    assert set(counted.values()) == {6.0}
    assert {(each.call, each.error) for each in failed} == {
        ("pick", "LookupError"),
        ("request_ended", "ZeroDivisionError"),
    }
    faults = [record for record in caplog.records if "the policy mine" in record.getMessage()]
    assert sorted(record.getMessage().split(":")[0] for record in faults) == [
        "the policy mine has failed in pick",
        "the policy mine has failed in request_ended",
    ]
    assert KEY not in caplog.text
