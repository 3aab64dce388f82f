"""The kernel's bytes are Pillow's, its floats the tables', and without it everything comes out the same."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.shared import PATIENCE
from tests.tiers import examples

from smg_multimodal.pixels import kernel, layouts, resample, transforms
from smg_multimodal.pixels.filters import FILTERS, taps, taps_at_most
from smg_multimodal.pixels.kernel import MEMORY, KernelFailed, MemoryRegion, attempted, borrowed, compiled_module
from smg_multimodal.pixels.kernel_text import text
from smg_multimodal.pixels.passes import resize_in_bands
from smg_multimodal.pixels.resample import BICUBIC, BILINEAR, LANCZOS, PassOrder, pass_order, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    Normalizer,
    bfloat16_normalizer,
    rescale_normalizer,
)
from smg_multimodal.records.types import Bytes8, Size

SIDE = st.integers(1, 700)
FILTER = st.sampled_from(sorted(FILTERS))
KINDS = ("noise", "extremes", "grey")


def picture(width: int, height: int, kind: str, seed: int = 0) -> Image.Image:
    """Noise; noise of black and white, which overshoots; or a grey picture made RGB, as decoding makes it."""
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    if kind == "extremes":
        noise = (noise > 127).astype(np.uint8) * np.uint8(255)
    if kind == "grey":
        return Image.fromarray(np.ascontiguousarray(noise[:, :, 0])).convert("RGB")
    return Image.fromarray(noise)


def fast(image: Image.Image, size: Size, how: Image.Resampling) -> Bytes8 | None:
    order = pass_order()
    assert order is not None
    with borrowed() as instance:
        return resize_in_bands(instance, image, size, how, down_first=order.down_first(image.size, size))


def assert_pillows(image: Image.Image, size: Size, how: Image.Resampling) -> None:
    found = fast(image, size, how)
    assert found is not None
    assert np.array_equal(found, np.asarray(image.resize((size.width, size.height), how)))


@pytest.fixture
def no_wasmtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in which wasmtime is not installed."""
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    monkeypatch.setattr(kernel, "_idle", [])
    caches = (compiled_module, pass_order)
    for each in caches:
        each.cache_clear()
    yield
    monkeypatch.undo()
    for each in caches:
        each.cache_clear()


@settings(max_examples=examples(150), deadline=None)
@given(SIDE, SIDE, SIDE, SIDE, FILTER, st.sampled_from(KINDS))
def test_bytes_are_pillows_at_any_size(
    width: int, height: int, wide: int, tall: int, how: Image.Resampling, kind: str
) -> None:
    image = picture(width, height, kind)
    found = fast(image, Size(tall, wide), how)
    if found is not None:  # None: rows that one pass needs at once do not fit the memory
        assert np.array_equal(found, np.asarray(image.resize((wide, tall), how)))


@pytest.mark.sampled(keep=21)
@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 1), (70, 50)),
        ((70, 50), (1, 1)),
        ((1, 300), (40, 30)),
        ((300, 1), (40, 30)),
        ((200, 300), (200, 41)),
        ((200, 300), (41, 300)),
        ((200, 300), (200, 300)),
        ((9000, 4), (700, 3)),
        ((4, 9000), (3, 700)),
        ((3, 20000), (90, 500)),
        ((30000, 20), (224, 224)),
        ((720, 1280), (896, 896)),
        ((400, 900), (390, 101)),
    ],
)
def test_bytes_are_pillows_at_the_edges(before: tuple[int, int], after: tuple[int, int], how: Image.Resampling) -> None:
    assert_pillows(picture(*before, "noise"), Size(after[1], after[0]), how)


def test_bytes_are_pillows_where_pillow_keeps_a_picture_in_pieces() -> None:
    image = picture(3000, 1700, "noise")
    with pytest.raises(ValueError):  # what it says differs between releases
        image.__arrow_c_array__()
    assert_pillows(image, Size(336, 597), BICUBIC)
    assert_pillows(image, Size(1700, 2996), BICUBIC)


