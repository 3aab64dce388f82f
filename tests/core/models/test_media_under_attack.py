"""Pictures from a stranger: what they cost is bounded, and it is nobody else's trouble."""

import asyncio
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.gateway.conftest import eventually
from tests.gateway.vision_models import picture, qwen2_vl
from tests.multimodal.hostile import flat_png, scan_bomb
from tests.multimodal.moving import coded_clip

from smg_core.engines.base import EngineFacts, Pixels
from smg_core.errors import InvalidRequest, Overloaded, PromptTooLong
from smg_core.http.settings import MediaConfig
from smg_core.models.media_service import GatewayMedia
from smg_core.models.model_media import ModelMedia
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import MediaSource
from smg_core.tokenizer.loader import load_tokenizer
from smg_core.tokens import TokenIds

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen2_vl(tmp_path_factory.mktemp("qwen-attacked") / "model")


@asynccontextmanager
async def serving(folder: Path, **settings: object) -> AsyncIterator[tuple[GatewayMedia, ModelMedia]]:
    """What serves one model's media with these settings."""
    media = GatewayMedia(MediaConfig(**settings))  # type: ignore[arg-type]
    config = json.loads((folder / "config.json").read_text())
    model = media.service("m", folder, config, load_tokenizer(folder).tokenizer)
    assert isinstance(model, ModelMedia)
    yield media, model
    await media.close()


def item(data: bytes, place: int = 0) -> MediaItem:
    return MediaItem("image", MediaSource(data=data), f"messages[0].parts[{place}]")


def refusing(context: int) -> Callable[[int], None]:
    def check(tokens: int) -> None:
        if tokens > context:
            raise PromptTooLong(tokens, 1, context)

    return check


async def test_a_bomb_of_scans_is_refused_at_once_and_nobody_else_is(folder: Path) -> None:
    bomb = scan_bomb(2000, 3500)
    async with serving(folder) as (_, model):
        for _ in range(3):
            with pytest.raises(InvalidRequest, match=r"messages\[0\]\.parts\[0\].*scans") as refused:
                await model.load([item(bomb)], pixels=Pixels())
            assert refused.value.code == "media_too_large"
        await model.load([item(picture(56, 56))], pixels=Pixels())


@pytest.mark.full
async def test_what_takes_long_holds_up_nothing_short_and_who_waits_is_not_blamed(folder: Path) -> None:
    """The bound on scans is lifted, so that the bombs are decoded until their time is up."""
    bomb, other = scan_bomb(2000, 3500), scan_bomb(2000, 3400)
    settings = {"max_scans": 100_000, "processes": 1, "decode_timeout_s": 1.5, "wait_s": 0.2}
    async with serving(folder, **settings) as (media, model):
        first = asyncio.ensure_future(model.load([item(bomb)], pixels=Pixels(), tenant="loud"))
        await eventually(lambda: bool(media._decoders.processes.processes))
        with pytest.raises(Overloaded) as waited:
            await model.load([item(other)], pixels=Pixels(), tenant="quiet")
        assert waited.value.status == 503
        assert waited.value.retry_after is not None
        assert waited.value.param is None
        for colour in ("red", "green", "blue"):
            await model.load([item(picture(56, 56, colour))], pixels=Pixels(), tenant="quiet")
        assert not first.done()
        with pytest.raises(InvalidRequest, match=r"more than 1\.5 s to decode"):
            await first
        assert media._decoders.processes.processes == []


@pytest.mark.full
async def test_a_clip_that_waits_for_a_process_is_not_blamed_and_holds_up_no_picture(folder: Path) -> None:
    """The one process stands still over somebody else's clip."""
    first, second = coded_clip("mp4", 24), coded_clip("mp4", 12)
    async with serving(folder, processes=1, wait_s=0.2) as (media, model):
        loading = asyncio.ensure_future(model.load([moving(first)], pixels=Pixels(), tenant="loud"))
        await eventually(lambda: bool(media._decoders.processes.processes))
        (process,) = media._decoders.processes.processes
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(Overloaded) as waited:
            await model.load([moving(second)], pixels=Pixels(), tenant="quiet")
        assert (waited.value.status, waited.value.retry_after) == (503, 1.0)
        await model.load([item(picture(56, 56))], pixels=Pixels(), tenant="quiet")
        os.kill(process, signal.SIGCONT)
        assert (await loading).items[0].features.modality == "video"
        await model.load([moving(second)], pixels=Pixels(), tenant="quiet")


