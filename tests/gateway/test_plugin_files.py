"""The file of plugins while a gateway serves: a change is taken as a whole, or not at all, and nothing ends the watcher."""

import datetime
import logging
import math
import os
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from tests.gateway.conftest import CHAT, body, in_process
from tests.gateway.test_plugins import GUESTS, PACED, component, listed, recorder

from smg_core.hooks import PluginCounted
from smg_core.middleware.base import CONTINUE, HeadVerdict, Reject, RequestHead
from smg_core.middleware.python import PythonPlugin
from smg_core.wasm.guest_report import GuestReport

pytestmark = pytest.mark.anyio

ATTACKS = GUESTS / "attacks.wasm"
GUARD = {"name": "guard", "source": "tests.gateway.test_plugin_files:Guard", "on_failure": "closed"}


class Guard(PythonPlugin):
    """Refuses everything."""

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return Reject(403, "Not you.")


class Odd(BaseException):
    """What no `except Exception` catches, and what cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class NotDisposed(PythonPlugin):
    """Raises when it is disposed of."""

    disposed: ClassVar[int] = 0

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return CONTINUE

    @classmethod
    def dispose(cls, shared: Any) -> None:
        cls.disposed += 1
        raise Odd


class NotPrepared(PythonPlugin):
    """Raises when it is loaded."""

    @classmethod
    def prepare(cls, settings: Any) -> Any:
        raise Odd


def write(folder: Path, *entries: dict[str, Any]) -> None:
    """Another text of the file of plugins, as an editor writes it: a new file in the place of the old one."""
    new = folder / "plugins.new"
    new.write_text(yaml.safe_dump(list(entries)))
    new.replace(folder / "plugins.yaml")


UNLOADABLE: dict[str, dict[str, Any]] = {
    "a module that there is not": {"name": "other", "source": "nowhere_at_all:Plugin", "on_failure": "closed"},
    "a broken component": {"source": "FOLDER/broken.wasm"},
    "a component that there is not": {"source": "FOLDER/none.wasm"},
    "a pipe": {"source": "FOLDER/pipe.wasm"},
    "a folder": {"source": "FOLDER/folder.wasm"},
    "no name of a file": {"source": "FOLDER/a\0b.wasm", "name": "nul"},
    "the home of nobody": {"source": "~nobody-at-all/x.wasm"},
    "a date for a component": {**component(ATTACKS), "config": {"at": datetime.date(2026, 1, 1)}},
    "bytes for a component": {**component(ATTACKS), "config": {"at": b"x"}},
    "no number for a component": {**component(ATTACKS), "config": {"at": math.nan}},
    "one that raises what is no Exception": {"source": "tests.gateway.test_plugin_files:NotPrepared"},
}
"""Entries that cannot be loaded, each for another reason."""


def unloadable(folder: Path, name: str) -> dict[str, Any]:
    """An entry that cannot be loaded."""
    (folder / "broken.wasm").write_bytes(b"\0asm broken")
    (folder / "folder.wasm").mkdir()
    os.mkfifo(folder / "pipe.wasm")
    entry = UNLOADABLE[name]
    return {**entry, "source": entry["source"].replace("FOLDER", str(folder))}


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("name", UNLOADABLE)
async def test_a_guard_stays_when_what_is_to_replace_it_cannot_be_loaded(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "smg.plugins")
    async with in_process(PACED, config=listed(tmp_path, GUARD, follow=False)) as house:
        plugins = house.gateway.services.plugins
        write(tmp_path, unloadable(tmp_path, name), recorder())
        await plugins.look()
        told = [each.getMessage() for each in caplog.records]
        caplog.clear()
        for _ in range(3):
            await plugins.look()
        again = [each.getMessage() for each in caplog.records]
        refused = await house.http.post(CHAT, json=body("Hi"))
        write(tmp_path, recorder())
        await plugins.look()
        after = await house.http.post(CHAT, json=body("Hi"))

    assert refused.status_code == 403, "the guard has gone"
    assert list(plugins.states) == []
    assert any("the plugins stay as they are" in each for each in told), told
    assert again == []
    assert after.status_code == 200, "the watcher takes the next change"


async def test_what_could_not_be_loaded_is_loaded_when_its_file_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "second.wasm"
    async with in_process(PACED, config=listed(tmp_path, GUARD, follow=False)) as house:
        plugins = house.gateway.services.plugins
        write(tmp_path, component(file))
        await plugins.look()
        before = list(plugins.states)
        shutil.copy(ATTACKS, file)
        await plugins.look()
        after = list(plugins.states)

    assert before == ["guard"]
    assert after == ["second"]


async def test_a_component_is_replaced_while_an_edit_of_the_list_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.wasm"
    shutil.copy(ATTACKS, file)
    async with in_process(PACED, config=listed(tmp_path, component(file), follow=False)) as house:
        plugins = house.gateway.services.plugins
        write(tmp_path, UNLOADABLE["a module that there is not"])
        await plugins.look()
        before = plugins.states["mine"].link
        shutil.copy(ATTACKS, tmp_path / "new.wasm")
        (tmp_path / "new.wasm").replace(file)
        await plugins.look()
        after = plugins.states["mine"].link

    assert before is not after


async def test_the_order_of_the_list_is_the_order_that_requests_meet(tmp_path: Path) -> None:
    first, second = recorder(name="first"), recorder(name="second")
    async with in_process(PACED, config=listed(tmp_path, first, second, follow=False)) as house:
        write(tmp_path, second, first)
        await house.gateway.services.plugins.look()
        met = [each.entry.name for each in house.gateway.services.plugins.plan.links]

    assert met == ["second", "first"]


async def test_a_plugin_that_raises_when_it_is_disposed_of_is_gone_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    NotDisposed.disposed = 0
    entry = {"name": "odd", "source": "tests.gateway.test_plugin_files:NotDisposed"}
    async with in_process(PACED, config=listed(tmp_path, entry, follow=False)) as house:
        plugins = house.gateway.services.plugins
        write(tmp_path, recorder())
        await plugins.look()
        left = list(plugins.states)
        write(tmp_path)
        await plugins.look()
        none = list(plugins.states)

    assert left == ["recorder"]
    assert none == []
    assert NotDisposed.disposed == 1
    assert "plugin odd failed when it was disposed of: Odd" in caplog.text


ODD_FILES = {
    "nested deeply": b"[" * 100_000,
    "aliases of aliases": b"\n".join(
        b"- &l%d [%s]" % (number, b",".join([b"*l%d" % (number - 1) if number else b"a"] * 10)) for number in range(12)
    ),
    "bytes for a name": b"- {source: !!binary aGk=}",
    "a date for a name": b"- {source: 'a:b', name: 2026-01-01}",
    "a date that there is not": b"- {source: 'a:b', config: {at: 2026-13-45}}",
    "no UTF-8": b"- \xff\xfe",
    "a mapping as a key": b"? {a: 1}\n: 2\n",
    "a key given twice": b"- {source: 'a:b', source: 'c:d'}",
}


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("name", ODD_FILES)
async def test_a_file_that_cannot_be_read_changes_nothing_and_the_next_one_is_taken(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_process(PACED, config=listed(tmp_path, GUARD, follow=False)) as house:
        plugins = house.gateway.services.plugins
        (tmp_path / "plugins.yaml").write_bytes(ODD_FILES[name])
        for _ in range(2):
            await plugins.look()
        kept = list(plugins.states)
        (tmp_path / "plugins.yaml").unlink()
        os.mkfifo(tmp_path / "plugins.yaml")
        await plugins.look()
        still = list(plugins.states)
        write(tmp_path, recorder())
        await plugins.look()
        after = list(plugins.states)

    assert kept == still == ["guard"]
    assert after == ["recorder"]
    assert caplog.text.count("the plugins stay as they are") == 2


async def test_no_sum_of_what_a_component_counts_breaks_the_metrics(tmp_path: Path) -> None:
    file = tmp_path / "mine.wasm"
    shutil.copy(ATTACKS, file)
    async with in_process(PACED, config=listed(tmp_path, component(file), follow=False)) as house:
        plugins = house.gateway.services.plugins
        for _ in range(3):
            plugins._hear("mine", GuestReport(counts={"big": 2.0**52}))
        state = plugins.states["mine"]
        counted = [each.by for each in house.observer.of(PluginCounted)]

    assert state.counters["big"] == 2.0**53
    assert state.counts["not_told"] == 1
    assert counted == [2.0**52] * 2
