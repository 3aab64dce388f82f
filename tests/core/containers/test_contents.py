"""Files of a container, whatever code has made of their folder."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.containers.contents import (
    container_file_id,
    files_in,
    opened_file,
    put_file,
    remove_file,
    removed_tree,
    restore_files,
    safe_name,
)


@given(st.text(max_size=400))
def test_whatever_a_client_calls_a_file_is_one_name_within_the_folder(name: str) -> None:
    kept = safe_name(name)
    assert kept
    assert kept not in (".", "..")
    assert "/" not in kept
    assert kept.isprintable()
    assert len(kept.encode()) <= 255


def test_what_is_put_there_is_listed_and_read(tmp_path: Path) -> None:
    found = put_file(tmp_path, "a.csv", io.BytesIO(b"1,2"))
    assert (found.path, found.bytes) == ("a.csv", 3)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b.txt").write_text("b")
    assert set(files_in(tmp_path)) == {"a.csv", "deep/er/b.txt"}
    with opened_file(tmp_path, "deep/er/b.txt") as file:
        assert file.read() == b"b"
    remove_file(tmp_path, "deep/er/b.txt")
    assert set(files_in(tmp_path)) == {"a.csv"}


def test_a_link_is_neither_listed_nor_followed_at_any_place_of_a_path(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "data"
    secret.mkdir()
    folder.mkdir()
    (secret / "key").write_text("hidden")
    (folder / "file").symlink_to(secret / "key")
    (folder / "folder").symlink_to(secret)
    assert files_in(folder) == {}
    for path in ("file", "folder/key", "../secret/key"):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels|No such"):
            opened_file(folder, "/".join(part for part in path.split("/") if part != "..") if ".." in path else path)
    with pytest.raises(OSError, match="Not a directory"):
        remove_file(folder, "folder/key")
    put_file(folder, "file", io.BytesIO(b"new"))
    assert (secret / "key").read_text() == "hidden"
    removed_tree(folder)
    assert not folder.exists()
    assert (secret / "key").read_text() == "hidden"


def test_what_is_no_regular_file_is_not_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert files_in(tmp_path) == {}
    with pytest.raises(FileNotFoundError):
        opened_file(tmp_path, "pipe")


@pytest.mark.full
def test_a_folder_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    at = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 20, dir_fd=at)
        following = os.open("d" * 20, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = following
    os.close(at)
    assert files_in(folder) == {}
    removed_tree(folder)
    assert not folder.exists()


def test_what_was_made_or_changed_is_removed_and_the_rest_stays(tmp_path: Path) -> None:
    put_file(tmp_path, "kept", io.BytesIO(b"kept"))
    put_file(tmp_path, "changed", io.BytesIO(b"old"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "kept").write_text("kept")
    before = files_in(tmp_path)
    (tmp_path / "changed").write_text("longer")
    (tmp_path / "own" / "new").write_text("new")
    (tmp_path / "new" / "deep").mkdir(parents=True)
    for number in range(200):
        (tmp_path / "new" / "deep" / f"{number}").write_text("x")
    restore_files(tmp_path, before)
    assert set(files_in(tmp_path)) == {"kept", "own/kept"}
    assert not (tmp_path / "new").exists()


def test_an_id_of_a_file_is_of_its_container_and_its_path() -> None:
    assert container_file_id("cntr_1", "a") == container_file_id("cntr_1", "a")
    assert (
        len({container_file_id("cntr_1", "a"), container_file_id("cntr_1", "b"), container_file_id("cntr_2", "a")}) == 3
    )
