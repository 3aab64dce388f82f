"""Numbers, ports and names that commands are given: each is told to be wrong in a sentence, none ends in a traceback."""

import argparse
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.cli import main
from smg_core.commands.admin import FLAGS as DOOR_FLAGS
from smg_core.config.config import Config
from smg_core.fleet.connect import Reaching
from smg_core.settings import ConfigError, number_flag, port_of
from smg_core.workers.worker import WorkerSpec
from smg_simulator.commands.flags import FLAGS

DOOR = ("--admin", "http://127.0.0.1:9")
OTHERS = (
    "audit",
    "audit-log",
    "config",
    "doctor",
    "interpreter",
    "mcp",
    "plugin",
    "serve",
    "setup",
    "top",
    "up",
    "usage",
)
NUMBERS = {
    "keys create": ("keys", "create", "name", "--expires-at"),
    "keys rotate": ("keys", "rotate", "id", "--overlap"),
    "keys expire": ("keys", "expire", "id", "--at"),
    "drain": ("drain", "--wait"),
    "log-level": ("log-level", "debug", "--for"),
    "workers weight": ("workers", "add", "grpc://127.0.0.1:9", "--weight"),
    "workers drain": ("workers", "drain", "w", "--wait"),
    "timeout": ("workers", "list", "--timeout"),
    "top": ("top", "--interval"),
}


@pytest.mark.full
@pytest.mark.sampled(per=("name",))
@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "-1", "1e999", "x", ""])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_cannot_be_is_refused_with_its_flag(
    name: str, odd: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *command, flag = NUMBERS[name]
    assert main([*command, f"{flag}={odd}", *DOOR]) == 2
    assert f"argument {flag}: {odd!r} is no number from" in capsys.readouterr().err


@pytest.mark.full
def test_no_flag_of_a_command_takes_any_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NaN and infinity are numbers for Python."""
    plain, seen = list[str](), list[str]()
    add = argparse._ActionsContainer.add_argument

    def noted(self: Any, *names: str, **given: Any) -> Any:
        seen.append(names[0])
        if given.get("type") in (int, float):
            plain.append(names[0])
        return add(self, *names, **given)

    monkeypatch.setattr(argparse._ActionsContainer, "add_argument", noted)
    for command in (f"{name} --help" for name in (*FLAGS, *DOOR_FLAGS, *OTHERS)):
        with pytest.raises(SystemExit):
            main(command.split())
    capsys.readouterr()

    assert {"--weight", "--fault", "--requests", "--interval"} <= set(seen)
    assert plain == []


@given(st.floats() | st.integers() | st.text(max_size=8))
def test_what_a_flag_takes_is_a_finite_number_of_its_range(value: object) -> None:
    for kind in (int, float):
        try:
            read = number_flag(kind, -1, 5)(str(value))
        except argparse.ArgumentTypeError:
            continue
        assert -1 <= read <= 5
        assert read == kind(str(value))


@given(st.integers(-(10**6), 10**6) | st.text(max_size=6))
def test_a_port_is_one_that_can_be_listened_at(port: object) -> None:
    if str(port).isascii() and str(port).isdecimal() and len(str(port)) <= 5 and int(str(port)) < 1 << 16:
        assert port_of(f"127.0.0.1:{port}", "--listen") == int(str(port))
    else:
        with pytest.raises(ConfigError, match=r"^--listen: "):
            port_of(f"127.0.0.1:{port}", "--listen")


SIMULATED = {
    "a share above 1": (("--fault", "cut=2"), "from 0 to 1"),
    "a share below 0": (("--fault", "cut=-1"), "from 0 to 1"),
    "a share that is no number": (("--fault", "cut=nan"), "from 0 to 1"),
    "a port that there is not": (("--listen", "127.0.0.1:99999"), "a port is from 0 to 65535"),
    "a port without a host": (("--listen", ":99999"), "a port is from 0 to 65535"),
    "a port over HTTP that there is not": (("--listen-http", "127.0.0.1:65536"), "a port is from 0 to 65535"),
    "a folder that there is not": (("--model-folder", "/nowhere-at-all"), "there is no folder /nowhere-at-all"),
    "a rate that is no number": (("--decode-rate", "nan"), "is no number from 0"),
    "a rate without end": (("--prefill-rate", "inf"), "is no number from 0"),
    "a batch below 0": (("--batch=-1",), "is no whole number from 0"),
}


@pytest.mark.sampled(keep=7)
@pytest.mark.parametrize("name", SIMULATED)
def test_what_a_simulated_engine_cannot_be_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, told = SIMULATED[name]
    assert main(["simulate", "--listen", "127.0.0.1:0", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--listen", "--listen-http"])
def test_a_port_that_another_has_is_told(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["simulate", "--listen", "127.0.0.1:0", flag, place]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_demo_listens_at_no_port_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--port", "99999"]) == 2
    assert "is no whole number from 0 to 65535" in capsys.readouterr().err


def test_the_command_for_a_new_plugin_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugin", "new", str(tmp_path / "has space")]) == 0
    assert f"plugin build '{tmp_path}/has space/first.c'" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".c", ".js"])
def test_a_source_that_is_no_utf8_is_told(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / f"mine{suffix}"
    source.write_bytes(b"/* \xff */")
    (tmp_path / "node_modules" / ".bin").mkdir(parents=True)
    (tmp_path / "node_modules" / ".bin" / "componentize-qjs").touch()
    monkeypatch.setattr("shutil.which", lambda name: name)
    assert main(["plugin", "build", str(source), "--jco", str(tmp_path)]) == 2
    assert "is no UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "a\x00", "\u202e"])
def test_a_worker_has_a_name_that_can_be_printed(name: str) -> None:
    with pytest.raises(ValueError, match="printable characters"):
        Reaching(Config()).check(WorkerSpec("grpc://127.0.0.1:9", name=name))