@settings(max_examples=examples(60), deadline=None)
@given(SIDE, SIDE, st.integers(1, 300), FILTER)
def test_a_picture_on_a_square_is_resized_as_if_the_square_were_there(
    width: int, height: int, side: int, how: Image.Resampling
) -> None:
    image, fill = picture(width, height, "noise"), (122, 7, 250)
    square = resample._on_square(image, fill)
    expected = np.asarray(square.resize((side, side), how))
    assert np.array_equal(resize(image, Size(side, side), how, fill), expected)


@given(SIDE, SIDE, FILTER)
def test_weights_of_every_pixel_add_up_to_one_and_bounds_hold(length: int, wanted: int, how: Image.Resampling) -> None:
    made = taps(length, wanted, how)
    assert made.weights.shape[1] <= taps_at_most(length, wanted, how)
    assert np.all(made.first >= 0)
    assert np.all(made.last <= length)
    assert np.all(np.diff(made.last) >= 0)
    assert np.all(np.abs(made.weights.sum(axis=1, dtype=np.int64) - (1 << 22)) <= made.weights.shape[1])


def test_what_does_not_fit_is_left_to_pillow() -> None:
    image = picture(40, 30, "noise")
    assert fast(image, Size(20, 20), Image.Resampling.HAMMING) is None
    wide = picture(300_000, 2, "noise")
    assert fast(wide, Size(2, 100), BICUBIC) is None
    assert np.array_equal(resize(wide, Size(2, 100), BICUBIC), np.asarray(wide.resize((100, 2), BICUBIC)))


def test_an_instance_never_grows_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel._Health, "kept", 4)  # which other tests of this process may have raised
    monkeypatch.setattr(kernel, "_idle", [])
    with borrowed() as first, borrowed() as second:
        assert first is not second
        for each in (first, second):
            assert ctypes.sizeof(each._buffer) == MEMORY
    held = [borrowed() for _ in range(9)]
    for each in held:
        each.__enter__()
    for each in held:
        each.__exit__(None, None, None)
    assert len(kernel._idle) == 4


def test_threads_do_not_disturb_each_other() -> None:
    images = [picture(300 + 7 * index, 200 + 11 * index, "noise", index) for index in range(24)]
    expected = [np.asarray(image.resize((224, 180), BICUBIC)) for image in images]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda image: resize(image, Size(180, 224), BICUBIC), images * 4))
    assert all(np.array_equal(one, other) for one, other in zip(found, expected * 4, strict=True))


def test_the_order_of_passes_is_found_by_comparing_with_pillow() -> None:
    order = pass_order()
    assert order is not None
    with borrowed() as instance:
        assert resample._agrees(instance, order)
    assert not PassOrder.ALWAYS_ACROSS.down_first((10, 100), Size(10, 10))
    assert PassOrder.DOWN_WHERE_SHORTER.down_first((10, 100), Size(10, 10))
    assert not PassOrder.DOWN_WHERE_SHORTER.down_first((100, 100), Size(10, 50))


def test_a_kernel_that_differs_from_pillow_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*args: object, **kwargs: object) -> Bytes8 | None:
        made = resize_in_bands(*args, **kwargs)  # type: ignore[arg-type]
        return None if made is None else made ^ np.uint8(1)

    pass_order.cache_clear()
    monkeypatch.setattr(resample, "resize_in_bands", wrong)
    try:
        assert pass_order() is None
        image = picture(50, 60, "noise")
        assert np.array_equal(resize(image, Size(20, 30), LANCZOS), np.asarray(image.resize((30, 20), LANCZOS)))
    finally:
        pass_order.cache_clear()


