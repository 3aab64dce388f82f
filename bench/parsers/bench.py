"""Characters per second and core, four characters at a time: prose, reasoning and calls for every family, peers beside it.

    python bench/parsers/bench.py                      # every family
    python bench/parsers/bench.py qwen3 harmony        # some
    python bench/parsers/bench.py --peers              # with whatever peers are installed, in the same run, interleaved
    python bench/parsers/bench.py --peers-from FOLDER  # SGLang's parsers alone, installed as `peers.py` says
    VENV/bin/python bench/parsers/bench.py --peers --tokenizer TOKENIZER   # vLLM's, in the interpreter that has vLLM

A figure is the best of several rounds: what disturbs a round only ever makes it slower. Peers are named by what they are
and where they come from; a peer that is not installed is listed as such and left out. They get the same chunks, but for
vLLM's, which get the same text token by token, since they look at token ids.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(Path(__file__).parent)]

import peer_cases  # noqa: E402
import peers_sglang as sglang_alone  # noqa: E402
import peers_vllm as vllm_alone  # noqa: E402

from parsers.examples import EXAMPLES, WEATHER  # noqa: E402
from smg_parsers import FAMILIES, Parser  # noqa: E402

PROSE = (
    "The weather in Paris is mild today, with a light breeze from the west and a few clouds in the afternoon. "
    "Take a jacket if you plan to stay out late; a < b holds for all of us, and 3 > 2 does too.\n"
)
LENGTH = 40_000
STEP = 4
TARGET = 1_000_000

Feed = Callable[[Sequence[str]], None]
Load = Callable[[Path | None], Feed]


def texts(name: str) -> dict[str, str]:
    """What the family is measured on: long prose, long reasoning, and calls with long arguments one after another."""
    (opens, closes), call = EXAMPLES.get(name, (("", ""), ""))
    prose = (PROSE * (LENGTH // len(PROSE) + 1))[:LENGTH]
    found = {"prose": prose}
    if opens:
        found["reasoning"] = f"{opens}{prose}{closes}Done."
    if call:
        city = (PROSE.replace("\n", " ").replace("<", "").replace(">", "") * 3)[:400]
        between = {"harmony": "<|start|>assistant", "inkling": ""}.get(name, "\n")
        one = call.replace("Paris", city) + between
        found["calls"] = (one * (LENGTH // len(one) + 1))[: max(LENGTH // len(one), 1) * len(one)]
    return found


def ours(name: str) -> Feed:
    """A fresh parser per round, fed chunk by chunk."""

    def run(chunks: Sequence[str]) -> None:
        parser = Parser.for_family(name, tools=[WEATHER], in_reasoning=False, call_id=lambda: "call")
        feed = parser.feed
        for chunk in chunks:
            feed(chunk)
        parser.finish()

    return run


def sglang_peer(detector: str, module: str) -> Load:
    """SGLang's detectors, fed increments of text."""

    def load(_: Path | None) -> Feed:
        kind = getattr(importlib.import_module(f"sglang.srt.function_call.{module}"), detector)
        tool = importlib.import_module("sglang.srt.entrypoints.openai.protocol").Tool
        tools = [tool(**WEATHER)]

        def run(chunks: Sequence[str]) -> None:
            parser = kind()
            for chunk in chunks:
                parser.parse_streaming_increment(chunk, tools)

        return run

    return load


def vllm_peer(family: str) -> Load:
    """vLLM's composed parser for a family, fed token by token, which is what it is made for; tokenizing is not counted."""

    def load(tokenizer: Path | None) -> Feed:
        if tokenizer is None:
            raise ImportError("no tokenizer folder was named")
        peer = vllm_alone.Peer(family, tokenizer)
        cut: dict[str, list[tuple[str, list[int]]]] = {}

        def run(chunks: Sequence[str]) -> None:
            text = "".join(chunks)
            if text not in cut:
                cut[text] = peer_cases.tokens(peer.tokenizer, text)
            peer.feed([WEATHER], cut[text], reasons=text.startswith(peer.opens) and bool(peer.opens))

        return run

    return load