@pytest.mark.full
async def test_tokens_and_tensors_of_a_clip_are_counted_before_a_frame_is_decoded(folder: Path) -> None:
    data = coded_clip("mp4", 120, size=(320, 240))
    async with serving(folder) as (media, model):
        costs: list[int] = []
        await model.load([moving(data)], pixels=Pixels(), check=costs.append)
        fewer = refusing(costs[0] - 1)
        model._preparer.features = None  # type: ignore[assignment, method-assign]  # nothing is decoded from here on
        with pytest.raises(PromptTooLong):
            await model.load([moving(data)], pixels=Pixels(), check=fewer)
    async with serving(folder, tensor_bytes=1 << 20) as (media, model):
        with pytest.raises(InvalidRequest, match="bytes of memory"):
            await model.load([moving(data)], pixels=Pixels())
        assert media.tensor_bytes == 0


def moving(data: bytes) -> MediaItem:
    return MediaItem("video", MediaSource(data=data), "messages[0].parts[0]")


async def test_tokens_are_counted_on_the_header_and_nothing_too_long_is_decoded(folder: Path) -> None:
    async with serving(folder) as (media, model):
        decoded: list[bytes] = []
        features = model._preparer.features
        model._preparer.features = lambda each, facts: decoded.append(each.data) or features(each, facts)  # type: ignore[method-assign, func-returns-value]
        with pytest.raises(PromptTooLong):
            await model.load([item(picture(448, 448))] * 2, pixels=Pixels(), check=refusing(511))
        assert decoded == []
        loaded = await model.load([item(picture(448, 448))] * 2, pixels=Pixels(), check=refusing(512))
        assert sum(each.features.tokens for each in loaded.items) == 512
        del loaded
        gc.collect()
        await eventually(lambda: media.tensor_bytes == 0)


@pytest.mark.full
async def test_tensors_of_a_request_are_reserved_before_and_given_back_however_it_ends(folder: Path) -> None:
    """Qwen2-VL's 448 x 448: 1,024 patches of 1,176 floats, and as much again for the message."""
    whole = 2 * 1024 * 1176 * 4
    async with serving(folder, tensor_bytes=2 * whole + 100_000, wait_s=0.2) as (media, model):
        held = [await model.load([item(picture(448, 448, colour))], pixels=Pixels()) for colour in ("red", "blue")]
        assert 2 * whole <= media.tensor_bytes <= 2 * whole + 10_000
        with pytest.raises(Overloaded, match="memory"):
            await model.load([item(picture(448, 448, "green"))], pixels=Pixels())
        held.pop()
        gc.collect()
        await eventually(lambda: media.tensor_bytes < whole + 10_000)

        damaged = picture(448, 448, "green")[:-200]
        with pytest.raises(InvalidRequest):
            await model.load([item(damaged)], pixels=Pixels())
        leaving = asyncio.ensure_future(model.load([item(picture(448, 448, "black"))], pixels=Pixels()))
        await eventually(lambda: media.tensor_bytes > whole + 10_000)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert media.tensor_bytes < whole + 10_000

        placed = await model.place(TokenIds([1, model._anchors["image"]]), held.pop())
        packed = await model.pack(placed.features, EngineFacts(dialect="vllm"))
        gc.collect()
        assert media.tensor_bytes >= whole  # the request still has them
        del placed, packed
        gc.collect()
        await eventually(lambda: media.tensor_bytes == 0)

        with pytest.raises(InvalidRequest) as refused:
            await model.load([item(picture(448, 448), place) for place in range(3)], pixels=Pixels())
        assert refused.value.code == "media_too_large"


