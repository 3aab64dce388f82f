"""Files by the official SDKs of three APIs: one store, whose files every API can use, tenant by tenant and within bounds."""

import asyncio
import base64
import hashlib
import io
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import attrs
import openai
import pytest
from google import genai
from google.genai import errors as google_errors
from google.genai import types
from tests.gateway.conftest import CHAT, House, in_process, over_http
from tests.gateway.vision_models import clip, picture, qwen2_vl
from tests.pdf_files import bomb, many_pages, pdf

from smg_core import Config
from smg_core.auth.base import Head
from smg_core.errors import InvalidRequest
from smg_core.files import folder as file_folder
from smg_core.files.blobs import BlobName, ContentsGone
from smg_core.files.folder import FolderBlobs
from smg_core.files.sweep import sweep_contents
from smg_core.files.types import KeptFile
from smg_core.files.work import FileWork
from smg_core.history.settings import HistoryConfig
from smg_core.history.store.base import AppendEvents, StoredEvent
from smg_core.history.store.blobs import WrittenBlob
from smg_core.http.file_settings import FilesConfig
from smg_core.http.settings import BatchesConfig, MediaConfig
from smg_core.request import Caller
from smg_core.wire.documents import kept_file_key
from smg_core.workers.settings import WorkersConfig
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

TEXT = b"The keeper of the lighthouse\nwrote every day."
PDF = pdf("The keeper of the lighthouse", "wrote every day.")


async def by_name(head: Head) -> Caller | None:
    """The tenant is the credential, up to a colon; what stands behind is the key."""
    if head.credential is None:
        return None
    tenant, _, key = head.credential.text.partition(":")
    return Caller(tenant, key or tenant)


@attrs.frozen
class Sdks:
    """The three SDKs for one tenant."""

    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    google: Any


_OPEN: list[Sdks] = []


@pytest.fixture(autouse=True)
async def _closed() -> AsyncIterator[None]:
    yield
    while _OPEN:
        each = _OPEN.pop()
        await each.openai.close()
        await each.anthropic.close()
        await each.google.aclose()


def sdks(house: House, key: str = "acme") -> Sdks:
    """The SDKs, which are closed at the end of the test."""
    made = Sdks(
        openai.AsyncOpenAI(api_key=key, base_url=f"{house.url}/v1", max_retries=0),
        anthropic.AsyncAnthropic(api_key=key, base_url=house.url, max_retries=0),
        genai.Client(api_key=key, http_options=types.HttpOptions(base_url=house.url)).aio,
    )
    _OPEN.append(made)
    return made


@asynccontextmanager
async def houses(batches: BatchesConfig | None = None, **files: Any) -> AsyncIterator[House]:
    config = Config(files=FilesConfig(**files), batches=batches or BatchesConfig())
    async with over_http(SimulatorConfig(), config=config, identity=by_name) as house:
        yield house


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with houses() as house:
        yield house


async def by_openai(to: Sdks, name: str, data: bytes, kind: str = "") -> str:
    file = (name, data, kind) if kind else (name, data)
    return (await to.openai.files.create(file=file, purpose="user_data")).id


async def by_parts(to: Sdks, name: str, data: bytes, kind: str = "") -> str:
    made = await to.openai.uploads.create(
        bytes=len(data), filename=name, mime_type=kind or "text/plain", purpose="user_data"
    )
    half = len(data) // 2
    parts = [await to.openai.uploads.parts.create(made.id, data=part) for part in (data[half:], data[:half])]
    ids = [each.id for each in reversed(parts)]
    done = await to.openai.uploads.complete(made.id, part_ids=ids, md5=hashlib.md5(data).hexdigest())
    assert done.status == "completed"
    assert done.file is not None
    return done.file.id


async def by_anthropic(to: Sdks, name: str, data: bytes, kind: str = "") -> str:
    return (await to.anthropic.beta.files.upload(file=(name, data, kind or "text/plain"))).id


async def by_google(to: Sdks, name: str, data: bytes, kind: str = "") -> str:
    config = types.UploadFileConfig(display_name=name, mime_type=kind or "text/plain")
    made = await to.google.files.upload(file=io.BytesIO(data), config=config)
    assert made.uri.endswith(f"/v1beta/{made.name}")
    return str(made.uri)


