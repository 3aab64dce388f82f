"""What is to be done so that a source's workers are those that it names: each case, and that it is reached from anywhere."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.discovery.base import Condition, PresentWorker, Wanted
from smg_core.discovery.reconcile import Add, Drain, Leaving, Remove, Resume, RosterPlan, Update, reconcile
from smg_core.workers.worker import WorkerSpec

OURS, THEIRS = "dns", "settings"
NOW, DRAIN = 100.0, 30.0
A = WorkerSpec("grpc://a:1", name="a")
MOVED = attrs.evolve(A, url="grpc://elsewhere:1")
HEAVIER = attrs.evolve(A, weight=2.0)
BUSY, IDLE, LATE = Leaving(NOW - 1, 3), Leaving(NOW - 1, 0), Leaving(NOW - DRAIN, 3)

CASES: dict[str, tuple[Wanted | None, PresentWorker | None, Leaving | None, tuple[object, ...], bool]] = {
    "new": (Wanted(A), None, None, (Add(A),), False),
    "new, not ready": (Wanted(A, "unready"), None, None, (), False),
    "new, leaving already": (Wanted(A, "leaving"), None, None, (), False),
    "there": (Wanted(A), PresentWorker(A, OURS), None, (), False),
    "there, not ready now": (Wanted(A, "unready"), PresentWorker(A, OURS), None, (), False),
    "there, another weight": (Wanted(HEAVIER), PresentWorker(A, OURS), None, (Update(HEAVIER),), False),
    "there, another address": (Wanted(MOVED), PresentWorker(A, OURS), None, (Update(MOVED),), False),
    "back at another address": (Wanted(MOVED), PresentWorker(A, OURS), BUSY, (Resume("a"),), True),
    "leaves, idle": (Wanted(A, "leaving"), PresentWorker(A, OURS), IDLE, (Remove("a"),), False),
    "leaves": (Wanted(A, "leaving"), PresentWorker(A, OURS), None, (Drain("a"),), True),
    "vanished": (None, PresentWorker(A, OURS), None, (Drain("a"),), True),
    "vanished, still busy": (None, PresentWorker(A, OURS), BUSY, (), True),
    "vanished, idle": (None, PresentWorker(A, OURS), IDLE, (Remove("a"),), False),
    "vanished, out of time": (None, PresentWorker(A, OURS), LATE, (Remove("a"),), False),
    "back while it leaves": (Wanted(A), PresentWorker(A, OURS), BUSY, (Resume("a"),), False),
    "back, another weight": (Wanted(HEAVIER), PresentWorker(A, OURS), BUSY, (Resume("a"),), True),
    "another's": (None, PresentWorker(A, THEIRS), None, (), False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_case_has_its_change(case) -> None:
    want, have, left, changes, waits = case
    plan = reconcile(OURS, [want] if want else [], [have] if have else [], {"a": left} if left else {}, NOW, DRAIN)

    assert plan == RosterPlan(changes, waits, ())


def test_a_name_that_another_has_is_said_and_left_alone() -> None:
    assert reconcile(OURS, [Wanted(A)], [PresentWorker(MOVED, THEIRS)], {}, NOW, DRAIN) == RosterPlan((), False, ("a",))


def test_of_two_workers_with_one_name_the_first_counts() -> None:
    plan = reconcile(OURS, [Wanted(A), Wanted(MOVED)], [], {}, NOW, DRAIN)

    assert plan.changes == (Add(A),)


NAMES = st.sampled_from("abcdef")
SPECS = st.builds(
    lambda name, host, weight: WorkerSpec(f"grpc://{host}:1", name=name, weight=weight),
    NAMES,
    st.sampled_from("xy"),
    st.sampled_from([1.0, 2.0]),
)
CONDITIONS: list[Condition] = ["ready", "unready", "leaving"]
WANTED = st.lists(st.builds(Wanted, SPECS, st.sampled_from(CONDITIONS)), unique_by=lambda each: each.spec.label)
PRESENT = st.lists(
    st.builds(PresentWorker, SPECS, st.sampled_from([OURS, THEIRS])), unique_by=lambda each: each.spec.label
)


@given(WANTED, PRESENT, st.frozensets(NAMES), st.dictionaries(NAMES, st.integers(0, 3)))
def test_from_any_state_the_wanted_one_is_reached_and_others_workers_are_never_touched(
    wanted: list[Wanted], present: list[PresentWorker], drained: frozenset[str], busy: dict[str, int]
) -> None:
    there = {each.name: each for each in present}
    others = {name: each for name, each in there.items() if each.source == THEIRS}
    since = {name: 0.0 for name in drained if name in there and there[name].source == OURS}
    now = 0.0
    for _ in range(8):
        leaving = {name: Leaving(at, busy.get(name, 0)) for name, at in since.items()}
        plan = reconcile(OURS, wanted, there.values(), leaving, now, DRAIN)
        for change in plan.changes:
            name = change.spec.label if isinstance(change, Add | Update) else change.name
            match change:
                case Add(spec):
                    assert name not in there
                    there[name] = PresentWorker(spec, OURS)
                case Update(spec):
                    there[name] = PresentWorker(spec, OURS)
                case Drain():
                    since[name] = now
                case Resume():
                    del since[name]
                case Remove():
                    assert not busy.get(name) or now >= since[name] + DRAIN
                    del there[name], since[name]
        now += DRAIN / 2
    assert reconcile(OURS, wanted, there.values(), {}, now, DRAIN).changes == ()
    assert not since
    assert {name: each for name, each in there.items() if each.source == THEIRS} == others
    ready = {each.spec.label: each.spec for each in wanted if each.condition == "ready"}
    ours = {name: each.spec for name, each in there.items() if each.source == OURS}
    assert {name: spec for name, spec in ours.items() if name in ready} == {
        name: spec for name, spec in ready.items() if name not in others
    }
    assert set(ours) <= {each.spec.label for each in wanted if each.condition != "leaving"}
