"""Pictures in Chat Completions, end to end: the official SDK in front, a simulated engine that checks every tensor behind."""

import asyncio
import base64
import hashlib
import io
import json
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import httpx
import openai
import pytest
import trustme
from PIL import Image
from tests.gateway.conftest import CHAT, House, eventually, in_process, over_http, settled
from tests.gateway.vision_models import clip, data_url, image_part, llava, picture, qwen2_vl, text_part, video_part
from tests.peers import listening
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.http.settings import DocumentsConfig, MediaConfig
from smg_core.routing import Candidate, Pick, RoutingContext
from smg_core.testing import MemoryObserver
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.media import SeenMedia
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

VLLM = WorkersConfig(dialect="vllm")
SHAPES = text_part("Which shapes do you see?")


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(qwen2_vl(tmp_path_factory.mktemp("qwen") / "model"))


@pytest.fixture(scope="session")
def square(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(llava(tmp_path_factory.mktemp("llava") / "model"))


@asynccontextmanager
async def seeing(folder: str, serve: Callable[..., Any] = in_process, **media: Any) -> AsyncIterator[House]:
    """A gateway before an engine with the model in `folder`; `media` are settings of that section."""
    config = Config(workers=VLLM, media=MediaConfig(**media))
    async with serve(SimulatorConfig(model_folder=folder), config=config) as house:
        yield house


def sdk(house: House) -> openai.AsyncOpenAI:
    if house.url:
        return openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="-", max_retries=0)
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(http_client=http, base_url="http://gateway/v1", api_key="-", max_retries=0)


async def asked(house: House, *content: dict[str, Any], **fields: Any) -> Any:
    """The SDK's answer to one user message of these parts."""
    async with sdk(house) as client:
        messages: Any = [{"role": "user", "content": list(content)}]
        return await client.chat.completions.create(model="sim", messages=messages, **fields)


def seen(house: House, at: int = -1) -> SeenMedia:
    """The media of the engine's request `at`, which has one modality."""
    (media,) = house.engine.requests[at].multimodal
    assert isinstance(media, SeenMedia)
    return media


async def refused(house: House, *content: dict[str, Any]) -> dict[str, Any]:
    """The error that one user message of these parts is refused with; no engine hears of it, and nothing is left behind."""
    before = len(house.engine.requests)
    answer = await house.http.post(
        CHAT, json={"model": "sim", "messages": [{"role": "user", "content": list(content)}]}
    )
    assert answer.status_code == 400, answer.text
    assert len(house.engine.requests) == before
    await settled(house)
    error: dict[str, Any] = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error


# ------------------------------------------------------------------------------------------------------------- what arrives


@pytest.mark.full
async def test_a_picture_arrives_as_tensors_and_the_engine_says_their_shapes(
    qwen: str, served: Callable[..., Any]
) -> None:
    async with seeing(qwen, served) as house:
        answer = await asked(house, SHAPES, image_part(picture(280, 140)))

    media = seen(house)
    assert media.modality == "image"
    assert media.tensors["pixel_values"].shape == (20 * 10, 3 * 2 * 14 * 14)
    assert media.tensors["image_grid_thw"].values == (1, 10, 20)
    assert media.placeholders[0][1] == 50
    assert "I see 1 image (50 tokens" in answer.choices[0].message.content
    assert "pixel_values 200x1176 float32" in answer.choices[0].message.content


async def test_an_engine_that_prepares_pictures_itself_is_sent_files_and_the_prompt_as_it_was(qwen: str) -> None:
    """Pictures are counted and refused here all the same; the prompt that the engine is sent has one token a picture."""
    config = Config(workers=WorkersConfig(dialect="trtllm"))
    async with in_process(SimulatorConfig(model_folder=qwen), config=config) as house:
        answer = await asked(house, SHAPES, image_part(picture(280, 140)), image_part(picture(56, 56)), max_tokens=99)
        request = house.engine.requests[-1]
        files = [hashlib.sha256(picture(*size)).hexdigest() for size in ((280, 140), (56, 56))]
        error = await refused(house, SHAPES, image_part(b"GIF89a no picture"))

    assert answer.choices[0].message.content == "I see 2 images in files."
    assert list(seen(house).hashes) == files
    anchor = json.loads((Path(qwen) / "config.json").read_text())["image_token_id"]
    assert request.input_ids.tolist().count(anchor) == 2
    assert "damaged" in error["message"]