PEERS: dict[str, dict[str, Load]] = {
    "qwen3": {
        "sglang Qwen25Detector": sglang_peer("Qwen25Detector", "qwen25_detector"),
        "vllm": vllm_peer("qwen3"),
    },
    "qwen3_coder": {
        "sglang Qwen3CoderDetector": sglang_peer("Qwen3CoderDetector", "qwen3_coder_detector"),
        "vllm": vllm_peer("qwen3_coder"),
    },
    "kimi_k2": {
        "sglang KimiK2Detector": sglang_peer("KimiK2Detector", "kimik2_detector"),
        "vllm": vllm_peer("kimi_k2"),
    },
    "deepseek_v31": {
        "sglang DeepSeekV31Detector": sglang_peer("DeepSeekV31Detector", "deepseekv31_detector"),
        "vllm": vllm_peer("deepseek_v31"),
    },
    "glm45": {
        "sglang Glm4MoeDetector": sglang_peer("Glm4MoeDetector", "glm4_moe_detector"),
        "vllm": vllm_peer("glm45"),
    },
    "llama3": {
        "sglang Llama32Detector": sglang_peer("Llama32Detector", "llama32_detector"),
        "vllm": vllm_peer("llama3"),
    },
    "mistral": {
        "sglang MistralDetector": sglang_peer("MistralDetector", "mistral_detector"),
        "vllm": vllm_peer("mistral"),
    },
    "pythonic": {
        "sglang PythonicDetector": sglang_peer("PythonicDetector", "pythonic_detector"),
        "vllm": vllm_peer("pythonic"),
    },
    "minimax_m2": {
        "sglang MinimaxM2Detector": sglang_peer("MinimaxM2Detector", "minimax_m2"),
        "vllm": vllm_peer("minimax_m2"),
    },
}


def speed(runs: dict[str, Feed], text: str, rounds: int) -> dict[str, float]:
    """Characters per second of each, best of the rounds; the rounds of all are interleaved."""
    chunks = [text[at : at + STEP] for at in range(0, len(text), STEP)]
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            run(chunks)
            best[name] = min(best[name], time.process_time() - start)
    return {name: len(text) / seconds for name, seconds in best.items()}


def peers(name: str, tokenizer: Path | None, missing: dict[str, str]) -> dict[str, Feed]:
    found: dict[str, Feed] = {}
    for label, load in PEERS.get(name, {}).items():
        try:
            found[label] = load(tokenizer)
        except (ImportError, AttributeError, OSError) as error:
            missing[label] = f"{type(error).__name__}: {error}"
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; the exit status is the number of figures below the target."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("families", nargs="*", default=[])
    options.add_argument("--peers", action="store_true")
    options.add_argument("--peers-from", type=Path)
    options.add_argument("--tokenizer", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    chosen: Any = options.parse_args(argv)
    if chosen.peers_from:
        sys.path.append(str(chosen.peers_from))
        sglang_alone.install()
        chosen.peers = True
    logging.disable(logging.CRITICAL)
    missing: dict[str, str] = {}
    slow = 0
    print(f"{'family':<18}{'prose':>12}{'reasoning':>12}{'calls':>12}   characters per second, {STEP} at a time")
    for name in chosen.families or FAMILIES:
        runs = {"": ours(name), **(peers(name, chosen.tokenizer, missing) if chosen.peers else {})}
        found = {kind: speed(runs, text, chosen.rounds) for kind, text in texts(name).items()}
        for label in runs:
            cells = "".join(
                f"{found[kind][label]:>12,.0f}" if kind in found else f"{'-':>12}"
                for kind in ("prose", "reasoning", "calls")
            )
            print(f"{name if not label else '  ' + label:<18}{cells}")
        slow += sum(figures[""] < TARGET for figures in found.values())
    for label, reason in missing.items():
        print(f"not installed here: {label} ({reason})")
    print(f"{slow} figures below {TARGET:,} characters per second")
    return min(slow, 100)


if __name__ == "__main__":
    raise SystemExit(main())
