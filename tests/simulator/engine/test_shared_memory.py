"""Reading what a gateway left in shared memory: as a servicer does, and nothing else on the machine."""

from pathlib import Path

import pytest

from smg_simulator.engine import shared_memory
from smg_simulator.engine.refusal import Refused


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shared_memory, "FOLDER", tmp_path)
    return tmp_path


def test_a_tensor_is_read_from_its_place_and_its_file_is_gone_then(folder: Path) -> None:
    (folder / "x").write_bytes(b"0123456789")

    assert shared_memory.read_shared("/x", 2, 5) == b"23456"
    assert not (folder / "x").exists()
    with pytest.raises(Refused, match="No such file"):
        shared_memory.read_shared("x", 0, 1)


@pytest.mark.parametrize("name", ["", "/", ".", "..", "a/b", "../x", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(Refused, match="Invalid"):
        shared_memory.read_shared(name, 0, 1)


def test_links_folders_and_short_files_are_refused(folder: Path) -> None:
    (folder / "secret").write_bytes(b"secret")
    (folder / "link").symlink_to(folder / "secret")
    (folder / "folder").mkdir()
    (folder / "short").write_bytes(b"12")
    for name, reason in (("link", "cannot be read"), ("folder", "regular file"), ("short", "2 bytes, not 3")):
        with pytest.raises(Refused, match=reason):
            shared_memory.read_shared(name, 0, 3)
    assert (folder / "secret").exists()


def test_the_namespace_is_this_hosts_or_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_memory.namespace().endswith(f":{folder.stat().st_dev}")
    monkeypatch.setattr(shared_memory, "FOLDER", folder / "missing")
    assert shared_memory.namespace() == ""