@pytest.mark.usefixtures("no_wasmtime")
def test_without_wasmtime_pillow_and_numpy_do_the_work() -> None:
    assert compiled_module() is None
    image = picture(90, 60, "noise")
    pixels = resize(image, Size(32, 64), BILINEAR)
    assert np.array_equal(pixels, np.asarray(image.resize((64, 32), BILINEAR)))
    normalizer = rescale_normalizer(CLIP_MEAN, CLIP_STD)
    assert normalizer.constants is None
    out = np.empty((2, 3, 32, 32), np.float32)
    transforms.write_tiles(out, pixels, normalizer)
    assert np.array_equal(out[1, 2], normalizer.table[2][pixels[:, 32:, 2]])


@pytest.mark.parametrize("normalizer", [rescale_normalizer(CLIP_MEAN, CLIP_STD), bfloat16_normalizer(HALF, HALF)])
@pytest.mark.parametrize("merge", [1, 2])
@pytest.mark.parametrize("temporal", [1, 2])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("patch", [4, 14, 16])
def test_floats_are_those_that_numpy_writes(
    normalizer: Normalizer, merge: int, temporal: int, moving: bool, patch: int
) -> None:
    """In every layout, from planes as the kernel resizes them and from a part of them."""
    size = Size(6 * patch * merge, 5 * patch * merge)
    whole = [resize(picture(200, 150, "noise", seed), size, BICUBIC) for seed in range(temporal if moving else 1)]
    count = 30 * merge * merge
    sizes = (patch, merge, temporal)
    found, expected = (np.full((count, 3 * temporal * patch * patch), np.nan, np.float32) for _ in range(2))
    with borrowed() as instance:
        assert layouts.patches_written(instance, found, whole, normalizer.table, normalizer.constants, sizes)
    interleaved = [np.ascontiguousarray(frame) for frame in whole]
    transforms.write_patches(expected, interleaved, normalizer, patch=patch, merge=merge, temporal=temporal)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))

    pixels = whole[0]
    for part, tile in ((pixels, size), (pixels[patch:, patch:], Size(patch, patch))):
        rows, columns = part.shape[0] // tile.height, part.shape[1] // tile.width
        found, expected = (np.full((rows * columns, 3, *tile), np.nan, np.float32) for _ in range(2))
        with borrowed() as instance:
            assert layouts.tiles_written(instance, found, part, normalizer.table, normalizer.constants)
        transforms.write_tiles(expected, np.ascontiguousarray(part), normalizer)
        assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))

    found, expected = (np.full((3, patch, pixels[:, :, 0].size // patch), np.nan, np.float32) for _ in range(2))
    with borrowed() as instance:
        assert layouts.columns_written(instance, found, pixels, normalizer.table, normalizer.constants, patch)
    transforms.write_columns(expected, np.ascontiguousarray(pixels), normalizer, patch=patch)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_arrays_that_the_kernel_does_not_take_are_left_to_numpy() -> None:
    normalizer = rescale_normalizer(CLIP_MEAN, CLIP_STD)
    interleaved = np.zeros((8, 8, 3), np.uint8)
    planes = np.zeros((8, 3, 8), np.uint8).transpose(0, 2, 1)
    given_to = (normalizer.table, normalizer.constants)
    with borrowed() as instance:
        assert not layouts.tiles_written(instance, np.empty((1, 3, 8, 8), np.float32), interleaved, *given_to)
        assert not layouts.tiles_written(instance, np.empty((16, 3, 2, 2), np.float32), planes, *given_to)
        assert not layouts.columns_written(instance, np.empty((3, 8, 8), np.float32), interleaved, *given_to, 8)
        patches = np.empty((1, 3 * 3 * 64), np.float32)
        assert not layouts.patches_written(instance, patches, [planes], *given_to, (8, 1, 3))


@pytest.mark.parametrize("mean", [CLIP_MEAN, HALF])
def test_usual_constants_are_proved_for_the_kernel(mean: tuple[float, ...]) -> None:
    assert rescale_normalizer(mean, CLIP_STD).constants is not None
    assert rescale_normalizer(None, None).constants is not None
    assert bfloat16_normalizer(mean, CLIP_STD).constants is None


def test_a_line_of_the_modules_text_is_written_once_and_every_number_is_filled_in() -> None:
    made = text(256)
    assert '(memory (export "memory") 256 256)' in made
    assert not set("#@{}") & set(made)
    for name in ("horizontal", "vertical", "normalise"):
        assert made.count(f'(export "{name}")') == 1


@given(st.integers(-(2**33), 2**33), st.integers(-(2**33), 2**33))
def test_nothing_is_copied_beyond_the_kernels_memory_or_what_was_lent(place: int, size: int) -> None:
    own = np.zeros(1000, np.uint8)
    inside = place >= 0 and size >= 0 and place + size <= MEMORY
    with borrowed() as instance:
        if not inside:
            for copy in (instance.load, instance.store):
                with pytest.raises(KernelFailed):
                    copy(place, MemoryRegion(own.ctypes.data, 1 << 40, own), 0, size)
            with pytest.raises(KernelFailed):
                instance.move(place, 0, size)
            with pytest.raises(KernelFailed):
                instance.move(0, place, size)
        if not 0 <= place <= place + size <= 1000:
            for copy in (instance.load, instance.store):
                with pytest.raises(KernelFailed):
                    copy(0, MemoryRegion.of(own), place, size)
    with pytest.raises(KernelFailed):
        MemoryRegion.of(np.zeros((4, 4), np.uint8)[:, :2])


@pytest.fixture
def healthy() -> Iterator[None]:
    """What fails in a test has not failed in the next."""
    yield
    kernel._Health.broken = False
    pass_order.cache_clear()


@pytest.mark.usefixtures("healthy")
def test_a_kernel_that_fails_is_reported_once_and_left_and_the_result_is_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from wasmtime import Trap

    calls = []

    def failing(*arguments: object, **_named: object) -> None:
        calls.append(arguments)
        raise Trap("out of something")

    assert pass_order() is not None
    monkeypatch.setattr(kernel.Kernel, "horizontal", failing)
    image = picture(90, 60, "noise")
    for _ in range(3):
        assert np.array_equal(resize(image, Size(32, 64), BICUBIC), np.asarray(image.resize((64, 32), BICUBIC)))
    assert len(calls) == 1
    assert attempted(lambda instance: instance) is None
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == len(caplog.records) == 1
    assert "without wasmtime, more slowly" in caplog.text


REFUSED = """
import ctypes, resource, sys
if sys.argv[1] == "address space":
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
elif ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, as systemd's MemoryDenyWriteExecute
    print("not here")
    sys.exit()
import numpy as np
from PIL import Image
from smg_multimodal.pixels import transforms
from smg_multimodal.pixels.resample import BICUBIC, pass_order, resize
from smg_multimodal.records.types import Size

assert pass_order() is None
image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 60, 3), np.uint8))
pixels = resize(image, Size(32, 64), BICUBIC)
assert np.array_equal(pixels, np.asarray(image.resize((64, 32), BICUBIC)))
normalizer = transforms.rescale_normalizer(transforms.CLIP_MEAN, transforms.CLIP_STD)
out = np.empty((2, 3, 32, 32), np.float32)
transforms.write_tiles(out, pixels, normalizer)
assert np.array_equal(out[1, 2], normalizer.table[2][pixels[:, 32:, 2]])
print("done")
"""


@pytest.mark.full
@pytest.mark.parametrize("refused", ["address space", "executable memory"])
def test_where_memory_cannot_be_mapped_or_executed_one_warning_is_given_and_pillow_does_the_work(refused: str) -> None:
    out = subprocess.run([sys.executable, "-c", REFUSED, refused], capture_output=True, text=True, timeout=PATIENCE)
    assert out.returncode == 0, out.stderr
    if out.stdout.strip() != "not here":  # a kernel that cannot refuse it
        assert out.stdout.strip() == "done"
        assert out.stderr.count("without wasmtime, more slowly") == out.stderr.count("\n") == 1
