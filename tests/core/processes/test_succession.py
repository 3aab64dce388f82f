"""Processes are replaced one by one; what of the settings stays then; what the service manager is told."""

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.channel.settings import ChannelConfig
from smg_core.config.config import Config
from smg_core.http.settings import ServerConfig
from smg_core.machine.service_manager import ManagerNotices
from smg_core.observability.settings import MetricsConfig
from smg_core.processes.restart_only_settings import with_fixed
from smg_core.processes.succession import Succession
from smg_core.sealing.settings import SealingConfig
from smg_core.workers.settings import WorkersConfig


def serving(slots: int) -> tuple[Succession, dict[int, int]]:
    """All slots served, and by whom."""
    succession = Succession(slots)
    numbers = {slot: succession.number() for slot in range(slots)}
    for slot, number in numbers.items():
        assert succession.ready(number, slot) is None
    return succession, numbers


def test_processes_are_replaced_one_by_one_each_once_its_successor_is_ready() -> None:
    succession, first = serving(3)
    succession.begin()
    left = []
    while (slot := succession.next_slot()) is not None:
        number = succession.number()
        succession.started(number)
        assert succession.next_slot() is None
        assert not succession.settled
        left.append(succession.ready(number, slot))

    assert left == list(first.values())
    assert succession.settled
    assert [succession.ended(number, slot) for slot, number in first.items()] == ["retired"] * 3
    assert succession.settled


def test_a_successor_that_ends_before_it_is_ready_leaves_the_others_as_they_are() -> None:
    succession, first = serving(2)
    succession.begin()
    number = succession.number()
    succession.started(number)

    assert succession.ended(number, 0) == "successor"
    assert succession.next_slot() is None
    assert succession.settled
    assert succession.serving(0) == first[0]


def test_a_slot_in_which_nothing_runs_is_replaced_and_one_whose_process_is_coming_up_waits() -> None:
    succession, first = serving(2)
    assert succession.ended(first[0], 0) == "serving"
    succession.begin()
    coming_up = succession.next_slot()

    assert (coming_up, succession.next_slot({1}), succession.next_slot({0})) == (None, None, 0)


def test_what_is_asked_for_while_a_successor_starts_replaces_that_one_too() -> None:
    succession, _ = serving(2)
    succession.begin()
    early = succession.number()
    succession.started(early)
    succession.begin()
    succession.ready(early, 0)
    left = []
    while (slot := succession.next_slot()) is not None:
        number = succession.number()
        succession.started(number)
        left.append(succession.ready(number, slot))

    assert left == [early, 2]


def test_a_process_that_dies_is_told_from_one_that_retires_and_its_slot_waits_for_another() -> None:
    succession, first = serving(2)
    succession.begin()

    assert succession.ended(first[0], 0) == "serving"
    assert succession.next_slot() is None
    assert succession.ready(succession.number(), 0) is None
    assert succession.next_slot() == 0


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["begin", "start", "ready", "die"]), st.integers(0, 3))))
def test_whatever_happens_no_slot_is_left_without_a_process_by_a_replacement(
    slots: int, steps: list[tuple[str, int]]
) -> None:
    succession, numbers = serving(slots)
    starting: tuple[int, int] | None = None
    for what, slot in steps:
        if what == "begin":
            succession.begin()
        elif what == "start" and (found := succession.next_slot()) is not None:
            starting = succession.number(), found
            succession.started(starting[0])
        elif what == "ready" and starting is not None:
            assert succession.ready(*starting) == numbers[starting[1]]
            assert succession.ended(numbers[starting[1]], starting[1]) == "retired"
            numbers[starting[1]], starting = starting[0], None
        elif what == "die" and starting is not None and slot % 2:
            assert succession.ended(*starting) == "successor"
            starting = None
        assert [succession.serving(each) for each in range(slots)] == list(numbers.values())


# ------------------------------------------------------------------------------------------------------ settings that stay


def test_settings_by_which_listeners_and_shared_memory_were_made_stay_and_are_named() -> None:
    before = Config(server=ServerConfig(port=1), sealing=SealingConfig(cache_secret="s" * 32))
    config = Config(
        server=ServerConfig(port=2, drain_s=7, processes=3),
        workers=WorkersConfig(most=7, probe_timeout_s=9),
        metrics=MetricsConfig(series=5000),
        channel=ChannelConfig(keys=77),
    )
    new, told = with_fixed(config, before)

    assert sorted(told) == ["channel.keys", "metrics.series", "server.port", "server.processes", "workers.most"]
    assert new.server.port == 1
    assert new.server.drain_s == 7
    assert new.workers.probe_timeout_s == 9
    assert new.workers.most == before.workers.most
    assert new.metrics == before.metrics
    assert new.sealing.cache_secret == "s" * 32


def test_the_same_settings_name_nothing() -> None:
    assert with_fixed(Config(), Config()) == (Config(), ())


# ------------------------------------------------------------------------------------------------------- service manager


@contextlib.contextmanager
def manager(prefix: str) -> Iterator[tuple[str, socket.socket]]:
    """A socket as systemd has one, and its address as it names it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "notify")
        sock.bind("\0" + path if prefix else path)
        sock.settimeout(30)
        yield prefix + path, sock


@pytest.mark.parametrize("prefix", ["", "@"])
def test_the_service_manager_hears_of_start_reload_work_and_end(prefix: str) -> None:
    with manager(prefix) as (address, sock):
        notices = ManagerNotices(
            {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
        )
        for tell in (notices.ready, notices.reloading, notices.alive, notices.stopping):
            tell()
        told = [sock.recv(1000).decode().split("\n") for _ in range(4)]

    assert [lines[0] for lines in told] == ["READY=1", "RELOADING=1", "WATCHDOG=1", "STOPPING=1"]
    assert told[1][1].removeprefix("MONOTONIC_USEC=").isdigit()
    assert notices.pause == 1.5


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": "/nowhere/at/all"},
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"},
    ],
)
def test_without_a_service_manager_that_listens_nothing_is_told_and_nothing_fails(environ: dict[str, str]) -> None:
    notices = ManagerNotices(environ)
    notices.ready()
    notices.alive()

    assert notices.pause == 0
