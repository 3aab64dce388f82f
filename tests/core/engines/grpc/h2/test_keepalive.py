"""When a silent engine is pinged and when it is given up."""

from itertools import pairwise

from smg_core.engines.grpc.h2.keepalive import KeepAlive, KeepaliveAction


def answered_pings(alive: KeepAlive, seconds: int) -> list[int]:
    """When an engine that answers pings and sends nothing else is pinged, with one call open."""
    pings, now = [], 0.0
    while now < seconds:
        verdict, delay = alive.tick(now, calls=1)
        assert verdict is not KeepaliveAction.GIVE_UP
        if verdict is KeepaliveAction.PING:
            pings.append(round(now))
            alive.heard = True
        now += delay
    return pings


def test_a_long_silence_is_pinged_thrice_and_then_every_five_minutes() -> None:
    """A gRPC server with default settings ends a connection that pings more."""
    pings = answered_pings(KeepAlive(30, 10), 3600)
    assert pings[:3] == [0, 40, 80]
    assert min(later - earlier for earlier, later in pairwise(pings[2:])) >= 300
    assert len(pings) > 8


def test_an_answer_forgives_the_pings_before_it() -> None:
    alive = KeepAlive(30, 10)
    answered_pings(alive, 200)
    alive.quiet_pings = 0
    assert answered_pings(alive, 100)[:2] == [0, 40]


def test_an_idle_connection_is_left_in_peace() -> None:
    alive = KeepAlive(30, 10)
    assert all(alive.tick(now, calls=0) == (KeepaliveAction.WAIT, 30) for now in range(0, 1000, 30))


def test_silence_after_a_ping_is_the_end() -> None:
    alive = KeepAlive(30, 10)
    assert alive.tick(0, calls=1) == (KeepaliveAction.PING, 10)
    assert alive.tick(10, calls=1)[0] is KeepaliveAction.GIVE_UP


def test_any_byte_after_a_ping_will_do() -> None:
    alive = KeepAlive(30, 10)
    alive.tick(0, calls=1)
    alive.heard = True
    assert alive.tick(10, calls=1) == (KeepaliveAction.WAIT, 30)
