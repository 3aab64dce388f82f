"""What `smg-gateway setup` prints and writes, and what it says where it cannot."""

import asyncio
import contextlib
import json
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.gateway.conftest import over_http

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.cli import main
from smg_core.commands.setup_programs import (
    PROGRAMS,
    ListedModel,
    ServedGateway,
    choose_model,
    printed,
    served_models,
    shortcomings,
)
from smg_simulator.engine.engine import SimulatorConfig

ODD = ListedModel('odd "name"', 4096)
SHORT, LONG = ListedModel("m", 32_768), ListedModel("m", 200_000)


def setup_of(program: str, gateway: ServedGateway) -> str:
    """What a person reads."""
    return printed(PROGRAMS[program].setup_of(gateway))


def exports(text: str) -> dict[str, str]:
    """The variables of lines for a shell."""
    lines = shlex.split(text, comments=True)
    return dict(line.partition("=")[::2] for line in lines if line != "export")


def test_codex_is_told_of_the_gateway_the_model_and_its_context() -> None:
    lines = tomllib.loads(setup_of("codex", ServedGateway("http://gpu:8000", ODD)))

    assert (lines["model"], lines["model_context_window"]) == ('odd "name"', 4096)
    provider = lines["model_providers"][lines["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == ("http://gpu:8000/v1", "responses")
    assert provider["supports_websockets"] is True


def test_codex_is_told_of_websockets_only_where_they_work() -> None:
    assert "websockets" not in setup_of("codex", ServedGateway("http://gpu:8000", ODD, sockets=False))


def test_claude_code_is_told_of_the_gateway_and_asks_for_one_model_by_all_its_names() -> None:
    variables = exports(setup_of("claude-code", ServedGateway("http://gpu:8000", ODD)))

    assert variables["ANTHROPIC_BASE_URL"] == "http://gpu:8000"
    assert {value for name, value in variables.items() if name.endswith("_MODEL")} == {'odd "name"'}


def test_output_is_bounded_where_the_context_is_short_and_there_alone() -> None:
    short, long = (ServedGateway("http://gpu", each) for each in (SHORT, LONG))

    assert exports(setup_of("claude-code", short))["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "8192"
    assert "MAX_OUTPUT" not in setup_of("claude-code", long)
    assert "COMPACT" not in setup_of("claude-code", long)
    assert '"output": 8192' in setup_of("opencode", short)
    assert '"max_output_tokens": 8192' in setup_of("aider", short)
    assert "maxTokens: 8192" in setup_of("continue", short)
    assert '"compressionThreshold": 0.0219' in setup_of("gemini", short)


def test_a_context_that_is_not_known_is_not_told() -> None:
    gateway = ServedGateway("http://gpu:8000", ListedModel("m"))
    said = {program: setup_of(program, gateway) for program in PROGRAMS}

    assert not any(
        word in said[program] for program in said for word in ("window", "context", "ompress", "COMPACT", "max")
    )


def test_what_will_not_work_is_a_line_each() -> None:
    assert shortcomings("claude-code", LONG) == []
    (line,) = shortcomings("claude-code", SHORT)
    assert "29600 tokens" in line
    assert "may have 32768" in line
    assert "calls no tools" in shortcomings("aider", LONG)[0]


def test_models_are_read_from_the_listing() -> None:
    assert served_models({"data": [{"id": "a", "max_model_len": 9}, {"id": "b"}, "c"]}) == [
        ListedModel("a", 9),
        ListedModel("b"),
    ]
    with pytest.raises(ValueError, match="no list of models"):
        served_models({"error": {}})


def test_the_only_model_need_not_be_named_and_another_is_refused_with_those_there_are() -> None:
    one, two = ListedModel("a"), ListedModel("b")

    assert choose_model([one], None) == one
    assert choose_model([one, two], "b") == two
    for served, name, said in (([one, two], None, "--model; it serves: a, b"), ([], "c", "serve c; it serves: none")):
        with pytest.raises(ValueError, match=said):
            choose_model(served, name)


@pytest.mark.full
@pytest.mark.anyio
async def test_the_command_asks_the_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    async with over_http(SimulatorConfig(context_length=5000)) as house:
        assert await asyncio.to_thread(main, ["setup", "codex", "--url", f"{house.url}/"]) == 0
        printed = tomllib.loads(capsys.readouterr().out)
        assert await asyncio.to_thread(main, ["setup", "codex", "--url", house.url, "--model", "x"]) == 2
        assert "it serves: sim" in capsys.readouterr().err

    assert (printed["model"], printed["model_context_window"]) == ("sim", 5000)
    assert printed["model_providers"]["smg"]["base_url"] == f"{house.url}/v1"


def test_a_gateway_that_is_not_there_is_one_line_and_status_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "codex", "--url", "http://127.0.0.1:1"]) == 1

    setup_of = capsys.readouterr().err
    assert "http://127.0.0.1:1 does not say which models it serves" in setup_of
    assert len(setup_of.splitlines()) == 1


@pytest.mark.full
@pytest.mark.anyio
async def test_where_the_gateway_asks_for_a_key_it_is_taken_from_the_environment_and_printed_nowhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "a-key-0123456789abcdef"
    async with over_http(config=Config(auth=AuthConfig(keys=(f"{key} tenant=acme",)))) as house:
        assert await asyncio.to_thread(main, ["setup", "codex", "--url", house.url]) == 1
        refused = capsys.readouterr().err
        monkeypatch.setenv("SMG_API_KEY", key)
        said = {}
        for program in PROGRAMS:
            assert await asyncio.to_thread(main, ["setup", program, "--url", house.url]) == 0
            said[program] = capsys.readouterr().out

    assert "401" in refused
    assert "SMG_API_KEY" in refused
    assert tomllib.loads(said["codex"])["model_providers"]["smg"]["env_key"] == "SMG_API_KEY"
    assert 'export ANTHROPIC_AUTH_TOKEN="$SMG_API_KEY"\n' in said["claude-code"]
    assert all("SMG_API_KEY" in each for each in said.values())
    assert not any(key in each for each in said.values())


@pytest.mark.full
@pytest.mark.anyio
async def test_each_program_is_told_in_its_own_files_beside_a_copy_of_what_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "CONTINUE_GLOBAL_DIR"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codex").mkdir()
    own = '# mine\nmodel = "gpt" # before\n\n[tui]\nnotifications = true\n'
    (tmp_path / ".codex" / "config.toml").write_text(own)
    (tmp_path / ".codex" / "config.toml").chmod(0o600)
    async with over_http(SimulatorConfig(context_length=200_000)) as house:
        for program in [*PROGRAMS, *PROGRAMS]:
            assert await asyncio.to_thread(main, ["setup", program, "--url", house.url, "--write"]) == 0
    said = capsys.readouterr().out

    toml = (tmp_path / ".codex" / "config.toml").read_text()
    assert toml.startswith('# mine\nmodel = "sim" # before\n')
    assert "\n[tui]\nnotifications = true\n" in toml
    assert (tmp_path / ".codex" / "config.toml").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / ".codex" / "config.toml.before-smg").read_text() == own
    assert json.loads((tmp_path / ".claude" / "settings.json").read_text())["env"]["ANTHROPIC_BASE_URL"] == house.url
    assert json.loads((tmp_path / ".config/opencode/opencode.json").read_text())["model"] == "smg/sim"
    assert json.loads((tmp_path / ".gemini/settings.json").read_text())["model"]["name"] == "sim"
    assert yaml.safe_load((tmp_path / ".continue/config.yaml").read_text())["models"][0]["model"] == "sim"
    assert yaml.safe_load((tmp_path / ".aider.conf.yml").read_text())["model"] == "openai/sim"
    assert said.count("says it already") == 8
    assert len(list(tmp_path.rglob("*.before-smg*"))) == 1


