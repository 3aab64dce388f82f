"""tokenizer.json vocabularies: ids, bytes, roles, and which encoder does the work."""

import json
from collections.abc import Sequence

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from smg_core.errors import ClientGone, InvalidRequest
from smg_core.tokenizer.base import Prompt
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer, eos_ids
from smg_core.tokenizer.proof import proof_texts

KINDS = ("byte-level BPE", "byte-fallback BPE", "WordPiece", "Unigram")
FRAGMENTS = (
    "<|start|>",
    "<|end|>",
    "<think>",
    "<|",
    "|>",
    "<",
    "start|>",
    "hello",
    " ",
    "\n",
    "é",
    "世界",
    "<|<|end|>end|>",
)


def control_ids(tokenizer: HuggingFaceTokenizer, ids: Sequence[int]) -> list[int]:
    return [token_id for token_id in ids if token_id in tokenizer.anchors.values()]


def test_ids_are_those_of_the_tokenizers_package(
    tokenizer: HuggingFaceTokenizer, request: pytest.FixtureRequest, tokenizer_files: dict[str, str]
) -> None:
    reference = Tokenizer.from_str(tokenizer_files[request.node.callspec.params["tokenizer"]])
    for text in proof_texts(sorted(tokenizer.special.control | tokenizer.special.markers)):
        for add in (False, True):
            assert tokenizer.encode(text, add_special_tokens=add) == reference.encode(text, add_special_tokens=add).ids


def test_fastokens_does_the_work_where_it_gives_the_same_ids(
    tokenizers_by_kind: dict[str, HuggingFaceTokenizer],
) -> None:
    assert tokenizers_by_kind["byte-level BPE"].backend == "fastokens"
    assert tokenizers_by_kind["byte-level BPE"].backend_reason == ""
    assert tokenizers_by_kind["WordPiece"].backend == "tokenizers"
    assert "fastokens" in tokenizers_by_kind["WordPiece"].backend_reason


def test_fastokens_can_be_kept_out(tokenizer_files: dict[str, str]) -> None:
    plain = HuggingFaceTokenizer(tokenizer_files["byte-level BPE"], fast=False)
    assert (plain.backend, plain.backend_reason) == ("tokenizers", "fastokens is switched off")


def test_an_encoder_that_differs_anywhere_on_the_sample_is_not_used(
    tokenizer_files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import fastokens

    other = json.loads(tokenizer_files["byte-level BPE"])
    other["normalizer"] = None
    real = fastokens.Tokenizer

    class Unnormalized:
        @staticmethod
        def from_json_str(_: str) -> object:
            return real.from_json_str(json.dumps(other))

    monkeypatch.setattr(fastokens, "Tokenizer", Unnormalized)
    tokenizer = HuggingFaceTokenizer(tokenizer_files["byte-level BPE"])
    assert tokenizer.backend == "tokenizers"
    assert "other ids" in tokenizer.backend_reason
    assert tokenizer.encode("e\u0301") == tokenizer.encode("é")


@pytest.mark.parametrize("kind", KINDS)
def test_the_call_that_holds_the_gil_is_never_made(
    kind: str, tokenizer_files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = HuggingFaceTokenizer(tokenizer_files[kind], fast=False)

    class Watched:
        def __init__(self, inner: Tokenizer) -> None:
            self.inner, self.called = inner, set[str]()

        def __getattr__(self, name: str) -> object:
            self.called.add(name)
            return getattr(self.inner, name)

    watched = Watched(tokenizer._tokenizer)
    monkeypatch.setattr(tokenizer, "_tokenizer", watched)
    tokenizer.encode("<|start|>text", add_special_tokens=True)
    tokenizer.encode("<|start|>text", allow_control=False)
    tokenizer.encode_prompt(Prompt(("a", "b")))
    tokenizer.decode([5, 6])
    assert "encode" not in watched.called


def test_where_fastokens_does_all_the_work_the_reference_is_let_go(tokenizer_files: dict[str, str]) -> None:
    quick = HuggingFaceTokenizer(tokenizer_files["byte-level BPE"])
    slow = HuggingFaceTokenizer(tokenizer_files["byte-level BPE"], fast=False)
    ids = slow.encode("Grüße, <|start|>東京 🙂").tolist()

    assert quick._tokenizer is None
    assert slow._tokenizer is not None
    assert quick.encode("Grüße, <|start|>東京 🙂") == ids
    for skip in (False, True):
        assert quick.decode(ids, skip_special_tokens=skip) == slow.decode(ids, skip_special_tokens=skip)
    assert [quick.token_bytes(each) for each in ids] == [slow.token_bytes(each) for each in ids]
    assert quick.token_id("<|start|>") == slow.token_id("<|start|>")


@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=8), kind=st.sampled_from(KINDS))
def test_control_tokens_in_ordinary_text_stay_text(
    fragments: list[str], kind: str, tokenizers_by_kind: dict[str, HuggingFaceTokenizer]
) -> None:
    tokenizer, text = tokenizers_by_kind[kind], "".join(fragments)
    ids = tokenizer.encode(text, allow_control=False).tolist()
    unknown = tokenizer.token_id(tokenizer.special.unk or "<unk>")
    assert [one for one in control_ids(tokenizer, ids) if one != unknown] == []
    assert tokenizer.token_id("<think>") not in ids
    if kind == "byte-level BPE":
        assert tokenizer.decode(ids) == text


