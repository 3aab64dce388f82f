"""The requests of make_tiny_qwen2_vl.py, sent through a gateway and held to what transformers answers."""

import json
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest
from tokenizers import Tokenizer

NEAR = 0.001
"""Logprobs in single precision, once by transformers and once by the engine, differ by less."""


@attrs.define
class Cases:
    """The requests of one folder, by their names."""

    folder: Path
    by_name: dict[str, dict[str, Any]]
    pieces: dict[str, int]
    """The id of every token's text, as a byte-level vocabulary spells it."""

    @classmethod
    def read(cls, folder: Path) -> "Cases":
        """The requests of the folder that make_tiny_qwen2_vl.py has written."""
        cases = json.loads((folder / "cases.json").read_text())
        vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
        return cls(folder, {case["name"]: case for case in cases}, vocabulary)

    async def asked(self, client: openai.AsyncOpenAI, model: str, name: str) -> Any:
        """What the engine answers to a request."""
        case = self.by_name[name]
        return await client.chat.completions.create(
            model=model,
            messages=case["messages"],
            temperature=0,
            max_tokens=len(case["ids"]),
            logprobs=True,
            top_logprobs=len(case["ids"][0]),
            extra_body={"ignore_eos": True, "skip_special_tokens": False},
        )

    def is_transformers_own(self, answer: Any, name: str) -> None:
        """Assert that the answer has the ids, logprobs and runners-up that transformers gives."""
        case, content = self.by_name[name], answer.choices[0].logprobs.content
        ids = [self.pieces.get(each.token) or self.pieces[bytes_spelled(bytes(each.bytes))] for each in content]

        assert answer.usage.prompt_tokens == len(case["prompt_ids"])
        assert ids == [step[0] for step in case["ids"]], name
        for each, expected in zip(content, case["logprobs"], strict=True):
            assert each.logprob == pytest.approx(expected[0], abs=NEAR), name
            assert [top.logprob for top in each.top_logprobs] == pytest.approx(expected, abs=NEAR), name


def bytes_spelled(data: bytes) -> str:
    """Bytes as byte-level vocabularies spell them: printable Latin-1 as it is, the rest from U+0100 on, in order."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in kept]
    return "".join(chr(byte) if byte in kept else chr(0x100 + others.index(byte)) for byte in data)
