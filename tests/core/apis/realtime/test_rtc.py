"""The connection of a call: odd offers are refused and keep no port, and addresses are told as the operator has them."""

import asyncio
import random
import socket

import pytest
from tests.gateway.calls import an_offer
from tests.gateway.conftest import eventually

from smg_core.apis.realtime.rtc import CallEnds, PortsInUse, RtcPeer
from smg_core.apis.realtime.settings import UdpPorts
from smg_core.apis.realtime.wire.offer import checked_offer
from smg_core.errors import Overloaded, SmgError
from smg_core.settings import ConfigError

pytestmark = [pytest.mark.anyio, pytest.mark.full]  # keys are made for each call

ENDS = CallEnds(lambda data: None, lambda sound: None, lambda: None, lambda: None, lambda: bytes(960))


def peer(ports: PortsInUse) -> RtcPeer:
    return RtcPeer(ports, ENDS, 1 << 20, 10.0)


async def answered(ports: PortsInUse, offer: str) -> str:
    made = peer(ports)
    try:
        return await made.answer(checked_offer(offer))
    finally:
        await made.close()


def free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((address, port))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("seed", range(6))
async def test_an_offer_that_is_damaged_is_answered_or_refused_and_keeps_no_port(seed: int) -> None:
    rng = random.Random(seed)
    lines = (await an_offer()).split("\r\n")
    ports = PortsInUse(UdpPorts(24_000, 24_000, "127.0.0.1"))
    for _ in range(12):
        damaged = list(lines)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(damaged))
            cut = rng.randrange(len(damaged[at]) + 1)
            damaged[at] = rng.choice(["", damaged[at][:cut], damaged[at] + " 1", damaged[at].replace("0", "x")])
        try:
            answer = await answered(ports, "\r\n".join(damaged))
        except SmgError:
            pass
        else:
            assert "a=candidate" in answer
    assert free("127.0.0.1", 24_000)


async def test_an_address_of_this_machine_is_opened_and_another_is_told_in_its_place() -> None:
    offer = await an_offer()
    here = await answered(PortsInUse(UdpPorts(24_010, 24_019, "127.0.0.1")), offer)
    there = await answered(PortsInUse(UdpPorts(24_010, 24_019, "203.0.113.9")), offer)
    assert {line.split(" ")[4] for line in here.split("\r\n") if line.startswith("a=candidate")} == {"127.0.0.1"}
    assert {line.split(" ")[4] for line in there.split("\r\n") if line.startswith("a=candidate")} == {"203.0.113.9"}
    ports = {int(line.split(" ")[5]) for line in there.split("\r\n") if line.startswith("a=candidate")}
    assert ports <= set(range(24_010, 24_020))


async def test_a_port_that_is_taken_is_passed_over_and_none_is_an_overload() -> None:
    offer = await an_offer()
    ports = PortsInUse(UdpPorts(24_020, 24_021, "127.0.0.1"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 24_020))
        first = peer(ports)
        assert " 24021 typ host" in await first.answer(checked_offer(offer))
        with pytest.raises(Overloaded):
            await answered(ports, offer)
        await first.close()
        assert " 24021 typ host" in await answered(ports, offer)


async def test_a_call_that_is_closed_before_it_connects_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    await answered(PortsInUse(UdpPorts(24_030, 24_039, "127.0.0.1")), await an_offer())
    await eventually(lambda: asyncio.all_tasks() <= before)


@pytest.mark.parametrize(
    "text", ["1", "5-4", "80-90", "40000-70000", "x:40000-40001", "0.0.0.0:40000-40001", "-", "4-"]
)
def test_what_are_no_ports_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"realtime\.udp_ports"):
        UdpPorts.read(text)


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("40000-40001", UdpPorts(40000, 40001)),
        ("203.0.113.7:40000-40000", UdpPorts(40000, 40000, "203.0.113.7")),
        ("[2001:db8::1]:40000-40009", UdpPorts(40000, 40009, "2001:db8::1")),
    ],
)
def test_ports_are_read_with_and_without_an_address(text: str, ports: UdpPorts) -> None:
    assert UdpPorts.read(text) == ports
