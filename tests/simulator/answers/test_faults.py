"""Which request meets which fault."""

import pytest

from smg_simulator.answers.faults import Fault, Faults


def test_scripted_faults_come_in_turn_and_then_none() -> None:
    cut = Fault("cut", after=3)
    faults = Faults([None, cut])

    assert [faults.draw() for _ in range(4)] == [None, cut, None, None]


def test_random_faults_keep_their_share_and_their_seed() -> None:
    cut, stall = Fault("cut"), Fault("stall")

    def drawn(seed: int) -> list[Fault | None]:
        faults = Faults(rates={cut: 0.2, stall: 0.1}, seed=seed)
        return [faults.draw() for _ in range(2000)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert 340 < drawn(1).count(cut) < 460
    assert 150 < drawn(1).count(stall) < 250


@pytest.mark.parametrize("rates", [{Fault("cut"): 0.7, Fault("stall"): 0.4}, {Fault("cut"): -0.1}])
def test_shares_that_are_none_are_refused(rates) -> None:
    with pytest.raises(ValueError, match="shares"):
        Faults(rates=rates)


def test_the_script_is_bounded() -> None:
    with pytest.raises(ValueError, match="more than 2"):
        Faults([None] * 3, limit=2)


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Fault("refuse"), "UNAVAILABLE"), (Fault("error"), "INTERNAL"), (Fault("error", status="DATA_LOSS"), "DATA_LOSS")],
)
def test_a_fault_ends_the_call_with_its_status(fault: Fault, code: str) -> None:
    assert fault.code == code
