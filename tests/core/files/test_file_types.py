"""What a file is called, and of what type it is: by what its client says, its name and its first bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest
from smg_core.files.blobs import BlobName
from smg_core.files.kinds import checked_type
from smg_core.files.types import check_filename
from smg_core.wire.documents import kept_file_key


@pytest.mark.parametrize(
    ("said", "name", "beginning", "kind"),
    [
        ("", "a.txt", b"Hi", "text/plain"),
        ("", "a.md", b"Hi", "text/markdown"),
        ("", "a", b"%PDF-1.7", "application/pdf"),
        ("application/octet-stream", "a.bin", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("audio/x-wav; rate=1", "a", b"RIFF\0\0\0\0WAVE", "audio/wav"),
        ("text/plain\r\nx: y", "a.jsonl", b"{}", "text/plain"),
        ("no type", "a.zzz", b"\0", "application/octet-stream"),
    ],
)
def test_a_type_is_what_the_client_says_or_what_the_name_and_the_contents_tell(
    said: str, name: str, beginning: bytes, kind: str
) -> None:
    assert checked_type(said, name, beginning) == kind


@given(st.text(max_size=40), st.text(max_size=40), st.binary(max_size=64))
def test_any_type_and_name_give_a_plain_type_or_an_error(said: str, name: str, beginning: bytes) -> None:
    try:
        kind = checked_type(said, name, beginning)
    except InvalidRequest:
        return
    assert kind.isascii()
    assert kind.isprintable()
    assert "/" in kind


@given(st.text(max_size=300))
def test_a_name_that_is_taken_has_no_parts_of_a_path(name: str) -> None:
    try:
        check_filename(name, "file")
    except InvalidRequest:
        return
    assert "/" not in name
    assert "\\" not in name
    assert name.isprintable()
    assert name not in ("", ".", "..")


KEYS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,30}", fullmatch=True)


@given(KEYS, st.sampled_from(["file-", "file_", "files/", "https://host:1/v1beta/files/", "http://h/v1/files/"]))
def test_a_file_has_one_key_in_the_ids_of_all_apis(key: str, prefix: str) -> None:
    assert kept_file_key(prefix + key) == key
    assert kept_file_key(f"{prefix}{key}/..") is None
    assert kept_file_key(f"{prefix}../{key}") is None


@given(KEYS)
def test_a_name_of_a_blob_is_read_as_it_was_written(key: str) -> None:
    name = BlobName("a" * 32, key, "0" * 16)
    assert BlobName.read(str(name)) == name
    assert BlobName.read(name.owner) is None
