"""What was sent where is known by a gateway that starts again, and a broken file harms nobody."""

import logging
import stat
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from tests.gateway.conftest import CHAT, House, body
from tests.gateway.fleet import CALM, Member, fleet

from smg_core import Config
from smg_core.routing import RoutingDecision
from smg_core.routing.settings import RoutingConfig

pytestmark = pytest.mark.anyio

LONG = "The lighthouse keeper wrote down every ship that passed. " * 40
MEMBERS = [Member("one"), Member("two"), Member("three")]


def config(path: Path, **fields: object) -> Config:
    routing = RoutingConfig(policy="cache_aware", sent_file=str(path), kv_events=False, tie_tokens=0, **fields)  # type: ignore[arg-type]
    return attrs.evolve(CALM, routing=routing)


async def asked(house: House, text: str = LONG) -> RoutingDecision:
    answer = await house.http.post(CHAT, json=body(text, max_tokens=2))
    (decision,) = house.gateway.decisions.of(answer.json()["id"])
    return decision


async def one_life(path: Path, *texts: str, **fields: object) -> list[RoutingDecision]:
    async with fleet(*MEMBERS, config=config(path, **fields)) as house:
        return [await asked(house, text) for text in texts]


@pytest.mark.full
async def test_what_was_sent_is_known_after_a_restart_and_the_file_is_private_and_has_no_text(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    texts = [f"{number} {LONG}" for number in range(5)]
    before = await one_life(path, *texts)
    after = await one_life(path, *texts)
    again = await one_life(path, *texts)

    assert [each.cached for each in before] == [0] * 5
    for decisions in (after, again):
        assert [each.worker for each in decisions] == [each.worker for each in before]
        assert all(each.cached > each.prompt_tokens - 2 * 64 for each in decisions)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"lighthouse" not in path.read_bytes()


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "another kind": lambda data: b"PK" + data,
    "another version": lambda data: data[:7] + b"\xff" + data[8:],
    "changed": lambda data: data[:-5] + bytes((data[-5] ^ 1,)) + data[-4:],
}


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_file_is_left_out_with_a_warning_and_written_anew(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sent"
    await one_life(path, LONG)
    path.write_bytes(BROKEN[how](path.read_bytes()))
    with caplog.at_level(logging.WARNING, "smg.routing"):
        (first,) = await one_life(path, LONG)
    (second,) = await one_life(path, LONG)

    assert "is left out" in caplog.text
    assert (first.cached, second.cached > 0) == (0, True)


async def test_a_place_that_cannot_be_written_costs_a_warning_and_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "smg.routing"):
        (decision,) = await one_life(tmp_path / "no such folder" / "sent", LONG)

    assert decision.worker
    assert "cannot be written" in caplog.text


@pytest.mark.full
async def test_no_more_is_kept_than_was_said_and_the_latest_stays(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    texts = [f"{number} {LONG}" for number in range(12)]
    for text in texts:
        await one_life(path, text, sent_bytes=4096)
    files = list(tmp_path.iterdir())
    (last,) = await one_life(path, texts[-1], sent_bytes=4096)

    assert sum(each.stat().st_size for each in files) <= 4096
    assert last.cached > 0
