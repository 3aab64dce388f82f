"""The watched file of workers, on a real file system; the time between two looks passes when a test says so."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from tests.shared import PATIENCE

from smg_core.config.config import Config
from smg_core.discovery.base import Missed, SourceAnswer, WorkersSeen
from smg_core.discovery.file import WorkerFileSource
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.fleet.connect import worker_file

pytestmark = pytest.mark.anyio


@attrs.define
class Watched:
    path: Path
    answers: AsyncIterator[SourceAnswer]
    looks: asyncio.Semaphore

    async def next(self, between: Callable[[], None] | None = None) -> SourceAnswer:
        """The next answer; `between` is called after the first of the looks that it takes."""
        asked = asyncio.ensure_future(anext(self.answers))
        self.looks.release()
        if between is not None:
            await asyncio.sleep(0)
            between()
        for _ in range(6):
            self.looks.release()
        answer = await asyncio.wait_for(asked, PATIENCE)
        while not self.looks.locked():
            await self.looks.acquire()
        return answer


@asynccontextmanager
async def watched(path: Path, **bounds: int) -> AsyncIterator[Watched]:
    looks = asyncio.Semaphore(0)

    async def pause(seconds: float) -> None:
        await looks.acquire()

    most = DiscoveryConfig(**{"most": 10, "file_bytes": 10_000, **bounds})
    config = Config(discovery=most)
    answers = WorkerFileSource(path, lambda: worker_file(path, config), pause, interval=1.0, most=most.most).answers()
    try:
        yield Watched(path, answers, looks)
    finally:
        await answers.aclose()  # type: ignore[attr-defined]


def urls(answer: SourceAnswer) -> list[str]:
    assert isinstance(answer, WorkersSeen), answer
    return [each.spec.url for each in answer.workers]


def written(path: Path, *hosts: str) -> None:
    path.write_text(json.dumps([{"url": f"grpc://{host}:1"} for host in hosts]))


async def test_a_change_is_seen_and_nothing_is_read_while_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "workers.yaml"
    written(path, "a")
    async with watched(path) as file:
        first = await file.next()
        assert urls(first) == ["grpc://a:1"]
        assert await file.next() is first
        written(path, "a", "b")
        assert urls(await file.next()) == ["grpc://a:1", "grpc://b:1"]


async def test_the_same_workers_again_are_no_change(tmp_path: Path) -> None:
    path = tmp_path / "workers.yaml"
    written(path, "a")
    async with watched(path) as file:
        first = await file.next()
        path.write_text("# checked\n- url: grpc://a:1\n")
        assert await file.next() is first


BROKEN = (
    "- url: [",
    "- url: nowhere\n  colour: red",
    '{"a": 1}',
    "",
    "# all gone\n",
    "- url: grpc://a:1\n- url: grp",  # good YAML, and the end of a URL is missing
    "- url: grpc://a:1\n  dialect: none",
    "- url: grpc://a:1\n  weight: .inf",
    "[" * 5000,
)


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_file_that_says_nothing_good_is_missed_until_it_is_mended(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "workers.yaml"
    written(path, "a")
    async with watched(path) as file:
        await file.next()
        path.write_text(broken)
        assert isinstance(await file.next(), Missed)
        written(path, "b")
        assert urls(await file.next()) == ["grpc://b:1"]


async def test_a_file_that_is_gone_is_missed_and_one_that_is_empty_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "workers.yaml"
    written(path, "a")
    async with watched(path) as file:
        await file.next()
        path.unlink()
        assert isinstance(await file.next(), Missed)
        path.write_text("[]")
        assert urls(await file.next()) == []


async def test_a_file_that_is_being_written_is_not_read_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "workers.yaml"
    written(path, "a", "b")
    async with watched(path) as file:
        await file.next()
        path.write_text("- url: grpc://a:1\n")  # good YAML, and yet half of it
        answer = await file.next(lambda: path.write_text("- url: grpc://a:1\n- url: grpc://c:1\n"))
        assert urls(answer) == ["grpc://a:1", "grpc://c:1"]


async def test_a_file_behind_a_link_that_is_swapped_has_changed(tmp_path: Path) -> None:
    for name, host in (("one", "a"), ("two", "b")):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "workers.yaml", host)
    link = tmp_path / "now"
    link.symlink_to("one")
    async with watched(link / "workers.yaml") as file:
        assert urls(await file.next()) == ["grpc://a:1"]
        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").rename(link)
        assert urls(await file.next()) == ["grpc://b:1"]


async def test_a_key_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    path, key = tmp_path / "workers.yaml", tmp_path / "key"
    key.write_text("first")
    path.write_text(json.dumps([{"url": "grpc://a:1", "api_key_file": str(key)}]))
    async with watched(path) as file:
        await file.next()
        await file.next()
        key.write_text("second-key")
        answer = await file.next()
        assert isinstance(answer, WorkersSeen)
        assert answer.workers[0].spec.headers == (("authorization", "Bearer second-key"),)


@pytest.mark.parametrize("bound", [{"most": 1}, {"file_bytes": 20}])
async def test_a_file_beyond_a_bound_is_missed(tmp_path: Path, bound: dict[str, int]) -> None:
    path = tmp_path / "workers.yaml"
    written(path, "a", "b")
    async with watched(path, **bound) as file:
        answer = await file.next()
        assert isinstance(answer, Missed)
        assert "discovery." in answer.reason


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _circle(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("name", ["workers.yaml", "key"])
@pytest.mark.parametrize("made", [_pipe, _endless, _circle, Path.mkdir])
async def test_what_is_no_regular_file_is_missed_and_not_waited_for(
    tmp_path: Path, name: str, made: Callable[[Path], None]
) -> None:
    path, key = tmp_path / "workers.yaml", tmp_path / "key"
    key.write_text("first")
    path.write_text(json.dumps([{"url": "grpc://a:1", "api_key_file": str(key)}]))
    async with watched(path) as file:
        assert urls(await file.next()) == ["grpc://a:1"]
        (tmp_path / name).unlink()
        made(tmp_path / name)
        answer = await file.next()
        while not isinstance(answer, Missed):  # the key is looked at from the second look on
            answer = await file.next()
