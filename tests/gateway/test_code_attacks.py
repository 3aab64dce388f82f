"""Code that would break out, stay for ever or fill the machine, in the real interpreter: each is stopped, and says so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.interpreters import real_interpreter
from tests.shared import PATIENCE

from smg_core.clock import SystemClock
from smg_core.containers.interpreter.building import compiled_interpreter
from smg_core.containers.interpreter.running import InterpreterBounds, Interpreters
from smg_core.containers.kept import CodeRun, Containers
from smg_core.containers.settings import ContainersConfig
from smg_core.request import Caller

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.services,
]  # it is built by componentize-py, which tools/services.sh installs

MIB = 1 << 20
ID = "cntr_" + "a" * 32


class Coder:
    """One container."""

    def __init__(self, containers: Containers) -> None:
        self.containers = containers

    async def run(self, code: str) -> CodeRun:
        return await self.containers.run(Caller("acme"), ID, code)

    async def text(self, code: str) -> str:
        found = await self.run(code)
        assert found.ran.stopped is None
        return found.ran.stdout + found.ran.stderr


@pytest.fixture
async def coder(tmp_path: Path) -> AsyncIterator[Coder]:
    config = ContainersConfig(folder=str(tmp_path / "kept"))
    bounds = InterpreterBounds(96 * MIB, 16 * MIB, seconds=PATIENCE, idle_s=600, running=2)
    interpreters = Interpreters(compiled_interpreter(real_interpreter()), bounds)
    containers = Containers(config, interpreters, SystemClock())
    await containers.create(Caller("acme"), ID, "attacked")
    yield Coder(containers)
    await interpreters.close()


@pytest.fixture
async def hasty(coder: Coder) -> Coder:
    """The same, whose calls have a second."""
    interpreters = coder.containers._interpreters
    interpreters.bounds = InterpreterBounds(96 * MIB, 16 * MIB, seconds=1.0, idle_s=600, running=2)
    return coder


async def test_code_has_the_standard_library_its_names_and_its_files(coder: Coder) -> None:
    await coder.run("import statistics, sqlite3, csv, re\nx = statistics.mean([1, 2, 3])")
    assert await coder.text("x") == "2\n"
    made = await coder.run("open('a.txt', 'w').write('hi')")
    assert [each.path for each in made.files] == ["/mnt/data/a.txt"]
    assert await coder.text("open('/mnt/data/a.txt').read()") == "'hi'\n"
    assert (await coder.run("x")).files == ()
    first = await coder.text("import random; random.random()")
    await coder.containers._interpreters.close()
    assert (await coder.run("1")).ran.lost
    assert await coder.text("import random; random.random()") != first


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time\ntime.sleep(10 ** 6)",
        "while True: print('flood' * 1000)",
        "import os\nwhile True: os.write(1, b'x' * 100000)",
        "import re\nre.match('(a+)+$', 'a' * 64 + 'b')",
        "10 ** 10 ** 10",
        "import select\nselect.select([], [], [], 10 ** 6)",
    ],
)
async def test_code_without_an_end_is_stopped_and_its_names_are_gone(hasty: Coder, code: str) -> None:
    await hasty.run("x = 1")
    assert (await hasty.run(code)).ran.stopped == "time"
    found = await hasty.run("x")
    assert not found.ran.lost  # it was said already
    assert "NameError" in (found.ran.error or "")


@pytest.mark.parametrize(
    "code",
    [
        "'x' * 10 ** 9",
        "[0] * 10 ** 9",
        "l = []\nwhile True: l.append('x' * 10 ** 6)",
        "import zlib\nzlib.decompress(zlib.compress(b'0' * 40_000_000) * 1) * 9",
    ],
)
async def test_code_has_no_more_memory_than_it_may_and_goes_on(coder: Coder, code: str) -> None:
    await coder.run("x = 1")
    assert "MemoryError" in await coder.text(code)
    assert await coder.text("l = None\nx") == "1\n"


async def test_recursion_ends_with_an_error_and_without_its_limit_with_the_interpreter(coder: Coder) -> None:
    assert "RecursionError" in await coder.text("def f(n): return f(n + 1)\nf(0)")
    found = await coder.run("import sys\nsys.setrecursionlimit(10 ** 9)\nf(0)")
    assert found.ran.stopped == "trap"
    assert await coder.text("1 + 1") == "2\n"


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "open('../../../../../../etc/passwd').read()",
        "import os; os.listdir('/')",
        "import os; os.symlink('/etc/passwd', 'link')",
        "import os; os.symlink('../../../../../../../etc/passwd', 'near'); open('near').read()",
        "import os; os.link('/etc/passwd', 'hard')",
        "import os; os.rename('/mnt/data', '/mnt/other')",
        "import os; os.chdir('/etc')",
    ],
)
async def test_code_sees_no_file_but_its_own(coder: Coder, code: str) -> None:
    said = await coder.text(code)
    assert "Error" in said
    assert "root:" not in said
    assert await coder.containers.files(Caller("acme"), ID) == []


async def test_the_folder_of_one_container_is_no_way_to_that_of_another(coder: Coder) -> None:
    other = "cntr_" + "b" * 32
    await coder.containers.create(Caller("acme"), other, "other")
    await coder.containers.run(Caller("acme"), other, "open('secret', 'w').write('hidden')")
    said = await coder.text(f"import os; os.symlink('../../{other}/data/secret', 'way'); open('way').read()")
    assert "hidden" not in said
    assert "Error" in said


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import subprocess", "starts no other programs"),
        ("import threading\nthreading.Thread(target=print).start()", "has no threads"),
        ("from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(print)", "has no threads"),
        ("import socket", "has no network"),
        ("import urllib.request", "has no network"),
        ("import requests", "has no network"),
        ("import asyncio", "has no event loop"),
        ("import numpy", "the standard library of Python alone"),
        ("import pip", "installs no packages"),
    ],
)
async def test_what_there_is_not_is_told_in_a_sentence(coder: Coder, code: str, why: str) -> None:
    assert why in await coder.text(code)


async def test_no_address_is_reached_whatever_module_asks(coder: Coder) -> None:
    said = await coder.text("import _socket\ns = _socket.socket()\ns.connect(('127.0.0.1', 22))")
    assert "Error" in said
    assert "gaierror" in await coder.text("import _socket\n_socket.getaddrinfo('example.org', 80)")


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(10_000): open(f'f{i}', 'w').close()",
        "import os\nfor i in range(10_000): os.mkdir(f'd{i}')",
        "import os\nwhile True: os.mkdir('d'); os.chdir('d')",
        "for i in range(100):\n    f = open(f'f{i}', 'wb')\n    f.write(b'0' * 10 ** 6)\n    f.flush()\nwhile True: pass",
        (
            "import zipfile\nz = zipfile.ZipFile('z', 'w', zipfile.ZIP_DEFLATED)\n"
            "for i in range(40): z.writestr(f'f{i}', b'0' * 10 ** 6)\n"
            "z.close()\nzipfile.ZipFile('z').extractall('out')\nwhile True: pass"
        ),
    ],
)
async def test_code_that_writes_too_much_is_stopped_and_what_it_wrote_is_gone(coder: Coder, code: str) -> None:
    await coder.run("open('kept', 'w').write('kept')")
    assert (await coder.run(code)).ran.stopped == "files"
    assert [each.path for each in await coder.containers.files(Caller("acme"), ID)] == ["/mnt/data/kept"]
    assert await coder.text("open('/mnt/data/kept').read()") == "'kept'\n"


async def test_one_file_is_no_larger_than_all_may_be(coder: Coder) -> None:
    said = await coder.text("f = open('big', 'wb', buffering=0)\nfor _ in range(10 ** 6): f.write(b'0' * 10 ** 6)")
    assert "OSError" in said


@pytest.mark.parametrize("code", ["import os; os._exit(3)", "import os; os.abort()", "import sys; sys.exit(3)"])
async def test_code_that_ends_itself_ends_no_more_than_that(coder: Coder, code: str) -> None:
    found = await coder.run(code)
    assert found.ran.stopped == "trap" or found.ran.error == "SystemExit: 3"
    assert await coder.text("1 + 1") == "2\n"


async def test_code_that_changes_what_runs_it_hurts_itself_alone(coder: Coder) -> None:
    assert (await coder.run("import json\njson.dumps = lambda *_: 'nonsense'")).ran.stopped == "trap"
    assert await coder.text("1 + 1") == "2\n"


async def test_an_output_is_cut_at_its_bound(coder: Coder) -> None:
    found = await coder.run("print('x' * 10 ** 6)")
    assert found.ran.cut
    assert len(found.ran.stdout) == coder.containers._interpreters.bounds.characters
