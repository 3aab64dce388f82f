"""POST /v1/images/generations and /edits: by the official SDK, from an engine that has the routes, whole and in events."""

import base64
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import openai
import pytest
from tests.gateway.conftest import JSON, House, in_process, settled
from tests.gateway.test_ledger import accounts
from tests.gateway.test_vision import sdk

from smg_core import Config, Gateway
from smg_core.auth.settings import AuthConfig
from smg_core.engines.settings import EnginesConfig
from smg_core.hooks import RequestFinished
from smg_core.ledger.settings import LedgerConfig
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.pictures import png_of
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.server.http_server import engine_http_server

pytestmark = pytest.mark.anyio

ASKED: Any = {"model": "sim", "prompt": "a red fox in the snow"}
PNG = png_of(8, 8, b"\x10\x20\x30")


def colour(picture: str | None) -> tuple[int, int, bytes]:
    """The width, height and colour of a picture of the embedded engine."""
    data = base64.b64decode(picture or "")
    width, height = struct.unpack(">II", data[16:24])
    size = struct.unpack(">I", data[33:37])[0]
    return width, height, zlib.decompress(data[41 : 41 + size])[1:4]


@asynccontextmanager
async def painting(config: Config | None = None) -> AsyncIterator[House]:
    """A gateway before an engine that makes pictures."""
    observer = MemoryObserver()
    config = attrs.evolve(config or Config(), workers=WorkersConfig(dialect="openai"))
    async with (
        SimulatedEngine(SimulatorConfig(), http_server=engine_http_server("127.0.0.1:0")) as engine,
        Gateway([engine.http_target], config=config, observer=observer) as gateway,
    ):
        await gateway.ready()
        async with gateway.http_client(httpx, base_url="http://gateway", headers=JSON) as http:
            yield House(gateway, http, observer, own=(engine,))


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with painting() as house:
        yield house


async def test_pictures_are_made_by_the_official_sdk(house: House) -> None:
    async with sdk(house) as client:
        made = await client.images.generate(**ASKED, n=2, size="32x16", quality="low", output_format="png")
        again = await client.images.generate(**ASKED, n=2, size="32x16")
    await settled(house)
    assert made.data is not None
    assert again.data is not None
    assert [colour(each.b64_json)[:2] for each in made.data] == [(32, 16), (32, 16)]
    assert [each.b64_json for each in made.data] == [each.b64_json for each in again.data]
    assert (made.size, made.output_format, made.background) == ("32x16", "png", "opaque")
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.input_tokens_details.text_tokens) == (6, 6)
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    told = house.observer.of(RequestFinished)[0]
    assert (told.api, told.outcome, told.completion_tokens) == ("images", "ok", made.usage.output_tokens)


async def test_earlier_states_of_a_picture_are_streamed(house: House) -> None:
    async with sdk(house) as client:
        stream = await client.images.generate(**ASKED, partial_images=2, stream=True)
        events: list[Any] = [event async for event in stream]
    assert [event.type for event in events] == [
        *["image_generation.partial_image"] * 2,
        "image_generation.completed",
    ]
    assert [event.partial_image_index for event in events[:2]] == [0, 1]
    shades = [colour(event.b64_json)[2] for event in events]
    assert shades == sorted(shades)
    assert events[-1].usage.output_tokens > 0
    assert (events[-1].size, events[-1].quality, events[-1].output_format) == ("64x64", "low", "png")


