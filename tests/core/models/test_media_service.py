"""What the models of a gateway share: threads, and which dialect is sent what."""

import asyncio
import io
import json
import secrets
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from PIL import Image
from tests.gateway.conftest import eventually
from tests.gateway.vision_models import llava, picture, qwen2_audio, qwen2_vl
from tests.shared import PATIENCE

from smg_core.engines.base import EngineFacts, Pixels
from smg_core.engines.kinds.table import ENGINE_KINDS
from smg_core.errors import Overloaded, UnsupportedParameter
from smg_core.http.settings import MediaConfig
from smg_core.models.media_service import GatewayMedia
from smg_core.models.model_media import ModelMedia
from smg_core.pipeline.prompt.media import MediaItem, refuse_unless_taken, wanted_pixels
from smg_core.request import MediaSource
from smg_core.tokenizer.loader import load_tokenizer
from smg_core.tokens import TokenIds
from smg_multimodal.records.types import BFLOAT16, Modality

pytestmark = pytest.mark.anyio


@pytest.fixture
async def media() -> AsyncIterator[GatewayMedia]:
    shared = GatewayMedia(MediaConfig(threads=2))
    yield shared
    await shared.close()


def service(media: GatewayMedia, folder: Path) -> ModelMedia:
    config = json.loads((folder / "config.json").read_text())
    made = media.service("m", folder, config, load_tokenizer(folder).tokenizer)
    assert isinstance(made, ModelMedia)
    return made


def item(colour: str) -> MediaItem:
    return MediaItem("image", MediaSource(data=picture(56, 56, colour)), "messages[0].parts[0]")


@pytest.mark.full
async def test_models_share_the_threads_that_the_settings_allow(media: GatewayMedia, tmp_path: Path) -> None:
    inside, most, go_on, lock = 0, 0, threading.Event(), threading.Lock()

    def watched(features: Any) -> Any:
        def process(each: Any, facts: Any) -> Any:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            go_on.wait(PATIENCE)
            made = features(each, facts)
            with lock:
                inside -= 1
            return made

        return process

    models = [service(media, qwen2_vl(tmp_path / "a")), service(media, llava(tmp_path / "b"))]
    loads = []
    for model in models:
        model._preparer.features = watched(model._preparer.features)  # type: ignore[method-assign]
        loads += [
            asyncio.ensure_future(model.load([item(colour)], pixels=Pixels())) for colour in ("red", "green", "blue")
        ]
    await eventually(lambda: most == 2)
    go_on.set()
    loaded = await asyncio.gather(*loads)

    assert most == 2
    assert [len(each.items) for each in loaded] == [1] * 6


