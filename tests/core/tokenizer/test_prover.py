"""The proof that fastokens will do, in a process of its own."""

import json
from pathlib import Path

import pytest

from smg_core.tokenizer import loader
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer
from smg_core.tokenizer.loader import load_tokenizer
from smg_core.tokenizer.prover import prove

TEXT = "Grüße, <|start|>東京 🙂 f(x) = 12345\n\n  and\tmore"


def test_a_byte_level_vocabulary_is_proven_and_then_loaded_without_the_reference(
    tokenizer_files: dict[str, str],
) -> None:
    text = tokenizer_files["byte-level BPE"]
    size = prove(text, {})
    light = HuggingFaceTokenizer(text, proven_size=size)
    whole = HuggingFaceTokenizer(text, fast=False)
    ids = whole.encode(TEXT).tolist()

    assert size == whole.vocab_size == light.vocab_size
    assert light.alone
    assert light.encode(TEXT) == ids
    assert light.decode(ids, skip_special_tokens=False) == whole.decode(ids, skip_special_tokens=False)
    assert (light.special, light.anchors) == (whole.special, whole.anchors)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["byte-fallback BPE", "WordPiece", "Unigram"])
def test_what_fastokens_cannot_do_alone_is_not_proven(tokenizer_files: dict[str, str], kind: str) -> None:
    assert prove(tokenizer_files[kind], {}) is None


def test_what_is_no_tokenizer_is_not_proven() -> None:
    assert prove("{}", {}) is None


def test_a_file_that_names_a_token_special_only_in_its_config_is_left_to_the_reference(
    tokenizer_files: dict[str, str],
) -> None:
    assert prove(tokenizer_files["byte-level BPE"], {"eos_token": "a"}) is None


def test_a_large_file_is_proven_elsewhere_before_it_is_loaded(
    tokenizer_files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "PROVE_ELSEWHERE", 0)
    (tmp_path / "tokenizer.json").write_text(tokenizer_files["byte-level BPE"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({}))
    tokenizer = load_tokenizer(tmp_path, cache=None).tokenizer

    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.alone
