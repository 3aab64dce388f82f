"""What is to be done so that a source's workers are those that it names: each case, and that it is reached from anywhere."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.discovery.base import Condition, PresentWorker, Wanted
from smg_core.discovery.reconcile import Add, Drain, Resume, RosterPlan, Update, reconcile
from smg_core.workers.worker import WorkerSpec

OURS, THEIRS = "dns", "settings"
A = WorkerSpec("grpc://a:1", name="a")
MOVED = attrs.evolve(A, url="grpc://elsewhere:1")
HEAVIER = attrs.evolve(A, weight=2.0)
THERE, GOES = PresentWorker(A, OURS), PresentWorker(A, OURS, leaving=True)

CASES: dict[str, tuple[Wanted | None, PresentWorker | None, tuple[object, ...]]] = {
    "new": (Wanted(A), None, (Add(A),)),
    "new, not ready": (Wanted(A, "unready"), None, ()),
    "new, leaving already": (Wanted(A, "leaving"), None, ()),
    "there": (Wanted(A), THERE, ()),
    "there, not ready now": (Wanted(A, "unready"), THERE, ()),
    "there, another weight": (Wanted(HEAVIER), THERE, (Update(HEAVIER),)),
    "there, another address": (Wanted(MOVED), THERE, (Update(MOVED),)),
    "back at another address": (Wanted(MOVED), GOES, (Resume(MOVED),)),
    "leaves": (Wanted(A, "leaving"), THERE, (Drain("a"),)),
    "leaves already": (Wanted(A, "leaving"), GOES, ()),
    "vanished": (None, THERE, (Drain("a"),)),
    "vanished, still there": (None, GOES, ()),
    "back while it leaves": (Wanted(A), GOES, (Resume(A),)),
    "back, not ready": (Wanted(A, "unready"), GOES, (Resume(A),)),
    "another's": (None, PresentWorker(A, THEIRS), ()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_case_has_its_change(case) -> None:
    want, have, changes = case
    plan = reconcile(OURS, [want] if want else [], [have] if have else [])

    assert plan == RosterPlan(changes, ())


def test_a_name_that_another_has_is_said_and_left_alone() -> None:
    assert reconcile(OURS, [Wanted(A)], [PresentWorker(MOVED, THEIRS)]) == RosterPlan((), ("a",))


def test_of_two_workers_with_one_name_the_first_counts() -> None:
    plan = reconcile(OURS, [Wanted(A), Wanted(MOVED)], [])

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
    st.builds(PresentWorker, SPECS, st.sampled_from([OURS, THEIRS]), st.booleans()),
    unique_by=lambda each: each.spec.label,
)


@given(WANTED, PRESENT)
def test_from_any_state_the_wanted_one_is_reached_and_others_workers_are_never_touched(
    wanted: list[Wanted], present: list[PresentWorker]
) -> None:
    there = {each.name: each for each in present}
    others = {name: each for name, each in there.items() if each.source == THEIRS}
    for change in reconcile(OURS, wanted, there.values()).changes:
        match change:
            case Add(spec):
                assert spec.label not in there
                there[spec.label] = PresentWorker(spec, OURS)
            case Update(spec):
                assert not there[spec.label].leaving
                there[spec.label] = PresentWorker(spec, OURS)
            case Drain(name):
                there[name] = attrs.evolve(there[name], leaving=True)
            case Resume(spec):
                assert there[spec.label].leaving
                there[spec.label] = PresentWorker(spec, OURS)
    assert reconcile(OURS, wanted, there.values()).changes == ()
    assert {name: each for name, each in there.items() if each.source == THEIRS} == others
    ready = {each.spec.label: each.spec for each in wanted if each.condition == "ready"}
    ours = {name: each.spec for name, each in there.items() if each.source == OURS and not each.leaving}
    assert {name: spec for name, spec in ours.items() if name in ready} == {
        name: spec for name, spec in ready.items() if name not in others
    }
    assert set(ours) <= {each.spec.label for each in wanted if each.condition != "leaving"}