MEMORY = """
import asyncio, gc, json, os, sys, threading
from pathlib import Path
from smg_core.config.config import MediaConfig
from smg_core.engines.base import EngineFacts, Pixels
from smg_core.errors import Overloaded
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import MediaSource
from smg_core.models.media_service import GatewayMedia
from smg_core.tokenizer.loader import load_tokenizer
from smg_core.tokens import TokenIds
from tests.multimodal.hostile import flat_png

MIB = 1 << 20
folder, side, budget = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) * MIB
settings = MediaConfig(tensor_bytes=budget, decode_bytes=budget, cache_bytes=0, wait_s=600, decode_timeout_s=300)
peak, over = 0, threading.Event()

def resident(process):
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    except OSError:
        return 0
    # memory that both sides see is counted where it is written
    own = ("RssAnon", "RssFile") if process == os.getpid() else ("RssAnon", "RssFile", "RssShmem")
    return sum(int(fields[name].split()[0]) * 1024 for name in own if name in fields)

async def main():
    global peak
    media = GatewayMedia(settings)
    config = json.loads((folder / "config.json").read_text())
    model = media.service("m", folder, config, load_tokenizer(folder).tokenizer)
    anchor = model._anchors["image"]

    async def one(data):
        item = MediaItem("image", MediaSource(data=data), "messages[0].parts[0]")
        loaded = await model.load([item], pixels=Pixels())
        placed = await model.place(TokenIds([1, anchor]), loaded)
        del loaded
        packed = await model.pack(placed.features, EngineFacts(dialect="vllm"))
        message = b"".join(bytes(each.data) for each in packed.shareable)
        await asyncio.sleep(0)
        return len(message)

    await one(flat_png(3000, 3000))  # processes and libraries are there
    files = [flat_png(side + index, side) for index in range(20)]
    gc.collect()
    watched = [os.getpid(), *media._decoders.processes.processes]
    before = sum(map(resident, watched))

    def watch():
        global peak
        while not over.wait(0.002):
            peak = max(peak, sum(map(resident, [os.getpid(), *media._decoders.processes.processes])))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    done = await asyncio.gather(*map(one, files))
    over.set()
    watcher.join()
    assert len(done) == 20 and min(done) > 0
    print(len(files[0]), peak - before, media.tensor_bytes)
    await media.close()

asyncio.run(main())
"""


@pytest.mark.full
@pytest.mark.timeout(900)  # a busy machine decodes twenty pictures in minutes
@pytest.mark.parametrize("side", [2800, 3300])
async def test_twenty_pictures_at_once_stay_within_the_budget(side: int, folder: Path, tmp_path: Path) -> None:
    """Four PNGs of 44 KiB took the gateway to 4 GiB. Twenty of 3,300 x 3,300 (in processes; the smaller in threads), each 130 MB
    while it is decoded and then 2 x 48 MB of tensors: processes and gateway together stay within the two budgets and 100 MiB."""
    budget = 208
    large = tmp_path / "model"
    shutil.copytree(folder, large)
    settings = json.loads((large / "preprocessor_config.json").read_text())
    (large / "preprocessor_config.json").write_text(json.dumps({**settings, "max_pixels": 28 * 28 * 2560}))
    arguments = [sys.executable, "-c", MEMORY, str(large), str(side), str(budget)]
    out = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    size, taken, left = map(int, out.stdout.split())
    assert size < 80 * 1024
    assert taken < (2 * budget + 100) * 1024 * 1024
    assert left == 0


@pytest.mark.full
async def test_a_picture_that_takes_more_memory_than_there_is_for_all_is_refused_by_its_header(folder: Path) -> None:
    async with serving(folder, decode_bytes=64 << 20) as (_, model):
        with pytest.raises(InvalidRequest, match="192000000 bytes of memory"):
            await model.load([item(flat_png(4000, 4000))], pixels=Pixels())