@pytest.mark.full
async def test_an_engine_that_says_what_it_takes_is_sent_nothing_else(
    media: GatewayMedia, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model takes is the service's to say; what an engine of it does not take, the pipeline refuses by name."""
    model, heard = service(media, qwen2_vl(tmp_path / "a")), service(media, qwen2_audio(tmp_path / "b"))
    assert model.kinds == {"image", "video"}
    assert heard.kinds == {"audio"}
    for said in (frozenset({"audio"}), frozenset[str]()):
        with pytest.raises(UnsupportedParameter):
            refuse_unless_taken([item("red")], "m", model.kinds & said)
    refuse_unless_taken([item("red")], "m", model.kinds & {"image"})

    monkeypatch.setitem(ENGINE_KINDS, "bare", attrs.evolve(ENGINE_KINDS["vllm"], packing=None))
    loaded = await model.load([item("red")], pixels=Pixels())
    (anchor,) = {rule.anchor for rule in model._preparer.rules if rule.modality == "image"}
    placed = await model.place(TokenIds([1, anchor]), loaded)
    assert (await model.pack(placed.features, EngineFacts(dialect="vllm"))).shareable
    with pytest.raises(UnsupportedParameter):
        await model.pack(placed.features, EngineFacts(dialect="bare"))


def noise() -> MediaItem:
    out = io.BytesIO()
    pixels = np.random.default_rng(5).integers(0, 2, (90, 130, 3), np.uint8) * np.uint8(255)
    Image.fromarray(pixels).save(out, "PNG")
    return MediaItem("image", MediaSource(data=out.getvalue()), "messages[0].parts[0]")


async def pixels_for(model: ModelMedia, wanted: Pixels) -> bytes:
    (made,) = (await model.load([noise()], pixels=wanted)).items
    return made.features.tensors["pixel_values"].tobytes()


async def test_pictures_are_resized_as_the_engine_would_unless_the_setting_says_otherwise(tmp_path: Path) -> None:
    folder, by_setting = qwen2_vl(tmp_path / "model"), {}
    for resize in ("auto", "pil", "torch"):
        shared = GatewayMedia(MediaConfig(resize=resize))
        model = service(shared, folder)
        by_setting[resize] = [await pixels_for(model, Pixels(resize=each)) for each in ("pil", "torch")]
        await shared.close()
    by_pillow, by_torch = by_setting["auto"]
    assert by_pillow != by_torch
    assert by_setting["pil"] == [by_pillow] * 2
    assert by_setting["torch"] == [by_torch] * 2


async def test_pictures_are_made_anew_for_an_engine_that_resizes_otherwise(media: GatewayMedia, tmp_path: Path) -> None:
    model = service(media, qwen2_vl(tmp_path / "model"))
    (anchor,) = {rule.anchor for rule in model._preparer.rules if rule.modality == "image"}
    placed = await model.place(TokenIds([1, anchor]), await model.load([noise()], pixels=Pixels()))
    sent = [
        bytes((await model.pack(placed.features, EngineFacts(dialect="vllm", resizes=each))).shareable[0].data)
        for each in ("pil", "torch")
    ]
    assert sent == [await pixels_for(model, Pixels(resize=each)) for each in ("pil", "torch")]


async def test_tensors_that_are_made_anew_are_reserved_once_and_as_long_as_their_request_lives(
    media: GatewayMedia, tmp_path: Path
) -> None:
    model = service(media, qwen2_vl(tmp_path / "model"))
    (anchor,) = {rule.anchor for rule in model._preparer.rules if rule.modality == "image"}
    loaded = await model.load([noise()], pixels=Pixels())
    once = 2 * sum(each.features.nbytes for each in loaded.items)
    placed = await model.place(TokenIds([1, anchor]), loaded)
    held = []
    for resizes in ("pil", "torch", "torch", "pil"):
        await model.pack(placed.features, EngineFacts(dialect="vllm", resizes=resizes))
        held.append(media.tensor_bytes)
    assert held == [once, 2 * once, 2 * once, 2 * once]
    del loaded, placed
    await eventually(lambda: not media.tensor_bytes, PATIENCE)


async def test_where_tensors_made_anew_have_no_room_the_request_is_told_to_come_again_and_nothing_stays_reserved(
    tmp_path: Path,
) -> None:
    tight = GatewayMedia(MediaConfig(tensor_bytes=1 << 20, wait_s=0.1))
    model = service(tight, qwen2_vl(tmp_path / "model"))
    (anchor,) = {rule.anchor for rule in model._preparer.rules if rule.modality == "image"}
    placed = await model.place(TokenIds([1, anchor]), await model.load([noise()], pixels=Pixels()))
    once = tight.tensor_bytes
    assert once > (1 << 20) // 2
    with pytest.raises(Overloaded):
        await model.pack(placed.features, EngineFacts(dialect="vllm", resizes="torch"))
    assert tight.tensor_bytes == once
    await tight.close()


async def test_a_fleet_with_one_engine_that_resizes_by_torch_is_prepared_for_it() -> None:
    pillow, torch = EngineFacts(dialect="neutral"), EngineFacts(dialect="vllm", resizes="torch", normalizes=True)
    assert wanted_pixels([pillow]) == Pixels()
    assert wanted_pixels([pillow, torch]) == Pixels(raw=True, resize="torch")


async def test_what_the_engines_were_told_is_done_for_their_model_alone(tmp_path: Path) -> None:
    told = json.dumps({"m": {"max_pixels": 28 * 28 * 6}})
    shared = GatewayMedia(MediaConfig(processor_kwargs=told))
    folder = qwen2_vl(tmp_path / "model")
    config, tokenizer = json.loads((folder / "config.json").read_text()), load_tokenizer(folder).tokenizer
    tokens = []
    for name in ("m", "other"):
        model = shared.service(name, folder, config, tokenizer)
        assert isinstance(model, ModelMedia)
        (made,) = (await model.load([noise()], pixels=Pixels())).items
        tokens.append(made.features.tokens)
    await shared.close()
    assert tokens[0] <= 6 < tokens[1]


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("preprocessor_config.json", {"max_pixels": 0.5}, "max_pixels 0.5"),
        ("preprocessor_config.json", {"patch_size": [14]}, "patch_size"),
        ("config.json", {"vision_config": "x"}, "vision_config 'x'"),
        ("processor_config.json", {"image_processor": {"size": True}}, "size True"),
    ],
)
async def test_a_model_whose_files_are_strange_is_one_of_text_and_the_log_names_the_key(
    media: GatewayMedia, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str, change: Any, words: str
) -> None:
    folder = qwen2_vl(tmp_path / "model")
    path = folder / file
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **change}))
    config = json.loads((folder / "config.json").read_text())
    assert isinstance(media.service("m", folder, config, load_tokenizer(folder).tokenizer), str)
    assert words in caplog.text


