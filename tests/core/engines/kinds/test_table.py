"""The table of dialects: what is built in, what an installed package adds, and what is said of a name that is neither."""

import subprocess
import sys
from pathlib import Path

import pytest

from smg_core.engines.kinds.grpc import DIALECTS, Dialect, UnknownDialect, dialect, dialect_names

PACKAGE = """
from smg_core.engines.kinds.grpc import Dialect
from smg_core.engines.codecs.neutral.codec import NeutralCodec

class ParrotCodec(NeutralCodec):
    name = "parrot"

row = Dialect(ParrotCodec)
other = ParrotCodec
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that adds two entry points: a row, and something that is none."""
    (tmp_path / "parrot_engine.py").write_text(PACKAGE)
    metadata = tmp_path / "parrot_engine-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot-engine\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[smg.engines]\nparrot = parrot_engine:row\nbroken = parrot_engine:other\nvllm = parrot_engine:row\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_each_built_in_dialect_has_a_codec_of_its_name_and_packs_the_media_that_it_takes() -> None:
    for name, row in DIALECTS.items():
        codec = row.codec()
        assert codec.name == codec.facts.dialect == name
        assert (row.packing is None) == (codec.facts.media == frozenset() and name != "neutral")
        assert row.packing is None or callable(row.packing().pack)


def test_an_installed_package_adds_a_dialect_which_is_tried_after_the_built_in_ones(installed: None) -> None:
    assert dialect_names() == (*DIALECTS, "broken", "parrot")
    assert dialect("parrot").codec().name == "parrot"
    assert dialect("parrot").packing is None


def test_a_built_in_dialect_cannot_be_replaced(installed: None) -> None:
    assert dialect("vllm") is DIALECTS["vllm"]


def test_a_name_that_is_neither_is_told_what_there_is(installed: None) -> None:
    with pytest.raises(UnknownDialect, match=f"'vlm'; there are auto, {', '.join(DIALECTS)}, broken, parrot"):
        dialect("vlm")


def test_an_entry_point_that_is_no_row_is_refused(installed: None) -> None:
    with pytest.raises(UnknownDialect, match=r"'broken' of smg\.engines is no"):
        dialect("broken")


def test_naming_a_dialect_imports_neither_protobuf_nor_numpy() -> None:
    code = (
        "import sys; from smg_core.engines.kinds.grpc import Dialect, dialect; dialect('vllm');"
        "sys.exit(bool({'google.protobuf', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_row_needs_no_packing() -> None:
    assert Dialect(DIALECTS["neutral"].codec).packing is None
