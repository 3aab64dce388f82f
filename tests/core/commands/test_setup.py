"""What `smg-gateway setup` prints, and what it says where it cannot."""

import asyncio
import shlex
import tomllib

import pytest
from tests.gateway.conftest import over_http

from smg_core import Config
from smg_core.auth.settings import AuthConfig
from smg_core.cli import main
from smg_core.commands.client_setup import PROGRAMS, ListedModel, choose_model, served_models
from smg_simulator.engine.engine import SimulatorConfig


def test_codex_is_told_of_the_gateway_the_model_and_its_context() -> None:
    lines = tomllib.loads(PROGRAMS["codex"]("http://gpu:8000", ListedModel('odd "name"', 4096)))

    assert (lines["model"], lines["model_context_window"]) == ('odd "name"', 4096)
    provider = lines["model_providers"][lines["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == ("http://gpu:8000/v1", "responses")
    assert provider["supports_websockets"] is True


def test_claude_code_is_told_of_the_gateway_and_asks_for_one_model_by_all_its_names() -> None:
    lines = shlex.split(PROGRAMS["claude-code"]("http://gpu:8000", ListedModel('odd "name"')), comments=True)
    told = dict(line.partition("=")[::2] for line in lines if line != "export")

    assert told["ANTHROPIC_BASE_URL"] == "http://gpu:8000"
    assert {value for name, value in told.items() if name.endswith("_MODEL")} == {'odd "name"'}


def test_a_context_that_is_not_known_is_not_told() -> None:
    assert "window" not in PROGRAMS["codex"]("http://gpu:8000", ListedModel("m"))


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

    told = capsys.readouterr().err
    assert "http://127.0.0.1:1 does not say which models it serves" in told
    assert len(told.splitlines()) == 1


@pytest.mark.anyio
async def test_where_the_gateway_asks_for_a_key_it_is_taken_from_the_environment_and_printed_nowhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "a-key-0123456789abcdef"
    async with over_http(config=Config(auth=AuthConfig(keys=(f"{key} tenant=acme",)))) as house:
        assert await asyncio.to_thread(main, ["setup", "codex", "--url", house.url]) == 1
        refused = capsys.readouterr().err
        monkeypatch.setenv("SMG_API_KEY", key)
        printed = {}
        for program in PROGRAMS:
            assert await asyncio.to_thread(main, ["setup", program, "--url", house.url]) == 0
            printed[program] = capsys.readouterr().out

    assert "401" in refused
    assert "SMG_API_KEY" in refused
    assert tomllib.loads(printed["codex"])["model_providers"]["smg"]["env_key"] == "SMG_API_KEY"
    assert 'export ANTHROPIC_AUTH_TOKEN="$SMG_API_KEY"\n' in printed["claude-code"]
    assert not any(key in each for each in printed.values())