def test_text_behind_text_gets_no_dummy_space(tokenizers_by_kind: dict[str, HuggingFaceTokenizer]) -> None:
    for kind in ("byte-fallback BPE", "Unigram", "byte-level BPE"):
        tokenizer = tokenizers_by_kind[kind]
        report = tokenizer.encode_prompt(Prompt(("hello", "there")))
        assert tokenizer.decode(report.ids) == "hellothere"
        assert report.characters == 10


def test_lone_surrogates_are_replaced_instead_of_failing(tokenizer: HuggingFaceTokenizer) -> None:
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a\ufffdb")
    assert tokenizer.encode_prompt(Prompt(("\udfff", "x"))).ids == tokenizer.encode_prompt(Prompt(("\ufffd", "x"))).ids


def test_the_bytes_of_the_ids_are_the_bytes_of_the_text(tokenizers_by_kind: dict[str, HuggingFaceTokenizer]) -> None:
    text = "hello Grüße 世界 👍🏽 <|end|>\n"
    for kind in ("byte-level BPE", "byte-fallback BPE"):
        tokenizer = tokenizers_by_kind[kind]
        joined = b"".join(tokenizer.token_bytes(token_id) for token_id in tokenizer.encode(text))
        assert joined.decode().replace(" ", "") == text.replace(" ", "")
        assert tokenizer.token_bytes(tokenizer.vocab_size) == b""
        assert tokenizer.token_bytes(2**31) == b""


def test_added_tokens_of_a_byte_level_vocabulary_decode_as_the_reference_decodes_them(
    tokenizer_files: dict[str, str],
) -> None:
    reference = Tokenizer.from_str(tokenizer_files["byte-level BPE"])
    added = ["<｜User｜>", "two words", "é", "Ġ", "▁", "line\nbreak", "end of▁sentence"]
    reference.add_tokens([AddedToken(token, normalized=False) for token in added])
    for fast in (True, False):
        tokenizer = HuggingFaceTokenizer(reference.to_str(), fast=fast)
        for token in added:
            ids = [tokenizer.token_id("A"), tokenizer.token_id(token), tokenizer.token_id("A")]
            assert None not in ids
            decoder = tokenizer.decoder()
            text = reference.decode(ids, skip_special_tokens=True)
            assert "".join(decoder.feed([one]) for one in ids) + decoder.finish() == text == tokenizer.decode(ids)


def test_a_decoder_that_fails_its_check_at_load_is_not_used(
    tokenizer_files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HuggingFaceTokenizer, "_piece_text", lambda self, token_id: "wrong")
    tokenizer = HuggingFaceTokenizer(tokenizer_files["WordPiece"])
    assert type(tokenizer.decoder()).__name__ == "WindowDecoder"
    decoder = tokenizer.decoder()
    ids = tokenizer.encode("the tokenizer").tolist()
    assert "".join(decoder.feed([one]) for one in ids) + decoder.finish() == tokenizer.decode(ids) == "the tokenizer"


def test_a_vocabulary_without_a_decoder_joins_its_tokens_by_spaces() -> None:
    bare = Tokenizer(models.WordLevel(vocab={"a": 0, "b": 1}, unk_token="a"))
    bare.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = HuggingFaceTokenizer(bare.to_str())
    decoder = tokenizer.decoder()
    assert decoder.feed([0]) + decoder.feed([1, 0]) + decoder.finish() == "a b a"
    assert tokenizer.token_bytes(1) == b" b"


