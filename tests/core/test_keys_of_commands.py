"""Keys that commands show a server: nothing that cannot be one is repeated, wherever it comes from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.cli import main
from smg_core.commands.admin import bearer_of
from smg_core.settings import ConfigError

BAD = {"two lines": "s3cret-one\ns3cret-two", "not ASCII": "s3crét", "a control character": "s3cret\x1b[31m"}


@given(st.text(max_size=40))
def test_a_key_makes_a_header_that_can_be_sent_or_an_error_without_it(key: str) -> None:
    if not (key.strip().isascii() and key.strip().isprintable()):
        with pytest.raises(ConfigError, match=r"^--key-file: somewhere: a key is one line of printable ASCII$"):
            bearer_of(key, "--key-file: somewhere")
        return
    header = bearer_of(key, "--key-file: somewhere")
    assert all(32 <= byte < 127 for value in header.values() for byte in value.encode("ascii"))
    assert bool(header) == bool(key.strip())


def commands(folder: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], str]]:
    """Commands that read this key from each of the places where one may be, and how the place is called."""
    file = folder / "key"
    file.write_text(key, encoding="utf-8")
    monkeypatch.setenv("SMG_ADMIN_KEY", key)
    monkeypatch.setenv("SMG_API_KEY", key)
    door = "--admin", "http://127.0.0.1:9"
    yield ["workers", "list", *door, "--key-file", str(file)], f"--key-file: {file}"
    yield ["workers", "list", *door], "SMG_ADMIN_KEY"
    yield ["setup", "codex", "--url", "http://127.0.0.1:9"], "SMG_API_KEY"
    yield ["conform", "http://127.0.0.1:9", "--model", "m", "--key", key], "--key"


@pytest.mark.full
@pytest.mark.parametrize("name", BAD)
def test_a_command_names_where_a_key_stood_that_cannot_be_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, source in commands(tmp_path, BAD[name], monkeypatch):
        assert main(command) == 2
        told = capsys.readouterr()
        assert f"{source}: a key is one line of printable ASCII" in told.err
        assert "s3cr" not in told.err + told.out
