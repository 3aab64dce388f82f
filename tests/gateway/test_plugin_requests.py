"""Requests that a plugin made of a client's are held to types and limits before anything relies on them. On every API, the
failure is the plugin's, whose entry says whether the request goes on without it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from msgspec.structs import replace
from tests.gateway.conftest import CHAT, House, in_process
from tests.gateway.test_plugin_failures import ENGINE, STREAMED, WHOLE, check_envelope, check_nothing_unseen
from tests.gateway.test_plugins import listed

from smg_core.hooks import PluginActed
from smg_core.middleware.base import ChangeText, RequestBody, RequestVerdict, TextVerdict
from smg_core.middleware.python import PythonPlugin
from smg_core.pipeline.calls.executor import INLINE
from smg_core.request import FunctionTool, GenerationRequest, Message, Text

pytestmark = pytest.mark.anyio

HERE = "tests.gateway.test_plugin_requests"


def with_sampling(request: GenerationRequest, **settings: Any) -> GenerationRequest:
    return replace(request, sampling=replace(request.sampling, **settings))


MADE: dict[str, Any] = {
    "tokens in letters": lambda request: with_sampling(request, max_tokens="many"),
    "a temperature in letters": lambda request: with_sampling(request, temperature="hot"),
    "a temperature below zero": lambda request: with_sampling(request, temperature=-1.0),
    "no number": lambda request: with_sampling(request, top_p=float("nan")),
    "no messages": lambda request: replace(request, messages=None),
    "messages in letters": lambda request: replace(request, messages="Hi"),
    "messages of other things": lambda request: replace(request, messages=("Hi",)),
    "a list of messages": lambda request: replace(request, messages=list(request.messages)),
    "parts in letters": lambda request: replace(request, messages=(Message("user", "Hi"),)),  # type: ignore[arg-type]
    "a role of its own": lambda request: replace(request, messages=(Message("boss", (Text("Hi"),)),)),  # type: ignore[arg-type]
    "tools in letters": lambda request: replace(request, tools=("get",)),
    "many tools": lambda request: replace(request, tools=(FunctionTool("t"),) * 10_000),
    "stop strings of 100 MB": lambda request: with_sampling(request, stop=("x" * 100_000,) * 1000),
    "a model in numbers": lambda request: replace(request, model=7),
    "no model": lambda request: replace(request, model=""),
    "a long model": lambda request: replace(request, model="m" * 5000),
    "headers in letters": lambda request: replace(request, headers="x: y"),
    "a deadline in letters": lambda request: replace(request, deadline_s="soon"),
    "half a surrogate": lambda request: replace(request, user="\ud800"),
    "extra of no JSON": lambda request: replace(request, extra={"a": object()}),
    "a deep extra": lambda request: replace(request, extra=deep(1000)),
    "an endless extra": lambda request: replace(request, extra=deep(100_000)),
}


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


class Making(PythonPlugin):
    """Puts a request in the place of the client's that no decoder would make."""

    @attrs.frozen
    class Settings:
        do: str

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        made: RequestVerdict = MADE[self.shared.do](request)
        return made


def entry(does: str, **said: Any) -> dict[str, Any]:
    return {"source": f"{HERE}:Making", "name": "making", "config": {"do": does}, **said}


def outcomes(house: House) -> set[tuple[str, str]]:
    return {(each.plugin, each.outcome) for each in house.observer.of(PluginActed)}


@pytest.mark.full
@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("does", MADE)
async def test_a_closed_plugin_that_makes_such_a_request_has_failed(tmp_path: Path, does: str) -> None:
    async with in_process(ENGINE, config=listed(tmp_path, entry(does))) as house:
        for name, (path, asked) in {**WHOLE, **{f"{name}, streamed": row for name, row in STREAMED.items()}}.items():
            answer = await house.http.post(path, json=asked)
            check_envelope((does, name), answer)
            check_nothing_unseen((does, name), answer)
        assert outcomes(house) == {("making", "failed")}


@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("does", MADE)
async def test_an_open_one_is_left_out(tmp_path: Path, does: str) -> None:
    async with in_process(ENGINE, config=listed(tmp_path, entry(does, on_failure="open"))) as house:
        for name, (path, asked) in WHOLE.items():
            answer = await house.http.post(path, json=asked)
            assert answer.status_code == 200, (does, name, answer.text)
            assert "Call me" in answer.text, (does, name, answer.text)
        assert outcomes(house) == {("making", "failed")}


class Shouting(PythonPlugin):
    """Changes all that it is shown, at once."""

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return ChangeText(body.text.replace("a lot", "much"))

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return replace(request, messages=(*request.messages[:-1], Message("user", (Text("x " * 20_000),))))


@pytest.mark.parametrize("much", [True, False])
async def test_long_bodies_and_changes_are_worked_on_in_threads(tmp_path: Path, much: bool) -> None:
    done: list[int] = []
    async with in_process(ENGINE, config=listed(tmp_path, {"source": f"{HERE}:Shouting"})) as house:
        offload = house.gateway.services.plugins.plan.rules.offload

        async def noted(work: Callable[[], Any], size: int, tenant: str) -> Any:
            on_loop = threading.get_ident()

            def measured() -> Any:
                if threading.get_ident() == on_loop:
                    done.append(size)
                return work()

            return await offload(measured, size, tenant)

        plan = house.gateway.services.plugins.plan
        house.gateway.services.plugins.plan = attrs.evolve(plan, rules=attrs.evolve(plan.rules, offload=noted))
        text = "a lot" * (20_000 if much else 2)
        answer = await house.http.post(CHAT, json={"model": "sim", "messages": [{"role": "user", "content": text}]})

    assert answer.status_code in (200, 400), answer.text  # the longer one may be too long for the model
    assert all(size <= INLINE for size in done), done
    assert len(done) >= (0 if much else 4)


class Longer(PythonPlugin):
    """Adds a long turn."""

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return replace(request, messages=(*request.messages, Message("user", (Text("one more " * 20_000),))))


async def test_a_long_text_that_a_plugin_adds_is_counted_against_the_context(tmp_path: Path) -> None:
    async with in_process(ENGINE, config=listed(tmp_path, {"source": f"{HERE}:Longer"})) as house:
        answer = await house.http.post(CHAT, json={"model": "sim", "messages": [{"role": "user", "content": "Hi"}]})

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "context_length_exceeded"
