"""Who gets which instance, and whose call has a thread: no tenant alone can hold all of either."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.wasm.instances import Instances, Threads, Waiting
from smg_core.wasm.threads import GuestThreads

TENANTS = st.sampled_from(("", "a", "b", "c"))


def test_an_idle_instance_serves_its_own_key_alone() -> None:
    instances: Instances[str, str] = Instances(8)
    assert instances.take("tenant a", "a") == (None, None)
    assert instances.give("first", "tenant a", "a") is None
    assert instances.take_idle("tenant b", "b") is None
    assert instances.take_idle(None, "a") is None
    assert instances.take_idle("tenant a", "a") == "first"
    assert instances.give("first", None, "a") == "first"
    assert (instances.lent, instances.idle) == (0, 0)


@pytest.mark.parametrize("most", [2, 8, 9, 256])
def test_a_tenant_that_holds_all_it_may_leaves_one_for_others(most: int) -> None:
    instances: Instances[str, str] = Instances(most)
    for _ in range(most - max(1, most // 8)):
        instances.take("tenant a", "a")
    with pytest.raises(Waiting):
        instances.take("tenant a", "a")
    assert instances.take("tenant b", "b") == (None, None)


def test_who_waits_has_a_turn_with_those_of_other_tenants() -> None:
    instances: Instances[str, str] = Instances(1)
    instances.take("tenant a", "a")
    for who in ("a1", "a2", "b1"):
        instances.wait(who[0], who)
    assert instances.next() is None
    instances.lost("a")
    assert instances.next() == "a1"
    assert instances.next() == "b1"
    instances.leave("a", "a2")
    assert instances.next() is None


@given(most=st.integers(1, 12), steps=st.lists(st.tuples(TENANTS, st.booleans(), st.booleans()), max_size=80))
def test_instances_are_never_more_than_may_be_and_none_is_of_two(
    most: int, steps: list[tuple[str, bool, bool]]
) -> None:
    instances: Instances[int, str] = Instances(most)
    lent: list[tuple[int, str]] = []
    gone: set[int] = set()
    made = 0
    for tenant, takes, is_lost in steps:
        if takes:
            try:
                found, out = instances.take(f"tenant {tenant}" if tenant else None, tenant)
            except Waiting:
                held = sum(each == tenant for _, each in lent)
                assert len(lent) == most or (tenant and held >= most - max(1, most // 8))
                continue
            if out is not None:
                gone.add(out)
            if found is None:
                found = made = made + 1
            assert found not in gone
            assert found not in [each for each, _ in lent]
            lent.append((found, tenant))
        elif lent:
            instance, owner = lent.pop(0)
            if is_lost:
                instances.lost(owner)
                gone.add(instance)
            elif (back := instances.give(instance, f"tenant {owner}" if owner else None, owner)) is not None:
                gone.add(back)
        assert instances.lent == len(lent)
        assert instances.lent + instances.idle <= most


def test_a_tenant_that_has_none_running_gets_a_thread_beyond_the_shared_ones() -> None:
    threads: Threads[str] = Threads(2, 4)
    assert [threads.begins("a") for _ in range(3)] == [True, True, False]
    assert threads.begins("b")
    assert not threads.begins("b")
    assert threads.begins("c")
    assert not threads.begins("d")  # so many tenants at once


def test_a_call_that_ends_lets_the_tenants_in_turn_begin() -> None:
    threads: Threads[str] = Threads(1, 1)
    assert threads.begins("a")
    for who in ("a2", "a3", "b1"):
        threads.wait(who[0], who)
    assert threads.ended("a") == ["a2"]
    assert threads.ended("a") == ["b1"]
    threads.leave("a", "a3")
    assert threads.ended("b") == []
    assert threads.running == 0


@given(shared=st.integers(1, 4), more=st.integers(0, 4), steps=st.lists(st.tuples(TENANTS, st.booleans()), max_size=80))
def test_no_call_waits_while_its_tenant_has_none_running_and_a_thread_is_left(
    shared: int, more: int, steps: list[tuple[str, bool]]
) -> None:
    threads: Threads[str] = Threads(shared, shared + more)
    running: list[str] = []
    waiting: list[str] = []
    for tenant, begins in steps:
        if begins:
            if threads.begins(tenant):
                running.append(tenant)
            else:
                threads.wait(tenant, tenant)
                waiting.append(tenant)
        elif running:
            for following in threads.ended(running.pop(0)):
                waiting.remove(following)
                running.append(following)
        assert threads.running == len(running) <= shared + more
        if len(running) < shared + more:
            assert all(each in running for each in waiting)
        if waiting:
            assert len(running) >= shared


@pytest.mark.anyio
async def test_thousands_that_gave_up_while_they_waited_are_passed_over() -> None:
    threads, gate = GuestThreads(1, 1), threading.Event()
    try:
        running = threads.run(gate.wait, "t")
        waiting = [threads.run(int, "t") for _ in range(5000)]
        for each in waiting[:-1]:
            each.cancel()
        gate.set()
        await running
        assert await waiting[-1] == 0
        assert threads.running == 0
    finally:
        threads.close()
