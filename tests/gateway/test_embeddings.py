"""Embeddings in each API that has them, end to end over real gRPC. The embedded engine's vectors are a function of an input's
ids, so an input that gets another's vector is seen."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import httpx
import openai
import pytest
from tests.gateway.conftest import House, eventually, in_process, over_http, settled
from tests.gateway.fleet import Member, fleet

from smg_core import Config, Gateway
from smg_core.auth.settings import AuthConfig
from smg_core.hooks import AttemptEnded, RequestFinished, WorkerPicked
from smg_core.observability.settings import ObservabilityConfig
from smg_core.pipeline.settings import PoolingConfig, TimeoutsConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.testing import MemoryObserver
from smg_core.wire.settings import LimitsConfig
from smg_simulator.answers.faults import Fault
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import EngineCore, SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER, read_vocabulary

pytestmark = pytest.mark.anyio

PATH = "/v1/embeddings"
MODEL = SimulatorConfig(generation_model=False, embedding_size=8)
CORE = EngineCore(MODEL, read_vocabulary(MODEL_FOLDER))


def expected(text: str | list[int]) -> list[float]:
    """The vector of an input, as float32."""
    ids = CORE.vocabulary.encode(text) if isinstance(text, str) else text
    return [struct.unpack("f", struct.pack("f", each))[0] for each in CORE.embedding(ids)]


def tokens(*texts: str) -> int:
    return sum(len(CORE.vocabulary.encode(text)) for text in texts)


def sdk(house: House) -> openai.AsyncOpenAI:
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)


def finished(house: House) -> RequestFinished:
    (found,) = house.observer.of(RequestFinished)
    return found


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with in_process(MODEL) as found:
        yield found


async def ask(house: House, given: Any, **fields: Any) -> httpx.Response:
    return await house.http.post(PATH, json={"model": "sim", "input": given, **fields})


# ------------------------------------------------------------------------------------------------------- OpenAI's API


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "neutral"])
async def test_each_dialect_makes_the_vectors_in_order_with_exact_usage(dialect: str) -> None:
    texts = ["One sheep", "Two sheep", "A dog and a rather longer text"]
    async with fleet(Member("a", dialect, MODEL)) as house, sdk(house) as client:
        answer = await client.embeddings.create(model="sim", input=texts)
        await settled(house)
    assert [each.embedding for each in answer.data] == [expected(each) for each in texts]
    assert [each.index for each in answer.data] == [0, 1, 2]
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (tokens(*texts),) * 2
    told = finished(house)
    assert (told.outcome, told.prompt_tokens, told.completion_tokens, told.api) == (
        "ok",
        tokens(*texts),
        0,
        "embeddings",
    )
    assert (told.model, told.worker, told.attempts) == ("sim", "a", 1)


@pytest.mark.parametrize("dialect", ["mlx", "trtllm", "tokenspeed"])
async def test_a_dialect_without_embeddings_is_refused_by_name(dialect: str) -> None:
    async with fleet(Member("a", dialect)) as house:
        answer = await ask(house, "Hello")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"
    assert dialect in answer.json()["error"]["message"]


async def test_a_model_that_writes_text_makes_no_vectors_and_the_other_way_round(house: House) -> None:
    chat = await house.chat()
    assert (chat.status_code, chat.json()["error"]["param"]) == (400, "model")
    async with in_process() as writing:
        answer = await ask(writing, "Hello")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")


@pytest.mark.parametrize("given", ["Hello", ["Hello"], ["Hello", [5, 6]], [5, 6, 7], [[5, 6, 7], [8]]])
async def test_an_input_is_a_text_or_ids_or_several_of_them(house: House, given: Any) -> None:
    answer = (await ask(house, given, encoding_format="float")).json()
    inputs = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    assert [each["embedding"] for each in answer["data"]] == [expected(each) for each in inputs]


async def test_base64_and_floats_are_the_same_vector(house: House) -> None:
    floats = (await ask(house, "Hello")).json()["data"][0]["embedding"]
    packed = (await ask(house, "Hello", encoding_format="base64")).json()["data"][0]["embedding"]
    assert list(struct.unpack("<8f", base64.b64decode(packed))) == floats == expected("Hello")


async def test_dimensions_keep_the_first_numbers_and_make_the_length_one_again(house: House) -> None:
    short = (await ask(house, "Hello", dimensions=3)).json()["data"][0]["embedding"]
    whole = expected("Hello")[:3]
    length = sum(each * each for each in whole) ** 0.5
    assert short == pytest.approx([each / length for each in whole], rel=1e-6)
    refused = await ask(house, "Hello", dimensions=9)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "dimensions")


async def test_an_input_over_the_context_is_refused_by_its_place_unless_it_may_be_cut() -> None:
    text = "word " * 40
    async with in_process(attrs.evolve(MODEL, context_length=16)) as house:
        refused = await ask(house, ["short", text])
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "input[1]"
        assert refused.json()["error"]["code"] == "context_length_exceeded"
        assert "'input[1]'" in refused.json()["error"]["message"]
        ids = list(CORE.vocabulary.encode(text))
        for asked, kept in (
            ({"truncate_prompt_tokens": -1}, ids[:16]),
            ({"truncate_prompt_tokens": 4}, ids[:4]),
            ({"truncate_prompt_tokens": 4, "truncation_side": "left"}, ids[-4:]),
        ):
            answer = (await ask(house, text, **asked)).json()
            assert answer["data"][0]["embedding"] == expected(kept)
            assert answer["usage"]["prompt_tokens"] == len(kept)
        full = (await ask(house, ids[:16])).json()
        assert full["usage"]["prompt_tokens"] == 16


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("", "input"),
        ([], "input"),
        (["One", ""], "input[1]"),
        ([[]], "input[0]"),
        ([[10**9]], "input[0]"),
        ([[5], [*range(5, 40), 10**9, *range(5, 40)]], "input[1]"),
        (["One", 5], "input"),
        ({}, "input"),
        (None, "input"),
    ],
)
async def test_what_is_no_input_is_refused_by_its_field(house: House, given: Any, param: str) -> None:
    answer = await ask(house, given)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert not house.engine.counters["embedded"]


async def test_a_field_that_is_not_known_is_refused_by_name(house: House) -> None:
    answer = await ask(house, "Hello", colour="red")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "colour")


@pytest.mark.full
async def test_the_bounds_of_a_request_are_settings() -> None:
    bounds = PoolingConfig(inputs=2, tokens=10)
    async with in_process(MODEL, config=Config(pooling=bounds)) as house:
        many, long = await ask(house, ["a", "b", "c"]), await ask(house, [[1] * 6, [1] * 6])
    assert (many.status_code, many.json()["error"]["code"]) == (400, "array_above_max_length")
    assert (long.status_code, long.json()["error"]["code"]) == (400, "max_tokens_per_request")
    limits = LimitsConfig(answer_bytes=4096)
    async with in_process(MODEL, config=Config(limits=limits)) as house:
        large = await ask(house, ["a"] * 100)
        assert (large.status_code, large.json()["error"]["code"]) == (400, "answer_too_large")
        assert (await ask(house, ["a"] * 80, encoding_format="base64")).status_code == 200


async def test_long_inputs_are_encoded_off_the_event_loop_with_the_same_ids(house: House) -> None:
    text = "A sentence of some words. " * 400
    answer = (await ask(house, [text, "Hello"])).json()
    assert [each["embedding"] for each in answer["data"]] == [expected(text), expected("Hello")]


# ------------------------------------------------------------------------------------------------- several engines


TEXTS = [f"Text number {at}" for at in range(60)]


async def test_inputs_are_spread_over_workers_and_stay_in_order() -> None:
    async with fleet(Member("a", engine=MODEL), Member("b", "sglang", MODEL), Member("c", "neutral", MODEL)) as house:
        answer = (await ask(house, TEXTS)).json()
        await settled(house)
    assert [each["embedding"] for each in answer["data"]] == [expected(each) for each in TEXTS]
    shares = [engine.counters["embedded"] for engine in house.engines]
    assert sum(shares) == 60
    assert min(shares) >= 15
    ended = house.observer.of(AttemptEnded)
    assert sorted((each.worker, each.outcome, each.role) for each in ended) == [
        (name, "ok", "embedding") for name in ("a", "b", "c")
    ]
    assert {each.policy for each in house.observer.of(WorkerPicked)} == {"least_load"}


async def test_at_most_so_many_calls_and_tokens_are_under_way() -> None:
    for bounds, most in ((PoolingConfig(calls_at_once=3), 3), (PoolingConfig(tokens_at_once=20), 5)):
        stalls = attrs.evolve(MODEL, faults=(Fault("stall"),) * 60)
        async with fleet(Member("a", engine=stalls), config=Config(pooling=bounds)) as house:
            (engine,) = house.engines
            asked = asyncio.create_task(ask(house, [[1, 2, 3, 4]] * 20))
            await eventually(lambda e=engine, m=most: e.counters["stalled"] == m)
            assert engine.counters["requests"] == most
            asked.cancel()
            await eventually(lambda e=engine, m=most: e.counters["cancelled"] == m)


async def test_an_input_that_fails_is_asked_for_again_elsewhere() -> None:
    lost = attrs.evolve(MODEL, faults=(Fault("cut"), Fault("garbage"), Fault("refuse")))
    async with fleet(
        Member("a", engine=attrs.evolve(MODEL, faults=(Fault("cut"),))), Member("b", engine=MODEL)
    ) as house:
        answer = await ask(house, TEXTS)
        await settled(house)
    assert [each["embedding"] for each in answer.json()["data"]] == [expected(each) for each in TEXTS]
    assert ("a", "WorkerGone") in {(each.worker, each.outcome) for each in house.observer.of(AttemptEnded)}
    async with fleet(Member("a", engine=lost)) as house:
        alone = [(await ask(house, "Hello")).status_code for _ in range(3)]
    assert alone == [503, 502, 503]


@pytest.mark.full
async def test_an_engine_that_stalls_is_left_after_its_time() -> None:
    config = Config(timeouts=TimeoutsConfig(first_token_s=2.0))
    stalls = attrs.evolve(MODEL, faults=(Fault("stall"),) * 200)
    async with fleet(Member("a", engine=stalls), Member("b", engine=MODEL), config=config) as house:
        answer = await ask(house, TEXTS[:4])
        await settled(house)
    assert [each["embedding"] for each in answer.json()["data"]] == [expected(each) for each in TEXTS[:4]]
    assert ("a", "EngineStalled") in {(each.worker, each.outcome) for each in house.observer.of(AttemptEnded)}


@pytest.mark.full
async def test_calls_of_a_worker_that_is_left_go_on_elsewhere() -> None:
    stalls = attrs.evolve(MODEL, faults=(Fault("stall"),) * 200)
    async with fleet(Member("a", engine=stalls), Member("b", engine=MODEL)) as house:
        asked = asyncio.create_task(ask(house, TEXTS))
        await eventually(lambda: house.engines[0].counters["stalled"] > 10)
        house.gateway.drain_worker("a", move=True)
        answer = await asked
        await settled(house)
    assert [each["embedding"] for each in answer.json()["data"]] == [expected(each) for each in TEXTS]


async def test_one_input_that_no_engine_takes_ends_the_request_and_cancels_the_others() -> None:
    faults = (*(Fault("stall"),) * 10, Fault("error", message="secret words of the engine"))
    async with fleet(Member("a", engine=attrs.evolve(MODEL, faults=faults))) as house:
        answer = await ask(house, TEXTS[:11])
        await settled(house)
        await eventually(lambda: house.engines[0].counters["cancelled"] == 10)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (500, "input[10]")
    assert "secret" not in answer.text
    assert finished(house).outcome == "EngineFailed"


async def test_a_client_that_leaves_ends_all_calls() -> None:
    stalls = attrs.evolve(MODEL, faults=(Fault("stall"),) * 60)
    async with fleet(Member("a", engine=stalls)) as house:
        asked = asyncio.create_task(ask(house, TEXTS))
        await eventually(lambda: house.engines[0].counters["stalled"] == 60)
        asked.cancel()
        await settled(house)
        await eventually(lambda: house.engines[0].counters["cancelled"] == 60)
        await eventually(lambda: house.observer.of(RequestFinished))
    assert finished(house).outcome == "client_gone"


async def test_a_request_has_its_own_time() -> None:
    stalls = attrs.evolve(MODEL, faults=(Fault("stall"),) * 3)
    async with fleet(Member("a", engine=stalls), config=Config(timeouts=TimeoutsConfig(request_s=0.1))) as house:
        answer = await ask(house, "Hello")
        await settled(house)
    assert answer.status_code == 504


async def test_vectors_wait_for_the_time_that_the_engine_needs() -> None:
    slow = attrs.evolve(MODEL, timing=Timing(prefill_rate=100_000.0, batch=2))
    async with fleet(Member("a", engine=slow)) as house:
        answer = await ask(house, TEXTS)
        await settled(house)
    assert [each["embedding"] for each in answer.json()["data"]] == [expected(each) for each in TEXTS]


async def test_a_policy_for_the_role_is_used() -> None:
    config = Config(routing=RoutingConfig(policies=("*/embedding=round_robin",)))
    async with fleet(Member("a", engine=MODEL), Member("b", engine=MODEL), config=config) as house:
        await ask(house, TEXTS[:10])
    assert [engine.counters["embedded"] for engine in house.engines] == [5, 5]
    assert {each.policy for each in house.observer.of(WorkerPicked)} == {"round_robin"}


async def test_the_header_explains_who_made_the_vectors() -> None:
    config = Config(observability=ObservabilityConfig(explain=True))
    async with fleet(Member("a", engine=MODEL), Member("b", engine=MODEL), config=config) as house:
        answer = await house.http.post(PATH, json={"model": "sim", "input": TEXTS}, headers={"x-smg-explain": "1"})
    told = json.loads(answer.headers["x-smg-explain"])
    assert told["policy"] == "least_load"
    assert told["worker"] in ("a", "b")


async def test_what_a_caller_may_not_do_or_use_is_refused() -> None:
    chats, embeds = "sk-chats-0123456789abcdef", "sk-embeds-0123456789abcdef"
    auth = AuthConfig(
        keys=(f"{chats} tenant=acme role=chatty", f"{embeds} tenant=acme role=maker"),
        roles=("chatty=chat", "maker=embeddings model:other"),
    )
    async with in_process(MODEL, config=Config(auth=auth)) as house:
        codes = [
            (
                await house.http.post(
                    PATH, json={"model": "sim", "input": "a"}, headers={"authorization": f"Bearer {key}"}
                )
            )
            for key in (chats, embeds, "sk-wrong-0123456789abcdef")
        ]
    assert [each.status_code for each in codes] == [403, 404, 401]


async def test_no_model_of_that_name_is_a_404(house: House) -> None:
    answer = await house.http.post(PATH, json={"model": "nobody", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


# -------------------------------------------------------------------------------------------- Cohere's and Google's APIs


def cohere(**fields: Any) -> dict[str, Any]:
    return {"model": "sim", "texts": ["One", "Two"], "input_type": "search_document", **fields}


async def test_cohere_gets_vectors_by_type(house: House) -> None:
    types = ["float", "base64", "binary", "ubinary"]
    answer = (await house.http.post("/v2/embed", json=cohere(embedding_types=types))).json()
    floats = [expected("One"), expected("Two")]
    found = answer["embeddings"]
    assert found["float"] == floats
    assert [list(struct.unpack("<8f", base64.b64decode(each))) for each in found["base64"]] == floats
    bits = [[int("".join("1" if each > 0 else "0" for each in vector), 2)] for vector in floats]
    assert found["ubinary"] == bits
    assert found["binary"] == [[each[0] - 128] for each in bits]
    assert answer["texts"] == ["One", "Two"]
    assert answer["meta"]["billed_units"] == {"input_tokens": tokens("One", "Two")}
    assert answer["response_type"] == "embeddings_by_type"


async def test_cohere_1_gets_a_plain_list_unless_it_asks_for_types(house: House) -> None:
    plain = (await house.http.post("/v1/embed", json=cohere())).json()
    assert (plain["embeddings"], plain["response_type"]) == ([expected("One"), expected("Two")], "embeddings_floats")
    typed = (await house.http.post("/v1/embed", json=cohere(embedding_types=["float"]))).json()
    assert typed["embeddings"] == {"float": [expected("One"), expected("Two")]}


@pytest.mark.full
async def test_cohere_cuts_at_the_end_unless_it_is_told_otherwise() -> None:
    text = "word " * 40
    ids = list(CORE.vocabulary.encode(text))
    async with in_process(attrs.evolve(MODEL, context_length=16)) as house:
        for fields, kept in (({}, ids[:16]), ({"truncate": "START"}, ids[-16:]), ({"max_tokens": 3}, ids[:3])):
            answer = (await house.http.post("/v2/embed", json=cohere(texts=[text], **fields))).json()
            assert answer["embeddings"]["float"] == [expected(kept)]
        refused = await house.http.post("/v2/embed", json=cohere(texts=["a", text], truncate="NONE"))
    assert refused.status_code == 400
    assert refused.json()["message"].count("texts[1]") == 1
    assert refused.json()["id"]


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"texts": []}, "texts"),
        ({"embedding_types": ["int8"]}, "embedding_types"),
        ({"images": ["data:image/png;base64,AAAA"], "texts": None}, "images"),
        ({"input_type": None}, "input_type"),
        ({"output_dimension": 9}, "output_dimension"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_cohere_is_refused_by_field_in_its_own_envelope(house: House, fields: dict[str, Any], named: str) -> None:
    answer = await house.http.post("/v2/embed", json=cohere(**fields))
    assert answer.status_code == 400
    assert named in answer.json()["message"]


async def test_a_task_puts_its_words_before_an_input() -> None:
    config = Config(pooling=PoolingConfig(prefixes=("query=query: ", "sim/document=passage: ")))
    async with in_process(MODEL, config=config) as house:
        query = (await house.http.post("/v2/embed", json=cohere(input_type="search_query"))).json()
        document = (await house.http.post("/v2/embed", json=cohere())).json()
        google = await house.http.post(
            "/v1beta/models/sim:embedContent",
            json={"content": {"parts": [{"text": "One"}]}, "taskType": "RETRIEVAL_QUERY"},
        )
        plain = (await ask(house, "One")).json()
    assert query["embeddings"]["float"] == [expected("query: One"), expected("query: Two")]
    assert document["embeddings"]["float"][0] == expected("passage: One")
    assert google.json()["embedding"]["values"] == expected("query: One")
    assert plain["data"][0]["embedding"] == expected("One")


def content(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "models/sim", "content": {"parts": [{"text": text}]}, **fields}


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
async def test_google_gets_one_vector_or_several(house: House, version: str) -> None:
    one = await house.http.post(f"/{version}/models/sim:embedContent", json=content("One"))
    assert one.json() == {
        "embedding": {"values": expected("One")},
        "usageMetadata": {"promptTokenCount": tokens("One")},
    }
    several = {"requests": [content("One"), content("Two")]}
    batch = await house.http.post(f"/{version}/models/sim:batchEmbedContents", json=several)
    assert [each["values"] for each in batch.json()["embeddings"]] == [expected("One"), expected("Two")]


async def test_googles_sdk_gets_its_vectors(house: House) -> None:
    from google import genai

    transport = house.gateway.http_client(httpx, base_url="http://gateway")
    options = genai.types.HttpOptions(base_url="http://gateway", httpx_async_client=transport)
    client = genai.Client(api_key="-", http_options=options)
    found = await client.aio.models.embed_content(
        model="sim", contents=["One", "Two"], config={"output_dimensionality": 3, "task_type": "SEMANTIC_SIMILARITY"}
    )
    await transport.aclose()
    assert [len(each.values) for each in found.embeddings] == [3, 3]
    assert found.embeddings[0].values[0] / found.embeddings[0].values[1] == pytest.approx(
        expected("One")[0] / expected("One")[1], rel=1e-5
    )


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        ([], "requests"),
        ([content("a"), content("")], "requests[1].content"),
        ([content("a", title="T")], "requests[0].title"),
        ([content("a"), content("b", outputDimensionality=3)], "requests[1].outputDimensionality"),
        ([content("a"), {**content("b"), "model": "models/other"}], "requests[1].model"),
    ],
)
async def test_google_is_refused_by_field_in_its_own_envelope(house: House, requests: Any, named: str) -> None:
    answer = await house.http.post("/v1beta/models/sim:batchEmbedContents", json={"requests": requests})
    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert named in answer.text


SHAPES: tuple[Callable[[dict[str, Any]], Any], ...] = (
    lambda answer: answer["error"]["message"],
    lambda answer: answer["message"],
    lambda answer: answer["error"]["status"],
)


async def test_a_body_that_is_no_json_is_refused_in_each_envelope(house: House) -> None:
    for path, read in zip((PATH, "/v2/embed", "/v1beta/models/sim:embedContent"), SHAPES, strict=True):
        answer = await house.http.post(path, content=b"{", headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert read(answer.json())


# --------------------------------------------------------------------------------------------------- engines over HTTP


@pytest.mark.full
async def test_a_server_of_openais_api_is_sent_texts_and_counts_their_tokens() -> None:
    async with (
        over_http(MODEL) as far,
        Gateway([far.url], observer=(seen := MemoryObserver())) as gateway,
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        answer = await http.post(PATH, json={"model": "sim", "input": [*TEXTS, [5, 6]]})
        cut = await http.post(PATH, json={"model": "sim", "input": "a b c d e f", "truncate_prompt_tokens": 2})
        refused = await http.post(PATH, json={"model": "sim", "input": ["a", ""]})
    found = answer.json()
    assert [each["embedding"] for each in found["data"]] == [expected(each) for each in [*TEXTS, [5, 6]]]
    assert found["usage"]["prompt_tokens"] == tokens(*TEXTS) + 2
    assert far.engine.counters["requests"] == 62
    assert cut.json()["usage"]["prompt_tokens"] == 2
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input[1]")
    assert {each.transport for each in seen.of(WorkerPicked)} == {"http"}


async def test_a_server_that_makes_no_vectors_is_told_by_its_answer() -> None:
    async with (
        over_http() as far,
        Gateway([far.url]) as gateway,
        gateway.http_client(httpx, base_url="http://gateway") as http,
    ):
        answer = await http.post(PATH, json={"model": "sim", "input": "Hello"})
    assert answer.status_code == 400
    assert "127.0.0.1" not in answer.text