async def test_a_model_of_a_family_that_is_not_here_says_which_and_the_log_has_those_that_are(
    media: GatewayMedia, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = qwen2_vl(tmp_path / "model")
    config = {**json.loads((folder / "config.json").read_text()), "model_type": "sees_next", "architectures": ["Sees"]}
    found = media.service("m", folder, config, load_tokenizer(folder).tokenizer)
    assert found == "no family here takes models of type 'sees_next' (Sees)"
    assert "'sees_next' (Sees); the families here are aria" in caplog.text
    with pytest.raises(UnsupportedParameter, match="'m' does not take images: no family here takes models of type 'se"):
        refuse_unless_taken([item("red")], "m", frozenset(), found)


async def test_what_engines_were_told_of_recordings_leaves_a_model_of_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = GatewayMedia(MediaConfig(processor_kwargs=json.dumps({"m": {"use_audio_in_video": True}})))
    folder = qwen2_vl(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    assert isinstance(shared.service("m", folder, config, load_tokenizer(folder).tokenizer), str)
    assert "use_audio_in_video" in caplog.text
    await shared.close()


async def test_what_one_process_made_of_a_medium_another_finds(tmp_path: Path) -> None:
    """Two gateways stand for two processes of one: the second decodes nothing of what the first has, for the same tenant."""
    name = f"test-{secrets.token_hex(8)}"
    ours, theirs = (GatewayMedia(MediaConfig(threads=2), processes=2, shared_as=name) for _ in range(2))
    try:
        folder = qwen2_vl(tmp_path / "a")
        one, other = service(ours, folder), service(theirs, folder)
        made = await one.load([item("red")], pixels=Pixels(floats="bfloat16"), tenant="one")

        def decoded(*_: object) -> None:
            raise AssertionError("was made before")

        preparer, _ = other._loading(Pixels(floats="bfloat16"))
        features = preparer.features
        preparer.features = decoded  # type: ignore[method-assign,assignment]
        found = await other.load([item("red")], pixels=Pixels(floats="bfloat16"), tenant="one")
        pixels = [each.items[0].features.tensors["pixel_values"] for each in (made, found)]
        assert pixels[0].dtype == pixels[1].dtype == BFLOAT16
        assert np.array_equal(pixels[0], pixels[1])
        with pytest.raises(AssertionError, match="made before"):
            await other.load([item("red")], pixels=Pixels(floats="bfloat16"), tenant="two")
        preparer.features = features  # type: ignore[method-assign]
        kept = await other.load([item("red")], pixels=Pixels(floats="bfloat16"), tenant="two")
        assert kept.items[0].content_hash != found.items[0].content_hash
    finally:
        await ours.close()
        await theirs.close()
    assert not list(Path("/dev/shm").glob(f"*{name}"))


async def test_a_fleet_of_narrow_and_wide_floats_is_served_by_one_making(media: GatewayMedia, tmp_path: Path) -> None:
    wide, narrow = (EngineFacts(dialect="vllm", floats=floats) for floats in ("float32", "bfloat16"))
    assert wanted_pixels([wide, narrow]) == Pixels()
    assert wanted_pixels([narrow, narrow]) == Pixels(floats="bfloat16")
    model = service(media, qwen2_vl(tmp_path / "a"))
    loaded = await model.load([item("red")], pixels=Pixels())
    placed = await model.place(TokenIds([1, model._anchors[Modality.IMAGE]]), loaded)
    sent = [await model.pack(placed.features, facts) for facts in (wide, narrow)]
    assert [each.shareable[0].dtype for each in sent] == ["float32", "bfloat16"]
    assert not loaded.others
