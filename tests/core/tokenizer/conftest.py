"""Small tokenizers of the four kinds there are, trained in this session on the project's own text, and a tiktoken one."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from smg_core.tokenizer.huggingface import HuggingFaceTokenizer

ROOT = Path(__file__).parents[3]
CONTROL = ["<|start|>", "<|end|>", "<|tool|>"]
MARKERS = ["<think>", "</think>"]
KINDS = ("byte-level BPE", "byte-fallback BPE", "WordPiece", "Unigram")
SCRIPTS = "Grüße aus Zürich, naïve café; Привет, мир; 你好世界; 日本語のテキスト; שלום; नमस्ते; 👍🏽👩‍👩‍👧 €5 ½ ﬁn"


def corpus() -> list[str]:
    """The lines of the project's source and prose."""
    files = [*sorted((ROOT / "src" / "smg_core" / "tokenizer").glob("*.py")), ROOT / "src" / "smg_core" / "errors.py"]
    return [line for file in files for line in file.read_text().splitlines() if line] + [SCRIPTS] * 20


def special_tokens(*, stripping: bool = False) -> list[AddedToken]:
    """The control tokens; with `stripping`, the last one swallows white space on both sides, as Phi-3's roles do."""
    return [
        AddedToken(token, special=True, normalized=False, lstrip=strips, rstrip=strips)
        for token, strips in zip(CONTROL, (False, False, stripping), strict=True)
    ]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(
                Regex(r"\p{N}|[^\r\n\p{L}\p{N}]?\p{L}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"), "isolated"
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=special_tokens(),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_fallback() -> Tokenizer:
    """Llama-2-like: a dummy space before every stretch of text, spaces as U+2581, unknown characters as bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    specials = [AddedToken("<unk>", special=True, normalized=False), *special_tokens(stripping=True)]
    # The bytes are added tokens while it is trained, so that they get ids, and ordinary ones ever after.
    trainer = trainers.BpeTrainer(
        vocab_size=1100,
        special_tokens=[*specials, *(f"<0x{byte:02X}>" for byte in range(256))],
        max_token_length=12,
        show_progress=False,
    )
    words = (word for line in corpus() if line.isascii() for word in line.split())
    tokenizer.train_from_iterator(words, trainer)
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(content))


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    specials = [AddedToken("[UNK]", special=True), AddedToken("[CLS]", special=True), AddedToken("[SEP]", special=True)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=800, special_tokens=[*specials, *special_tokens()], show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def unigram() -> Tokenizer:
    """T5-like: a dummy space before the first stretch of text only."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    specials = [AddedToken("<unk>", special=True, normalized=False), *special_tokens(stripping=True)]
    trainer = trainers.UnigramTrainer(vocab_size=700, special_tokens=specials, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


BUILDERS = dict(zip(KINDS, (byte_level, byte_fallback, word_piece, unigram), strict=True))


def with_markers(tokenizer: Tokenizer) -> str:
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKERS])
    return tokenizer.to_str()


@pytest.fixture(scope="module", autouse=True)
def tokenizers_are_loaded_once() -> None:
    """Here each test loads its own: nothing is shared."""


@pytest.fixture(scope="session")
def tokenizer_files() -> dict[str, str]:
    """The text of a tokenizer.json for each kind."""
    return {kind: with_markers(build()) for kind, build in BUILDERS.items()}


@pytest.fixture(scope="session")
def tokenizers_by_kind(tokenizer_files: dict[str, str]) -> dict[str, HuggingFaceTokenizer]:
    config = {"eos_token": "<|end|>", "bos_token": {"content": "<|start|>"}}
    return {kind: HuggingFaceTokenizer(text, tokenizer_config=config) for kind, text in tokenizer_files.items()}


@pytest.fixture(scope="session")
def references(tokenizer_files: dict[str, str]) -> dict[str, Tokenizer]:
    """The same vocabularies in the tokenizers package: what ids and texts must be."""
    return {kind: Tokenizer.from_str(text) for kind, text in tokenizer_files.items()}


@pytest.fixture(params=KINDS)
def tokenizer(
    request: pytest.FixtureRequest, tokenizers_by_kind: dict[str, HuggingFaceTokenizer]
) -> HuggingFaceTokenizer:
    return tokenizers_by_kind[request.param]


def rank_lines(tokens: Iterable[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


@pytest.fixture(scope="session")
def tiktoken_file() -> bytes:
    """256 bytes and some merges of them."""
    words = (b" t", b"he", b" the", b"in", b"ing", b"er", b" a", b"or", b"\xe4\xbd\xa0", b"\xe4\xbd", b"  ", b"\n\n")
    return rank_lines([*(bytes((byte,)) for byte in range(256)), *words])
