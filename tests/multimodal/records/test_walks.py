"""Files of a great many tiny pieces: headers are walked over in steps, few of them on the event loop and never without end."""

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hostile import TINY_PIECES, saved, tiny_pieces
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from reference_families import FAMILIES
from sound_files import recording

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.clips import animation_facts
from smg_multimodal.decoding.decode import ImageLimits, picture_header
from smg_multimodal.decoding.formats import FORMATS
from smg_multimodal.fetching import fetch
from smg_multimodal.fetching.fetch import Fetcher, MediaLoader
from smg_multimodal.preparing.prepare import Media, Preparer
from smg_multimodal.recordings.audio import wave_length, wave_of_pcm16
from smg_multimodal.records import walks
from smg_multimodal.records.errors import MediaError, MediaTooLarge
from smg_multimodal.records.types import Modality
from smg_multimodal.records.walks import MOST_STEPS, LongWalk, StepCount

pytestmark = pytest.mark.anyio
EVERY = ImageLimits(formats=frozenset(FORMATS))
MEDIA = {"wav": Modality.AUDIO, "gif-frames": Modality.VIDEO, "png-chunks": Modality.VIDEO, "webp": Modality.VIDEO}
"""What a file is sent as, where it is no picture, or also something else."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Words:
    def token_id(self, token: str) -> int | None:
        return sum(map(ord, token))

    def encode(self, text: str) -> Sequence[int]:
        return list(text.encode())


@pytest.fixture(scope="module")
def preparer() -> Preparer:
    family = FAMILIES["qwen3-omni"]
    return Preparer(ModelFiles(family.model, family.preprocessor), Words(), limits=EVERY)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many steps were gone in each thread."""
    gone: Counter[int] = Counter()
    own = StepCount.step

    def counted(walk: StepCount) -> None:
        gone[threading.get_ident()] += 1
        own(walk)

    monkeypatch.setattr(StepCount, "step", counted)
    return gone


def as_media(kind: str, data: bytes) -> list[Media]:
    found = [] if kind == "wav" else [Media(data)]
    return [*found, Media(data, MEDIA[kind])] if kind in MEDIA else found


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("kind", TINY_PIECES)
async def test_of_a_file_of_tiny_pieces_few_are_gone_through_on_the_event_loop(
    kind: str, preparer: Preparer, steps: Counter[int]
) -> None:
    for size in (2000, 64 * 1024, 300_000):
        async with Fetcher() as fetcher:
            loader = MediaLoader(preparer, fetcher)
            for media in as_media(kind, tiny_pieces(kind, size)):
                steps.clear()
                with suppress(MediaError):
                    await loader.cost(media, tenant="")
                assert steps[threading.get_ident()] <= fetch._STEPS_HERE + 1
                assert sum(steps.values()) > 10
            loader.close()


async def test_sixteen_files_of_tiny_pieces_in_one_request_take_a_thousand_steps_of_the_event_loop_at_most(
    preparer: Preparer, steps: Counter[int]
) -> None:
    async with Fetcher() as fetcher:
        loader = MediaLoader(preparer, fetcher)
        files = [Media(tiny_pieces("webp", 64 * 1024 - place)) for place in range(16)]
        with suppress(MediaError):
            await fetch.together([loader.cost(each, tenant="") for each in files])
        assert 0 < steps[threading.get_ident()] <= 16 * (fetch._STEPS_HERE + 1)
        loader.close()


def ordinary() -> dict[str, bytes]:
    picture = Image.effect_noise((110, 110), 80).convert("RGB")
    made = {name: saved(picture, name) for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "JPEG2000")}
    made["progressive"] = saved(picture, "JPEG", progressive=True, icc_profile=bytes(3000), exif=Image.Exif())
    made["animated"] = saved(picture, "GIF", save_all=True, append_images=[picture.rotate(turn) for turn in (90, 180)])
    return made


async def test_an_ordinary_file_is_measured_without_a_thread(preparer: Preparer) -> None:
    class NoThreads:
        def submit(self, *arguments: object, **named: object) -> object:
            raise AssertionError("a thread was asked")

        def shutdown(self, **named: object) -> None: ...

    async with Fetcher() as fetcher:
        loader = MediaLoader(preparer, fetcher, pool=NoThreads())  # type: ignore[arg-type]
        files = ordinary()
        for data in files.values():
            assert len(data) <= fetch._WALKED_HERE
            assert (await loader.cost(Media(data), tenant="")).tokens
        samples = (recording(1.0) * 30000).astype("<i2").tobytes()
        spoken = Media(wave_of_pcm16(samples, 16000), Modality.AUDIO)
        assert (await loader.cost(spoken, tenant="")).tensors
        loader.close()


@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("kind", TINY_PIECES)
def test_no_walk_is_longer_than_the_most_steps_however_long_the_file(kind: str, steps: Counter[int]) -> None:
    long = tiny_pieces(kind, 20 * MOST_STEPS)
    with suppress(MediaError):
        if kind == "wav":
            wave_length(long, max_bytes=1 << 30)
        else:
            picture_header(long, EVERY)
    assert sum(steps.values()) <= MOST_STEPS + 1


def test_blocks_of_a_gif_are_counted_too_so_that_millions_of_them_are_refused() -> None:
    with pytest.raises(MediaTooLarge, match="pieces"):
        picture_header(tiny_pieces("gif-blocks", 4 * 1024 * 1024), EVERY)
    frame = Image.effect_noise((900, 900), 80)
    assert picture_header(saved(frame, "GIF"), EVERY).size == (900, 900)


@given(st.integers(0, 200), st.sampled_from(sorted(TINY_PIECES)))
def test_a_walk_of_few_steps_gives_what_a_longer_one_gives_or_says_that_it_is_not_over(most: int, kind: str) -> None:
    data, few = tiny_pieces(kind, 1500), ImageLimits(formats=frozenset(FORMATS), max_steps=most)

    def found(limits: ImageLimits) -> object:
        try:
            if kind == "wav":
                return wave_length(data, max_steps=limits.max_steps)
            return animation_facts(data, limits) if MEDIA.get(kind) is Modality.VIDEO else picture_header(data, limits)
        except LongWalk:
            return None
        except MediaError as error:
            return type(error), str(error)

    assert found(few) in (None, found(EVERY))


def test_a_walk_says_of_what_it_is() -> None:
    walk = StepCount("recording", 2)
    walk.step()
    walk.step()
    with pytest.raises(LongWalk, match="the recording is made of more than 2 pieces"):
        walk.step()
    assert ImageLimits().max_steps == walks.MOST_STEPS
