"""Which workers are shown to a policy by the rules of placement, and the words for a request that has none."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from tests.core.pipeline.prompt.test_prepare import asking, model, prompted

from smg_core.engines.base import EngineFacts
from smg_core.errors import NoWorker
from smg_core.origin import Origin
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.selecting import Selecting
from smg_core.pipeline.flow.steps import Select
from smg_core.placement.placing import KEPT, Placing
from smg_core.placement.rules import read_placement
from smg_core.request import Caller
from smg_core.routing import Candidate, Decisions, Pick, Policies, RoutingContext
from smg_core.testing import FakeClock, MemoryObserver
from smg_core.workers.registry import Registry
from smg_core.workers.worker import Worker, WorkerPlace, WorkerRole, WorkerSpec

ACME, GLOBEX = Caller("acme", "reader"), Caller("globex", "reader")


class Shown:
    """A policy that takes the first, and keeps whom it was shown with which weights."""

    name = "shown"

    def __init__(self) -> None:
        self.last: dict[str, float] = {}
        self.part = ""

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self.last = {each.name: each.weight for each in candidates}
        self.part = context.part
        return Pick(candidates[0])


@attrs.define
class Office:
    """Workers with labels, and the part of a gateway that chooses among them by the rules `lines`."""

    lines: tuple[str, ...]
    registry: Registry = attrs.field(factory=Registry)
    policy: Shown = attrs.field(factory=Shown)
    decisions: Decisions = attrs.field(factory=lambda: Decisions(100, 1 << 20))
    selecting: Selecting = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.selecting = Selecting(
            registry=self.registry,
            models={},
            policies=Policies(lambda: self.policy),
            clock=FakeClock(now=7.0),
            decisions=self.decisions,
        )
        self.selecting.placement = Placing(read_placement(self.lines))

    def add(self, name: str, role: WorkerRole = "regular", **labels: str) -> Worker:
        labelled = tuple(sorted(labels.items()))
        worker = self.registry.add(WorkerSpec(f"grpc://{name}", name=name, role=role, labels=labelled))
        worker.facts = EngineFacts("vllm")
        self.registry.serve(worker, ("m",))
        self.registry.signal(worker, "joined")
        return worker

    def chosen(self, caller: Caller = ACME, exclude: frozenset[str] = frozenset(), **fields: Any) -> tuple[str, ...]:
        """The names of the workers that are asked for a request."""
        request = asking(caller=caller, **fields)
        placement = self.selecting.choose(
            Select(prompted(request, model()), exclude=exclude), Trace(0.0, MemoryObserver())
        )
        return tuple(each.worker.name for each in placement.chosen)

    def shown(self, *args: Any, **fields: Any) -> str:
        """The names of those among which the policy chose."""
        self.chosen(*args, **fields)
        return "".join(self.policy.last)


def zoned(*lines: str) -> Office:
    office = Office(lines)
    for name, zone in (("a", "eu"), ("b", "us"), ("c", "eu"), ("d", "")):
        office.add(name, **({"zone": zone} if zone else {}))
    return office


def test_only_those_whom_a_rule_requires_are_shown_to_the_policy() -> None:
    office = zoned("require zone=eu for tenant=acme", "require zone!=eu for api=messages")

    assert office.shown() == "ac"
    assert office.shown(GLOBEX) == "abcd"
    assert office.shown(GLOBEX, origin=Origin("messages")) == "bd"
    with pytest.raises(NoWorker):
        office.shown(origin=Origin("messages"))


def test_a_policy_is_told_which_requests_are_placed_alike() -> None:
    office = zoned("require zone=eu for tenant=acme", "weigh zone=eu by=2 for api=chat", "prefer zone={header.x-zone}")

    def part(caller: Caller = ACME, **fields: Any) -> str:
        office.chosen(caller, **fields)
        return office.policy.part

    told = [
        part(),
        part(origin=Origin("chat")),
        part(headers={"x-zone": "us"}),
        part(headers={"x-zone": "eu"}),
        part(GLOBEX, headers={"x-zone": "eu"}),
        part(GLOBEX),
    ]
    assert told[0] == part(exclude=frozenset({"a"}))
    assert len(set(told)) == len(told)
    assert told[-1] == ""


def test_a_worker_that_was_tried_or_is_given_other_labels_is_seen_to_be_so_at_once() -> None:
    office = zoned("require zone=eu")
    assert office.shown(exclude=frozenset({"a"})) == "c"
    worker = office.registry.get("b")
    assert worker is not None
    office.registry.change(worker, attrs.evolve(worker.spec, labels=(("zone", "eu"),)))

    assert office.shown() == "abc"


def test_a_request_that_fits_nowhere_is_told_why_and_whether_to_come_again() -> None:
    office = zoned("require zone={header.x-zone}")
    with pytest.raises(NoWorker) as never:
        office.chosen(headers={"x-zone": "mars" * 100})
    office.registry.signal(office.registry.get("b"), "failing")  # type: ignore[arg-type]
    with pytest.raises(NoWorker) as later:
        office.chosen(headers={"x-zone": "us"})

    assert (never.value.code, never.value.should_retry, len(never.value.message) < 400) == ("no_placement", False, True)
    assert "mars" in never.value.message
    assert "marsmars" not in str(never.value)
    assert (later.value.should_retry, later.value.retry_after) == (None, 1.0)
    assert "zone=us" in later.value.message


def test_isolation_keeps_a_tenant_on_its_workers_and_everybody_else_off_them() -> None:
    office = Office(("isolate tenant={tenant} for tenant=acme,globex",))
    for name, tenant in (("a", "acme"), ("g", "globex"), ("s", "")):
        office.add(name, **({"tenant": tenant} if tenant else {}))
    office.add("o", tenant="other")

    assert office.shown() == "a"
    assert office.shown(GLOBEX) == "g"
    assert office.shown(Caller("third")) == office.shown(Caller()) == "so"


def test_isolation_for_whoever_has_a_worker_of_his_own_refuses_those_who_have_none() -> None:
    office = Office(("isolate tenant={tenant}",))
    office.add("a", tenant="acme")
    office.add("s")

    assert office.shown() == "a"
    with pytest.raises(NoWorker):
        office.shown(GLOBEX)
    assert office.shown(Caller()) == "s"


def test_workers_that_two_rules_reserve_for_different_tenants_are_nobodys() -> None:
    office = Office(("isolate pool=x for tenant=acme", "isolate pool=x for tenant=globex"))
    office.add("x", pool="x")
    for caller in (ACME, GLOBEX, Caller()):
        with pytest.raises(NoWorker) as caught:
            office.shown(caller)
        assert caught.value.should_retry is False


def test_those_that_are_preferred_are_shown_alone_until_they_have_their_spill_more() -> None:
    office = zoned("prefer zone=eu spill=3")
    one, three = (office.registry.get(each) for each in "ac")
    assert one is not None
    assert three is not None
    assert office.shown() == "ac"
    for _ in range(3):
        WorkerPlace(one, 0)
    assert office.shown() == "ac"
    for _ in range(3):
        WorkerPlace(three, 0)
    assert office.shown() == "abcd"
    for name in "bd":
        other = office.registry.get(name)
        assert other is not None
        WorkerPlace(other, 0)
    assert office.shown() == "ac"


def test_a_preference_that_nobody_or_everybody_meets_changes_nothing_and_the_first_counts_most() -> None:
    office = Office(("prefer zone=mars", "prefer zone=eu", "prefer tier=fast"))
    office.add("a", zone="eu")
    office.add("b", zone="eu", tier="fast")
    office.add("c", tier="fast")

    assert office.shown() == "b"
    assert office.shown(exclude=frozenset({"b"})) == "a"


def test_weights_are_multiplied_in_what_the_policy_is_shown() -> None:
    office = zoned("weigh zone=eu by=3", "weigh zone=* by=0.5 for tenant=acme")
    office.chosen()

    assert office.policy.last == {"a": 1.5, "b": 0.5, "c": 1.5, "d": 1.0}


def test_prefill_and_decode_workers_are_placed_both_and_who_fits_only_alone_is_asked_alone() -> None:
    office = Office(("require zone=eu for tenant=acme", "require zone=us for tenant=globex"))
    for name, role, zone in (
        ("p", "prefill", "eu"),
        ("d", "decode", "eu"),
        ("q", "prefill", "us"),
        ("e", "decode", "eu"),
        ("r", "regular", "us"),
    ):
        office.add(name, role, zone=zone)  # type: ignore[arg-type]  # roles

    assert office.chosen() == ("p", "d")
    assert office.chosen(GLOBEX) == ("r",)


def test_a_decision_tells_the_rules_and_no_header() -> None:
    office = zoned("require zone={header.x-zone}", "prefer tier=fast", "weigh zone=eu by=2")
    office.chosen(headers={"x-zone": "eu"})
    decision = office.decisions.of("r")[0]

    assert decision.placed == ("require zone={header.x-zone}; prefer tier=fast: 0 of 2 are so; weigh zone=eu by=2")
    assert "placed by require zone" in decision._repr_html_()


def test_what_is_kept_of_headers_that_clients_choose_is_bounded() -> None:
    office = zoned("require zone!={header.x-zone}")
    placing = office.selecting.placement
    assert placing is not None
    workers = office.registry.ready_of("m", "regular")
    for number in range(3 * KEPT):
        wishes = placing.wishes(ACME, model(), "chat", {"x-zone": str(number)})
        assert placing.fitting(wishes, workers) == workers
    assert len(placing._kept) <= KEPT
    again = placing.wishes(ACME, model(), "chat", {"x-zone": "eu"})
    assert placing.fitting(again, workers) is placing.fitting(again, workers)
