"""Tensors in shared memory: what is written, what is bounded, and that nothing is left behind, whoever dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_multimodal.preparing.shm import SharedMemory, namespace_id, sweep_orphans
from smg_multimodal.preparing.wire_forms import wire_tensor

SMALL, LARGE = wire_tensor(np.zeros(10, np.float32)), wire_tensor(np.arange(4000, dtype=np.float32))


def files(folder: Path) -> list[str]:
    """Tensors' files, without locks."""
    return sorted(each.name for each in folder.iterdir() if each.suffix != ".lock")


def test_large_tensors_go_through_shared_memory_and_small_ones_do_not(tmp_path: Path) -> None:
    shared = SharedMemory("smg-test", min_bytes=1000, max_bytes=20_000, folder=tmp_path)
    assert shared.share(SMALL) is None
    placed = shared.share(LARGE)
    assert placed is not None
    path = tmp_path / placed.name
    assert path.stat().st_mode & 0o777 == 0o600
    assert np.array_equal(np.frombuffer(path.read_bytes(), np.float32), np.arange(4000, dtype=np.float32))
    assert (placed.offset, placed.nbytes, placed.shape, placed.dtype) == (0, 16_000, (4000,), "float32")
    assert shared.share(LARGE) is None
    shared.forget(placed)
    assert not path.exists()
    assert shared.share(LARGE) is not None
    assert shared.sweep() == 1
    shared.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_already_is_never_written_to(tmp_path: Path) -> None:
    (tmp_path / "smg-test-1").symlink_to(tmp_path / "elsewhere")
    shared = SharedMemory("smg-test", min_bytes=1, folder=tmp_path)
    with pytest.raises(FileExistsError):
        shared.share(SMALL)
    assert shared.nbytes == 0
    assert not (tmp_path / "elsewhere").exists()
    for prefix in ("", "a/b", "a\0"):
        with pytest.raises(ValueError, match="file name"):
            SharedMemory(prefix)


def test_what_is_written_after_the_end_does_not_stay(tmp_path: Path) -> None:
    shared = SharedMemory("smg-test", min_bytes=1, folder=tmp_path)
    placed = shared.take(SMALL)
    assert placed is not None
    shared.close()
    shared.close()
    with pytest.raises(OSError, match="closed"):
        shared.write(placed, SMALL)
    assert list(tmp_path.iterdir()) == []


def test_one_prefix_has_one_owner(tmp_path: Path) -> None:
    shared = SharedMemory("smg-test", folder=tmp_path)
    with pytest.raises(OSError, match="unavailable"):
        SharedMemory("smg-test", folder=tmp_path)
    shared.close()
    SharedMemory("smg-test", folder=tmp_path).close()


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_the_budget_holds_whatever_is_shared_and_forgotten(
    tmp_path_factory: pytest.TempPathFactory, steps: list
) -> None:
    folder = tmp_path_factory.mktemp("shm")
    shared = SharedMemory("smg-test", min_bytes=1, max_bytes=5 * LARGE.nbytes, folder=folder)
    live: list = []
    for add, which in steps:
        if add:
            placed = shared.share(LARGE)
            assert (placed is None) == (len(live) == 5)
            live += [placed] if placed is not None else []
        elif live:
            gone = live.pop(which % len(live))
            shared.forget(gone)
            shared.forget(gone)
        assert shared.nbytes == len(live) * LARGE.nbytes
        assert files(folder) == sorted(each.name for each in live)
    shared.close()
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, numpy as np; from smg_multimodal.preparing.shm import SharedMemory;"
        "from smg_multimodal.preparing.wire_forms import wire_tensor;"
        f"shared = SharedMemory('smg-test-dies', min_bytes=1, folder=pathlib.Path({str(tmp_path)!r}));"
        "shared.share(wire_tensor(np.zeros(9))); print('there', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        mine = SharedMemory("smg-test-lives", min_bytes=1, folder=tmp_path)
        placed = mine.share(SMALL)
        assert placed is not None
        assert sweep_orphans("smg-test-", tmp_path) == 0
        assert files(tmp_path) == ["smg-test-dies-1", placed.name]
        os.kill(other.pid, signal.SIGKILL)
    assert sweep_orphans("smg-test-", tmp_path) == 1
    assert files(tmp_path) == [placed.name]
    assert sweep_orphans("smg-test-", tmp_path) == 0
    mine.close()
    assert list(tmp_path.iterdir()) == []


def test_the_namespace_is_that_of_this_boot_and_device(tmp_path: Path) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("abc\n")
    assert namespace_id(tmp_path, boot) == f"abc:{tmp_path.stat().st_dev}"
