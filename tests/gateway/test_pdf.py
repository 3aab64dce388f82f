"""PDF documents: every API reads one as the same text that it reads of a document of text, or refuses it by its field."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import attrs
import openai
import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.conftest import House, in_process, settled
from tests.pdf_files import bomb, deep_tree, locked, many_pages, pdf, scan
from tests.peers import listening
from tests.tiers import examples

from smg_core import Config
from smg_core.http.settings import DocumentsConfig, MediaConfig
from smg_core.models import document_loading
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

Body = dict[str, Any]
PDF = "application/pdf"
PAGES = ("The keeper of the lighthouse\nwrote every day.", "He was (mostly) alone, and déjà vu \\ helped.")
TEXT = "\n\n".join(PAGES)


def inline(kind: str, data: bytes) -> tuple[str, str]:
    return kind, base64.b64encode(data).decode()


@attrs.frozen
class Api:
    """How one API is asked what stands in a document: where, and with which body, made of the document's type and base64.
    `param` is the field that an error of the document names."""

    path: str
    asking: Callable[[str, str], Body]
    param: str

    async def ask(self, house: House, kind: str, data: bytes) -> Any:
        return await house.http.post(
            self.path, json=self.asking(*inline(kind, data)), headers={"api-revision": "2026-05-20"}
        )


def chat(kind: str, data: str) -> Body:
    file = {"type": "file", "file": {"filename": "log.pdf", "file_data": f"data:{kind};base64,{data}"}}
    turn = {"role": "user", "content": [file, {"type": "text", "text": "Who wrote?"}]}
    return {"model": "sim", "messages": [turn]}


def responses(kind: str, data: str) -> Body:
    file = {"type": "input_file", "filename": "log.pdf", "file_data": f"data:{kind};base64,{data}"}
    turn = {"role": "user", "content": [file, {"type": "input_text", "text": "Who wrote?"}]}
    return {"model": "sim", "input": [turn]}


def response_of_tool(kind: str, data: str) -> Body:
    file = {"type": "input_file", "filename": "log.pdf", "file_data": f"data:{kind};base64,{data}"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": [file]}
    return {"model": "sim", "input": [{"role": "user", "content": "Who wrote?"}, call, result]}


def document(kind: str, data: str) -> Body:
    source = {"type": "base64", "media_type": kind, "data": data}
    return {"type": "document", "title": "log.pdf", "context": "Found at sea.", "source": source}


def messages(kind: str, data: str) -> Body:
    turn = {"role": "user", "content": [document(kind, data), {"type": "text", "text": "Who wrote?"}]}
    return {"model": "sim", "max_tokens": 50, "messages": [turn]}


def message_of_tool(kind: str, data: str) -> Body:
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [document(kind, data)]}
    turns = [
        {"role": "user", "content": "Who wrote?"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    return {"model": "sim", "max_tokens": 50, "messages": turns}


def generate(kind: str, data: str) -> Body:
    file = {"inlineData": {"mimeType": kind, "data": data, "displayName": "log.pdf"}}
    return {"contents": [{"role": "user", "parts": [file, {"text": "Who wrote?"}]}]}


def generate_of_tool(kind: str, data: str) -> Body:
    part = {"inlineData": {"mimeType": kind, "data": data, "displayName": "log.pdf"}}
    result = {"functionResponse": {"name": "f", "response": {"found": 1}, "parts": [part]}}
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "Who wrote?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [result]},
        ]
    }


def interaction(kind: str, data: str) -> Body:
    content = [{"type": "document", "mime_type": kind, "data": data}, {"type": "text", "text": "Who wrote?"}]
    return {"model": "sim", "input": [{"type": "user_input", "content": content}]}


APIS = {
    "Chat Completions": Api("/v1/chat/completions", chat, "messages[0].content[0]"),
    "Responses": Api("/v1/responses", responses, "input[0].content[0]"),
    "a tool's result of Responses": Api("/v1/responses", response_of_tool, "input[2]"),
    "Messages": Api("/v1/messages", messages, "messages[0].content[0]"),
    "a tool's result of Messages": Api("/v1/messages", message_of_tool, "messages[2].content[0]"),
    "generateContent": Api("/v1beta/models/sim:generateContent", generate, "contents[0].parts[0]"),
    "a tool's result of generateContent": Api(
        "/v1beta/models/sim:generateContent", generate_of_tool, "contents[2].parts[0]"
    ),
    "Interactions": Api("/v1beta/interactions", interaction, "input[0].content[0]"),
}
EACH = pytest.mark.parametrize("api", APIS.values(), ids=APIS)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with in_process(SimulatorConfig()) as house:
        yield house


@asynccontextmanager
async def reading(
    serve: Callable[..., Any] = in_process, *, media: Body | None = None, **documents: Any
) -> AsyncIterator[House]:
    config = Config(documents=DocumentsConfig(**documents), media=MediaConfig(**(media or {})))
    async with serve(SimulatorConfig(), config=config) as house:
        yield house


def sent(house: House) -> list[int]:
    return list(house.engine.requests[-1].input_ids)


def message_of(answer: Any) -> str:
    error = answer.json()["error"]
    return str(error["message"])


# ---------------------------------------------------------------------------------------------------------- what is read


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@EACH
async def test_a_pdf_is_the_same_prompt_as_a_document_of_its_text(house: House, api: Api) -> None:
    told = []
    for kind, data in ((PDF, pdf(*PAGES)), ("text/plain", TEXT.encode())):
        answer = await api.ask(house, kind, data)
        assert answer.status_code == 200, answer.text
        told.append(sent(house))
    assert told[0] == told[1]


@EACH
async def test_what_cannot_be_read_is_refused_by_its_field(house: House, api: Api) -> None:
    before = house.engine.counters["requests"]
    answer = await api.ask(house, PDF, locked("secret", "password"))
    assert answer.status_code == 400, answer.text
    assert f"'{api.param}" in message_of(answer), answer.text
    assert "encrypted" in message_of(answer)
    assert house.engine.counters["requests"] == before


@pytest.mark.full
async def test_where_pdf_is_switched_off_it_is_refused_by_its_name() -> None:
    async with reading(pdf="off") as house:
        for name, api in APIS.items():
            answer = await api.ask(house, PDF, pdf(*PAGES))
            assert answer.status_code == 400, name
            assert "PDF is not read here, so send the document's text" in message_of(answer), name


async def test_without_the_package_it_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_loading, "_NEEDED", ("pypdf", "no_such_package"))
    async with reading() as house:
        answer = await APIS["Messages"].ask(house, PDF, pdf(*PAGES))
        assert answer.status_code == 400
        assert "PDF is not read here" in message_of(answer)


async def test_the_sdk_sends_a_document_and_its_tokens_are_counted_before(house: House) -> None:
    body = messages(*inline(PDF, pdf(*PAGES)))
    async with anthropic.AsyncAnthropic(
        api_key="k", base_url="http://g", http_client=house.gateway.http_client(anthropic), max_retries=0
    ) as client:
        answer = await client.messages.create(**body)
        counted = await client.messages.count_tokens(model=body["model"], messages=body["messages"])
    usage = answer.usage
    assert counted.input_tokens == (
        usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    )
    assert counted.input_tokens == len(sent(house)) > len(TEXT) // 10


async def test_a_file_of_no_told_type_is_read_by_what_it_is(house: House) -> None:
    data = base64.b64encode(pdf(*PAGES)).decode()
    async with openai.AsyncOpenAI(
        api_key="k", base_url="http://g/v1", http_client=house.gateway.http_client(openai), max_retries=0
    ) as client:
        file: Any = {"type": "file", "file": {"filename": "log.pdf", "file_data": data}}
        await client.chat.completions.create(model="sim", messages=[{"role": "user", "content": [file]}])
    told = (await house.gateway.explain({"model": "sim", "messages": [{"role": "user", "content": [file]}]})).prompt
    assert f"<title>log.pdf</title>\n{TEXT}\n</document>" in (told or "")


async def test_a_document_that_anybody_may_read_is_read_though_it_is_encrypted(house: House) -> None:
    assert (await APIS["Messages"].ask(house, PDF, locked("free to read", ""))).status_code == 200


# --------------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (locked("x", "password"), "is encrypted"),
        (scan(), "has no text"),
        (b"%PDF-1.7\nnothing more", "damaged or truncated"),
        (pdf(*PAGES)[:500], "damaged or truncated"),
        (b"a document of words", "is no PDF"),
        (many_pages(700), "has 700 pages; at most 600 are read"),
        (many_pages(101_000), "larger or deeper parts"),
        (deep_tree(2000), "larger or deeper parts"),
        (bomb(76), "larger or deeper parts"),
    ],
    ids=["encrypted", "scan", "junk", "truncated", "text", "700 pages", "100,000 pages", "deep", "bomb"],
)
async def test_a_document_that_is_not_read_is_a_400_that_says_why(house: House, data: bytes, told: str) -> None:
    before = house.engine.counters["requests"]
    answer = await APIS["Messages"].ask(house, PDF, data)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert told in message_of(answer)
    assert "'messages[0].content[0]" in message_of(answer)
    assert house.engine.counters["requests"] == before
    await settled(house)


@pytest.mark.full
async def test_every_bound_is_a_setting() -> None:
    large, long, paged = pdf("x") + bytes(4000), pdf("y" * 101), pdf(*"abc")
    async with reading(max_bytes=4000, max_characters=100, max_pages=2, max_items=2, max_request_bytes=5000) as house:
        for data, told in (
            (large, "more than 4000 bytes"),
            (long, "more than 100 characters"),
            (paged, "has 3 pages; at most 2"),
        ):
            answer = await APIS["Messages"].ask(house, PDF, data)
            assert answer.status_code == 400
            assert told in message_of(answer)
        body = messages(*inline(PDF, pdf("z") + bytes(2500)))
        assert (await house.http.post("/v1/messages", json=body)).status_code == 200
        for times, told in ((2, "together"), (3, "3 documents; at most 2")):
            several = {**body, "messages": [{"role": "user", "content": body["messages"][0]["content"] * times}]}
            answer = await house.http.post("/v1/messages", json=several)
            assert answer.status_code == 400
            assert told in message_of(answer)


async def test_any_bytes_are_read_or_refused(house: House) -> None:
    whole = pdf(*PAGES)

    @settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.tuples(st.integers(8, len(whole) - 1), st.binary(max_size=6)), min_size=1, max_size=6))
    def play(changes: list[tuple[int, bytes]]) -> None:
        data = bytearray(whole)
        for at, put in changes:
            data[at : at + len(put)] = put
        mangled.append(bytes(data))

    mangled: list[bytes] = []
    play()
    for data in mangled:
        answer = await APIS["Messages"].ask(house, PDF, data)
        assert answer.status_code in (200, 400), answer.text
    await settled(house)


# ------------------------------------------------------------------------------------------------------------- addresses


@attrs.define
class Site:
    """A server of documents, and which were asked for."""

    port: int = 0
    asked: list[str] = attrs.field(factory=list)

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"


@asynccontextmanager
async def site(authority: trustme.CA, files: dict[str, bytes]) -> AsyncIterator[Site]:
    made = Site()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        made.asked.append(path)
        found = files.get(path)
        head = "200 OK" if found is not None else "404 Not Found"
        writer.write(f"HTTP/1.1 {head}\r\ncontent-length: {len(found or b'')}\r\n\r\n".encode() + (found or b""))
        await writer.drain()

    async with listening(serve, tls) as made.port:
        yield made


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA, folder: Path, port: int) -> Body:
    file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return {"allow_private": ("127.0.0.1",), "tls_ca": str(file), "port": port}


def linked(url: str) -> Body:
    source = {"type": "url", "url": url}
    return {
        "model": "sim",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": [{"type": "document", "source": source}]}],
    }


@pytest.mark.full
async def test_a_document_is_fetched_where_that_is_allowed(authority: trustme.CA, tmp_path: Path) -> None:
    async with (
        site(authority, {"/a.pdf": pdf(*PAGES), "/paper": pdf("Of no ending."), "/page": b"<html>"}) as pages,
        reading(media=trusting(authority, tmp_path, pages.port)) as house,
    ):
        for path in ("/a.pdf", "/paper"):
            assert (await house.http.post("/v1/messages", json=linked(pages.url(path)))).status_code == 200
        file = {"type": "input_file", "file_url": pages.url("/a.pdf")}
        body = {"model": "sim", "input": [{"role": "user", "content": [file]}]}
        assert (await house.http.post("/v1/responses", json=body)).status_code == 200
        data = {"fileData": {"mimeType": PDF, "fileUri": pages.url("/paper")}}
        body = {"contents": [{"role": "user", "parts": [data]}]}
        assert (await house.http.post("/v1beta/models/sim:generateContent", json=body)).status_code == 200
        assert pages.asked == ["/a.pdf", "/paper", "/a.pdf", "/paper"]
        for path, told in (("/missing.pdf", "answered 404"), ("/page", "is no PDF")):
            answer = await house.http.post("/v1/messages", json=linked(pages.url(path)))
            assert answer.status_code == 400
            assert told in message_of(answer)
        data["fileData"]["mimeType"] = "application/zip"
        before = list(pages.asked)
        answer = await house.http.post("/v1beta/models/sim:generateContent", json=body)
        assert (answer.status_code, pages.asked) == (400, before)


async def test_an_address_of_this_machine_is_not_asked(authority: trustme.CA) -> None:
    async with site(authority, {"/a.pdf": pdf(*PAGES)}) as pages, reading(media={"port": pages.port}) as house:
        answer = await house.http.post("/v1/messages", json=linked(pages.url("/a.pdf")))
        assert answer.status_code == 400
        assert not pages.asked


@pytest.mark.full
async def test_a_request_that_is_prepared_again_and_again_reads_its_document_once(
    authority: trustme.CA, tmp_path: Path
) -> None:
    async with (
        site(authority, {"/a.pdf": pdf(*PAGES)}) as pages,
        reading(media=trusting(authority, tmp_path, pages.port), kept_characters=0) as house,
    ):
        body = linked(pages.url("/a.pdf"))
        body["messages"] += [
            {"role": "assistant", "content": "He did. " * 40},
            {"role": "user", "content": "And then?"},
        ]
        edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
        headers = {"anthropic-beta": "compact-2026-01-12"}
        answer = await house.http.post(
            "/v1/messages", json={**body, "context_management": {"edits": [edit]}}, headers=headers
        )
        assert answer.status_code == 200, answer.text
        assert pages.asked == ["/a.pdf"]
