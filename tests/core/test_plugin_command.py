"""`smg-gateway plugin`: what it prints of a component, and that its first plugin builds."""

import json
import shutil
from pathlib import Path

import pytest

from smg_core.cli import main
from smg_core.plugin_command import hooks_of
from smg_core.settings import ConfigError

GUESTS = Path(__file__).parent.parent / "guests"
SERVICES = Path(__file__).parent.parent.parent / "build" / "services"
NEEDED = ("clang", "wasm-ld", "node")


def test_check_prints_what_a_component_did(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"config": {"do": "nothing"}, "deadline_ms": 20_000}
    assert main(["plugin", "check", str(GUESTS / "attacks.wasm"), "--settings", json.dumps(settings)]) == 0
    said = capsys.readouterr().out

    assert "world smg-sdk:plugin" in said
    assert "request_head: sets {'x-guest': 'was here'}" in said
    assert "request_body: lets it pass" in said
    assert "us a call" in said


def test_check_of_smgs_contract_shows_the_body_that_was_recorded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = tmp_path / "body.json"
    body.write_text("!")
    settings = json.dumps({"deadline_ms": 20_000})
    file = str(GUESTS / "smg_gateway.wasm")
    assert main(["plugin", "check", file, "--settings", settings, "--request", str(body)]) == 0
    assert "request_body: rejects with 403" in capsys.readouterr().out


def test_check_of_a_component_that_fails_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"config": {"do": "trap"}, "deadline_ms": 20_000}
    assert main(["plugin", "check", str(GUESTS / "attacks.wasm"), "--settings", json.dumps(settings)]) == 1
    assert "request_head: FAILED: it trapped" in capsys.readouterr().out


def test_new_writes_a_plugin_with_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "first"
    assert main(["plugin", "new", str(folder)]) == 0
    assert sorted(each.name for each in folder.iterdir()) == ["first.c", "plugin.wit", "smg_plugin.h"]
    assert "plugin build" in capsys.readouterr().out


def test_the_hooks_of_a_source_are_those_that_it_defines() -> None:
    assert hooks_of("#define SMG_PIECES\n# define SMG_CLOCK\n// #define SMG_END\n") == ["+host", "pieces", "+clock"]
    with pytest.raises(ConfigError, match="defines no hook"):
        hooks_of("int main(void) { return 0; }")


@pytest.mark.services
def test_the_first_plugin_builds_and_the_guests_of_the_tests_are_what_is_shipped(tmp_path: Path) -> None:
    assert all(shutil.which(each) for each in NEEDED), "tools/services.sh installs them"
    jco = ["--jco", str(SERVICES)]
    assert main(["plugin", "new", str(tmp_path / "first")]) == 0
    assert main(["plugin", "build", str(tmp_path / "first" / "first.c"), *jco]) == 0
    assert (
        main(["plugin", "check", str(tmp_path / "first" / "first.wasm"), "--settings", '{"deadline_ms": 20000}']) == 0
    )
    built = tmp_path / "attacks.wasm"
    assert main(["plugin", "build", str(GUESTS / "attacks.c"), "--out", str(built), *jco]) == 0
    assert built.read_bytes() == (GUESTS / "attacks.wasm").read_bytes()
