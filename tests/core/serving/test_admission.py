"""Admission: what counts, what is refused, and that a lease is settled and released once, whatever is called on it."""

import pytest

from smg_core.errors import Draining, Overloaded, SmgError
from smg_core.events import Usage
from smg_core.lease import HasUsage, RequestLease
from smg_core.request import Caller
from smg_core.serving.admission import Admission

ANYBODY = Caller("acme", "key-1")


class Charged:
    """A charge that remembers how it was settled."""

    def __init__(self) -> None:
        self.settled: list[Usage | None] = []

    def follow(self, answer: HasUsage) -> None:
        raise AssertionError("no answer is followed here")

    def read(self, tokens: int) -> None:
        raise AssertionError("no prompt is read here")

    def go_on_with(self, model: str) -> None:
        raise AssertionError("no other model answers here")

    def settle(self, usage: Usage | None, failure: SmgError | None = None) -> None:
        self.settled.append(usage)


def charged(admission: Admission) -> tuple[RequestLease, Charged]:
    lease = admission.admit(ANYBODY, "generation", 7)
    lease.charge = charge = Charged()
    return lease, charge


def test_a_lease_counts_from_its_admission_to_its_release() -> None:
    admission = Admission(2)
    first, second = admission.admit(ANYBODY, "generation"), admission.admit(ANYBODY, "pooled")
    with pytest.raises(Overloaded):
        admission.check_room()
    first.release()
    first.release()
    admission.check_room()

    assert admission.in_flight == 1
    second.release()
    assert admission.in_flight == 0


@pytest.mark.parametrize("word", ["draining", "held"])
def test_a_closed_gateway_admits_nothing_new_and_lets_go_on_what_it_has(word: str) -> None:
    admission = Admission(2)
    setattr(admission, word, True)
    with pytest.raises(Draining):
        admission.admit(ANYBODY, "generation")
    assert admission.in_flight == 0

    lease = admission.readmit(ANYBODY, "background")
    assert admission.in_flight == 1
    lease.release()
    assert admission.in_flight == 0


def test_only_the_first_settlement_counts() -> None:
    lease, charge = charged(Admission(1))
    lease.settle(Usage(3, 4))
    lease.settle(Usage(5, 6))
    lease.release()

    assert charge.settled == [Usage(3, 4)]


def test_a_lease_that_was_never_settled_is_settled_at_its_release() -> None:
    lease, charge = charged(Admission(1))
    lease.release()
    lease.release()

    assert charge.settled == [None]


def test_a_lease_says_who_asks_for_what() -> None:
    lease = Admission(1).admit(ANYBODY, "frame", 12)

    assert (lease.caller, lease.kind, lease.weight) == (ANYBODY, "frame", 12)
