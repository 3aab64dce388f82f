"""What the models of a gateway share: threads, and which dialect is sent what."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import eventually
from tests.gateway.vision_models import llava, picture, qwen2_audio, qwen2_vl

from smg_core.config import MediaConfig
from smg_core.engines.base import EngineFacts
from smg_core.engines.dialects import DIALECTS, Dialect
from smg_core.errors import UnsupportedParameter
from smg_core.pipeline.media import MediaItem
from smg_core.request import MediaSource
from smg_core.server.media import GatewayMedia, ModelMedia
from smg_core.tokenizer.loader import load_tokenizer
from smg_core.tokens import TokenIds

pytestmark = pytest.mark.anyio


@pytest.fixture
async def media() -> AsyncIterator[GatewayMedia]:
    shared = GatewayMedia(MediaConfig(threads=2))
    yield shared
    await shared.close()


def service(media: GatewayMedia, folder: Path) -> ModelMedia | None:
    config = json.loads((folder / "config.json").read_text())
    return media.service("m", folder, config, load_tokenizer(folder).tokenizer)


def item(colour: str) -> MediaItem:
    return MediaItem("image", MediaSource(data=picture(56, 56, colour)), "messages[0].content[0]")


async def test_models_share_the_threads_that_the_settings_allow(media: GatewayMedia, tmp_path: Path) -> None:
    inside, most, go_on, lock = 0, 0, threading.Event(), threading.Lock()

    def watched(features: Any) -> Any:
        def process(each: Any) -> Any:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            go_on.wait(10)
            made = features(each)
            with lock:
                inside -= 1
            return made

        return process

    models = [service(media, qwen2_vl(tmp_path / "a")), service(media, llava(tmp_path / "b"))]
    loads = []
    for model in models:
        assert model is not None
        model._preparer.features = watched(model._preparer.features)  # type: ignore[method-assign]
        loads += [
            asyncio.ensure_future(model.load([item(colour)], normalizes=False)) for colour in ("red", "green", "blue")
        ]
    await eventually(lambda: most == 2)
    go_on.set()
    loaded = await asyncio.gather(*loads)

    assert most == 2
    assert [len(each.items) for each in loaded] == [1] * 6


async def test_a_model_takes_what_its_files_say(media: GatewayMedia, tmp_path: Path) -> None:
    seen, heard = service(media, qwen2_vl(tmp_path / "a")), service(media, qwen2_audio(tmp_path / "b"))

    assert seen is not None
    assert seen.kinds == {"image", "video"}
    assert heard is not None
    assert heard.kinds == {"audio"}


async def test_an_engine_whose_dialect_carries_no_media_is_refused_by_name(
    media: GatewayMedia, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DIALECTS, "words", Dialect(DIALECTS["vllm"].codec))
    folder = qwen2_vl(tmp_path / "a")
    model, picture_token = service(media, folder), load_tokenizer(folder).tokenizer.token_id("<|image_pad|>")
    assert model is not None
    loaded = await model.load([item("red")], normalizes=False)
    placed = await model.place(TokenIds([1, picture_token, 2]), loaded)

    with pytest.raises(UnsupportedParameter, match="words"):
        await model.pack(placed.features, EngineFacts("words"))
