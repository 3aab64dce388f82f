"""Reads a model folder, or an engine's archive, into a tokenizer and its chat template (edge).

Files of this room are opened here; there is no network code. Searched in a folder, in this order: for the tokenizer
tokenizer.json, then tiktoken.model and *.tiktoken; for the chat template chat_template.jinja (with
additional_chat_templates/), then tokenizer_config.json, then chat_template.json. Above: models.loading. Below: huggingface,
prover, tiktoken, cache, chat_template. It decides nothing about tokens.
"""

import hashlib
import io
import logging
import stat
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import attrs
import msgspec

from smg_core.clock import Clock
from smg_core.tokenizer.base import Tokenizer
from smg_core.tokenizer.cache import CachedTokenizer
from smg_core.tokenizer.chat_template import ChatTemplate
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer, eos_ids
from smg_core.tokenizer.pairs import PAIR_OF_TEXTS, PairFrame, pair_frame
from smg_core.tokenizer.prover import prove
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.tokenizer.tiktoken import load_tiktoken

__all__ = ["TokenizerBundle", "TokenizerFolderError", "load_tokenizer", "same_vocabulary", "unpack_archive"]

log = logging.getLogger("smg.tokenizer")

VOCABULARIES = ("tokenizer.json", "tiktoken.model")
"""Files that make token ids, the one that is taken first in front."""


PROVE_ELSEWHERE = 1024 * 1024
"""For a tokenizer.json of this many characters or more, `prover` compares fastokens with the reference in a child process."""


_DAMAGED = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError)
"""What zipfile raises for archives that are damaged, in their lists or in what they hold."""


_LONGEST_NAME = 255
"""Bytes of a file's name, of which file systems take no more."""


class TokenizerFolderError(ValueError):
    """The folder or archive holds no usable tokenizer; the message says why."""


@attrs.frozen
class TokenizerBundle:
    """The contents of a model folder: the tokenizer, the chat template if there is one, and the objects of config.json and
    generation_config.json. `pair` is how two texts are put together, None where the rule for that makes no sense. `sha256` is a
    digest of the names and contents of the files read: equal folders have equal digests. `response_template` is how the model
    describes its own output, None where it does not."""

    tokenizer: Tokenizer
    template: ChatTemplate | None
    model_config: Mapping[str, object]
    generation_config: Mapping[str, object]
    folder: Path
    sha256: str
    pair: PairFrame | None = PAIR_OF_TEXTS
    response_template: Mapping[str, object] | None = None


class _Folder:
    """Reads files of one folder and keeps a digest of each file read. Raises TokenizerFolderError."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise TokenizerFolderError(f"there is no tokenizer folder {path}")
        self.path = path
        self._digests: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """A file's bytes, None if there is no such file."""
        file = self.path / name
        if not file.is_file():
            return None
        data = file.read_bytes()
        self._digests[name] = hashlib.sha256(data).digest()
        return data

    def text(self, name: str) -> str | None:
        data = self.read(name)
        try:
            return None if data is None else data.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            raise TokenizerFolderError(f"{self.path / name} is not UTF-8: {fault}") from fault

    def json_object(self, name: str) -> dict[str, object]:
        """The JSON object in a file, {} if there is no such file."""
        data = self.read(name)
        if data is None:
            return {}
        try:
            return msgspec.json.decode(data, type=dict[str, object])
        except msgspec.DecodeError as fault:
            raise TokenizerFolderError(f"{self.path / name} is not a JSON object: {fault}") from fault

    def digest(self) -> str:
        whole = hashlib.sha256()
        for name in sorted(self._digests):
            whole.update(name.encode() + b"\0" + self._digests[name])
        return whole.hexdigest()


_DEFAULTS = TokenizerConfig()