async def test_the_tokens_of_a_picture_are_told_apart_from_those_of_the_text(qwen: str) -> None:
    data = base64.b64encode(picture(280, 140)).decode()
    parts = [{"text": "Which shapes?"}, {"inlineData": {"mimeType": "image/png", "data": data}}]
    contents = [{"type": "text", "text": "Which shapes?"}, {"type": "image", "mime_type": "image/png", "data": data}]
    step = {"type": "user_input", "content": contents}
    async with seeing(qwen, in_process) as house:
        body = {"contents": [{"parts": parts}]}
        told = (await house.http.post("/v1beta/models/sim:generateContent", json=body)).json()["usageMetadata"]
        streamed = await house.http.post("/v1beta/models/sim:streamGenerateContent?alt=sse", json=body)
        made = (await house.http.post("/v1beta/interactions", json={"model": "sim", "input": [step]})).json()["usage"]
        prompts = {len(request.input_ids) for request in house.engine.requests}

    (prompt,) = prompts
    shares = {each["modality"]: each["tokenCount"] for each in told["promptTokensDetails"]}
    assert (told["promptTokenCount"], shares) == (prompt, {"TEXT": prompt - 50, "IMAGE": 50})
    last = json.loads(streamed.text.strip().split("\n\n")[-1].removeprefix("data: "))["usageMetadata"]
    assert (last["promptTokenCount"], last["promptTokensDetails"]) == (prompt, told["promptTokensDetails"])
    assert {each["modality"]: each["tokens"] for each in made["input_tokens_by_modality"]} == {
        "text": prompt - 50,
        "image": 50,
    }
    assert made["total_input_tokens"] == prompt


async def test_an_engine_that_normalises_pixels_itself_is_sent_their_bytes(qwen: str) -> None:
    simulator = SimulatorConfig(model_folder=qwen, normalizes=True)
    async with in_process(simulator, config=Config(workers=VLLM)) as house:
        await asked(house, SHAPES, image_part(picture(280, 140)))

    pixels = seen(house).tensors["pixel_values"]
    assert (pixels.shape, pixels.dtype) == ((20 * 10, 3 * 2 * 14 * 14), "uint8")
    assert seen(house).tensors["image_grid_thw"].values == (1, 10, 20)


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(("encoder", "nbytes"), [("", 4), ("float32", 4), ("bfloat16", 2), ("float16", 2)])
async def test_an_engine_is_sent_floats_of_the_type_that_it_would_make_of_them(
    qwen: str, encoder: Literal["", "float32", "bfloat16", "float16"], nbytes: int
) -> None:
    simulator = SimulatorConfig(model_folder=qwen, encoder_dtype=encoder)
    async with in_process(simulator, config=Config(workers=VLLM)) as house:
        await asked(house, SHAPES, image_part(picture(280, 140)))

    pixels = seen(house).tensors["pixel_values"]
    assert (pixels.dtype, pixels.nbytes) == (encoder or "float32", 20 * 10 * 3 * 2 * 14 * 14 * nbytes)


async def test_engines_of_one_model_may_differ_on_who_normalises_and_each_is_sent_what_it_takes(qwen: str) -> None:
    kinds = [SimulatorConfig(model_folder=qwen, normalizes=each) for each in (False, True)]
    async with SimulatedEngine(kinds[0]) as one, SimulatedEngine(kinds[1]) as other:
        gateway = Gateway([one.target, other.target], config=Config(workers=VLLM))
        async with gateway, gateway.http_client(httpx, base_url="http://gateway") as http:
            house = House(gateway, http, MemoryObserver(), own=(one, other))
            await eventually(lambda: all(worker.state == "ready" for worker in gateway.registry))
            for _ in range(2):
                await asked(house, SHAPES, image_part(picture(280, 140)))
        sent = {engine.config.normalizes: engine.requests[-1].multimodal[0] for engine in (one, other)}

    assert {normalizes: media.tensors["pixel_values"].dtype for normalizes, media in sent.items()} == {
        False: "float32",
        True: "uint8",
    }
    assert len({media.tensors["pixel_values"].shape for media in sent.values()}) == 1
    assert len({media.placeholders for media in sent.values()}) == 1