UPLOADS: dict[str, Callable[..., Awaitable[str]]] = {
    "OpenAI": by_openai,
    "OpenAI, in parts": by_parts,
    "Anthropic": by_anthropic,
    "Google": by_google,
}
EACH_UPLOAD = pytest.mark.parametrize("upload", UPLOADS.values(), ids=UPLOADS)


# ------------------------------------------------------------------------------------------------------------ the three APIs


@pytest.mark.sampled(keep=3)
@EACH_UPLOAD
async def test_a_file_of_one_api_is_read_listed_and_deleted_by_all(
    house: House, upload: Callable[..., Awaitable[str]]
) -> None:
    to = sdks(house)
    key = kept_file_key(await upload(to, "log.txt", TEXT)) or ""

    one = await to.openai.files.retrieve(f"file-{key}")
    two = await to.anthropic.beta.files.retrieve_metadata(f"file_{key}")
    three = await to.google.files.get(name=f"files/{key}")
    assert (one.filename, one.bytes) == (two.filename, two.size_bytes) == ("log.txt", len(TEXT))
    assert (three.display_name, three.size_bytes) == ("log.txt", len(TEXT))
    assert two.mime_type == three.mime_type == "text/plain"
    assert three.state == types.FileState.ACTIVE

    assert (await to.openai.files.content(f"file-{key}")).content == TEXT
    assert await (await to.anthropic.beta.files.download(f"file_{key}")).read() == TEXT
    assert await to.google.files.download(file=f"files/{key}") == TEXT

    assert f"file-{key}" in [each.id async for each in to.openai.files.list()]
    assert f"file_{key}" in [each.id async for each in to.anthropic.beta.files.list(limit=1)]
    assert f"files/{key}" in [each.name async for each in await to.google.files.list(config={"page_size": 1})]

    await to.google.files.delete(name=f"files/{key}")
    with pytest.raises(openai.NotFoundError, match="No such File"):
        await to.openai.files.retrieve(f"file-{key}")
    with pytest.raises(anthropic.NotFoundError):
        await to.anthropic.beta.files.delete(f"file_{key}")
    with pytest.raises(google_errors.ClientError, match="does not exist"):
        await to.google.files.delete(name=f"files/{key}")


@pytest.mark.full
async def test_google_sends_a_large_file_in_pieces_and_names_it(house: House) -> None:
    to, data = sdks(house), os.urandom(9_000_000)
    config = types.UploadFileConfig(name="files/my-large-1", mime_type="application/zip")
    made = await to.google.files.upload(file=io.BytesIO(data), config=config)
    assert (made.name, made.size_bytes) == ("files/my-large-1", len(data))
    assert await to.google.files.download(file="files/my-large-1") == data
    with pytest.raises(google_errors.ClientError, match="a file of this name"):
        await to.google.files.upload(file=io.BytesIO(b"x"), config=config)
    await to.google.files.delete(name="files/my-large-1")
    assert (await to.google.files.upload(file=io.BytesIO(b"x"), config=config)).size_bytes == 1


async def test_files_are_those_of_a_tenant_alone(house: House) -> None:
    mine, theirs = sdks(house, "mine"), sdks(house, "theirs")
    id = await by_google(mine, "a.txt", TEXT)
    key = kept_file_key(id) or ""
    assert [each.name async for each in await theirs.google.files.list()] == []
    assert [each.id async for each in theirs.anthropic.beta.files.list()] == []
    with pytest.raises(google_errors.ClientError, match="404"):
        await theirs.google.files.get(name=f"files/{key}")
    begun = await mine.openai.uploads.create(bytes=3, filename="a", mime_type="text/plain", purpose="user_data")
    for path in (f"/upload/v1beta/files?upload_id={begun.id}", f"/upload/v1beta/files?upload_id={begun.id[:-4]}0000"):
        store_failures = await house.http.post(
            path, content=b"abc", headers={"x-goog-api-key": "theirs", "x-goog-upload-command": "upload, finalize"}
        )
        assert (store_failures.status_code, store_failures.headers["x-goog-upload-status"]) == (404, "final"), (
            store_failures.text
        )
    request = {"model": "sim", "messages": asked({"type": "file", "file": {"file_id": f"file-{key}"}})}
    for tenant, status in (("mine", 200), ("theirs", 400)):
        answer = await house.http.post(CHAT, json=request, headers={"authorization": f"Bearer {tenant}"})
        assert answer.status_code == status, answer.text
    assert "No such File object" in answer.text


# ----------------------------------------------------------------------------------------------------------------- inputs


