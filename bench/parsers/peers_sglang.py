"""SGLang's reasoning and tool parsers as a peer: its parser modules alone, without the engine around them.

    VENV/bin/python bench/parsers/peers_sglang.py --tokenizer FOLDER --folder PEERS

prints one JSON record for each transcript and way (`peer_cases.py` says which). PEERS is a folder into which SGLang's wheel was
unpacked; VENV has the libraries that its parsers import (vLLM's has them all). The text goes through the reasoning parser and
what that leaves through the tool parser, as in SGLang's server; it sees text only, no token ids.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peer_cases
from peer_cases import Chunks, Heard

# Tool and reasoning parser of SGLang for each family: those of its name, or of the relative whose format it shares.
PARSERS: dict[str, tuple[str | None, str | None]] = {
    "deepseek_r1": ("deepseekv3", "deepseek-r1"),
    "deepseek_v3": ("deepseekv3", None),
    "deepseek_v31": ("deepseekv31", "deepseek-v3"),
    "deepseek_v32": ("deepseekv32", "deepseek-v3"),
    "deepseek_v4": ("deepseekv4", "deepseek-v4"),
    "deepseek_v41": ("deepseekv41", "deepseek-v41"),
    "qwen25": ("qwen25", None),
    "qwen3": ("qwen25", "qwen3"),
    "qwen3_thinking": ("qwen25", "qwen3-thinking"),
    "qwq": ("qwen25", "deepseek-r1"),
    "qwen3_coder": ("qwen3_coder", None),
    "qwen35": ("qwen3_coder", "qwen3"),
    "kimi_k2": ("kimi_k2", None),
    "kimi_k2_thinking": ("kimi_k2", "kimi_k2"),
    "kimi_k25": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "kimi_vl": (None, "kimi"),
    "glm45": ("glm45", "glm45"),
    "glm46": ("glm45", "glm45"),
    "glm47": ("glm47", "glm45"),
    "glm5": ("glm47", "glm45"),
    "llama3": ("llama3", None),
    "mistral": ("mistral", None),
    "mistral_v11": ("mistral", None),
    "magistral": ("mistral", "mistral"),
    "nemotron_v3": ("qwen3_coder", "nemotron_3"),
    "minimax_m2": ("minimax-m2", "minimax"),
    "minimax_m3": ("minimax-m3", "minimax-m3"),
    "step3": ("step3", "step3"),
    "step35": ("step3p5", "step3p5"),
    "harmony": ("gpt-oss", "gpt-oss"),
    "inkling": ("inkling", "inkling"),
    "hermes": ("hermes", "qwen3"),
    "gemma4": ("gemma4", "gemma4"),
    "hunyuan_v3": ("hunyuan", "hunyuan"),
    "internlm2": ("interns1", None),
    "lfm2": ("lfm2", None),
    "lfm25": ("lfm2", "qwen3"),
    "minicpm5": ("minicpm5", "qwen3"),
    "ling": ("ling3", "ling3"),
    "dots": ("dots", "dots"),
    "mimo": ("mimo", "mimo"),
    "apertus": ("apertus2509", "apertus2509"),
    "gigachat3": ("gigachat3", None),
    "gigachat35": ("gigachat35", "gigachat35"),
    "k2_horizon": ("k2_horizon", "k2_horizon"),
    "iquest": ("iquest_q1", "iquest_q1"),
    "pythonic": ("pythonic", None),
}
# Packages whose own start-up wants a whole engine; only the modules below them are imported.
PACKAGES = (
    "sglang", "sglang.srt", "sglang.srt.function_call", "sglang.srt.parser", "sglang.srt.entrypoints",
    "sglang.srt.entrypoints.openai", "sglang.srt.utils",
)  # fmt: skip


def install() -> None:
    """Make the peer's parser modules importable without running its packages' start-up."""
    folder = next(path for path in map(Path, sys.path) if (path / "sglang" / "srt").is_dir())
    for name in PACKAGES:
        module = types.ModuleType(name)
        module.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules.setdefault(name, module)
    small = types.ModuleType("sglang.utils")
    small.convert_json_schema_to_str = str  # type: ignore[attr-defined]
    sys.modules.setdefault("sglang.utils", small)


class Peer:
    """SGLang's parsers for one family, made anew for every output."""

    def __init__(self, family: str, folder: Path) -> None:
        install()
        self.tool, self.reasoning = PARSERS[family]
        self.calls = importlib.import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
        self.thoughts = importlib.import_module("sglang.srt.parser.reasoning_parser").ReasoningParser
        self.kind = importlib.import_module("sglang.srt.entrypoints.openai.protocol").Tool
        self.headed = peer_cases.FAMILIES[family].headed
        self.tokenizer = peer_cases.tokenizer(folder, family)

    def _made(self, case: dict[str, Any]) -> tuple[Any, Any]:
        """Its parsers of reasoning and calls, either of them None where it would have no part."""
        tools = [self.kind(**tool) for tool in case.get("tools") or []]
        calls = self.calls(tools, self.tool) if self.tool and tools else None
        # A format whose output begins inside a message header always goes through the parser that knows its channels.
        if self.reasoning is None or not (self.headed or peer_cases.reasons(case)):
            return None, calls
        forced = True if case.get("in_reasoning") else None
        thoughts = self.thoughts(
            self.reasoning, stream_reasoning=True, force_reasoning=forced, tool_call_parser_active=calls is not None
        )
        return thoughts, calls

    def whole(self, case: dict[str, Any]) -> Heard:
        """Reasoning and calls of a text given at once."""
        thoughts, calls = self._made(case)
        reasoning, text = "", case["text"]
        if thoughts is not None:
            reasoning, text = (part or "" for part in thoughts.parse_non_stream(text)[:2])
        found = calls.parse_non_stream(text)[1] if calls is not None and calls.has_tool_call(text) else []
        return reasoning.strip(), [(call.name, json.loads(call.parameters)) for call in found]

    def streamed(self, case: dict[str, Any], chunks: Chunks) -> Heard:
        """Reasoning and calls of a text given in parts."""
        thoughts, calls = self._made(case)
        reasoning, names, arguments = "", dict[int, str](), dict[int, str]()

        def read(found: Any) -> None:
            for item in found:
                if item.name:
                    names[item.tool_index] = item.name
                arguments[item.tool_index] = arguments.get(item.tool_index, "") + (item.parameters or "")

        def take(thought: str | None, text: str | None) -> None:
            nonlocal reasoning
            reasoning += thought or ""
            if calls is not None and text:
                read(calls.parse_stream_chunk(text)[1])

        for text, _ in chunks:
            take(*(thoughts.parse_stream_chunk(text) if thoughts is not None else (None, text)))
        if thoughts is not None:
            take(*thoughts.parse_stream_end())
        if calls is not None:
            read(calls.parse_stream_end()[1])
        return reasoning.strip(), [(name, json.loads(arguments.get(at) or "{}")) for at, name in sorted(names.items())]


if __name__ == "__main__":
    raise SystemExit(peer_cases.main(PARSERS, Peer, __doc__))