def load_tokenizer(
    folder: Path | str,
    *,
    cache: TokenizerConfig | None = _DEFAULTS,
    clock: Clock | None = None,
    media: Mapping[str, str] | None = None,
    fast: bool = True,
    proof_timeout_s: float = _DEFAULTS.proof_timeout_s,
) -> TokenizerBundle:
    """The tokenizer, chat template and settings of a model folder. With `cache` None the tokenizer is not cached; `clock` is
    read by strftime_now in templates; for `media` see `ChatTemplate`; with `fast` False fastokens is not used;
    `proof_timeout_s` bounds the proof that it may be. Takes some seconds for a large vocabulary: not on an event loop. Raises
    TokenizerFolderError."""
    files = _Folder(Path(folder))
    config = {
        **_named_specials(files.json_object("special_tokens_map.json")),
        **files.json_object("tokenizer_config.json"),
    }
    described = config.get("response_template")
    model_config, generation_config = files.json_object("config.json"), files.json_object("generation_config.json")
    try:
        tokenizer = _tokenizer(
            files, config, model_config, eos_ids(model_config, generation_config), fast, proof_timeout_s
        )
        template = _template(files, config, tokenizer, clock, media)
        pair = _pair(files)
    except (msgspec.DecodeError, ValueError) as fault:
        if isinstance(fault, TokenizerFolderError):
            raise
        raise TokenizerFolderError(f"{folder}: {fault}") from fault
    if cache is not None:
        tokenizer = CachedTokenizer(
            tokenizer,
            l0_bytes=cache.l0_bytes,
            l1_bytes=cache.l1_bytes,
            l1_characters=cache.l1_characters,
            l1_pieces=cache.l1_pieces,
            lock=threading.Lock(),
        )
    return TokenizerBundle(
        tokenizer=tokenizer,
        template=template,
        model_config=model_config,
        generation_config=generation_config,
        folder=Path(folder),
        sha256=files.digest(),
        pair=pair,
        response_template=described if isinstance(described, dict) else None,
    )


def _pair(files: _Folder) -> PairFrame | None:
    text = files.text("tokenizer.json")
    try:
        return PAIR_OF_TEXTS if text is None else pair_frame(text)
    except ValueError as fault:  # such a model may still do everything but look at pairs
        log.warning("%s: %s, so that it cannot score pairs of texts", files.path, fault)
        return None


def _named_specials(table: Mapping[str, object]) -> dict[str, object]:
    """The roles in special_tokens_map.json, for models whose tokenizer_config.json leaves them out."""
    return {role: value for role, value in table.items() if role.endswith("_token") and value is not None}


def _tokenizer(
    files: _Folder,
    config: Mapping[str, object],
    model: Mapping[str, object],
    eos: frozenset[int],
    fast: bool,
    proof_timeout_s: float,
) -> Tokenizer:
    text = files.text("tokenizer.json")
    if text is not None:
        proven = prove(text, config, timeout=proof_timeout_s) if fast and len(text) >= PROVE_ELSEWHERE else None
        return HuggingFaceTokenizer(
            text,
            tokenizer_config=config,
            eos_token_ids=eos,
            fast=fast,
            proven_size=proven,
            source=lambda path=files.path / "tokenizer.json": path.read_text(encoding="utf-8-sig"),  # type: ignore[misc]
        )
    names = ["tiktoken.model", *sorted(path.name for path in files.path.glob("*.tiktoken"))]
    for name in names:
        ranks = files.read(name)
        if ranks is not None:
            return load_tiktoken(ranks, tokenizer_config=config, model_config=model, eos_token_ids=eos)
    raise TokenizerFolderError(
        f"{files.path} holds no tokenizer: looked for tokenizer.json, tiktoken.model and *.tiktoken"
    )


def _template(
    files: _Folder,
    config: Mapping[str, object],
    tokenizer: Tokenizer,
    clock: Clock | None,
    media: Mapping[str, str] | None,
) -> ChatTemplate | None:
    for name, sources in (
        ("chat_template.jinja", _jinja_files(files)),
        ("tokenizer_config.json", _sources(config.get("chat_template"))),
        ("chat_template.json", _sources(files.json_object("chat_template.json").get("chat_template"))),
    ):
        if sources:
            return ChatTemplate(
                sources, special=tokenizer.special, name=str(files.path / name), clock=clock, media=media
            )
    return None


def _jinja_files(files: _Folder) -> dict[str, str]:
    default = files.text("chat_template.jinja")
    found = {} if default is None else {"default": default}
    for path in sorted((files.path / "additional_chat_templates").glob("*.jinja")):
        text = files.text(f"additional_chat_templates/{path.name}")
        if text is not None:
            found[path.stem] = text
    return found


def _sources(value: object) -> dict[str, str]:
    """Template texts by name, from a text, a list of {"name", "template"}, or an object of texts by name."""
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, Mapping):
        return {str(name): text for name, text in value.items() if isinstance(text, str)}
    if isinstance(value, list):
        entries = [entry for entry in value if isinstance(entry, Mapping)]
        return {
            str(entry.get("name")): entry["template"] for entry in entries if isinstance(entry.get("template"), str)
        }
    return {}