@pytest.mark.full
@pytest.mark.anyio
async def test_a_file_that_cannot_be_changed_stays_and_so_do_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / ".env").write_text("GEMINI_API_KEY=a\nGEMINI_API_KEY=b\n")
    async with over_http() as house:
        assert await asyncio.to_thread(main, ["setup", "gemini", "--url", house.url, "--write"]) == 1

    refused = capsys.readouterr().err
    assert f"{tmp_path}/.gemini/.env: line 2: GEMINI_API_KEY is given twice" in refused
    assert "nothing is written" in refused
    assert not (tmp_path / ".gemini" / "settings.json").exists()


async def _elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server with a model, which describes one path, and whose proxy takes the upgrade from a WebSocket."""
    answers = {
        "/v1/models": {"data": [{"id": "m"}]},
        "/openapi.json": {"paths": {"/v1/responses": {}}},
        "/v1/responses": {"error": "upgrade required"},
    }
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = json.dumps(answers[head.split()[1].decode()]).encode()
            status = b"426" if b"upgrade" in head else b"200"
            writer.write(b"HTTP/1.1 %b OK\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
    writer.close()


@pytest.mark.anyio
async def test_a_server_is_asked_for_its_apis_and_for_websockets(capsys: pytest.CaptureFixture[str]) -> None:
    async with await asyncio.start_server(_elsewhere, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await asyncio.to_thread(main, ["setup", "codex", "--url", url]) == 0
        printed_lines = capsys.readouterr().out
        assert await asyncio.to_thread(main, ["setup", "opencode", "--url", url]) == 1

    assert "supports_websockets" not in printed_lines
    assert f"opencode asks /v1/chat/completions, which {url} does not have" in capsys.readouterr().err