def asked(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


Ask = Callable[[Sdks, str, str, bytes], Awaitable[Any]]
"""Asks an API about a document by its id (""): inline, of this type and with these bytes."""


async def ask_chat(to: Sdks, id: str, kind: str, data: bytes) -> Any:
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    file = {"file_id": id} if id else {"file_data": url, "filename": "log.txt"}
    turn: Any = asked({"type": "file", "file": file}, {"type": "text", "text": "Who?"})
    return await to.openai.chat.completions.create(model="sim", messages=turn)


async def ask_responses(to: Sdks, id: str, kind: str, data: bytes) -> Any:
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    file = {"file_id": id} if id else {"file_data": url, "filename": "log.txt"}
    turn: Any = asked({"type": "input_file", **file}, {"type": "input_text", "text": "Who?"})
    return await to.openai.responses.create(model="sim", input=turn)


async def ask_messages(to: Sdks, id: str, kind: str, data: bytes) -> Any:
    inline = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    if kind == "text/plain":
        inline = {"type": "text", "media_type": kind, "data": data.decode()}
    document = {"type": "document", "title": "log.txt", "source": {"type": "file", "file_id": id} if id else inline}
    turn: Any = asked(document, {"type": "text", "text": "Who?"})
    betas: Any = ["files-api-2025-04-14"]
    return await to.anthropic.beta.messages.create(model="sim", max_tokens=20, messages=turn, betas=betas)


async def ask_gemini(to: Sdks, id: str, kind: str, data: bytes) -> Any:
    part = types.Part.from_uri(file_uri=id, mime_type=kind) if id else types.Part.from_bytes(data=data, mime_type=kind)
    (part.file_data or part.inline_data).display_name = "log.txt"
    return await to.google.models.generate_content(model="sim", contents=[part, "Who?"])


ASKS: dict[str, Ask] = {"Chat": ask_chat, "Responses": ask_responses, "Messages": ask_messages, "Gemini": ask_gemini}
EACH_API = pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)


def sent(house: House) -> list[int]:
    return list(house.engine.requests[-1].input_ids)


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@EACH_API
@pytest.mark.parametrize(("kind", "data"), [("text/plain", TEXT), ("application/pdf", PDF)], ids=["text", "PDF"])
async def test_a_file_by_its_id_is_the_same_prompt_as_the_file_itself(
    house: House, ask: Ask, kind: str, data: bytes
) -> None:
    to = sdks(house)
    ids = [await upload(to, "log.txt", data, kind) for upload in UPLOADS.values()]
    await ask(to, "", kind, data)
    inline = sent(house)
    for id in ids:
        await ask(to, id, kind, data)
        assert sent(house) == inline


@EACH_API
async def test_a_file_that_is_deleted_or_not_there_is_an_error_by_name(house: House, ask: Ask) -> None:
    to = sdks(house)
    id = await by_openai(to, "a.txt", TEXT)
    await to.openai.files.delete(id)
    before = house.engine.counters["requests"]
    for each in (id, "file-000", "file-../../etc/passwd"):
        if kept_file_key(each) is None and ask is ask_gemini:
            continue  # that is no file here, but an address that is none
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError, google_errors.ClientError)) as raised:
            await ask(to, each, "text/plain", TEXT)
        assert "No such File object" in str(raised.value)
    assert house.engine.counters["requests"] == before


async def test_a_conversation_goes_on_without_a_file_of_an_earlier_turn_that_was_deleted() -> None:
    config = Config(media=MediaConfig(note_earlier=True))
    async with over_http(SimulatorConfig(), config=config, identity=by_name) as house:
        to = sdks(house)
        id = await by_openai(to, "a.txt", TEXT)
        first = await to.openai.responses.create(model="sim", input=_turn({"type": "input_file", "file_id": id}))
        await to.openai.files.delete(id)
        second = await to.openai.responses.create(model="sim", input="And?", previous_response_id=first.id)
        assert second.status == "completed"


def _turn(*parts: Any) -> Any:
    return asked(*parts)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("qwen") / "model"))


