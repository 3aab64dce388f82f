"""The folder of a gateway's own, and what is left of those whose processes were killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from smg_core.machine.scratch import Scratch, sweep

KILLED = """
import os, signal, sys
from pathlib import Path
from smg_core.machine.scratch import Scratch

scratch = Scratch(Path(sys.argv[1]))
(scratch.path / "tokenizer.json").write_text("{}")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_goes_when_it_is_closed(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    (scratch.path / "inner").mkdir()
    (scratch.path / "inner" / "file").write_text("x")
    scratch.close()
    scratch.close()

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_start(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    left = list(tmp_path.iterdir())
    scratch = Scratch(tmp_path)

    assert killed.returncode < 0
    assert len(left) == 1
    assert list(tmp_path.iterdir()) == [scratch.path]
    scratch.close()


def test_the_folder_of_a_process_that_lives_stays(tmp_path: Path) -> None:
    first, second = Scratch(tmp_path), Scratch(tmp_path)

    assert sweep(tmp_path) == 0
    assert first.path.is_dir()
    assert second.path.is_dir()
    first.close()
    second.close()


def test_folders_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "smg-run-without-a-lock").mkdir()
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / ".lock").touch()

    assert sweep(tmp_path) == 0
    assert len(list(tmp_path.iterdir())) == 2


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "smg-run-x").mkdir()
    (tmp_path / "smg-run-x" / ".lock").symlink_to(tmp_path / "target")

    assert sweep(tmp_path) == 0
    assert (tmp_path / "smg-run-x").is_dir()


def test_no_room_for_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Scratch(tmp_path / "nowhere")