# ----------------------------------------------------------------------------------------------------------- archives


def unpack_archive(data: bytes, sha256: str, into: Path, *, limits: TokenizerConfig = _DEFAULTS) -> Path:
    """Unpack an engine's tokenizer archive (zip) into the new or empty folder `into`; returns `into`.

    Nothing is written before the whole archive is checked: its digest (`sha256` is the hex SHA-256 of `data`), the number
    and sizes of its entries (as declared and as unpacked), that no path leads out of the folder, that there are no links.
    Raises TokenizerFolderError.
    """
    found = hashlib.sha256(data).hexdigest()
    if found != sha256.strip().lower():
        raise TokenizerFolderError(f"the tokenizer archive's SHA-256 is {found}, not {sha256} as announced")
    with _read(data) as archive:
        contents = _contents(archive, limits)
    if into.exists() and any(into.iterdir()):
        raise TokenizerFolderError(f"{into} is not empty")
    for name, content in contents.items():
        target = into.joinpath(*PurePosixPath(name).parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return into


def same_vocabulary(data: bytes, folder: Path) -> bool:
    """Whether the archive (zip) of an engine's tokenizer has the vocabulary of `folder`, byte for byte; true where they have no
    file of a vocabulary in common, since then nothing can be told. Raises TokenizerFolderError for what is no archive."""
    vocabularies = {name: folder / name for name in VOCABULARIES if (folder / name).is_file()}
    with _read(data) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        name = next((each for each in vocabularies if each in sizes), None)
        if name is None:
            return True
        content = archive.read(name) if sizes[name] == vocabularies[name].stat().st_size else None
    return content == vocabularies[name].read_bytes()


@contextmanager
def _read(data: bytes) -> Iterator[zipfile.ZipFile]:
    """An archive, while it is read. Raises TokenizerFolderError for whatever is wrong with it, also for a way of compressing that
    no engine uses: there are others, each with errors of its own."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_methods(archive)
            yield archive
    except TokenizerFolderError:
        raise
    except _DAMAGED as fault:
        raise TokenizerFolderError(f"the tokenizer archive cannot be read: {fault}") from fault


def _check_methods(archive: zipfile.ZipFile) -> None:
    for entry in archive.infolist():
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise TokenizerFolderError(f"the tokenizer archive holds {entry.filename!r}, which is not deflated")


def _contents(archive: zipfile.ZipFile, limits: TokenizerConfig) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > limits.archive_files:
        raise TokenizerFolderError(
            f"the tokenizer archive has {len(entries)} entries; at most {limits.archive_files} are taken"
        )
    contents: dict[str, bytes] = {}
    total = 0
    for entry in entries:
        _check_entry(entry, limits, contents)
        if entry.is_dir():
            continue
        with archive.open(entry) as file:
            content = file.read(limits.archive_file_bytes + 1)
        total += len(content)
        if len(content) > limits.archive_file_bytes or total > limits.archive_bytes:
            raise TokenizerFolderError(f"the tokenizer archive unpacks to more than its limit at {entry.filename!r}")
        contents[str(PurePosixPath(entry.filename))] = content
    return contents


def _check_entry(entry: zipfile.ZipInfo, limits: TokenizerConfig, seen: Mapping[str, bytes]) -> None:
    name = entry.filename
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
        raise TokenizerFolderError(f"the tokenizer archive holds a path that leads elsewhere: {name!r}")
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise TokenizerFolderError(f"the tokenizer archive holds {name!r}, which is not a plain file")
    if any(len(part.encode()) > _LONGEST_NAME for part in path.parts):
        raise TokenizerFolderError(
            f"the tokenizer archive holds a name of more than {_LONGEST_NAME} bytes: {name[:80]!r}"
        )
    if str(path) in seen and not entry.is_dir():
        raise TokenizerFolderError(f"the tokenizer archive holds {name!r} twice")
    holders = (path, *path.parents) if entry.is_dir() else path.parents
    is_holder = not entry.is_dir() and any(other.startswith(f"{path}/") for other in seen)
    if is_holder or any(str(each) in seen for each in holders):
        raise TokenizerFolderError(f"the tokenizer archive holds {name!r} as a file and as a folder")
    if entry.file_size > limits.archive_file_bytes:
        raise TokenizerFolderError(
            f"{name!r} in the tokenizer archive is {entry.file_size} bytes; at most {limits.archive_file_bytes} are taken"
        )