@pytest.mark.full
async def test_pictures_and_clips_by_their_ids_are_what_the_model_sees(qwen: str) -> None:
    config = Config(workers=WorkersConfig(dialect="vllm"))
    async with over_http(SimulatorConfig(model_folder=qwen), config=config, identity=by_name) as house:
        to, still, moving = sdks(house), picture(56, 56), clip(56, 56, 4)
        one = await by_openai(to, "a.png", still)
        two = await by_google(to, "a.gif", moving, "image/gif")
        url = f"data:image/png;base64,{base64.b64encode(still).decode()}"
        data = base64.b64encode(still).decode()
        inline = {"type": "base64", "media_type": "image/png", "data": data}
        messages = to.anthropic.beta.messages.create
        betas: Any = ["files-api-2025-04-14"]

        async def chat(part: Any) -> Any:
            return await to.openai.chat.completions.create(model="sim", messages=_turn(part))

        async def response(part: Any) -> Any:
            return await to.openai.responses.create(model="sim", input=_turn(part))

        async def message(source: Any) -> Any:
            turn = _turn({"type": "image", "source": source})
            return await messages(model="sim", max_tokens=9, messages=turn, betas=betas)

        async def gemini(part: Any) -> Any:
            return await to.google.models.generate_content(model="sim", contents=[part])

        for given, by_id in (
            (
                chat({"type": "image_url", "image_url": {"url": url}}),
                chat({"type": "file", "file": {"file_id": one}}),
            ),
            (
                response({"type": "input_image", "image_url": url}),
                response({"type": "input_image", "file_id": one}),
            ),
            (message(inline), message({"type": "file", "file_id": one})),
            (
                gemini(types.Part.from_bytes(data=still, mime_type="image/png")),
                gemini(types.Part.from_uri(file_uri=one, mime_type="image/png")),
            ),
            (
                gemini(types.Part.from_bytes(data=moving, mime_type="video/gif")),
                gemini(types.Part.from_uri(file_uri=two, mime_type="video/gif")),
            ),
        ):
            await given
            seen = house.engine.requests[-1]
            await by_id
            assert house.engine.requests[-1].multimodal == seen.multimodal
            assert sent(house) == list(seen.input_ids)
        text = await by_openai(to, "a.txt", TEXT)
        with pytest.raises(openai.BadRequestError, match="is no picture: it is text/plain"):
            await to.openai.responses.create(model="sim", input=_turn({"type": "input_image", "file_id": text}))


# ------------------------------------------------------------------------------------------------------- bounds and faults


@pytest.mark.full
async def test_the_bounds_of_tenants_and_keys_are_exact_also_where_many_come_at_once() -> None:
    async with houses(BatchesConfig(uploads=64), tenant_bytes=4096, key_bytes=2048) as house:
        one, two = sdks(house, "acme:one"), sdks(house, "acme:two")
        tried = await asyncio.gather(
            *(by_openai(to, "a.txt", b"x" * 1024) for to in (one, two) * 4), return_exceptions=True
        )
        kept = [each for each in tried if isinstance(each, str)]
        assert len(kept) == 4
        refused = [each for each in tried if not isinstance(each, str)]
        assert all(isinstance(each, openai.BadRequestError) for each in refused)
        assert {each.code for each in refused if isinstance(each, openai.APIError)} == {"file_storage_limit"}
        with pytest.raises(openai.BadRequestError, match="files of this"):
            await one.openai.uploads.create(bytes=1, filename="a", mime_type="text/plain", purpose="user_data")
        await two.openai.files.delete(kept[0])
        await sdks(house, "other").openai.files.create(file=("a", b"x" * 2048), purpose="user_data")
        assert await blobs_of(house) == 4


async def blobs_of(house: House) -> int:
    """How many contents there are in the folder."""
    place = (await FileWork.of(house.gateway.services).rooms()).place
    names = [each.name async for each in (await place.opened()).blobs.names()]
    return sum(BlobName.read(each) is not None for each in names)


