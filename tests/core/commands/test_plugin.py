"""`smg-gateway plugin`: what it prints of a component, and that its first plugin builds."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from smg_core.cli import main
from smg_core.commands.plugin import exports_of, hooks_of
from smg_core.middleware.base import About, AnswerPiece, ChangeText
from smg_core.middleware.entries import parse_entries
from smg_core.settings import ConfigError
from smg_core.wasm.loading import WasmPlugins

GUESTS = Path(__file__).parent.parent.parent / "guests"
EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
SERVICES = Path(__file__).parent.parent.parent.parent / "build" / "services"
NEEDED = ("clang", "wasm-ld", "node")


@pytest.mark.full
def test_check_prints_what_a_component_did(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"config": {"do": "nothing"}, "deadline_ms": 20_000}
    assert main(["plugin", "check", str(GUESTS / "attacks.wasm"), "--settings", json.dumps(settings)]) == 0
    said = capsys.readouterr().out

    assert "world smg-sdk:plugin" in said
    assert "request_head: sets {'x-guest': 'was here'}" in said
    assert "request_body: lets it pass" in said
    assert "us a call" in said


@pytest.mark.full
def test_check_of_smgs_contract_shows_the_body_that_was_recorded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = tmp_path / "body.json"
    body.write_text('"recorded"')
    settings = json.dumps({"deadline_ms": 20_000})
    file = str(GUESTS / "smg_gateway.wasm")
    assert main(["plugin", "check", file, "--settings", settings, "--request", str(body)]) == 0
    assert "changes it to 10 characters" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"no JSON", b"\xff", b"", None, b"[" * 100_000])
def test_check_names_a_recorded_body_that_is_no_json(
    content: bytes | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = tmp_path / "body.json"
    if content is not None:
        body.write_bytes(content)
    assert main(["plugin", "check", str(GUESTS / "attacks.wasm"), "--request", str(body)]) != 0
    said = capsys.readouterr()
    assert f"--request: {body}" in said.out + said.err


def test_check_of_a_component_that_fails_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"config": {"do": "trap"}, "deadline_ms": 20_000}
    assert main(["plugin", "check", str(GUESTS / "attacks.wasm"), "--settings", json.dumps(settings)]) == 1
    assert "request_head: FAILED: it trapped" in capsys.readouterr().out


SHIPPED: dict[str, dict[str, Any]] = {
    "auth/check_tokens": {"config": {"tokens": ["s3cret=acme"]}, "when": "before_identity", "grants": ["tenant"]},
    "compliance/log_exchanges": {},
    "costs/tell_costs": {"config": {"prompt": 2.5, "completion": 10}},
    "redaction/redact_numbers": {"config": {"digits": 7}},
    "rewriting/rename_model": {"config": {"from": "gpt-4o", "to": "llama-3"}},
}
"""The entries that examples/plugins/README.md says."""


def test_every_shipped_component_has_an_entry_here() -> None:
    assert sorted(SHIPPED) == sorted(f"{each.parent.name}/{each.stem}" for each in EXAMPLES.glob("*/*.wasm"))


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", SHIPPED)
def test_check_tells_of_a_shipped_component_one_exchange_and_what_each_hook_costs(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = json.dumps({**SHIPPED[name], "deadline_ms": 20_000})
    assert main(["plugin", "check", str(EXAMPLES / f"{name}.wasm"), "--settings", settings]) == 0
    said = capsys.readouterr().out.splitlines()
    hooks = said[1].partition("hooks: ")[2].partition(";")[0].split(", ")
    assert sorted(each.split(":")[0].strip() for each in said[2:] if each.endswith(" us a call")) == hooks
    assert len(said) <= 2 + len(hooks) + 2


@pytest.mark.full
def test_check_tells_what_a_component_says_of_every_body_though_each_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[str] = []
    for number in range(3):
        body = tmp_path / f"{number}.json"
        body.write_text("[" + "1, " * number + "0]")
        asked += ["--request", str(body)]
    settings = json.dumps({"deadline_ms": 20_000})
    file = str(EXAMPLES / "compliance" / "log_exchanges.wasm")
    assert main(["plugin", "check", file, "--settings", settings, *asked]) == 0
    said = capsys.readouterr().out
    assert [said.count(f"asked_bytes={3 + 3 * number} ") for number in range(3)] == [1, 1, 1]
    assert said.count("count exchanges: 1") == 3


def unconfigured(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(["plugin", "check", *more]) != 0
    return capsys.readouterr().err


def test_check_of_a_component_that_wants_a_configuration_names_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "costs" / "tell_costs.wasm")
    flag = """give it one by --settings '{"config": {...}}'"""
    assert flag in unconfigured(capsys, file)
    assert flag not in unconfigured(capsys, file, "--settings", '{"config": {"prompt": 1}}')


def test_check_of_a_plugin_in_python_says_that_it_is_for_components(capsys: pytest.CaptureFixture[str]) -> None:
    assert "check is for components" in unconfigured(capsys, "costs:Costs")
    assert "cannot be read: No such file" in unconfigured(capsys, "gone.wasm")


def test_new_writes_a_plugin_with_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "first"
    assert main(["plugin", "new", str(folder)]) == 0
    assert sorted(each.name for each in folder.iterdir()) == ["first.c", "plugin.wit", "smg_plugin.h"]
    assert "plugin build" in capsys.readouterr().out


@pytest.mark.services
def test_build_without_jco_says_so_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert all(shutil.which(each) for each in NEEDED), "tools/services.sh installs them"
    source = tmp_path / "first.c"
    source.write_text("#define SMG_END\n")
    assert main(["plugin", "build", str(source), "--jco", str(tmp_path)]) != 0
    said = capsys.readouterr().err
    assert f"jco is not installed in {tmp_path}: npm install @bytecodealliance/jco there, or name it by --jco" in said
    assert len(said.splitlines()) == 1


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
    shipped = [
        *[GUESTS / f"{each}.c" for each in ("attacks", "failing", "heads", "oversized", "storage")],
        *sorted(EXAMPLES.glob("*/*.c")),
    ]
    assert len(shipped) == 10
    for source in shipped:
        built = tmp_path / f"{source.stem}.wasm"
        assert main(["plugin", "build", str(source), "--out", str(built), *jco]) == 0
        assert built.read_bytes() == source.with_suffix(".wasm").read_bytes(), source


@pytest.mark.services
def test_the_adapter_is_what_is_shipped(tmp_path: Path) -> None:
    assert all(shutil.which(each) for each in NEEDED), "tools/services.sh installs them"
    root = Path(__file__).parents[3]
    built, shipped = tmp_path / "adapter.wasm", root / "src" / "smg_core" / "wasm" / "adapter" / "adapter.wasm"
    subprocess.run(["sh", root / "tools" / "build_adapter.sh", built], check=True)
    assert built.read_bytes() == shipped.read_bytes()


@pytest.mark.services
def test_a_plugin_in_javascript_takes_out_what_the_one_in_c_does(tmp_path: Path) -> None:
    built = tmp_path / "redact_numbers.wasm"
    source = EXAMPLES / "redaction" / "redact_numbers.js"
    assert main(["plugin", "build", str(source), "--out", str(built), "--jco", str(SERVICES)]) == 0
    limits = {"deadline_ms": 60_000, "memory_mib": 32, "stack_kib": 1024}

    async def said(wasm: Path, pieces: list[AnswerPiece]) -> list[Any]:
        (entry,) = parse_entries([{"source": str(wasm), **limits}], "test")
        plugins = WasmPlugins(lambda name, told: None, threads=1, most_threads=1, compiled=1, most_bytes=1 << 24)
        try:
            session = (await plugins.load(entry)).begin(About("r", "POST", "/"))
            found = []
            for piece in pieces:
                answer = session.on_piece(piece)
                found.append(await answer if isinstance(answer, Awaitable) else answer)
            session.close()
            return found
        finally:
            await asyncio.to_thread(plugins.close)

    texts = [
        "Call 555",
        " 01",
        "00 222 now, ",
        "1 2 3 - not, 123",
        "4567",
        " x ٠١٢\u00a0٣٤",
        "\u2011٥٦ y",
        " 5,0,5_0/1\t0\n0 z",
    ]
    texts += [" 𝟓𝟓", "５-0100 no", " [1,2,3,4,5,6,7]"]
    pieces = [AnswerPiece(text, kind, last=False) for kind in ("text", "arguments") for text in texts]
    pieces.insert(len(texts), AnswerPiece("", "text", last=True))
    pieces.append(AnswerPiece("", "arguments", last=True))
    in_c = asyncio.run(said(source.with_suffix(".wasm"), pieces))
    assert ChangeText("[number]") in in_c
    assert asyncio.run(said(built, pieces)) == in_c


def test_the_hooks_of_a_source_in_javascript_are_those_that_it_exports() -> None:
    assert exports_of("export const pieces = {};\nexport const requestHead = {};\nexport const LIMIT = 1;") == [
        "pieces",
        "request-head",
    ]
    with pytest.raises(ConfigError, match="exports no hook"):
        exports_of("const pieces = {};")
