"""The examples of plugins: each does the same in Python and as the component that is shipped beside it."""

import re
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House, body, in_process
from tests.gateway.test_plugins import listed
from tests.gateway.test_said import APIS, LEFT, NUMBERS, events_of

from smg_core.auth.settings import AuthConfig
from smg_core.config import ConfigError
from smg_core.simulator.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
CLASSES = {
    "auth/check_tokens": "CheckTokens",
    "redaction/redact_numbers": "RedactNumbers",
    "costs/tell_costs": "TellCosts",
    "compliance/log_exchanges": "LogExchanges",
    "rewriting/rename_model": "RenameModel",
}
KINDS = pytest.mark.parametrize("kind", ["python", "component"])


def example(name: str, kind: str, **said: Any) -> dict[str, Any]:
    """The entry of an example."""
    if kind == "component":
        return {"source": str(EXAMPLES / f"{name}.wasm"), "deadline_ms": 20_000, **said}
    return {"source": f"{name.split('/')[1]}:{CLASSES[name]}", "name": name.split("/")[1], **said}


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CLASSES:
        monkeypatch.syspath_prepend(str(EXAMPLES / name.split("/")[0]))


def test_every_example_in_c_has_its_component_and_its_twin_in_python() -> None:
    found = {f"{each.parent.name}/{each.stem}" for each in EXAMPLES.glob("*/*.c")}
    assert found == CLASSES.keys()
    for name in found:
        assert (EXAMPLES / f"{name}.wasm").stat().st_size < 8192
        assert (EXAMPLES / f"{name}.py").is_file()


TOKENS = {"when": "before_identity", "grants": ["tenant"], "config": {"tokens": ["s3cret=acme", "other=beta"]}}


@KINDS
async def test_a_token_of_a_team_makes_a_request_that_teams(tmp_path: Path, kind: str) -> None:
    config = attrs.evolve(
        listed(tmp_path, example("auth/check_tokens", kind, **TOKENS)),
        auth=AuthConfig(keys=("sk-0123456789abcdef tenant=x",)),
    )

    async def asked(house: House, **headers: str) -> httpx.Response:
        return await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi"}, headers=headers)

    async with in_process(config=config) as house:
        for headers in ({}, {"x-team-token": "wrong"}, {"x-team-token": "s3cretx"}, {"x-team-token": ""}):
            assert (await asked(house, **headers)).status_code == 401, headers
        made = await asked(house, **{"x-team-token": "s3cret"})
        path = f"/v1/responses/{made.json()['id']}"
        mine = await house.http.get(path, headers={"x-team-token": "s3cret"})
        theirs = await house.http.get(path, headers={"x-team-token": "other"})

    assert (made.status_code, mine.status_code, theirs.status_code) == (200, 200, 404)


@KINDS
@pytest.mark.parametrize("api", APIS)
async def test_numbers_are_taken_out_on_every_api_streamed_and_whole(tmp_path: Path, kind: str, api: str) -> None:
    path, asked, streamed, of_whole, of_event = APIS[api]
    async with in_process(NUMBERS, config=listed(tmp_path, example("redaction/redact_numbers", kind))) as house:
        whole = await house.http.post(path, json=asked)
        stream = await house.http.post(streamed, json=asked if api == "gemini" else {**asked, "stream": True})

    assert of_whole(whole.json()) == LEFT
    said = [of_event(each) for each in events_of(stream.content)]
    assert (said[-1] if api == "generate" else "".join(said)).strip() == LEFT


@KINDS
async def test_costs_are_told_in_the_head_and_behind_a_stream(tmp_path: Path, kind: str) -> None:
    entry = example("costs/tell_costs", kind, config={"prompt": 2.5, "completion": 10})
    async with in_process(SimulatorConfig(reply_tokens=20), config=listed(tmp_path, entry)) as house:
        stream = await house.http.post(CHAT, json=body("Hi", stream=True, stream_options={"include_usage": True}))
        whole = await house.http.post(CHAT, json=body("Hi"))

    assert whole.headers["x-cost-per-million-prompt"] == "2.5"
    assert stream.headers["x-cost-per-million-completion"] == "10"
    usage = next(each["usage"] for each in events_of(stream.content) if each.get("usage"))
    cost = events_of(stream.content)[-1]
    assert stream.text.count("event: cost\n") == 1
    assert stream.text.index("[DONE]") < stream.text.index("event: cost\n")
    assert cost["prompt_tokens"] == usage["prompt_tokens"]
    assert cost["completion_tokens"] == usage["completion_tokens"]
    assert cost["cost"] == pytest.approx(
        (usage["prompt_tokens"] * 2.5 + usage["completion_tokens"] * 10) / 1e6, abs=1e-6
    )
    assert "event: cost" not in whole.text


@KINDS
async def test_each_exchange_is_a_line_of_the_log_without_a_word_of_it(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "smg.plugins")
    async with in_process(NUMBERS, config=listed(tmp_path, example("compliance/log_exchanges", kind))) as house:
        for stream in (False, True):
            await house.http.post(CHAT, json=body("A secret", stream=stream))

    lines = [each.getMessage() for each in caplog.records if "outcome=" in each.getMessage()]
    assert len(lines) == 2
    for line in lines:
        wanted = rf"tenant= principal= path={CHAT} outcome=ok status=200 asked_bytes=\d+ completion_tokens=[1-9]\d*"
        assert re.fullmatch(f"plugin log_exchanges: {wanted}", line), line
    assert "secret" not in "".join(lines)


@KINDS
async def test_a_model_is_asked_for_by_another_name(tmp_path: Path, kind: str) -> None:
    entry = example("rewriting/rename_model", kind, config={"from": "gpt-4o", "to": "sim"})
    async with in_process(config=listed(tmp_path, entry)) as house:
        said = [{"role": "user", "content": 'my "model": "gpt-4o" {[\\'}]
        renamed = await house.http.post(CHAT, json={"messages": said, "model": "gpt-4o"})
        other = await house.http.post(CHAT, json={"messages": said, "model": "gpt-4"})
        as_is = await house.http.post(CHAT, json={"model": "sim", "messages": said, "user": "gpt-4o"})

    assert renamed.status_code == 200, renamed.text
    assert other.status_code == 404
    assert as_is.status_code == 200, as_is.text


@KINDS
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("auth/check_tokens", {}),
        ("auth/check_tokens", {"tokens": ["no tenant"]}),
        ("auth/check_tokens", {"tokens": ["=acme"]}),
        ("costs/tell_costs", {"prompt": 1}),
        ("rewriting/rename_model", {"from": "x"}),
    ],
)
async def test_a_configuration_that_makes_no_sense_stops_the_start(
    tmp_path: Path, kind: str, name: str, config: dict[str, Any]
) -> None:
    said = TOKENS if name.startswith("auth") else {}
    with pytest.raises(ConfigError):
        async with in_process(config=listed(tmp_path, example(name, kind, **{**said, "config": config}))):
            raise AssertionError("it has started")
