"""Wrong usage of `Gateway` is refused where it is written: when the gateway is made, in words that say what to write."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from smg_core import Config, Gateway, WorkerSpec
from smg_core.config import ConfigError
from smg_core.history.memory.store import MemoryStore
from smg_core.middleware.base import HeadVerdict, RequestHead
from smg_core.middleware.python import PythonPlugin
from smg_core.routing import Pick, RoundRobin, UnknownPolicy

QUESTION = {"model": "sim", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 3}


WORDS = "the author's own words"


class OneArgument:
    name = "one_argument"

    def pick(self, candidates: Any) -> Pick:
        return Pick(candidates[0])


class Fails:
    name = "fails"

    def pick(self, candidates: Any, context: Any) -> Pick:
        raise ValueError(WORDS)


class Marks(PythonPlugin):
    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        raise ValueError(WORDS)


class NeedsMore:
    def __init__(self, app: Any, secret: str) -> None: ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


def look(place: str) -> str:
    """Say what is there."""
    return place


class Misspelled(PythonPlugin):
    async def on_requests(self, request: object) -> None: ...


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Gateway(workers="grpc://gpu-0:50051"), "workers: expected a list of URLs, not str"),
        (lambda: Gateway(workers=["gpu-0:50051"]), r"workers\[0\]: worker URL 'gpu-0:50051' has no known scheme"),
        (lambda: Gateway(workers=[{"url": "grpc://a:1"}]), r"workers\[0\]: expected a URL or a WorkerSpec, not dict"),
        (lambda: Gateway(config="gateway.yaml"), "config: expected a Config or a dictionary of sections, not str"),
        (lambda: Gateway(config={"servr": {}}), "config: servr: no such section; did you mean server?"),
        (lambda: Gateway(config={"server": {"prot": 1}}), "config: server.prot: no such setting; did you mean port?"),
        (lambda: Gateway(config={"server": {"port": "x"}}), "config: server.port: expected integer"),
        (lambda: Gateway(config={"server": 8000}), "config: server: expected settings below it"),
        (
            lambda: Gateway(config=Config(server={"port": 1})),
            r"config: server: expected ServerConfig\(\.\.\.\), not dict; .*config=\{'server': \{",
        ),
        (lambda: Gateway(policies=["cache_aware"]), r"policies: expected a dictionary, not list"),
        (lambda: Gateway(policies={5: "random"}), r"policies: expected 'MODEL', .* for a key, not 5"),
        (lambda: Gateway(workers=["grpc://a:1", "grpc://a:1"]), r"workers\[1\]: there is a worker grpc://a:1 already"),
        (lambda: Gateway(middleware=[NeedsMore]), "middleware: NeedsMore is made with app alone, .*'secret'"),
        (lambda: Gateway(middleware=["/no/such.wasm"]), "middleware: there is no file /no/such.wasm"),
        (lambda: Gateway(tools=[look, look]), "tools: two functions are named 'look'"),
        (lambda: Gateway(tools=[lambda x: x]), "tools: a tool needs a name of letters, digits and '_', not '<lambda>'"),
        (lambda: Gateway(tools=[print]), "tools: the function print takes any arguments"),
        (lambda: Gateway(tools=print), r"tools: expected a list of functions.*: tools=\[\.\.\.\]"),
        (lambda: Gateway(tools=["search"]), r"tools\[0\]: expected one of functions"),
        (lambda: Gateway(guardrails="pii"), "guardrails: expected a list of Guardrails, not str"),
        (lambda: Gateway(guardrails=["pii"]), r"guardrails\[0\]: expected one of Guardrails, not str"),
        (lambda: Gateway(apis=["chat"]), r"apis\[0\]: expected one of ApiSpecs"),
        (lambda: Gateway(history_hooks=[3]), r"history_hooks\[0\]: expected one of hooks, not int"),
        (lambda: Gateway(rng=3), "rng: expected a random.Random, not int"),
        (lambda: Gateway(ids=3), "ids: int cannot be called"),
        (lambda: Gateway(call_later=3), "call_later: int cannot be called"),
        (lambda: Gateway(tokenizer="Qwen/Qwen3-8B"), "tokenizer: there is no folder Qwen/Qwen3-8B; without one"),
        (lambda: Gateway(tokenizer=3), "tokenizer: expected a folder, not int"),
        (
            lambda: Gateway([WorkerSpec("grpc://a:1", role="decod")]),
            r"workers\[0\]: role: 'decod' is none of regular, ",
        ),
        (lambda: Gateway.simulated({"model": "x"}), r"simulator: expected SimulatorConfig\(\.\.\.\), not dict"),
        (lambda: Gateway(history="memory"), r"history: str has no .*config=\{'history': \{'url': ...\}\}"),
        (
            lambda: Gateway(history=MemoryStore),
            r"history: this is the class MemoryStore; give an object: MemoryStore\(",
        ),
        (lambda: Gateway(files="/tmp"), "files: str has no write"),
        (lambda: Gateway(observer=print), "observer: builtin_function_or_method has no report"),
        (lambda: Gateway(identity="key"), "identity: str cannot be called"),
        (lambda: Gateway(middleware=Marks), "middleware: expected a list of classes, not type"),
        (lambda: Gateway(middleware=[Marks, Marks]), "middleware: two plugins are called Marks"),
        (lambda: Gateway(middleware=[Misspelled]), "there is no hook on_requests; did you mean on_request?"),
        (lambda: Gateway(middleware=[Fails]), "middleware: the class Fails is no plugin"),
        (lambda: Gateway(middleware=[Fails()]), "middleware: of the type Fails is no plugin"),
    ],
)
def test_what_cannot_be_is_refused_when_the_gateway_is_made(make: Callable[[], Gateway], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Gateway(policy="leats_requests"), "no routing policy 'leats_requests'; there are bucket,"),
        (lambda: Gateway(config={"routing": {"policy": "leats"}}), "no routing policy 'leats'"),
        (lambda: Gateway(policies={"llama": "leats"}), "no routing policy 'leats'"),
        (lambda: Gateway(policy=3), "the given int is no routing policy"),
        (
            lambda: Gateway(policy=OneArgument()),
            r"its pick\(candidates: .*\) -> .* cannot be called with two arguments",
        ),
        (lambda: Gateway(policy=OneArgument), r"it is called as pick\(candidates, context\)"),
        (lambda: Gateway(policies={"*/decode": OneArgument()}), r"it is called as pick\(candidates, context\)"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_the_gateway_is_made(make: Callable[[], Gateway], words: str) -> None:
    with pytest.raises(UnknownPolicy, match=words):
        make()


def test_a_dictionary_of_settings_is_read_by_field() -> None:
    gateway = Gateway(config={"server": {"port": 9}, "model": {"aliases": ["gpt-4o=sim"]}})

    assert gateway.config.server.port == 9
    assert gateway.config.model.aliases == ("gpt-4o=sim",)


def test_each_model_may_have_a_policy_of_its_own() -> None:
    mine = RoundRobin()
    policies = Gateway(policy="random", policies={"llama": mine, "qwen/decode": "least_load"}).services.policies

    assert policies.of("llama", "regular") is mine
    assert policies.of("qwen", "decode").name == "least_load"
    assert policies.of("qwen", "regular").name == "random"


@pytest.mark.anyio
async def test_classes_of_middleware_with_hooks_and_around_the_app_meet_requests() -> None:
    seen: list[str] = []

    class Looks(PythonPlugin):
        async def on_request_head(self, head: RequestHead) -> HeadVerdict:
            seen.append("hooks")
            return await super().on_request_head(head)

    class Around:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append("around")
            await self.app(scope, receive, send)

    async with (
        Gateway.simulated(middleware=[Around, Looks]) as gateway,
        gateway.http_client(base_url="http://g") as client,
    ):
        answer = await client.post("/v1/chat/completions", json=QUESTION)

    assert answer.status_code == 200

    assert sorted(seen) == ["around", "hooks"]


@pytest.mark.anyio
@pytest.mark.parametrize("arguments", [{"policy": Fails()}, {"middleware": [Marks]}])
async def test_a_simulated_gateway_says_what_an_exception_of_the_author_says(
    arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with Gateway.simulated(**arguments) as gateway, gateway.http_client(base_url="http://g") as client:
            await client.post("/v1/chat/completions", json=QUESTION)

    assert WORDS in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("config", [Config(), {"observability": {"fault_words": False}}])
async def test_settings_that_keep_texts_out_of_the_log_do_so_in_a_simulated_gateway_too(
    config: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with Gateway.simulated(policy=Fails(), config=config) as gateway:
            await gateway.chat(QUESTION)

    assert "ValueError" in caplog.text
    assert WORDS not in caplog.text


def test_outside_of_notebooks_and_tests_texts_stay_out_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_VERSION")

    assert not Gateway().config.observability.author_words
    assert Gateway.simulated().config.observability.author_words
