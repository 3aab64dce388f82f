"""Tenants are placed on their own workers, whichever API they use, and nobody else's requests come to those."""

from typing import Any

import attrs
import httpx
import pytest
from tests.gateway.conftest import CHAT, House
from tests.gateway.fleet import CALM, Member, fleet

from smg_core import Config
from smg_core.apis.rows import ALL
from smg_core.auth.base import Head
from smg_core.http.settings import ModelConfig
from smg_core.operation.live_settings import with_values
from smg_core.placement.rules import APIS
from smg_core.request import Caller
from smg_core.routing.settings import RoutingConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

SAID = [{"role": "user", "content": "Hello"}]
GENERATING: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": SAID, "max_tokens": 2}),
    "completions": ("/v1/completions", {"prompt": "Hello", "max_tokens": 2}),
    "generate": ("/generate", {"text": "Hello", "sampling_params": {"max_new_tokens": 2}}),
    "responses": ("/v1/responses", {"input": "Hello", "max_output_tokens": 16}),
    "messages": ("/v1/messages", {"messages": SAID, "max_tokens": 2}),
    "generate_content": ("/v1beta/models/sim:generateContent", {"contents": [{"parts": [{"text": "Hello"}]}]}),
    "interactions": ("/v1beta/interactions", {"input": "Hello"}),
}
POOLED: dict[str, tuple[str, dict[str, Any]]] = {
    "embeddings": ("/v1/embeddings", {"input": "Hello"}),
    "embed": ("/v2/embed", {"texts": ["Hello"], "input_type": "search_query", "embedding_types": ["float"]}),
    "embed_content": ("/v1beta/models/sim:embedContent", {"content": {"parts": [{"text": "Hello"}]}}),
}
BY_THE_SAME_ROAD = {
    "classify": "POOLED",
    "rerank": "POOLED",
    "score": "POOLED",
    "compact": "responses",
    "realtime": "chat",
    "speech": "chat",
    "images": "chat",
    "image_edits": "chat",
    "mcp": "chat",
    "transcriptions": "chat",
    "translations": "chat",
    "moderations": "POOLED",
    "vector_stores": "POOLED",
}
"""What asks engines as another one does: through the same Select step, or the same pooled work."""
ASK_NO_ENGINE = {"tokenize"}
SHOWN_AS_ANOTHER = {"translations": "transcriptions", "compact": "responses"}
"""What rules of placement know under the name of another API."""
ISOLATED = ("isolate tenant={tenant} for tenant=acme,globex", "require zone={header.x-zone}")


async def by_name(head: Head) -> Caller | None:
    """The tenant is the credential."""
    return Caller("") if head.credential is None else Caller(head.credential.text)


def members(**engine: Any) -> tuple[Member, ...]:
    labels = {"a": (("tenant", "acme"), ("zone", "eu")), "b": (("tenant", "globex"),), "c": (("zone", "eu"),)}
    return tuple(Member(name, engine=SimulatorConfig(**engine), more={"labels": each}) for name, each in labels.items())


def house(*lines: str, **engine: Any) -> Any:
    config = attrs.evolve(CALM, routing=RoutingConfig(placement=lines or ISOLATED))
    return fleet(*members(**engine), config=config, identity=by_name)


async def ask(house: House, path: str, fields: dict[str, Any], tenant: str, **headers: str) -> httpx.Response:
    sent = {"anthropic-version": "2023-06-01", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if tenant:
        sent["authorization"] = f"Bearer {tenant}"
    return await house.http.post(path, json={"model": "sim", **fields}, headers=sent)


def asked(house: House, counter: str) -> list[int]:
    """How many requests each engine has had."""
    return [engine.counters[counter] for engine in house.own]


def test_every_api_is_placed_or_asks_no_engine() -> None:
    named = {each.name for row in ALL for each in row.names}
    assert named == {*GENERATING, *POOLED, *BY_THE_SAME_ROAD, *ASK_NO_ENGINE}
    assert {*APIS, *ASK_NO_ENGINE, *SHOWN_AS_ANOTHER} == named


@pytest.mark.full
@pytest.mark.parametrize(("apis", "counter"), [(GENERATING, "requests"), (POOLED, "embedded")], ids=["text", "vectors"])
async def test_whatever_api_a_tenant_uses_its_own_workers_alone_answer_and_they_answer_nobody_else(
    apis: dict[str, tuple[str, dict[str, Any]]], counter: str
) -> None:
    more = {"generation_model": False, "embedding_size": 8} if apis is POOLED else {}
    async with house(**more) as here:
        for name, (path, fields) in apis.items():
            for at, tenant in enumerate(("acme", "globex", "")):
                before = asked(here, counter)
                for _ in range(3):
                    answer = await ask(here, path, fields, tenant)
                    assert answer.status_code == 200, (name, tenant, answer.text)
                after = asked(here, counter)
                grown = [now > then for now, then in zip(after, before, strict=True)]
                assert grown == [each == at for each in range(3)], (name, tenant)


async def test_what_fits_nowhere_is_refused_in_the_words_of_each_api() -> None:
    async with house() as here:
        for name, (path, fields) in GENERATING.items():
            answer = await ask(here, path, fields, "globex", x_zone="eu")
            error = answer.json()["error"]

            assert answer.status_code == (529 if name == "messages" else 503), name
            assert answer.headers["x-should-retry"] == "false"
            assert "tenant=globex zone=eu" in error["message"], name
            assert ("type" in error) or ("status" in error), name
        assert asked(here, "requests") == [0, 0, 0]


async def test_rules_are_changed_while_the_gateway_runs() -> None:
    async with house("require zone=eu") as here:
        gateway = here.gateway
        assert (await ask(here, CHAT, GENERATING["chat"][1], "third")).status_code == 200
        before = asked(here, "requests")
        for lines in (("require zone=mars",), ()):
            gateway.adopt(with_values(gateway.config, {"routing.placement": lines}))
            answer = await ask(here, CHAT, GENERATING["chat"][1], "third")
            assert answer.status_code == (503 if lines else 200)

        assert sum(asked(here, "requests")) == sum(before) + 1


async def test_another_model_stands_in_where_a_request_fits_on_no_worker_of_its_own() -> None:
    routing = RoutingConfig(placement=("require zone=eu",), fallbacks=("sim=other",))
    own = Member("a", engine=SimulatorConfig(), more={"labels": (("zone", "us"),)})
    other = Member("b", engine=SimulatorConfig(model="other"), more={"labels": (("zone", "eu"),)})
    async with fleet(own, other, config=attrs.evolve(CALM, routing=routing, model=ModelConfig())) as here:
        answer = await ask(here, CHAT, GENERATING["chat"][1], "")

        assert answer.status_code == 200, answer.text
        assert asked(here, "requests") == [0, 1]


async def test_no_gateway_starts_with_a_line_that_is_no_rule() -> None:
    with pytest.raises(ValueError, match=r"routing\.placement: require zone: "):
        async with fleet(config=Config(routing=RoutingConfig(placement=("require zone",)))):
            pass
