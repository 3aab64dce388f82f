"""The table of kinds of engines: what is built in, what an installed package adds, which kind a URL and a name mean, and what is
said of those that mean none."""

import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from tests.engine_kinds import DIALECTS, HTTP_DIALECTS

from smg_core.engines.kinds.grpc import GRPC_KINDS, grpc_kind
from smg_core.engines.kinds.http import HTTP_KINDS
from smg_core.engines.kinds.kind import EngineKind, EnginePlace
from smg_core.engines.kinds.providers import PROVIDER_KINDS
from smg_core.engines.kinds.table import ENGINE_KINDS, UnknownDialect, check_place, kind, kind_names, kinds_at

PACKAGE = """
from smg_core.engines.codecs.neutral.codec import NeutralCodec
from smg_core.engines.kinds.grpc import grpc_kind
from smg_core.engines.kinds.http import http_kind
from smg_core.engines.kinds.kind import EngineKind

class ParrotCodec(NeutralCodec):
    name = "parrot"

row = grpc_kind("parrot", ParrotCodec)
other = ParrotCodec
far = http_kind("far", ParrotCodec)
ara = EngineKind("ara", ("ara",), open=ParrotCodec)
"""
ROWS = ("parrot = parrot_engine:row", "broken = parrot_engine:other", "vllm = parrot_engine:row")
MORE = ("gone = parrot_engine:none", "ara = parrot_engine:ara", "far = parrot_engine:far", "alias = parrot_engine:row")
ASKED = tuple(each.name for each in GRPC_KINDS)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that adds entry points: rows of every kind, and some that are none."""
    (tmp_path / "parrot_engine.py").write_text(PACKAGE)
    metadata = tmp_path / "parrot_engine-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot-engine\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("\n".join(["[smg.engines]", *ROWS, *MORE]))
    monkeypatch.syspath_prepend(tmp_path)


def named(url: str, *, dialect: str = "auto", usual: str = "auto") -> tuple[str, ...]:
    return tuple(each.name for each in kinds_at(EnginePlace(url, dialect, usual, label="w")))


def test_each_built_in_dialect_has_a_codec_of_its_name_and_packs_the_media_that_it_takes() -> None:
    for name, row in DIALECTS.items():
        codec = row.codec()
        assert codec.name == codec.facts.dialect == name
        assert (row.packing is None) == (codec.facts.media == frozenset() and name != "neutral")
        assert row.packing is None or callable(row.packing().pack)


def test_no_two_built_in_kinds_have_one_name() -> None:
    assert list(ENGINE_KINDS) == [each.name for each in (*GRPC_KINDS, *HTTP_KINDS, *PROVIDER_KINDS)]


def test_an_installed_package_adds_kinds_which_are_tried_after_the_built_in_ones(installed: None) -> None:
    assert kind_names() == (*ENGINE_KINDS, "alias", "ara", "broken", "far", "gone", "parrot")
    assert kind("parrot").codec().name == "parrot"
    assert kind("parrot").packing is None
    assert named("grpc://gpu-0:1") == (*ASKED, "parrot")
    assert named("ara://somewhere") == ("ara",)
    assert named("http://gpu-0", dialect="far") == ("far",)


def test_a_built_in_dialect_cannot_be_replaced(installed: None) -> None:
    assert kind("vllm") is DIALECTS["vllm"]


def test_a_name_that_is_none_is_told_what_there_is(installed: None) -> None:
    with pytest.raises(UnknownDialect, match=f"'vlm'; there are auto, {', '.join(ENGINE_KINDS)}, alias, ara, broken"):
        kind("vlm")


@pytest.mark.parametrize("name", ["broken", "alias"])
def test_an_entry_point_that_is_no_row_of_its_name_is_refused(name: str, installed: None) -> None:
    with pytest.raises(UnknownDialect, match=rf"'{name}' of smg\.engines is no"):
        kind(name)


def test_an_entry_point_that_cannot_be_used_is_logged_and_keeps_no_other_kind_away(
    installed: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert named("ara://somewhere") == ("ara",)
    assert [each.args for each in caplog.records] == [
        ("alias", "UnknownDialect"),
        ("broken", "UnknownDialect"),
        ("gone", "AttributeError"),
    ]


@pytest.mark.parametrize(
    ("url", "dialect", "usual", "meant"),
    [
        ("grpc://gpu-0:50051", "auto", "auto", ASKED),
        ("grpcs://gpu-0:50051", "auto", "auto", ASKED),
        ("unix:///run/e.sock", "auto", "auto", ASKED),
        ("GRPC://gpu-0:1", "mlx", "vllm", ("mlx",)),
        ("grpc://gpu-0:1", "auto", "vllm", ("vllm",)),
        ("http://gpu-0:8000", "auto", "auto", ("openai",)),
        ("https://api.example/v1", "auto", "vllm", ("openai",)),
        ("http+unix:///run/http.sock", "auto", "sglang-http", ("sglang-http",)),
        ("Https://api.example", "openai-strict", "vllm-http", ("openai-strict",)),
    ],
)
def test_the_name_of_a_worker_goes_before_that_of_the_settings_which_is_for_urls_that_can_be_of_it(
    url: str, dialect: str, usual: str, meant: tuple[str, ...]
) -> None:
    assert named(url, dialect=dialect, usual=usual) == meant


def test_settings_that_name_a_dialect_say_that_engines_are_not_asked_and_leave_alone_what_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ENGINE_KINDS, "ara", EngineKind("ara", ("ara",), open=lambda place: None))

    assert named("ara://x", usual="vllm") == ("ara",)
    with pytest.raises(UnknownDialect, match="no dialect 'vllm-http' at grpc:// URLs; there are auto, vllm, neutral"):
        named("grpc://gpu-0:1", usual="vllm-http")


@pytest.mark.parametrize("url", ["", "gpu-0", "gpu-0:50051", "ftp://x:1", "grpc:x:1", "unix+http:///x"])
def test_a_scheme_of_no_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"no known scheme; use one of grpc://, grpcs://, unix://, http://"):
        named(url)


def test_a_kind_that_is_never_assumed_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    row = EngineKind("ara", ("ara",), open=lambda place: None, unnamed="never")
    monkeypatch.setitem(ENGINE_KINDS, "ara", row)

    assert named("ara://x", dialect="ara") == ("ara",)
    with pytest.raises(UnknownDialect, match="which of ara is the dialect of 'w'"):
        named("ara://x")


@pytest.mark.parametrize("name", [*DIALECTS, *HTTP_DIALECTS, "openai", "openai-strict"])
def test_a_kind_is_refused_at_urls_of_others_which_are_told_their_own(name: str) -> None:
    url, others = ("http://x", (*HTTP_KINDS, *PROVIDER_KINDS)) if name in DIALECTS else ("grpc://x:1", GRPC_KINDS)
    known = ", ".join(("auto", *(each.name for each in others)))
    with pytest.raises(UnknownDialect, match=f"no dialect '{name}' at {url[:4]}:// URLs; there are {known}$"):
        named(url, dialect=name)


@pytest.mark.parametrize("name", [*HTTP_DIALECTS, "openai", "openai-strict"])
@pytest.mark.parametrize("role", ["prefill", "decode", "encode"])
def test_no_server_over_http_has_a_part_in_a_hand_over(name: str, role: str) -> None:
    with pytest.raises(ValueError, match=f"worker 'w' is an HTTP server, which cannot be a {role} worker"):
        check_place(EnginePlace("http://x", name, label="w", role=role))


def test_a_row_is_opened_in_one_way() -> None:
    row = DIALECTS["vllm"]
    for wrong in (
        {"open": lambda place: None},
        {"codec": None},
        {"transport": None},
        {"codec": None, "transport": None},
        {"codec": None, "transport": None, "open": lambda place: None},  # it could not be asked
    ):
        with pytest.raises(ValueError, match="the kind 'vllm' has"):
            attrs.evolve(row, **wrong)
    assert grpc_kind("bare", row.codec).packing is None


@pytest.mark.full
def test_reading_the_table_imports_neither_protobuf_nor_numpy_nor_a_client() -> None:
    code = (
        "import sys; from smg_core.engines.kinds.table import kind; kind('vllm');"
        "late = {'google.protobuf', 'numpy', 'smg_core.engines.grpc.h2.transport', 'smg_core.engines.http.client'};"
        "sys.exit(bool(late & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