async def test_pictures_are_changed_with_a_mask(house: House) -> None:
    async with sdk(house) as client:
        one = await client.images.edit(**ASKED, image=PNG, mask=PNG, input_fidelity="high")
        two = await client.images.edit(**ASKED, image=[PNG, png_of(4, 4, b"\0\0\0")], n=2)
        stream = await client.images.edit(**ASKED, image=PNG, stream=True, partial_images=1)
        kinds = [event.type async for event in stream]
        plain = await client.images.generate(**ASKED)
    assert one.data is not None
    assert two.data is not None
    assert plain.data is not None
    assert one.data[0].b64_json != plain.data[0].b64_json
    assert len(two.data) == 2
    assert kinds == ["image_edit.partial_image", "image_edit.completed"]
    assert one.usage is not None
    assert one.usage.input_tokens_details.image_tokens > 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": " "}, "prompt"),
        ({"prompt": "x" * 32_001}, "prompt"),
        ({"n": 0}, "n"),
        ({"n": 11}, "n"),
        ({"size": "9999x9999"}, "size"),
        ({"size": "64X64"}, "size"),
        ({"size": "0x5"}, "size"),
        ({"quality": "best"}, "quality"),
        ({"partial_images": 4}, "partial_images"),
        ({"response_format": "url"}, "response_format"),
        ({"output_compression": 50}, "output_compression"),
        ({"background": "transparent", "output_format": "jpeg"}, "background"),
        ({"svg": {"model": "x"}}, "svg"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_its_field(house: House, fields: dict[str, Any], param: str) -> None:
    answer = await house.http.post("/v1/images/generations", json={**ASKED, **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


@pytest.mark.parametrize(
    ("files", "fields", "param"),
    [
        ([], {}, "image"),
        ([("image", b"GIF89a")], {}, "image"),
        ([("image", b"")], {}, "image"),
        ([("image[]", PNG)] * 17, {}, "image"),
        ([("image", PNG), ("mask", png_of(4, 4, b"\0\0\0"))], {}, "mask"),
        ([("image", PNG), ("mask", b"\xff\xd8\xff\xe0")], {}, "mask"),
        ([("image", PNG), ("mask", PNG), ("mask", PNG)], {}, "mask"),
        ([("image", PNG), ("markup", PNG)], {}, "markup"),
        ([("image", PNG)], {"n": "many"}, "n"),
        ([("image", PNG)], {"svg[model]": "x"}, "svg[model]"),
        ([("image", PNG)], {"wish": "x"}, "wish"),
    ],
)
async def test_a_form_that_cannot_be_is_refused_by_its_field(
    house: House, files: list[tuple[str, bytes]], fields: dict[str, str], param: str
) -> None:
    named = [(name, ("a.png", data)) for name, data in files] or [("nothing", ("", b"", ""))]
    request = httpx.Request("POST", "http://g/v1/images/edits", data={**ASKED, **fields}, files=named)
    headers = {"content-type": request.headers["content-type"]}
    answer = await house.http.post("/v1/images/edits", content=request.read(), headers=headers)
    assert answer.status_code == 400, answer.text
    if files:
        assert answer.json()["error"]["param"] == param, answer.text


async def test_a_model_whose_engine_makes_no_pictures_says_so() -> None:
    async with in_process() as house, sdk(house) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.images.generate(model="sim", prompt="a fox")
    assert "makes no pictures" in str(refused.value)


async def test_keys_permissions_and_accounts_hold_for_pictures() -> None:
    config = Config(
        auth=AuthConfig(
            keys=("sk-painter-000000000 tenant=acme", "sk-reader-0000000000 tenant=acme role=talker"),
            roles=("talker=chat",),
        ),
        ledger=LedgerConfig(enabled=True),
    )
    async with painting(config) as house:
        body = {"json": ASKED}
        stranger = await house.http.post("/v1/images/generations", **body)
        reader = await house.http.post(
            "/v1/images/generations", **body, headers={"authorization": "Bearer sk-reader-0000000000"}
        )
        made = await house.http.post(
            "/v1/images/generations", **body, headers={"authorization": "Bearer sk-painter-000000000"}
        )
        await settled(house)
        (account,) = await accounts(house, "api")
    assert (stranger.status_code, reader.status_code, made.status_code) == (401, 403, 200)
    assert (account.requests, account.completion_tokens) == (1, made.json()["usage"]["output_tokens"])


async def test_an_answer_that_is_too_large_is_the_engines_fault() -> None:
    async with painting(Config(engines=EnginesConfig(http_pictures_bytes=1000))) as house:
        answer = await house.http.post("/v1/images/generations", json={**ASKED, "n": 9, "size": "512x512"})
    assert answer.status_code >= 500
    assert "more than 1000 bytes" in answer.text
