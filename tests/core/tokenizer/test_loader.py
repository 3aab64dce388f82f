"""Model folders and the archives engines send."""

import contextlib
import hashlib
import io
import json
import stat
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.request import FunctionTool, Message, Text
from smg_core.tokenizer.cache import CachedTokenizer
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer
from smg_core.tokenizer.loader import TokenizerFolderError, load_tokenizer, same_vocabulary, unpack_archive
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.tokenizer.tiktoken import TiktokenTokenizer

TEMPLATE = "{% for m in messages %}<|start|>{{ m.role }} {{ m.content }}<|end|>{% endfor %}{{ bos_token }}"
HELLO = [Message("user", (Text("hello"),), content_is_text=True)]


@pytest.fixture
def folder(tmp_path: Path, tokenizer_files: dict[str, str]) -> Path:
    (tmp_path / "tokenizer.json").write_text(tokenizer_files["byte-level BPE"])
    write(tmp_path, "tokenizer_config.json", {"bos_token": {"content": "<|start|>"}, "chat_template": TEMPLATE})
    write(tmp_path, "config.json", {"eos_token_id": 1, "max_position_embeddings": 64})
    write(tmp_path, "generation_config.json", {"eos_token_id": [2, 1]})
    return tmp_path


def write(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(json.dumps(value))


def test_a_folder_gives_tokenizer_template_and_settings(folder: Path) -> None:
    bundle = load_tokenizer(folder)
    assert isinstance(bundle.tokenizer, CachedTokenizer)
    assert bundle.tokenizer.eos_token_ids == {1, 2}
    assert bundle.model_config["max_position_embeddings"] == 64
    assert bundle.generation_config == {"eos_token_id": [2, 1]}
    assert bundle.template is not None
    prompt = bundle.template.render(HELLO)
    assert prompt.text == "<|start|>user hello<|end|><|start|>"
    assert bundle.tokenizer.decode(bundle.tokenizer.encode_prompt(prompt).ids, skip_special_tokens=False) == prompt.text


def test_a_folder_may_be_named_by_a_text(folder: Path) -> None:
    assert load_tokenizer(str(folder)).sha256 == load_tokenizer(folder).sha256
    with pytest.raises(TokenizerFolderError, match="nowhere"):
        load_tokenizer("nowhere")


def test_without_a_cache_the_tokenizer_is_bare(folder: Path) -> None:
    assert isinstance(load_tokenizer(folder, cache=None).tokenizer, HuggingFaceTokenizer)


def test_the_bounds_of_the_cache_are_those_asked_for(folder: Path) -> None:
    tokenizer = load_tokenizer(folder, cache=TokenizerConfig(l0_bytes=0, l1_bytes=0)).tokenizer
    assert isinstance(tokenizer, CachedTokenizer)
    assert tokenizer.l1_reason == "switched off"


def test_equal_folders_have_equal_digests_and_a_changed_file_changes_it(folder: Path) -> None:
    before = load_tokenizer(folder).sha256
    assert load_tokenizer(folder).sha256 == before
    write(folder, "config.json", {"eos_token_id": 2})
    assert load_tokenizer(folder).sha256 != before
    assert len(before) == 64


def test_a_jinja_file_goes_before_the_config_and_brings_its_further_templates(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("from the file")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("with tools")
    template = load_tokenizer(folder).template
    assert template is not None
    assert template.render(HELLO).text == "from the file"
    assert template.render(HELLO, tools=[FunctionTool("f")]).text == "with tools"


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}],
        {"default": "one", "tool_use": "two"},
    ],
)
def test_named_templates_in_the_config_are_all_taken(folder: Path, value: object) -> None:
    write(folder, "tokenizer_config.json", {"chat_template": value})
    template = load_tokenizer(folder).template
    assert template is not None
    assert template.render(HELLO).text == "one"
    assert template.render(HELLO, tools=[FunctionTool("f")]).text == "two"


def test_a_processors_template_file_is_the_last_resort(folder: Path) -> None:
    write(folder, "tokenizer_config.json", {})
    assert load_tokenizer(folder).template is None
    write(folder, "chat_template.json", {"chat_template": "processor"})
    template = load_tokenizer(folder).template
    assert template is not None
    assert template.render(HELLO).text == "processor"


def test_roles_missing_in_the_config_come_from_the_map(folder: Path) -> None:
    write(folder, "tokenizer_config.json", {"chat_template": "{{ bos_token }}{{ eos_token }}"})
    write(folder, "special_tokens_map.json", {"eos_token": "<|end|>", "bos_token": {"content": "<|tool|>"}})
    bundle = load_tokenizer(folder)
    assert bundle.template is not None
    assert bundle.template.render(HELLO).text == "<|tool|><|end|>"
    assert bundle.tokenizer.special.eos == "<|end|>"


def test_how_a_model_describes_its_output_is_kept_as_it_is(folder: Path) -> None:
    assert load_tokenizer(folder).response_template is None
    described = {"start_anchor": "<|start|>", "fields": {"thinking": {"open": "<think>", "close": "</think>"}}}
    for value, kept in ((described, described), ("no object", None)):
        write(folder, "tokenizer_config.json", {"chat_template": TEMPLATE, "response_template": value})
        assert load_tokenizer(folder).response_template == kept