def test_word_piece_bytes_tell_beginnings_from_continuations(
    tokenizers_by_kind: dict[str, HuggingFaceTokenizer],
) -> None:
    tokenizer = tokenizers_by_kind["WordPiece"]
    pieces = [tokenizer.token_bytes(token_id) for token_id in tokenizer.encode("tokenizer zz")]
    assert b"".join(pieces) == b" tokenizer zz"


def test_roles_control_and_markers_are_told_apart(tokenizer: HuggingFaceTokenizer) -> None:
    assert tokenizer.special.bos == "<|start|>"
    assert tokenizer.special.eos == "<|end|>"
    assert {"<|start|>", "<|end|>", "<|tool|>"} <= tokenizer.special.control
    assert tokenizer.special.markers == {"<think>", "</think>"}
    assert tokenizer.special.named == {"bos_token": "<|start|>", "eos_token": "<|end|>"}


def test_the_end_of_generation_is_every_eos_id_of_both_configs() -> None:
    assert eos_ids({"eos_token_id": 2}, {"eos_token_id": [2, 7]}) == {2, 7}
    assert eos_ids({"text_config": {"eos_token_id": [1]}}, {}) == {1}
    assert eos_ids({"eos_token_id": None}, {"eos_token_id": True}) == frozenset()


def test_without_configs_the_eos_token_ends_generation(tokenizer: HuggingFaceTokenizer) -> None:
    assert tokenizer.eos_token_ids == {tokenizer.token_id("<|end|>")}


def test_the_size_of_the_vocabulary_is_one_more_than_its_last_id(tokenizer: HuggingFaceTokenizer) -> None:
    last = tokenizer.vocab_size - 1
    assert tokenizer.token_id("</think>") == last


def test_a_token_with_a_role_becomes_special_as_transformers_makes_it(tokenizer_files: dict[str, str]) -> None:
    text = tokenizer_files["byte-level BPE"]
    tokenizer = HuggingFaceTokenizer(text, tokenizer_config={"eos_token": "</think>", "pad_token": "[not there]"})
    end = tokenizer.token_id("</think>")
    assert end is not None
    assert tokenizer.decode([end]) == ""
    assert "</think>" in tokenizer.special.control
    assert tokenizer.token_id("[not there]") is None


def test_truncation_and_padding_of_the_file_are_not_applied(tokenizer_files: dict[str, str]) -> None:
    limited = tokenizers.Tokenizer.from_str(tokenizer_files["byte-level BPE"])
    limited.enable_truncation(4)
    limited.enable_padding(length=64)
    tokenizer = HuggingFaceTokenizer(limited.to_str())
    assert tokenizer.encode("one two three four five six") == HuggingFaceTokenizer(
        tokenizer_files["byte-level BPE"]
    ).encode("one two three four five six")


def test_what_is_no_tokenizer_is_refused_with_the_reason() -> None:
    for text in ("{}", "not json", '{"model": {"type": "BPE"}}'):
        with pytest.raises(ValueError, match=r"tokenizer\.json"):
            HuggingFaceTokenizer(text)


def test_an_unusual_decoder_is_served_by_the_window() -> None:
    odd = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "c</w>": 2}, merges=[]))
    odd.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    odd.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer = HuggingFaceTokenizer(odd.to_str())
    decoder = tokenizer.decoder()
    assert "".join(decoder.feed([token_id]) for token_id in (0, 2, 1)) + decoder.finish() == tokenizer.decode([0, 2, 1])


# -------------------------------------------------------------------------------------------------------------- anchors


def anchors_with(**flags: bool) -> tuple[dict[str, int], str]:
    odd = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    odd.add_special_tokens([AddedToken("<|x|>", **{"normalized": False, **flags})])
    tokenizer = HuggingFaceTokenizer(odd.to_str())
    return dict(tokenizer.anchors), tokenizer.anchor_reason


def test_stripping_white_space_beside_a_token_is_no_hindrance_to_a_cut() -> None:
    assert anchors_with(lstrip=True, rstrip=True) == ({"<|x|>": 1}, "")


@pytest.mark.parametrize("flag", ["normalized", "single_word"])
def test_a_token_whose_matching_depends_on_its_surroundings_is_no_anchor(flag: str) -> None:
    anchors, reason = anchors_with(**{flag: True})
    assert anchors == {}
    assert "raw text" in reason