async def test_half_an_upload_is_no_file_and_two_of_one_id_are_one(house: House) -> None:
    to = sdks(house, "halves")
    made = await to.openai.uploads.create(bytes=6, filename="a.txt", mime_type="text/plain", purpose="user_data")
    part = await to.openai.uploads.parts.create(made.id, data=b"abc")
    with pytest.raises(openai.BadRequestError, match="3 bytes together"):
        await to.openai.uploads.complete(made.id, part_ids=[part.id])
    with pytest.raises(openai.BadRequestError, match="more bytes than the 6"):
        await to.openai.uploads.parts.create(made.id, data=b"abcd")
    with pytest.raises(openai.BadRequestError, match="named twice"):
        await to.openai.uploads.complete(made.id, part_ids=[part.id, part.id])
    with pytest.raises(openai.BadRequestError, match="no part of this upload"):
        await to.openai.uploads.complete(made.id, part_ids=["part_none"])
    more = await to.openai.uploads.parts.create(made.id, data=b"def")
    with pytest.raises(openai.BadRequestError, match="MD5"):
        await to.openai.uploads.complete(made.id, part_ids=[part.id, more.id], md5="0" * 32)
    assert [each async for each in to.openai.files.list()] == []
    twice = await asyncio.gather(
        *(to.openai.uploads.complete(made.id, part_ids=[part.id, more.id]) for _ in range(2)), return_exceptions=True
    )
    (done,) = [each for each in twice if not isinstance(each, BaseException)]
    (_,) = [each for each in twice if isinstance(each, openai.ConflictError)]
    assert (await to.openai.files.content(done.file.id)).content == b"abcdef"
    for call in (to.openai.uploads.cancel(made.id), to.openai.uploads.parts.create(made.id, data=b"x")):
        with pytest.raises(openai.ConflictError, match="completed"):
            await call
    other = await to.openai.uploads.create(bytes=6, filename="a.txt", mime_type="text/plain", purpose="user_data")
    await to.openai.uploads.parts.create(other.id, data=b"abc")
    assert (await to.openai.uploads.cancel(other.id)).status == "cancelled"
    assert [each.filename async for each in to.openai.files.list()] == ["a.txt"]


async def test_an_upload_whose_sender_leaves_is_no_file_and_leaves_nothing(house: House) -> None:
    to = sdks(house, "leaves")
    before = await blobs_of(house)
    host, _, port = house.url.partition("://")[2].partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    form = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    body = form % (b"purpose", b"", b"user_data") + form % (b"file", b'; filename="a.txt"', b"y" * 3_000_000)
    head = f"POST /v1/files HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer leaves\r\n"
    head += "content-type: multipart/form-data; boundary=x\r\ncontent-length: 9000000\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    writer.transport.abort()
    whole = await by_openai(to, "b.txt", TEXT)
    assert await blobs_of(house) == before + 1
    assert [each.id async for each in to.openai.files.list()] == [whole]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "n" * 256])
async def test_a_name_with_parts_of_a_path_is_refused(house: House, name: str) -> None:
    to = sdks(house, "names")
    for upload in (by_openai, by_parts, by_anthropic):
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="name of a file"):
            await upload(to, name, TEXT)
    config = types.UploadFileConfig(name="files/../x", mime_type="text/plain")
    with pytest.raises(google_errors.ClientError, match="lower-case letters"):
        await to.google.files.upload(file=io.BytesIO(b"x"), config=config)


@EACH_UPLOAD
async def test_a_type_that_contents_are_not_of_is_refused(house: House, upload: Callable[..., Awaitable[str]]) -> None:
    to = sdks(house, "types")
    before = await blobs_of(house)
    for kind in ("image/png", "application/pdf", "video/mp4"):
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError, google_errors.ClientError)) as raised:
            await upload(to, "a", TEXT, kind)
        assert f"its type is {kind}" in str(raised.value)
    assert [each async for each in to.openai.files.list()] == []
    if upload in (by_openai, by_anthropic):
        assert await blobs_of(house) == before


@pytest.mark.full
async def test_a_file_that_is_no_text_or_too_large_for_a_request_is_refused_by_name() -> None:
    async with houses(input_bytes=4096, request_bytes=6000, request_files=3) as house:
        to = sdks(house)
        wrong = await by_openai(to, "a.txt", b"\xff\xfe\x00\x01", "text/plain")
        with pytest.raises(openai.BadRequestError, match="no text in UTF-8"):
            await ask_chat(to, wrong, "", b"")
        large = await by_openai(to, "a.txt", b"x" * 5000, "text/plain")
        with pytest.raises(openai.BadRequestError, match="may have 4,096 bytes"):
            await ask_chat(to, large, "", b"")
        fitting = [await by_openai(to, "a.txt", b"x" * size, "text/plain") for size in (4000, 3000, 1, 1)]
        for ids, why in ((fitting[:2], "may have 6,000 bytes"), ([*fitting[2:], fitting[3][:-1]], "No such File")):
            parts = [{"type": "input_file", "file_id": each} for each in ids]
            with pytest.raises(openai.BadRequestError, match=why):
                await to.openai.responses.create(model="sim", input=_turn(*parts))
        again = [{"type": "input_file", "file_id": fitting[1]}] * 3
        with pytest.raises(openai.BadRequestError, match="All files that a request uses may have 6,000 bytes"):
            await to.openai.responses.create(model="sim", input=_turn(*again))
        many = [{"type": "input_file", "file_id": fitting[3]}] * 4
        with pytest.raises(openai.BadRequestError, match="uses more than 3 files"):
            await to.openai.responses.create(model="sim", input=_turn(*many))
        two: Any = {"type": "input_file", "file_id": fitting[3], "file_data": "data:text/plain;base64,aGk="}
        with pytest.raises(openai.BadRequestError, match="the part has a file_id"):
            await to.openai.responses.create(model="sim", input=_turn(two))