def test_a_tiktoken_folder_is_loaded(tmp_path: Path, tiktoken_file: bytes) -> None:
    (tmp_path / "vocabulary.tiktoken").write_bytes(tiktoken_file)
    write(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": {"300": {"content": "<|end|>", "special": True}}})
    tokenizer = load_tokenizer(tmp_path, cache=None).tokenizer
    assert isinstance(tokenizer, TiktokenTokenizer)
    assert tokenizer.encode("the<|end|>").tolist()[-1] == 300


def test_a_folder_without_a_tokenizer_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(TokenizerFolderError, match=r"tokenizer\.json, tiktoken\.model and \*\.tiktoken"):
        load_tokenizer(tmp_path)
    with pytest.raises(TokenizerFolderError, match="there is no tokenizer folder"):
        load_tokenizer(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", b"[1]", "config.json is not a JSON object"),
        ("tokenizer.json", b"{}", "not a usable tokenizer.json"),
        ("tokenizer.json", b"\xff", "tokenizer.json is not UTF-8"),
        ("chat_template.jinja", b"{% if %}", "does not compile"),
        ("chat_template.jinja", b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_a_broken_file_is_named(folder: Path, name: str, content: bytes, said: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(TokenizerFolderError, match=said):
        load_tokenizer(folder)


# -------------------------------------------------------------------------------------------------------------- archives


def archive(entries: dict[str, bytes], links: tuple[str, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFLNK | 0o777 if name in links else stat.S_IFREG | 0o644) << 16
            writer.writestr(entry, content)
    return buffer.getvalue()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_an_archive_is_unpacked_and_loads(folder: Path, tmp_path: Path) -> None:
    data = archive(
        {path.name: path.read_bytes() for path in folder.iterdir()} | {"additional_chat_templates/x.jinja": b"x"}
    )
    into = unpack_archive(data, digest(data).upper(), tmp_path / "new")
    assert (into / "additional_chat_templates" / "x.jinja").read_bytes() == b"x"
    assert load_tokenizer(into).tokenizer.eos_token_ids == {1, 2}


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "..", "a\\..\\out", "C:out", "", "a/./../../b"])
def test_a_path_that_leads_elsewhere_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    data = archive({"good": b"x", name: b"x"})
    with pytest.raises(TokenizerFolderError, match="leads elsewhere"):
        unpack_archive(data, digest(data), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_refused(tmp_path: Path) -> None:
    data = archive({"good": b"x", "link": b"/etc/passwd"}, links=("link",))
    with pytest.raises(TokenizerFolderError, match="not a plain file"):
        unpack_archive(data, digest(data), tmp_path / "new")


def test_a_digest_that_differs_is_refused(tmp_path: Path) -> None:
    data = archive({"good": b"x"})
    with pytest.raises(TokenizerFolderError, match="SHA-256"):
        unpack_archive(data, digest(b"other"), tmp_path / "new")


def test_what_is_no_archive_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    damaged = bytearray(archive({"good": b"x" * 100}))
    damaged[40] ^= 0xFF
    for data in (b"not a zip", bytes(damaged)):
        with pytest.raises(TokenizerFolderError, match="cannot be read"):
            unpack_archive(data, digest(data), tmp_path / "new")


ENTRIES = st.dictionaries(
    st.sampled_from(["tokenizer.json", "a", "a/b", "a/b/c", "a/", "b//c", "b/c/d", "./d", "d", "é" * 128]),
    st.binary(max_size=300).map(lambda data: data * 3),
    min_size=1,
    max_size=4,
)
METHODS = st.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])


@given(ENTRIES, METHODS, st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=5), st.booleans())
def test_whatever_an_archive_holds_and_however_it_is_damaged_it_is_read_or_refused(
    entries: dict[str, bytes], method: int, damages: list[tuple[int, int]], cut: bool
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as writer:
        for name, content in entries.items():
            writer.writestr(zipfile.ZipInfo(name), content, method)
    data = bytearray(buffer.getvalue())
    for at, value in damages:
        data[at % len(data)] = value
    sent = bytes(data[: len(data) * 2 // 3] if cut else data)
    with tempfile.TemporaryDirectory() as folder:
        (known := Path(folder) / "known").mkdir()
        (known / "tokenizer.json").write_bytes(entries.get("tokenizer.json", b"x"))
        for read in (
            lambda: unpack_archive(sent, digest(sent), Path(folder) / "new"),
            lambda: same_vocabulary(sent, known),
        ):
            with contextlib.suppress(TokenizerFolderError):
                read()


def test_a_name_that_is_a_file_and_a_folder_is_refused(tmp_path: Path) -> None:
    for entries in ({"a": b"x", "a/b": b"x"}, {"a/b": b"x", "a": b"x"}):
        data = archive(entries)
        with pytest.raises(TokenizerFolderError, match="as a file and as a folder"):
            unpack_archive(data, digest(data), tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_the_limits_on_entries_and_sizes_hold(tmp_path: Path) -> None:
    limits = TokenizerConfig(archive_files=3, archive_file_bytes=1000, archive_bytes=1500)
    for entries, said in (
        ({str(number): b"" for number in range(4)}, "at most 3"),
        ({"large": b"x" * 1001}, "at most 1000"),
        ({"a": b"x" * 900, "b": b"x" * 900}, "more than its limit"),
    ):
        data = archive(entries)
        with pytest.raises(TokenizerFolderError, match=said):
            unpack_archive(data, digest(data), tmp_path / "new", limits=limits)
    assert list(tmp_path.iterdir()) == []


def test_an_entry_that_unpacks_to_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    data = archive({"bomb": b"x" * 100_000})
    small = data.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert small != data
    with pytest.raises(TokenizerFolderError):
        unpack_archive(small, digest(small), tmp_path / "new", limits=TokenizerConfig(archive_file_bytes=1000))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as writer:
        writer.writestr("same", b"1")
        writer.writestr("same", b"2")
    data = buffer.getvalue()
    with pytest.raises(TokenizerFolderError, match="twice"):
        unpack_archive(data, digest(data), tmp_path / "new")


def test_a_folder_that_holds_something_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    data = archive({"good": b"x"})
    with pytest.raises(TokenizerFolderError, match="not empty"):
        unpack_archive(data, digest(data), tmp_path)