@pytest.mark.parametrize("other", ["<|x|>y", "|x|", "<|x|", "z<|", "|>>", "<|x|><|x|>"])
def test_a_token_that_can_overlap_another_added_token_is_no_anchor(other: str) -> None:
    odd = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    odd.add_special_tokens([AddedToken("<|x|>", normalized=False)])
    odd.add_tokens([AddedToken(other, normalized=False)])
    tokenizer = HuggingFaceTokenizer(odd.to_str())
    assert dict(tokenizer.anchors) == {}
    assert "shares characters" in tokenizer.anchor_reason


def test_the_unknown_token_is_no_anchor(tokenizers_by_kind: dict[str, HuggingFaceTokenizer]) -> None:
    for tokenizer in tokenizers_by_kind.values():
        assert not {"<unk>", "[UNK]"} & set(tokenizer.anchors)


def test_an_encoder_that_draws_lots_has_no_anchors() -> None:
    odd = Tokenizer(models.BPE(vocab={"a": 0}, merges=[], dropout=0.5))
    odd.add_special_tokens([AddedToken("<|x|>", normalized=False)])
    tokenizer = HuggingFaceTokenizer(odd.to_str(), fast=False)
    assert dict(tokenizer.anchors) == {}
    assert "random" in tokenizer.anchor_reason


def test_a_text_that_fastokens_fails_on_is_encoded_by_the_reference(
    tokenizer_files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def encode_batch_flat(self, texts: list[str], add_special_tokens: bool) -> None:
            raise ValueError("PCRE2: match limit exceeded")

    read: list[str] = []
    for text in tokenizer_files.values():
        plain = HuggingFaceTokenizer(text, fast=False)
        quick = HuggingFaceTokenizer(text, source=lambda text=text: read.append("read") or text)  # type: ignore[misc]
        if quick.backend != "fastokens":
            continue
        monkeypatch.setattr(quick, "_quick", Failing())
        prompt = Prompt(("Hello  there", "you", " all"))
        assert quick.encode_prompt(prompt).ids == plain.encode_prompt(prompt).ids
    assert read


def test_pieces_are_encoded_in_batches_as_they_are_one_by_one(tokenizer: HuggingFaceTokenizer) -> None:
    pieces = tuple(["Hello", "<", "|im_end|>", " x"] * 600)
    ids = [each for piece in pieces[1:] for each in tokenizer.encode_inside(piece).tolist()]
    assert tokenizer.encode_prompt(Prompt(pieces)).ids.tolist() == [*tokenizer.encode(pieces[0]).tolist(), *ids]


def test_encoding_ends_between_batches_once_it_is_given_up(tokenizer: HuggingFaceTokenizer) -> None:
    asked: list[int] = []

    def given_up() -> bool:
        asked.append(1)
        return len(asked) > 1

    with pytest.raises(ClientGone):
        tokenizer.encode_prompt(Prompt(("x",) * 5000), given_up=given_up)
    assert len(asked) == 2


@given(text=st.text(max_size=80) | st.text(alphabet=" \nae\u0301\u0308", max_size=80))
def test_no_text_has_fewer_tokens_than_its_length_allows(
    tokenizers_by_kind: dict[str, HuggingFaceTokenizer], text: str
) -> None:
    bounded = [each for each in tokenizers_by_kind.values() if each.longest_token]
    assert bounded
    for one in bounded:
        assert len(one.encode(text).tolist()) * one.longest_token >= len(text)


def test_a_text_that_every_implementation_fails_on_is_refused(
    tokenizers_by_kind: dict[str, HuggingFaceTokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """What a panic in Rust is in Python."""

    class Failing:
        def __getattr__(self, name: str) -> object:
            raise PanicException("retry-limit-in-match over")

    one = next(iter(tokenizers_by_kind.values()))
    monkeypatch.setattr(one, "_quick", Failing())
    monkeypatch.setattr(one, "_tokenizer", Failing())
    with pytest.raises(InvalidRequest):
        one.encode("text")


def test_ids_that_the_implementation_panics_on_are_an_error_that_can_be_caught(
    tokenizers_by_kind: dict[str, HuggingFaceTokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """What a panic in Rust is in Python."""

    class Failing:
        def decode(self, ids: object, **_: object) -> str:
            raise PanicException("index out of bounds")

    one = next(iter(tokenizers_by_kind.values()))
    monkeypatch.setattr(one, "_tokenizer", Failing())
    with pytest.raises(ValueError, match="out of bounds"):
        one.decode([1])
