"""Room is left on a disk for what has to be written to delete something."""

import errno
from pathlib import Path

import pytest

from smg_core import disk_room
from smg_core.disk_room import check_disk_room


def test_what_would_take_the_last_room_is_refused(tmp_path: Path) -> None:
    check_disk_room(tmp_path, 0)
    with pytest.raises(OSError, match="No space left") as refused:
        check_disk_room(tmp_path, 1 << 62)
    assert refused.value.errno == errno.ENOSPC


def test_a_little_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_room, "_SPARE", 1 << 62)
    with pytest.raises(OSError, match="No space left"):
        check_disk_room(tmp_path, 0)
