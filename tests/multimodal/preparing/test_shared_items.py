"""Items that the processes of a gateway remember together: the same in all, within their bound, and gone with the last."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from tests.multimodal.reference_families import FAMILIES
from tests.multimodal.vocabulary import TestVocabulary
from tests.tiers import examples

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.preparing.content import FeatureCache
from smg_multimodal.preparing.prepare import Media, Preparer
from smg_multimodal.preparing.shared_items import SharedItems
from smg_multimodal.records.types import ItemFeatures, Modality, Size

KEY, OTHER = bytes(32), bytes([1] * 32)
MIB = 1 << 20


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedItems]:
    found = SharedItems("smg-seen-test", 256 * MIB, 2, tmp_path)
    yield found
    found.close()


def item(nbytes: int, value: int = 1) -> ItemFeatures:
    return ItemFeatures({"pixel_values": np.full(nbytes, value, np.uint8)}, Size(1, 1), 1, (1, 1, 1))


def equal(one: ItemFeatures, other: ItemFeatures) -> bool:
    facts = (one.size, one.tokens, one.grid, one.modality, one.facts) == (
        other.size,
        other.tokens,
        other.grid,
        other.modality,
        other.facts,
    )
    same = [
        (name, array.dtype, array.shape, array.tobytes()) == (name, there.dtype, there.shape, there.tobytes())
        for (name, array), there in zip(one.tensors.items(), other.tensors.values(), strict=True)
    ]
    return facts and all(same) and list(one.tensors) == list(other.tensors)


def used(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


_TENSORS = st.dictionaries(
    st.text(max_size=8),
    arrays.arrays(
        st.sampled_from([np.float32, np.uint16, np.uint8, np.int64, np.bool_]), arrays.array_shapes(min_side=0)
    ),
    max_size=4,
)
_FACTS = st.dictionaries(
    st.text(max_size=8),
    st.integers() | st.floats(allow_nan=False) | st.lists(st.text(max_size=4), max_size=3).map(tuple),
    max_size=3,
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_TENSORS, _FACTS, st.sampled_from(list(Modality)))
def test_an_item_is_read_as_it_was_written(
    shared: SharedItems, tensors: dict[str, Any], facts: dict[str, Any], modality: Modality
) -> None:
    features = ItemFeatures(tensors, Size(3, 4), 5, (1, 2, 3), modality, facts)
    assert equal(shared.put(KEY, features), features)
    found = shared.get(KEY)
    assert found is not None
    assert equal(found, features)
    assert not any(array.flags.writeable for array in found.tensors.values())


@pytest.mark.full
@pytest.mark.sampled(keep=15)
@pytest.mark.parametrize("name", FAMILIES)
def test_an_item_of_every_family_is_the_same_in_another_process(name: str, shared: SharedItems) -> None:
    family = FAMILIES[name]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    out = io.BytesIO()
    Image.new("RGB", (90, 60), "teal").save(out, "PNG")
    made = Preparer(files, TestVocabulary()).ready(Media(out.getvalue()))
    shared.put(KEY, made.features)
    found = FeatureCache(256 * MIB, shared).get(KEY)
    assert found is not None
    assert equal(found, made.features)


def test_what_one_process_makes_another_finds_and_keeps(shared: SharedItems) -> None:
    ours, theirs = FeatureCache(8 * MIB, shared), FeatureCache(8 * MIB, shared)
    ours.put(KEY, ours.share(KEY, item(3 * MIB)))
    found = theirs.get(KEY)
    assert found is not None
    assert equal(found, item(3 * MIB))
    assert theirs.get(KEY) is found
    assert theirs.get(OTHER) is None


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 700_000)), max_size=60))
def test_the_folder_never_has_more_than_its_bound(tmp_path: Path, steps: list[tuple[int, int, int]]) -> None:
    both = [SharedItems("smg-seen-bound", 2 * MIB, 2, tmp_path) for _ in range(2)]
    try:
        for process, key, nbytes in steps:
            both[process].put(bytes([key] * 32), item(nbytes, key % 251))
            assert used(tmp_path) <= 2 * MIB
            found = both[1 - process].get(bytes([key] * 32))
            assert found is None or equal(found, item(nbytes, key % 251))
    finally:
        for each in both:
            each.close()
    assert not list(tmp_path.iterdir())


def test_what_was_used_last_stays(tmp_path: Path) -> None:
    shared = SharedItems("smg-seen-use", 2 * MIB, 1, tmp_path)
    for key in range(6):
        shared.put(bytes([key] * 32), item(200_000, key))
        os.utime(tmp_path / "smg-seen-use" / (bytes([key] * 32).hex()), (key, key))
    assert shared.get(bytes(32)) is not None  # the oldest, which is used now
    for key in range(6, 12):
        shared.put(bytes([key] * 32), item(200_000, key))
    kept = [key for key in range(12) if shared.get(bytes([key] * 32)) is not None]
    assert 0 in kept
    assert 1 not in kept
    shared.close()


def test_what_is_removed_stays_readable_for_who_has_it(tmp_path: Path) -> None:
    shared = SharedItems("smg-seen-gone", 32 * MIB, 1, tmp_path)
    found = shared.put(KEY, item(2 * MIB, 9))
    shared.close()
    assert not list(tmp_path.iterdir())
    assert found.tensors["pixel_values"].sum() == 9 * 2 * MIB
    assert shared.get(KEY) is None
    assert equal(shared.put(KEY, item(10)), item(10))  # kept by its process alone


def test_a_file_that_was_cut_off_or_is_something_else_is_no_item(shared: SharedItems, tmp_path: Path) -> None:
    file = tmp_path / "smg-seen-test" / KEY.hex()
    shared.put(KEY, item(5000))
    whole = file.read_bytes()
    for length in (0, 3, 8, 40, len(whole) - 1500):
        file.write_bytes(whole[:length])
        assert shared.get(KEY) is None
    for strange in (b"\xff" * 100, whole[:8] + b"[" * 50, (2).to_bytes(8, "little") + b"{}"):
        file.write_bytes(strange)
        assert shared.get(KEY) is None
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert shared.get(KEY) is None


def test_an_item_that_is_too_large_or_finds_no_place_is_kept_by_its_process_alone(tmp_path: Path) -> None:
    shared = SharedItems("smg-seen-small", MIB, 1, tmp_path)
    large = item(MIB // 2)
    assert shared.put(KEY, large) is large
    assert shared.get(KEY) is None
    shared.close()


def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "smg-seen-open").mkdir(mode=0o755)
    with pytest.raises(PermissionError, match="this user alone"):
        SharedItems("smg-seen-open", MIB, 1, tmp_path)
    (tmp_path / "smg-seen-link").symlink_to(tmp_path / "smg-seen-open")
    with pytest.raises(PermissionError, match="this user alone"):
        SharedItems("smg-seen-link", MIB, 1, tmp_path)
    for name in ("", "a/b", ".hidden"):
        with pytest.raises(ValueError, match="cannot be the name"):
            SharedItems(name, MIB, 1, tmp_path)


@pytest.mark.full
def test_what_a_process_that_was_killed_has_left_goes_with_the_next_start(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np; from pathlib import Path;"
        "from smg_multimodal.preparing.shared_items import SharedItems;"
        "from smg_multimodal.records.types import ItemFeatures, Size;"
        "shared = SharedItems('smg-seen-killed', 1 << 26, 2, Path(sys.argv[1]));"
        "shared.put(bytes(32), ItemFeatures({'a': np.ones(9)}, Size(1, 1), 1, (1,)));"
        "print('there', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        assert SharedItems.sweep("smg-seen-", tmp_path) == 0  # it lives
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "smg-seen-killed").exists()
    assert SharedItems.sweep("smg-seen-", tmp_path) == 1
    assert not list(tmp_path.iterdir())
