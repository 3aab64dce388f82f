"""A program runs components without a gateway: verdicts, what they say, and what is wrong with them."""

from pathlib import Path

import attrs
import pytest

from smg_core.wasm import (
    About,
    ChangeHead,
    ConfigError,
    End,
    GuestReport,
    Limits,
    MiddlewareFault,
    Reject,
    RequestBody,
    RequestHead,
    WasmHost,
)

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
PLUGINS = ROOT / "examples" / "plugins"
ABOUT = About("r-1", "POST", "/v1/models", tenant="acme")
HEAD = RequestHead("POST", "/v1/models", "", (("accept", "*/*"),))


async def test_a_component_answers_the_hooks_that_it_has() -> None:
    given = attrs.evolve(HEAD, headers=(("x-team-token", "s3cret"),))
    async with WasmHost() as host:
        tokens = {"tokens": ["s3cret=acme"]}
        plugin = await host.load(PLUGINS / "auth" / "check_tokens.wasm", tokens, grants=("tenant",))
        session = plugin.begin(ABOUT)
        verdicts = [await session.on_request_head(each) for each in (given, HEAD)]
        session.close()

    assert plugin.hooks == {"request_head"}
    assert verdicts[0] == ChangeHead(remove=("x-team-token",), tenant="acme", principal="team")
    assert isinstance(verdicts[1], Reject)
    assert verdicts[1].status == 401


async def test_what_a_component_says_is_heard() -> None:
    heard: list[tuple[str, GuestReport]] = []
    async with WasmHost(hear=lambda name, said: heard.append((name, said))) as host:
        plugin = await host.load(PLUGINS / "compliance" / "log_exchanges.wasm", name="logs")
        session = plugin.begin(ABOUT)
        await session.on_request_body(RequestBody("{}"))
        await session.on_end(End(200, "ok", 0.5))
        session.close()

    assert {name for name, _ in heard} == {"logs"}
    assert any("acme" in line for _, said in heard for _, line in said.lines)


async def test_a_guest_that_spins_is_stopped_and_the_next_exchange_goes_on() -> None:
    async with WasmHost() as host:
        plugin = await host.load(ROOT / "tests/guests/attacks.wasm", {"do": "spin"}, limits=Limits(deadline_ms=20))
        for _ in range(2):
            session = plugin.begin(ABOUT)
            with pytest.raises(MiddlewareFault, match="deadline"):
                await session.on_request_head(HEAD)
            session.close()
        assert plugin.busy == 0


async def test_what_is_no_component_and_a_closed_host_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.wasm"
    text.write_text("no component")
    async with WasmHost() as host:
        with pytest.raises(ConfigError, match=r"plugin text: .*text\.wasm"):
            await host.load(text)
        with pytest.raises(ConfigError, match="cannot be read"):
            await host.load(tmp_path / "lost.wasm")
    with pytest.raises(RuntimeError, match="open the host"):
        await host.load(text)