@pytest.mark.full
@pytest.mark.parametrize(
    ("data", "why"),
    [(bomb(76), "larger or deeper parts"), (many_pages(10_000), "pages"), (b"x" * 30_000_000, "context")],
    ids=["a bomb", "10,000 pages", "one long line"],
)
async def test_a_hostile_file_is_an_error_and_the_gateway_goes_on(house: House, data: bytes, why: str) -> None:
    to = sdks(house, "hostile")
    id = await by_openai(to, "a.pdf" if data.startswith(b"%PDF") else "a.txt", data)
    with pytest.raises(openai.BadRequestError) as raised:
        await ask_chat(to, id, "", b"")
    assert why in str(raised.value)
    assert (await house.chat()).status_code == 200 or (await ask_chat(to, "", "text/plain", b"Hi"))


async def test_a_full_disk_is_said_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with houses() as house:
        to = sdks(house)
        await by_openai(to, "a.txt", TEXT)

        def full(file: Any, piece: bytes, sync: bool) -> None:
            with file_folder.store_failures():
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(file_folder, "_put", full)
            for upload in (by_openai, by_parts, by_anthropic):  # Google's client tries for seconds
                with pytest.raises((openai.APIStatusError, anthropic.APIStatusError, google_errors.APIError)) as raised:
                    await upload(to, "b.txt", TEXT)
                assert "no room for this file" in str(raised.value)
        assert [each.filename async for each in to.openai.files.list()] == ["a.txt"]
        assert await blobs_of(house) == 1


# --------------------------------------------------------------------------------------------------------- what is kept where


@asynccontextmanager
async def kept_in(place: Path, **files: Any) -> AsyncIterator[House]:
    history = HistoryConfig(url=f"sqlite:///{place}/history.db", keys=files.pop("keys", ()))
    config = Config(history=history, files=FilesConfig(**files))
    async with in_process(SimulatorConfig(), config=config) as house:
        yield house


async def add(house: House, name: str, data: bytes) -> str:
    form = {"files": {"file": (name, data)}, "data": {"purpose": "user_data"}}
    house.http.headers.pop("content-type", None)
    answer = await house.http.post("/v1/files", **form)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


@pytest.mark.full
async def test_files_outlive_a_restart_and_are_sealed_by_the_keys_of_the_history(tmp_path: Path) -> None:
    key = "one=" + base64.b64encode(b"k" * 32).decode()
    data = b"A secret of the lighthouse. " * 40_000
    async with kept_in(tmp_path, keys=(key,)) as house:
        id = await add(house, "a.txt", data)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"secret of the lighthouse" not in file.read_bytes()
    async with kept_in(tmp_path, keys=(key,)) as house:
        assert (await house.http.get(f"/v1/files/{id}/content")).content == data


@pytest.mark.full
async def test_a_gateway_that_shares_the_history_and_not_the_folder_says_so(tmp_path: Path) -> None:
    async with kept_in(tmp_path, folder=str(tmp_path / "one")) as house:
        id = await add(house, "a.txt", TEXT)
    async with kept_in(tmp_path, folder=str(tmp_path / "two")) as house:
        answer = await house.http.get(f"/v1/files/{id}/content")
        assert answer.status_code == 503
        assert "folder of another gateway" in answer.text
    async with kept_in(tmp_path, folder=str(tmp_path / "one")) as house:
        assert (await house.http.get(f"/v1/files/{id}/content")).content == TEXT