async def test_the_prompt_the_engine_sees_is_expanded_and_counted_in_usage(qwen: str) -> None:
    async with seeing(qwen) as house:
        words = await asked(house, text_part("What is this?"))
        answer = await asked(house, text_part("What is this?"), image_part(picture(280, 140)))

    ids = list(house.engine.requests[-1].input_ids)
    start, length = seen(house).placeholders[0]
    assert set(ids[start : start + length]) == {seen(house).token_id}
    assert answer.usage.prompt_tokens == len(ids) == words.usage.prompt_tokens + 50 + 2
    assert house.engine.requests[-2].multimodal is None


@pytest.mark.full
async def test_a_stream_with_a_picture_counts_it_too(qwen: str, served: Callable[..., Any]) -> None:
    messages: Any = [{"role": "user", "content": [SHAPES, image_part(picture(280, 140))]}]
    async with seeing(qwen, served) as house, sdk(house) as client:
        stream = await client.chat.completions.create(
            model="sim", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "pixel_values 200x1176 float32" in text
    assert chunks[-1].usage.prompt_tokens == len(house.engine.requests[-1].input_ids)


async def test_several_pictures_keep_their_order_between_the_words(qwen: str) -> None:
    wide, tall = picture(280, 56), picture(56, 112)
    async with seeing(qwen) as house:
        await asked(house, text_part("first"), image_part(wide), text_part("second"), image_part(tall), text_part("?"))
        await asked(house, image_part(tall), image_part(wide))

    ids, media = house.engine.requests[0].input_ids, seen(house, 0)
    assert media.tensors["image_grid_thw"].values == (1, 4, 20, 1, 8, 4)
    assert [length for _, length in media.placeholders] == [20, 8]
    text = house.engine.engine.vocabulary.decode(ids)
    assert text.index("first") < text.index("<|image_pad|>") < text.index("second") < text.rindex("<|image_pad|>")
    assert seen(house, 1).tensors["image_grid_thw"].values == (1, 8, 4, 1, 4, 20)
    assert seen(house, 1).hashes == media.hashes[::-1]


async def test_the_same_picture_has_the_same_hash_and_another_has_another(qwen: str) -> None:
    one, other = picture(56, 56, "red"), picture(56, 56, "blue")
    async with seeing(qwen) as house:
        await asked(house, image_part(one), image_part(other), image_part(one))
        await asked(house, text_part("And this?"), image_part(one))

    first, second, third = seen(house, 0).hashes
    assert first == third == seen(house, 1).hashes[0]
    assert first != second
    assert len(first) == 64


async def test_an_engine_takes_a_picture_for_cached_only_when_it_is_the_same(qwen: str) -> None:
    async with seeing(qwen) as house:
        cached = [
            (await asked(house, image_part(picture(280, 140, colour)))).usage.prompt_tokens_details.cached_tokens
            for colour in ("red", "blue", "red")
        ]

    assert cached[0] == cached[1] == 0 < cached[2]


async def test_an_engine_finds_what_lies_before_the_first_picture_that_differs(qwen: str) -> None:
    first, red, blue = picture(280, 140), picture(280, 140, "red"), picture(280, 140, "blue")
    async with seeing(qwen) as house:
        await asked(house, image_part(first), text_part("beside"), image_part(red))
        found = (await asked(house, image_part(first), text_part("beside"), image_part(blue))).usage
        start = seen(house).placeholders[1][0]
        words = (await asked(house, text_part("beside"))).usage

    assert 0 < found.prompt_tokens_details.cached_tokens <= start
    assert found.prompt_tokens_details.cached_tokens > start - 16
    assert words.prompt_tokens_details.cached_tokens == 0


class Watching:
    """A policy that remembers what it was shown."""

    name = "watching"

    def __init__(self) -> None:
        self.shown: list[RoutingContext] = []

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        self.shown.append(context)
        return Pick(candidates[0])


async def test_routing_tells_one_picture_from_another_and_knows_it_again(qwen: str) -> None:
    policy = Watching()
    async with in_process(SimulatorConfig(model_folder=qwen), config=Config(workers=VLLM), policy=policy) as house:
        for colour in ("red", "blue", "red"):
            await asked(house, text_part("Before"), image_part(picture(280, 140, colour)), text_part("after"))
        await asked(house, text_part("Before"))
        start = seen(house, 0).placeholders[0][0]

    red, blue, again, words = policy.shown
    assert red.input_ids == blue.input_ids
    assert list(red.prefix_keys) == list(again.prefix_keys)
    alike = [left == right for left, right in zip(red.prefix_keys, blue.prefix_keys, strict=True)]
    assert alike.index(False) == start
    assert red.prefix_hashes(4) == again.prefix_hashes(4)
    assert red.prefix_hashes(4)[: start // 4] == blue.prefix_hashes(4)[: start // 4]
    assert not set(red.prefix_hashes(4)[start // 4 :]) & set(blue.prefix_hashes(4)[start // 4 :])
    assert list(words.prefix_keys) == list(words.input_ids)


async def test_pictures_of_several_turns_and_of_a_tool_are_taken_in_their_order(qwen: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    messages: Any = [
        {"role": "user", "content": [text_part("This"), image_part(picture(56, 56))]},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [text_part("seen"), image_part(picture(84, 56))]},
        {"role": "user", "content": [image_part(picture(112, 56)), text_part("?")]},
    ]
    async with seeing(qwen) as house, sdk(house) as client:
        await client.chat.completions.create(model="sim", messages=messages, tools=[tool])

    assert seen(house).tensors["image_grid_thw"].values == (1, 4, 4, 1, 4, 6, 1, 4, 8)
    text = house.engine.engine.vocabulary.decode(house.engine.requests[-1].input_ids)
    assert "<tool_response>\nseen<|vision_start|><|image_pad|>" in text


async def test_low_detail_costs_fewer_tokens_than_high(qwen: str) -> None:
    photo = picture(1400, 700)
    async with seeing(qwen) as house:
        used = {
            detail: (await asked(house, image_part(photo, detail=detail))).usage.prompt_tokens
            for detail in ("low", "high", "auto")
        }

    assert used["low"] < used["high"] == used["auto"]


async def test_a_template_of_strings_gets_the_familys_own_placeholder(square: str) -> None:
    async with seeing(square) as house:
        await asked(house, text_part("What is"), image_part(picture(80, 60)), text_part("and <image> here?"))

    ids, media = house.engine.requests[-1].input_ids, seen(house)
    assert media.tensors["pixel_values"].shape == (1, 3, 56, 56)
    assert media.placeholders == ((list(ids).index(media.token_id), 16),)
    assert list(ids).count(media.token_id) == 16
    text = house.engine.engine.vocabulary.decode(ids)
    assert text.startswith("USER: What is<image>")
    assert text.count("<image>") == 17  # sixteen that were put there, and the one spelled out, which stays text


async def test_a_placeholder_that_is_spelled_out_stays_text(qwen: str) -> None:
    async with seeing(qwen) as house:
        await asked(house, text_part("<|vision_start|><|image_pad|><|vision_end|> is"), image_part(picture(56, 56)))
        await asked(house, text_part("<|image_pad|>"))

    token = seen(house, 0).token_id
    assert list(house.engine.requests[0].input_ids).count(token) == 4
    assert list(house.engine.requests[1].input_ids).count(token) == 0


async def test_an_unprotected_placeholder_without_a_picture_is_refused(qwen: str) -> None:
    config = Config(workers=VLLM, tokenizer=TokenizerConfig(protect_control=False))
    async with in_process(SimulatorConfig(model_folder=qwen), config=config) as house:
        alone = await refused(house, text_part("<|image_pad|>"))
        more = await refused(house, text_part("<|image_pad|>"), image_part(picture(56, 56)))

    assert "placeholder" in alone["message"]
    assert more["code"] == "placeholder_mismatch"


async def test_a_clip_becomes_frames(qwen: str) -> None:
    part = {"type": "video_url", "video_url": {"url": data_url(clip(56, 56, 8), "image/gif")}}
    async with seeing(qwen) as house:
        await asked(house, part, text_part("?"))

    media = seen(house)
    assert media.modality == "video"
    assert media.tensors["video_grid_thw"].values[0] >= 2
    assert media.flat == {"pixel_values": "patches_per_video"}


@pytest.mark.full
async def test_pictures_and_clips_of_one_message_keep_their_order_between_the_words(
    qwen: str, served: Callable[..., Any]
) -> None:
    parts = [text_part("one"), image_part(picture(56, 56)), text_part("two"), video_part(clip(56, 56, 8))]
    async with seeing(qwen, served) as house:
        answer = await asked(house, *parts, text_part("three shapes"), image_part(picture(84, 56)))
        await asked(house, video_part(clip(56, 56, 8)), image_part(picture(56, 56)))

    still, moving = house.engine.requests[0].multimodal
    assert (still.modality, moving.modality) == ("image", "video")
    assert still.tensors["image_grid_thw"].values == (1, 4, 4, 1, 4, 6)
    assert moving.flat == {"pixel_values": "patches_per_video"}
    (first, _), (last, _) = still.placeholders
    assert first < moving.placeholders[0][0] < last
    text = house.engine.engine.vocabulary.decode(house.engine.requests[0].input_ids)
    marks = [text.index(each) for each in ("one", "<|image_pad|>", "two", "<|video_pad|>", "three")]
    assert marks == sorted(marks)
    assert text.rindex("<|image_pad|>") > marks[-1]
    assert "I see 2 images" in answer.choices[0].message.content
    assert "I see 1 video" in answer.choices[0].message.content
    assert [media.modality for media in house.engine.requests[1].multimodal] == ["video", "image"]
    assert house.engine.requests[1].multimodal[1].hashes[0] == still.hashes[0]


async def test_kinds_of_several_turns_mix_too(qwen: str) -> None:
    messages: Any = [
        {"role": "user", "content": [video_part(clip(56, 56, 4)), text_part("This?")]},
        {"role": "assistant", "content": "A clip."},
        {"role": "user", "content": [image_part(picture(56, 56)), text_part("And this?")]},
    ]
    async with seeing(qwen) as house, sdk(house) as client:
        await client.chat.completions.create(model="sim", messages=messages)

    moving, still = house.engine.requests[-1].multimodal
    assert moving.placeholders[0][0] < still.placeholders[0][0]


# ------------------------------------------------------------------------------------------------------------- what is refused


async def test_a_model_of_text_refuses_pictures_by_name() -> None:
    async with in_process(SimulatorConfig(), config=Config(workers=VLLM)) as house:
        error = await refused(house, text_part("x"), image_part(picture(8, 8)))

    assert error["param"] == "messages[0].content[1]"
    assert error["code"] == "unsupported_parameter"
    assert "images" in error["message"]


async def test_an_engine_that_says_it_takes_no_pictures_makes_a_model_of_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = qwen2_vl(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    del config["vision_config"]
    (folder / "config.json").write_text(json.dumps(config))
    settings = Config(workers=WorkersConfig(dialect="neutral"))
    with caplog.at_level("INFO"):
        async with in_process(SimulatorConfig(model_folder=str(folder)), config=settings) as house:
            assert (await refused(house, image_part(picture(8, 8))))["code"] == "unsupported_parameter"
            assert (await asked(house, text_part("Hello"))).choices[0].message.content
    assert "text only, since its engine says" in caplog.text


async def test_sound_and_files_are_refused_by_a_model_of_pictures(qwen: str) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    file = {"type": "file", "file": {"file_data": "JVBERi0=", "filename": "a.pdf"}}
    settings = Config(workers=VLLM, documents=DocumentsConfig(pdf="off"))
    async with in_process(SimulatorConfig(model_folder=qwen), config=settings) as house:
        errors = [await refused(house, text_part("x"), part) for part in (sound, file)]

    assert [error["param"] for error in errors] == ["messages[0].content[1]"] * 2
    assert "audio" in errors[0]["message"]
    assert "files" in errors[1]["message"]


def bomb(side: int) -> bytes:
    """A PNG of a few bytes that claims side times side pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.sampled(keep=9)
@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("data:image/png;base64,!!!!", "invalid_image"),
        ("data:image/png;base64", "invalid_image"),
        (data_url(b"no picture at all"), "invalid_image"),
        (data_url(b""), "invalid_image"),
        (data_url(picture(64, 64, kind="JPEG")[:-400], "image/jpeg"), "invalid_image"),
        (data_url(picture(4000, 10)), "invalid_image"),
        (data_url(bomb(30_000)), "media_too_large"),
        (data_url(picture(64, 64) + bytes(40_000)), "media_too_large"),
        ("file:///etc/passwd", "media_forbidden"),
        ("http://example.com/a.png", "media_forbidden"),
        ("ftp://example.com/a.png", "media_forbidden"),
        ("https://127.0.0.1/a.png", "media_forbidden"),
        ("https://[::1]/a.png", "media_forbidden"),
        ("https://169.254.169.254/latest/meta-data/", "media_forbidden"),
        ("https://10.1.2.3/a.png", "media_forbidden"),
        ("https://user:secret@example.com/a.png", "media_forbidden"),
        ("https://example.com:22/a.png", "media_forbidden"),
        ("picture.png", "media_forbidden"),
    ],
)
async def test_a_bad_picture_is_refused_with_its_place(hardened: House, url: str, code: str) -> None:
    error = await refused(hardened, text_part("see"), image_part(picture(56, 56)), image_part(url))

    assert error["param"] == "messages[0].content[2]", error
    assert error["code"] == code, error
    assert "secret" not in error["message"]
    assert (await asked(hardened, image_part(picture(56, 56)))).choices[0].finish_reason == "stop"


@pytest.fixture(scope="module")
async def hardened(qwen: str) -> AsyncIterator[House]:
    """One gateway with small budgets, which takes every bad picture of this module."""
    async with seeing(qwen, max_bytes=32 * 1024, max_pixels=2_000_000, max_items=3) as house:
        yield house


async def test_too_many_pictures_are_refused_before_any_is_looked_at(hardened: House) -> None:
    error = await refused(hardened, *[image_part(data_url(b"no picture")) for _ in range(4)])

    assert error["param"] == "messages[0].content[3]"
    assert error["code"] == "too_many_media"


@pytest.mark.full
async def test_all_pictures_together_have_a_budget(qwen: str) -> None:
    photo = picture(64, 64) + bytes(1500)
    async with seeing(qwen, max_request_bytes=4000) as house:
        error = await refused(house, *[image_part(photo)] * 4)
        await asked(house, image_part(photo))

    assert error["code"] == "media_too_large"


async def test_the_context_is_checked_on_the_expanded_prompt(qwen: str) -> None:
    config = Config(workers=VLLM)
    async with in_process(SimulatorConfig(model_folder=qwen, context_length=120), config=config) as house:
        error = await refused(house, image_part(picture(448, 448)))
        await asked(house, image_part(picture(112, 112)), max_completion_tokens=5)

    assert error["code"] == "context_length_exceeded"
    prompt = house.engine.engine.vocabulary.encode("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n")
    assert f"({len(prompt) + 256 + 2} in the prompt" in error["message"]


async def test_an_uploaded_file_is_refused_by_name(qwen: str) -> None:
    part = {"type": "file", "file": {"file_id": "file-1"}}
    async with seeing(qwen) as house:
        assert (await refused(house, part))["param"] == "messages[0].content[0]"


# ------------------------------------------------------------------------------------------------------------------- fetching


@attrs.define
class Site:
    """A picture server on this machine. `hold` keeps answers back until it is set."""

    port: int = 0
    asked: list[str] = attrs.field(factory=list)
    hold: asyncio.Event | None = None
    left: int = 0


@asynccontextmanager
async def site(authority: trustme.CA, pages: dict[str, bytes]) -> AsyncIterator[Site]:
    found = Site()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1]
            found.asked.append(path)
            if found.hold is not None:
                if not await reader.read(1):
                    found.left += 1
                return
            body = pages.get(path)
            head = "200 OK" if body is not None else "404 Not Found"
            writer.write(f"HTTP/1.1 {head}\r\ncontent-length: {len(body or b'')}\r\n\r\n".encode() + (body or b""))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            found.left += 1
        finally:
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with listening(connected, context) as found.port:
        yield found


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA, folder: Path, port: int) -> dict[str, Any]:
    """Settings by which pictures are fetched from this machine."""
    file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return {"allow_private": ("127.0.0.1",), "tls_ca": str(file), "port": port}


async def test_pictures_are_fetched_where_that_is_allowed_and_each_only_once(
    qwen: str, authority: trustme.CA, tmp_path: Path
) -> None:
    async with (
        site(authority, {"/a.png": picture(56, 56), "/b.png": picture(84, 56)}) as pages,
        seeing(qwen, **trusting(authority, tmp_path, pages.port)) as house,
    ):
        a, b = (f"https://127.0.0.1:{pages.port}/{name}.png" for name in "ab")
        await asked(house, image_part(a), image_part(b), image_part(a))
        missing = await refused(house, image_part(f"https://127.0.0.1:{pages.port}/c.png"))

    assert sorted(pages.asked) == ["/a.png", "/b.png", "/c.png"]
    assert seen(house).tensors["image_grid_thw"].values == (1, 4, 4, 1, 4, 6, 1, 4, 4)
    assert missing["code"] == "media_unavailable"


async def test_a_host_that_is_not_on_the_list_is_refused(qwen: str, authority: trustme.CA, tmp_path: Path) -> None:
    async with site(authority, {"/a.png": picture(56, 56)}) as pages:
        settings = trusting(authority, tmp_path, pages.port)
        async with seeing(qwen, allow_hosts=("pictures.example",), **settings) as house:
            error = await refused(house, image_part(f"https://127.0.0.1:{pages.port}/a.png"))

    assert error["code"] == "media_forbidden"
    assert not pages.asked


async def test_a_client_that_leaves_ends_the_fetch(qwen: str, authority: trustme.CA, tmp_path: Path) -> None:
    async with site(authority, {}) as pages:
        pages.hold = asyncio.Event()
        async with seeing(qwen, over_http, **trusting(authority, tmp_path, pages.port)) as house:
            content = [image_part(f"https://127.0.0.1:{pages.port}/a.png")]
            request = asyncio.ensure_future(
                house.http.post(CHAT, json={"model": "sim", "messages": [{"role": "user", "content": content}]})
            )
            async with asyncio.timeout(PATIENCE):
                while not pages.asked:
                    await asyncio.sleep(0.001)
                request.cancel()
                while not pages.left:
                    await asyncio.sleep(0.001)
            await settled(house)
            assert not house.engine.requests


async def test_a_file_is_read_only_below_the_folder_that_is_named(qwen: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for place in ("in/a.png", "b.png"):
        (tmp_path / place).write_bytes(picture(56, 56))
    async with seeing(qwen, allow_files=str(tmp_path / "in")) as house:
        await asked(house, image_part(f"file://{tmp_path}/in/a.png"))
        errors = [await refused(house, image_part(f"file://{tmp_path}/{path}")) for path in ("b.png", "in/../b.png")]

    assert [error["code"] for error in errors] == ["media_forbidden"] * 2
    assert not any(str(tmp_path) in error["message"] for error in errors)


# -------------------------------------------------------------------------------------------------------------- what is shared


async def test_many_requests_with_pictures_at_once_do_not_mix(qwen: str) -> None:
    async with seeing(qwen) as house:

        async def one(number: int) -> tuple[int, str]:
            wide = 56 + 28 * number
            answer = await asked(house, SHAPES, image_part(picture(wide, 56)))
            return wide // 14 * 4, answer.choices[0].message.content

        found = await asyncio.gather(*map(one, range(12)))
        await settled(house)

    assert all(f"pixel_values {patches}x1176 float32" in text for patches, text in found)


async def test_scripted_answers_and_explanations_work_with_pictures(qwen: str) -> None:
    config = Config(workers=VLLM)
    simulator = SimulatorConfig(model_folder=qwen, replies=(Reply("A square."),))
    async with in_process(simulator, config=config) as house:
        body = {"model": "sim", "messages": [{"role": "user", "content": [SHAPES, image_part(picture(56, 56))]}]}
        explained = await house.gateway.explain(body)
        answer = await house.http.post(CHAT, json=body)

    assert answer.json()["choices"][0]["message"]["content"] == "A square."
    assert [phase.name for phase in explained.phases] == ["render", "encode", "media", "select"]
    assert list(explained.token_ids) == list(house.engine.requests[-1].input_ids)


async def test_odd_pictures_are_taken(qwen: str) -> None:
    """One pixel, a palette with transparency, sixteen bits, CMYK: whatever a client has."""
    kinds = [("P", "GIF"), ("LA", "PNG"), ("I;16", "PNG"), ("CMYK", "JPEG"), ("1", "PNG")]
    async with seeing(qwen) as house:
        for mode, kind in kinds:
            out = io.BytesIO()
            Image.new(mode, (40, 30)).save(out, kind)
            await asked(house, image_part(base64_url(out.getvalue(), kind)))
        await asked(house, image_part(picture(1, 1)))

    assert len(house.engine.requests) == len(kinds) + 1


def base64_url(data: bytes, kind: str) -> str:
    """A data URL with a parameter and in capitals, as some clients write them."""
    return f"DATA:image/{kind.lower()};charset=binary;BASE64,{base64.b64encode(data).decode()}"


async def test_a_model_whose_files_are_of_no_family_is_served_as_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = qwen2_vl(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "unheard_of"}))
    async with seeing(str(folder)) as house:
        assert (await asked(house, text_part("Hello"))).choices[0].message.content
        error = await refused(house, image_part(picture(56, 56)))

    assert error["code"] == "unsupported_parameter"
    assert "text only" in caplog.text
