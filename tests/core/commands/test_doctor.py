"""`smg-gateway doctor`: what is wrong with a deployment is said with what to do, of real engines, stores and clocks."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from smg_core.cli import main
from smg_core.clock import SystemClock
from smg_core.commands.diagnosing import diagnoses
from smg_core.commands.diagnosis import Diagnosis
from smg_core.config import Config, config_of
from smg_simulator import SimulatedEngine, SimulatorConfig

pytestmark = pytest.mark.anyio


async def found(sections: dict[str, Any], *problems: str) -> list[Diagnosis]:
    config: Config = config_of({"server": {"port": 0}, "history": {"url": "memory:"}, **sections})
    return [each async for each in diagnoses(config, problems, 5.0, SystemClock())]


def said(diagnosed: list[Diagnosis], area: str, state: str) -> str:
    return "\n".join(f"{each.what} -> {each.do}" for each in diagnosed if (each.area, each.state) == (area, state))


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port: int = used.getsockname()[1]
        return port


async def test_what_is_well_is_said_engine_by_engine() -> None:
    async with SimulatedEngine(SimulatorConfig(model="sim", context_length=4096)) as engine:
        all_of_it = await found({"workers": {"urls": [engine.target]}})

    assert not [each for each in all_of_it if each.state == "FAIL"]
    assert f"{engine.target}: vllm, sim, context 4096" in said(all_of_it, "engines", "ok")
    assert "every setting has a value that can work" in said(all_of_it, "configuration", "ok")
    assert "12 of 12 hardening checks hold" in said(all_of_it, "security", "ok")


async def test_engines_that_do_not_answer_or_do_not_agree_are_told_with_what_to_do() -> None:
    gone = f"grpc://127.0.0.1:{closed_port()}"
    long, short = SimulatorConfig(model="sim"), SimulatorConfig(model="sim", context_length=4096)
    async with SimulatedEngine(long) as one, SimulatedEngine(short) as two:
        workers = {"urls": [gone], "prefill_urls": [one.target, two.target]}
        all_of_it = await found({"workers": workers})

    failed = said(all_of_it, "engines", "FAIL")
    assert f"{gone}: " in failed
    assert "start it, or correct its URL" in failed
    assert "sim: there are prefill engines and none that decodes -> add a worker with role: decode" in failed
    assert "sim: its engines have contexts of 4096, 32768 tokens" in said(all_of_it, "engines", "warn")


async def test_an_engine_that_hangs_is_given_up_after_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        config = config_of({"workers": {"urls": [f"grpc://127.0.0.1:{deaf.getsockname()[1]}"]}})
        all_of_it = [each async for each in diagnoses(config, (), 0.3, SystemClock())]

    assert "no answer within 0.3 s" in said(all_of_it, "engines", "FAIL")


async def test_without_an_engine_the_flag_is_named() -> None:
    assert "there is none -> give --worker" in said(await found({}), "engines", "FAIL")
    assert "discovery" in said(await found({"discovery": {"dns": ["gpus.internal:50051"]}}), "engines", "ok")


async def test_settings_and_security_are_part_of_it(tmp_path: Path) -> None:
    key = tmp_path / "keys"
    key.write_text("")
    key.chmod(0o644)
    sections = {"auth": {"keys_file": str(key)}, "model": {"parser": "no-such"}}

    all_of_it = await found(sections, "tls.key: there is no file x")

    assert "tls.key: there is no file x -> change the setting tls.key" in said(all_of_it, "configuration", "FAIL")
    assert "model.parser: no parser family is called" in said(all_of_it, "configuration", "FAIL")
    assert "auth.keys_file: the file has mode 0644" in said(all_of_it, "security", "FAIL")


async def test_stores_are_looked_for_and_passwords_are_not_shown(tmp_path: Path) -> None:
    port = closed_port()
    far = f"redis://user:sekrit@127.0.0.1:{port}/0"
    all_of_it = await found({"history": {"url": far}, "limits": {"store": "redis://127.0.0.1:1/0"}})
    missing = await found({"history": {"url": f"sqlite:///{tmp_path}/nowhere/h.db"}})
    there = await found({"history": {"url": f"sqlite:///{tmp_path}/h.db"}})

    failed = said(all_of_it, "stores", "FAIL")
    assert f"history.url: redis://***@127.0.0.1:{port}/0" in failed
    assert "limits.store" in failed
    assert "sekrit" not in failed
    assert f"there is no folder {tmp_path}/nowhere -> mkdir -p" in said(missing, "stores", "FAIL")
    assert "MiB free" in said(there, "stores", "ok") + said(there, "stores", "warn")
    assert "gone with the process" in said(await found({}), "stores", "warn")


async def test_a_clock_that_is_far_off_is_said() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2015 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        all_of_it = await found({"workers": {"urls": [url]}})

    assert f"{url}: " in said(all_of_it, "clocks", "FAIL")
    assert "behind this machine -> have both follow NTP" in said(all_of_it, "clocks", "FAIL")


async def test_what_the_machine_lacks_is_said_with_what_to_set() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = {"port": taken.getsockname()[1], "processes": 64, "connections": 1_000_000}
        all_of_it = await found({"server": server})

    warned = said(all_of_it, "limits", "warn")
    assert "64 on " in warned
    assert "Address already in use" in warned


def test_the_command_prints_a_line_for_each_and_fails_where_something_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["doctor", "--worker", f"grpc://127.0.0.1:{closed_port()}", "--timeout", "2"])
    lines = capsys.readouterr().out.splitlines()
    again = main(["doctor", "--json", "--config", "/no/such.yaml"])
    as_json = main(["doctor", "--json"])

    assert (status, again, as_json) == (1, 2, 1)
    assert any(line.startswith("FAIL  engines") for line in lines)
    assert any(line.lstrip().startswith("-> start it") for line in lines)
    assert {each["area"] for each in json.loads(capsys.readouterr().out)} >= {"security", "engines", "limits"}
