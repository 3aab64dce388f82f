"""Prompts of models that write down what they hear: the recording lies beside the prompt.

Above: `families.dictated_sounds`. Below: `prompts`, `records.errors`. Whisper's prompt names language and task; Voxtral
Realtime's has silence for what is heard before the first word can be written. Follows transformers' tokenization_whisper and
generation_whisper, and the transcription requests of mistral-common.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from string import ascii_lowercase
from typing import Any

from smg_multimodal.prompts.prompts import Dictation, PromptRule, PromptTokenizer, token
from smg_multimodal.records.errors import BadDictation, LanguageNeeded
from smg_multimodal.records.types import ItemFeatures, Modality, Replacement

__all__ = ["streaming_rule", "whisper_rule"]

_LANGUAGE = re.compile(r"[a-z]{2,3}\Z")
_MULTILINGUAL = 51865
"""Words in the vocabulary of Whisper's models of many languages, at least; those of English alone have one fewer."""
_LANGUAGES = (*map("".join, product(ascii_lowercase, repeat=2)), "haw", "yue")
"""What may be a language's code: all of two letters, and those of three that Whisper has."""
_POSITIONS = 448
_MOST_BEFORE = 4096
"""Characters of what came before a recording that are looked at: its last ones, many more than find room."""


def _rule(begin: int, text: str, dictate: Callable[[Dictation], tuple[int, ...]], *, paced: bool = False) -> PromptRule:
    """A rule of recordings beside a prompt that has the token `begin` once."""

    def unchanged(item: ItemFeatures, index: int) -> Replacement:
        del item, index
        return Replacement((begin,), ())

    return PromptRule(Modality.AUDIO, text, begin, begin, unchanged, dictate=dictate, paced=paced)


def whisper_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """What came before, the beginning, language and task, and that no times are written.

    Models of English alone have neither language nor task. Of what came before, the last tokens are taken that half of the
    prompt has room for."""
    begin = token(vocabulary, "<|startoftranscript|>", model.get("decoder_start_token_id"))
    bare, end = token(vocabulary, "<|notimestamps|>"), vocabulary.token_id("<|endoftext|>")
    tasks = token(vocabulary, "<|transcribe|>"), token(vocabulary, "<|translate|>")
    many = int(model.get("vocab_size") or _MULTILINGUAL) >= _MULTILINGUAL
    room = int(model.get("max_target_positions") or _POSITIONS) // 2 - 1

    def before(text: str) -> Sequence[int]:
        """The text that came before; control tokens that are spelled out in it would change what is asked."""
        ids = vocabulary.encode(" " + text[-_MOST_BEFORE:].strip())
        if any(each >= begin or each in (end, bare, *tasks) for each in ids):
            raise BadDictation("prompt", "the text has a control token of the model")
        return (token(vocabulary, "<|startofprev|>"), *ids[-room:])

    def language(code: str | None) -> int:
        if code is None:
            raise LanguageNeeded("language", "the model has to be told the language that is spoken (ISO 639-1)")
        found = vocabulary.token_id(f"<|{code.lower()}|>") if _LANGUAGE.match(code.lower()) else None
        if found is None:
            raise BadDictation("language", "the model knows no such language; ISO 639-1 is meant")
        return found

    def dictate(asked: Dictation) -> tuple[int, ...]:
        earlier = before(asked.before) if asked.before and asked.before.strip() else ()
        if asked.detects:
            return (begin,)
        if many:
            return (*earlier, begin, language(asked.language), tasks[asked.translate], bare)
        if asked.translate or (asked.language or "en").lower() != "en":
            field = "model" if asked.translate else "language"
            raise BadDictation(field, "the model writes down English, and nothing else")
        return (*earlier, begin, bare)

    found = (vocabulary.token_id(f"<|{code}|>") for code in _LANGUAGES) if many else ()
    spoken = frozenset(each for each in found if each is not None)
    return replace(_rule(begin, "<|startoftranscript|>", dictate), languages=spoken)


def streaming_rule(begin: int, silence: int, count: int) -> PromptRule:
    """The beginning, and `count` tokens of `silence`. The model is asked for nothing: it writes what it hears."""

    def dictate(asked: Dictation) -> tuple[int, ...]:
        if asked.translate:
            raise BadDictation("model", "the model writes down what it hears, and does not translate")
        return (begin, *[silence] * count)

    return _rule(begin, "<s>", dictate, paced=True)
