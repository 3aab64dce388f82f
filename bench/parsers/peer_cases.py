"""What the peers are given and how it is compared: the corpus's transcripts, cut in three ways, and what is wanted of them.

Used by `peers_sglang.py` and `peers_vllm.py`, which run in the interpreter that has those packages, and by `peers.py`. Compared
are reasoning (white space at its edges aside) and calls; text is not. Left out are transcripts with other policies than the
usual ones, those that end amid a call, and reasoning where the peer has no parser for it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src")]

from smg_parsers import FAMILIES  # noqa: E402

STEP = 4
WAYS = ("whole", "by token", "4 characters")
POLICIES = ("unknown_tools", "malformed_calls", "any_tool")
"""What a transcript may ask of our parser besides the usual; there is nothing like it in a peer."""

# Anything that looks like one marker; what a family's transcripts hold of these becomes a token each.
MARKER = re.compile(r"</?[^<>\s\"=]{2,40}>|\[/?[A-Z_]{4,20}\]|\]<\]minimax\[>\[")
FIXED = ("<|message_sep|>", "<|role_sep|>", "<|action_start|>", "<|plugin|>", "<|action_end|>", "<think>", "</think>")

Heard = tuple[str, list[tuple[str, Any]]]
Chunks = list[tuple[str, list[int]]]


def cases(family: str) -> list[dict[str, Any]]:
    """The family's transcripts as the corpus has them."""
    data = json.loads((ROOT / "tests" / "parsers" / "corpus" / f"{family}.json").read_text(encoding="utf-8"))
    return list(data["cases"])


def wanted(case: dict[str, Any], reasons: bool) -> Heard | None:
    """Reasoning and calls that the corpus expects, or nothing where the case is not for this comparison."""
    calls = [entry["call"] for entry in case["expect"] if "call" in entry]
    if any(case.get(policy) for policy in POLICIES) or any("arguments" not in call for call in calls):
        return None
    reasoning = "".join(entry["reasoning"] for entry in case["expect"] if "reasoning" in entry)
    if reasoning and not reasons:
        return None
    return (reasoning.strip(), [(call["name"], call["arguments"]) for call in calls])


def reasons(case: dict[str, Any]) -> bool:
    """Whether there is reasoning in it; elsewhere a peer is told that thinking is switched off."""
    return bool(case.get("in_reasoning")) or any("reasoning" in entry for entry in case["expect"])


def opening(family: str) -> str:
    """The marker with which the family's reasoning begins, empty for none."""
    return (FAMILIES[family].thinking.opens or ("",))[0]


def tokenizer(folder: Path, family: str) -> Any:
    """A stand-in for the family's tokenizer: any byte-level one with the family's markers as tokens."""
    made = importlib.import_module("transformers").AutoTokenizer.from_pretrained(folder)
    made.add_tokens(sorted({*FIXED, *(mark for case in cases(family) for mark in MARKER.findall(case["text"]))}))
    return made


def tokens(made: Any, text: str) -> Chunks:
    """The text token by token; tokens that share a character come together, as a detokenizer gives them."""
    coded = made(text, add_special_tokens=False, return_offsets_mapping=True)
    chunks: Chunks = []
    held: list[int] = []
    at, spans = 0, coded["offset_mapping"]
    for number, (token, (_, end)) in enumerate(zip(coded["input_ids"], spans, strict=True)):
        held.append(token)
        if number + 1 == len(spans) or spans[number + 1][1] > end:
            end = len(text) if number + 1 == len(spans) else end
            chunks.append((text[at:end], held))
            at, held = end, []
    return chunks


def slices(made: Any, text: str) -> Chunks:
    """The text four characters at a time, each with the ids that these four would have."""
    parts = [text[at : at + STEP] for at in range(0, len(text), STEP)]
    return [(part, made.encode(part, add_special_tokens=False)) for part in parts]


def attempt(read: Callable[..., Any], *arguments: Any) -> Any:
    """What the peer makes of a text, or how it failed: any failure at all is a result here."""
    try:
        return read(*arguments)
    except Exception as error:  # noqa: BLE001 - a foreign parser may raise anything
        return f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"


def records(family: str, peer: Any, has_reasoning: bool) -> Iterator[dict[str, Any]]:
    """One for each transcript and way: what the peer, given as an object with `whole` and `streamed`, makes of it."""
    for case in cases(family):
        if wanted(case, has_reasoning) is None:
            continue
        got = {
            "whole": attempt(peer.whole, case),
            "by token": attempt(peer.streamed, case, tokens(peer.tokenizer, case["text"])),
            "4 characters": attempt(peer.streamed, case, slices(peer.tokenizer, case["text"])),
        }
        for way in WAYS:
            yield {"family": family, "case": case["name"], "way": way, "got": got[way]}


def main(parsers: dict[str, tuple[str | None, str | None]], make: Callable[[str, Path], Any], about: str) -> int:
    """Print the records of all families, one a line as JSON; a family that the peer cannot read at all is told as an error."""
    options = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("families", nargs="*", default=[])
    options.add_argument("--tokenizer", type=Path, required=True)
    options.add_argument("--folder", type=Path, help="where the peer's package is, if it is not installed")
    chosen = options.parse_args()
    logging.disable(logging.CRITICAL)
    if chosen.folder:
        sys.path.append(str(chosen.folder))
    for family in chosen.families or list(parsers):
        peer = attempt(make, family, chosen.tokenizer)
        if isinstance(peer, str):
            print(json.dumps({"family": family, "error": peer}), flush=True)
            continue
        for record in records(family, peer, parsers[family][1] is not None):
            print(json.dumps(record, default=str), flush=True)
    return 0