@pytest.mark.full
async def test_files_that_earlier_versions_kept_in_the_history_stay_readable(tmp_path: Path) -> None:
    async with kept_in(tmp_path) as house:
        history, now = house.gateway.history, house.gateway.services.clock.time()
        old = KeptFile("file-0a1b", "old.txt", "user_data", 6, now, now + 900, log="file-0a1b", pieces=2)
        from smg_core.files.kept import file_record

        pieces = (StoredEvent(0, b"abc"), StoredEvent(1, b"def"))
        await history.write("", [AppendEvents("file-0a1b", pieces, now + 900), file_record(old)])
        assert (await house.http.get("/v1/files/file-0a1b/content")).content == b"abcdef"
        parts = asked({"type": "file", "file": {"file_id": "file-0a1b"}})
        answer = await house.http.post(CHAT, json={"model": "sim", "messages": parts})
        assert answer.status_code == 200, answer.text
        assert (await house.http.delete("/v1/files/file-0a1b")).json()["deleted"] is True
        assert await history.events("", "file-0a1b") == ()


@pytest.mark.full
async def test_a_sweep_deletes_what_nothing_has_and_leaves_the_rest(tmp_path: Path) -> None:
    async with kept_in(tmp_path, grace_s=60.0) as house:
        services = house.gateway.services
        kept, lost = await add(house, "a.txt", TEXT), await add(house, "b.txt", TEXT)
        announced = {"bytes": 3, "filename": "c", "mime_type": "text/plain", "purpose": "user_data"}
        upload = (await house.http.post("/v1/uploads", json=announced)).json()["id"]
        await house.http.post(f"/v1/uploads/{upload}/parts", files={"data": ("c", b"abc")})
        place = (await FileWork.of(services).rooms()).place
        root = (await place.opened()).blobs.root  # type: ignore[attr-defined]
        from smg_core.history.store.base import DeleteRecord

        await services.running.history.write("", [DeleteRecord("file", lost)])  # as a crash leaves it
        half = root / ".incoming" / "half"
        half.write_bytes(b"half")
        assert await sweep_contents(services, place) == 0  # all are young
        for each in root.rglob("*"):
            os.utime(each, (1, 1))
        assert await sweep_contents(services, place) == 1
        assert not half.exists()
        assert (await house.http.get(f"/v1/files/{kept}/content")).content == TEXT
        assert (await house.http.post(f"/v1/uploads/{upload}/complete", json={"part_ids": []})).status_code == 400
        await house.gateway.history.erase("")
        assert await sweep_contents(services, place) == 2


class Shelf:
    """A store of a program's own, which two gateways share."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def write(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        self.kept[name] = b"".join([piece async for piece in pieces])

    async def read(self, name: str) -> AsyncIterator[bytes]:
        if name not in self.kept:
            raise ContentsGone
        yield self.kept[name]

    async def size(self, name: str) -> int | None:
        return len(self.kept[name]) if name in self.kept else None

    async def delete(self, name: str) -> None:
        self.kept.pop(name, None)

    async def names(self) -> AsyncIterator[WrittenBlob]:
        for each in list(self.kept):
            yield WrittenBlob(each, 1.0)


async def test_contents_lie_in_a_store_of_a_programs_own_and_each_history_sweeps_its_own() -> None:
    shelf = Shelf()
    async with in_process(SimulatorConfig(), files=shelf) as one, in_process(SimulatorConfig(), files=shelf) as two:
        ids = [await add(each, "a.txt", TEXT) for each in (one, two)]
        assert len(shelf.kept) == 4  # with the names of the tenants
        for house, id in zip((one, two), ids, strict=True):
            services = house.gateway.services
            assert await sweep_contents(services, (await FileWork.of(services).rooms()).place) == 0
            assert (await house.http.get(f"/v1/files/{id}/content")).content == TEXT
        await one.http.delete(f"/v1/files/{ids[0]}")
        assert len(shelf.kept) == 3


async def test_what_is_half_written_is_no_blob_and_what_is_deleted_meanwhile_is_gone(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path, now=time.time, grace_s=60.0)

    async def breaking() -> AsyncIterator[bytes]:
        yield b"abc"
        raise InvalidRequest("no more")

    async def whole() -> AsyncIterator[bytes]:
        yield b"x" * 300_000
        yield b"y"

    with pytest.raises(InvalidRequest):
        await blobs.write("aa", breaking())
    assert await blobs.size("aa") is None
    assert list((tmp_path / ".incoming").iterdir()) == []
    await blobs.write("aa", whole())
    assert await blobs.size("aa") == 300_001
    pieces = blobs.read("aa")
    await anext(pieces)
    await blobs.delete("aa")
    with pytest.raises(ContentsGone):
        await anext(pieces)
