"""Who is there by heartbeats: nobody who answers is gone for longer than two beats, and who answers no more is gone in time."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.mesh.network import BeatingNetwork

SEEDS = st.integers(0, 1 << 32)
SOME = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def known(network: BeatingNetwork) -> dict[str, set[str]]:
    """Whom each member that runs takes to be there."""
    return {name: {each.name for each in beats.members} for name, beats in network.beats.items() if runs(network, name)}


def runs(network: BeatingNetwork, name: str) -> bool:
    return not network.members[name].stopped


def all_there(network: BeatingNetwork) -> dict[str, set[str]]:
    """The same, as it should be."""
    running = {name for name in network.members if runs(network, name)}
    return {name: running - {name} for name in running}


@pytest.mark.full
@given(SEEDS, st.integers(3, 30), st.floats(0, 0.7))
@SOME
def test_nobody_is_suspected_whose_words_come_however_late_and_doubled(seed: int, count: int, late_s: float) -> None:
    network = BeatingNetwork(count, random.Random(seed), doubled=0.3, late_s=late_s)
    network.run(15.0)
    assert known(network) == all_there(network)
    assert (network.suspicions, network.losses) == (0, 0)


@pytest.mark.full
@given(SEEDS, st.integers(3, 30), st.floats(0, 0.9), st.sampled_from([2.0, 10.0, 30.0]))
@SOME
def test_nobody_who_answers_is_gone_for_longer_than_two_beats(
    seed: int, count: int, loss: float, seconds: float
) -> None:
    rng = random.Random(seed)
    network = BeatingNetwork(count, rng, loss=loss)
    names = list(network.members)
    network.run(seconds)
    one = set(rng.sample(names, rng.randrange(1, count)))
    network.split(one, set(names) - one)
    network.jump(rng.choice(names), seconds)
    network.run(seconds)
    network.heal()
    network.run(2 * network.beat_s + 0.1)
    assert known(network) == all_there(network)


@given(SEEDS, st.integers(3, 8))
@SOME
def test_who_stops_is_gone_in_time_and_there_again_with_its_next_beat(seed: int, count: int) -> None:
    rng = random.Random(seed)
    network = BeatingNetwork(count, rng, late_s=0.3)
    network.run(3.0)
    stopped = network.members[rng.choice(list(network.members))]
    stopped.stopped = True
    network.run(network.dead_s - network.beat_s - 0.3)
    assert all(stopped.name in names for names in known(network).values())
    network.run(network.beat_s + 0.8)
    assert known(network) == all_there(network)
    stopped.stopped = False
    network.run(2 * network.beat_s)
    assert known(network) == all_there(network)


@pytest.mark.parametrize("epoch_back", [0, 60_000, 86_400_000])
def test_who_begins_anew_is_known_also_with_a_clock_that_was_set_back(epoch_back: int) -> None:
    network = BeatingNetwork(4, random.Random(1))
    network.run(2.0)
    network.start("m1", epoch_back=epoch_back)
    network.run(network.find_out_s + network.beat_s if epoch_back else 2 * network.beat_s)
    assert known(network) == all_there(network)
