"""Bytes become floats exactly and lie where they should, whatever the path taken for speed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.tiers import examples

from smg_multimodal.pixels.collate import joined, padded
from smg_multimodal.pixels.resample import BICUBIC, centre_crop, on_canvas, resize
from smg_multimodal.pixels.transforms import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Normalizer,
    bfloat16_normalizer,
    fused_normalizer,
    normalizer_of,
    rescale_normalizer,
    write_columns,
    write_patches,
    write_tiles,
)
from smg_multimodal.records.errors import BadMedia
from smg_multimodal.records.types import Size

LEVELS = np.arange(256, dtype=np.uint8)
CHANNEL = st.floats(0.01, 0.99)
PLAIN = rescale_normalizer(None, None, None)


def pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@given(
    st.tuples(CHANNEL, CHANNEL, CHANNEL),
    st.tuples(CHANNEL, CHANNEL, CHANNEL),
    st.sampled_from([1 / 255, 1 / 127.5, 0.01]),
)
def test_the_fast_path_gives_every_level_the_tables_float(
    mean: tuple[float, ...], std: tuple[float, ...], rescale: float
) -> None:
    """And the table is the reference's arithmetic: double, then single, precision."""
    normalizer = rescale_normalizer(mean, std, rescale)
    for channel in range(3):
        out = np.empty(256, np.float32)
        normalizer.apply(LEVELS, channel, out)
        scaled = (LEVELS.astype(np.float64) * rescale).astype(np.float32)
        expected = (scaled - np.float32(mean[channel])) / np.float32(std[channel])
        assert np.array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("mean", "std"), [(CLIP_MEAN, CLIP_STD), (HALF, HALF), (IMAGENET_MEAN, IMAGENET_STD)])
def test_every_familys_constants_take_the_fast_path(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    assert None not in rescale_normalizer(mean, std).steps
    assert None not in fused_normalizer(mean, std).steps


def test_arithmetic_that_no_run_of_operations_gives_is_looked_up() -> None:
    normalizer = bfloat16_normalizer(HALF, HALF)
    assert normalizer.steps == (None, None, None)
    out = np.empty(256, np.float32)
    normalizer.apply(LEVELS, 0, out)
    assert np.array_equal(out, normalizer.table[0])
    assert not np.any(out.view(np.uint32) & 0xFFFF)
    assert out[0] == -1
    assert out[255] == 1


def test_a_configuration_may_leave_out_either_half() -> None:
    only_scaled = normalizer_of({"do_normalize": False}, CLIP_MEAN, CLIP_STD)
    assert np.array_equal(only_scaled.table[0], (LEVELS * (1 / 255)).astype(np.float32))
    only_shifted = normalizer_of(
        {"do_rescale": False, "image_mean": [1, 2, 3], "image_std": [2, 2, 2]}, CLIP_MEAN, CLIP_STD
    )
    assert only_shifted.table[2, 5] == 1.0
    with pytest.raises(ValueError, match="three"):
        rescale_normalizer((0.5, 0.5), HALF)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 2), st.integers(1, 2), st.booleans())
def test_patches_lie_block_by_block(
    rows: int, columns: int, patch: int, merge: int, temporal: int, moving: bool
) -> None:
    height, width = rows * patch * merge, columns * patch * merge
    frames = [pixels(height, width, seed) for seed in range(temporal if moving else 1)]
    out = np.empty((rows * columns * merge * merge, 3 * temporal * patch * patch), np.float32)
    write_patches(out, frames, PLAIN, patch=patch, merge=merge, temporal=temporal)
    expected = []
    for block_y in range(rows):
        for block_x in range(columns):
            for y in range(merge):
                for x in range(merge):
                    top, left = (block_y * merge + y) * patch, (block_x * merge + x) * patch
                    moments = [frames[moment if moving else 0] for moment in range(temporal)]
                    cut = [frame[top : top + patch, left : left + patch] for frame in moments]
                    expected.append(np.stack(cut).transpose(3, 0, 1, 2).reshape(-1))
    assert np.array_equal(out, np.array(expected))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))
def test_tiles_lie_row_by_row(rows: int, columns: int, height: int, width: int) -> None:
    picture = pixels(rows * height, columns * width)
    out = np.empty((rows * columns, 3, height, width), np.float32)
    write_tiles(out, picture, PLAIN)
    for index in range(rows * columns):
        y, x = index // columns * height, index % columns * width
        assert np.array_equal(out[index], picture[y : y + height, x : x + width].transpose(2, 0, 1))


def test_large_tiles_are_written_in_strips_that_meet() -> None:
    picture = pixels(700, 900)
    out = np.empty((1, 3, 700, 900), np.float32)
    write_tiles(out, picture, PLAIN)
    assert np.array_equal(out[0], picture.transpose(2, 0, 1))


def test_columns_hold_patches_side_by_side() -> None:
    picture = pixels(6, 9)
    out = np.empty((3, 3, 18), np.float32)
    write_columns(out, picture, PLAIN, patch=3)
    for index in range(6):
        y, x = index // 3 * 3, index % 3 * 3
        assert np.array_equal(out[:, :, index * 3 : index * 3 + 3], picture[y : y + 3, x : x + 3].transpose(2, 0, 1))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_a_canvas_has_the_picture_where_it_was_laid_and_its_colour_around(
    height: int, width: int, top: int, bottom: int, left: int, right: int
) -> None:
    picture = pixels(height, width)
    made = on_canvas(picture, Size(height + top + bottom, width + left + right), top, left, (1, 2, 3))
    assert np.array_equal(made[top : top + height, left : left + width], picture)
    made = made.copy()
    made[top : top + height, left : left + width] = (1, 2, 3)
    assert np.all(made == (1, 2, 3))


@settings(max_examples=examples(60))
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_a_centre_crop_has_the_size_asked_for(height: int, width: int, tall: int, wide: int) -> None:
    made = centre_crop(pixels(height, width), Size(tall, wide))
    assert made.shape == (tall, wide, 3)


def test_a_picture_that_would_grow_without_bound_is_refused() -> None:
    for size in (Size(0, 5), Size(-1, 5), Size(1 << 20, 1 << 10)):
        with pytest.raises(BadMedia):
            resize(Image.new("RGB", (2, 2)), size, BICUBIC)


def test_joining_one_array_copies_nothing_and_padding_fills_the_ends() -> None:
    one = np.ones((1, 2, 2), np.float32)
    assert joined([one]) is one
    assert padded([one]) is one
    made = padded([one, np.ones((2, 1, 3), np.float32)], 7)
    assert made.shape == (3, 2, 3)
    assert made[0].tolist() == [[1, 1, 7], [1, 1, 7]]
    assert made[2].tolist() == [[1, 1, 1], [7, 7, 7]]


def test_a_normalizer_can_be_given_by_its_table_alone() -> None:
    table = np.random.default_rng(0).random((3, 256)).astype(np.float32)
    out = np.empty((2, 3, 4, 5), np.float32)
    picture = pixels(4, 10)
    write_tiles(out, picture, Normalizer(table, (None, None, None)))
    assert np.array_equal(out[1, 2], table[2][picture[:, 5:, 2]])
