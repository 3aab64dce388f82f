"""vLLM's reasoning and tool parsers as a peer, driven in the interpreter that has vLLM; no engine is started.

    VENV/bin/python bench/parsers/peers_vllm.py --tokenizer FOLDER

prints one JSON record for each transcript and way (`peer_cases.py` says which). FOLDER holds any fast byte-level tokenizer. The
transcripts go through the parser that vLLM composes for a request.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peer_cases
from peer_cases import Chunks, Heard

# Tool and reasoning parser of vLLM for each family: those of its name, or of the relative whose format it shares.
PARSERS: dict[str, tuple[str | None, str | None]] = {
    "deepseek_r1": ("deepseek_v3", "deepseek_r1"),
    "deepseek_v3": ("deepseek_v3", None),
    "deepseek_v31": ("deepseek_v31", "deepseek_v3"),
    "deepseek_v32": ("deepseek_v32", "deepseek_v3"),
    "deepseek_v4": ("deepseek_v4", "deepseek_v4"),
    "deepseek_v41": ("deepseek_v41", "deepseek_v41"),
    "qwen25": ("hermes", None),
    "qwen3": ("qwen3_json", "qwen3"),
    "qwen3_thinking": ("qwen3_json", "qwen3"),
    "qwq": ("hermes", "deepseek_r1"),
    "qwen3_coder": ("qwen3_coder", None),
    "qwen35": ("qwen3_coder", "qwen3"),
    "kimi_k2": ("kimi_k2", None),
    "kimi_k2_thinking": ("kimi_k2", "kimi_k2"),
    "kimi_k25": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "glm45": ("glm45", "glm45"),
    "glm46": ("glm45", "glm45"),
    "glm47": ("glm47", "glm47"),
    "glm5": ("glm47", "glm47"),
    "llama3": ("llama3_json", None),
    "llama4": ("llama4_pythonic", None),
    "mistral": ("mistral", None),
    "mistral_v11": ("mistral", None),
    "magistral": ("mistral", "mistral"),
    "command_a": ("cohere_command3", "cohere_command3"),
    "nemotron_v3": ("qwen3_coder", "nemotron_v3"),
    "minimax_m2": ("minimax_m2", "minimax_m2"),
    "minimax_m3": ("minimax_m3", "minimax_m3"),
    "step3": ("step3", "step3"),
    "step35": ("step3p5", "step3p5"),
    "inkling": ("inkling", "inkling"),
    "hermes": ("hermes", "qwen3"),
    "granite3": ("granite", "granite"),
    "granite4": ("granite4", None),
    "granite_20b_fc": ("granite-20b-fc", None),
    "phi4": ("phi4_mini_json", None),
    "functiongemma": ("functiongemma", None),
    "gemma4": ("gemma4", "gemma4"),
    "seed_oss": ("seed_oss", "seed_oss"),
    "hunyuan": ("hunyuan_a13b", "hunyuan_a13b"),
    "hunyuan_v3": ("hy_v3", "hy_v3"),
    "hunyuan_v4": ("hy_v4", "hy_v4"),
    "ernie45": ("ernie45", "ernie45"),
    "internlm2": ("internlm", None),
    "jamba": ("jamba", None),
    "olmo3": ("olmo3", None),  # its reasoning parser looks for tokens of OLMo's own vocabulary
    "xlam": ("xlam", None),
    "lfm2": ("lfm2", None),
    "lfm25": ("lfm2", "qwen3"),
    "minicpm5": ("minicpm5", "qwen3"),
    "ling": ("ling3", "ling3"),
    "dots": ("dots", "qwen3"),
    "mimo": ("mimo", "mimo"),
    "longcat": ("longcat", None),
    "apertus": ("apertus", None),
    "gigachat3": ("gigachat3", None),
    "plamo3": ("plamo3", "plamo3"),
    "k2_horizon": ("k2_horizon", "k2_horizon"),
    "pythonic": ("pythonic", None),
}


class Peer:
    """vLLM's parser for one family, made anew for every output."""

    def __init__(self, family: str, folder: Path) -> None:
        manager = importlib.import_module("vllm.parser.parser_manager").ParserManager
        protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
        tool, reasoning = PARSERS[family]
        self.plain = manager.get_parser(tool, None, enable_auto_tools=True)
        self.thinking = manager.get_parser(tool, reasoning, enable_auto_tools=True)
        self.asked = protocol.ChatCompletionRequest
        self.tokenizer = peer_cases.tokenizer(folder, family)
        self.opens = peer_cases.opening(family)

    def _made(self, case: dict[str, Any]) -> tuple[Any, Any]:
        """Its reasoning parser takes part only where there is reasoning: elsewhere thinking is taken to be switched off."""
        request = self.asked(messages=[], model="m", tools=case.get("tools") or None)
        if not peer_cases.reasons(case):
            return self.plain(self.tokenizer, request.tools), request
        switches = {"thinking": True, "enable_thinking": True, "reasoning_effort": "high"}
        return self.thinking(self.tokenizer, request.tools, chat_template_kwargs=switches), request

    def whole(self, case: dict[str, Any]) -> Heard:
        parser, request = self._made(case)
        ids = self.tokenizer.encode(case["text"], add_special_tokens=False)
        found = parser.parse(case["text"], request, enable_auto_tools=True, model_output_token_ids=ids)
        calls = [(call.name, json.loads(call.arguments)) for call in found[2] or []]
        return (found[0] or "").strip(), calls

    def streamed(self, case: dict[str, Any], chunks: Chunks) -> Heard:
        parser, request = self._made(case)
        start = "Hello" + (self.opens if case.get("in_reasoning") else "")
        prompt = self.tokenizer.encode(start, add_special_tokens=False)
        reasoning, names, arguments = "", dict[int, str](), dict[int, str]()
        for number, (text, ids) in enumerate(chunks, 1):
            delta = parser.parse_delta(text, ids, request, prompt, finished=number == len(chunks))
            if delta is None:
                continue
            reasoning += delta.reasoning or ""
            for call in delta.tool_calls or []:
                if call.function and call.function.name:
                    names[call.index] = call.function.name
                more = (call.function and call.function.arguments) or ""
                arguments[call.index] = arguments.get(call.index, "") + more
        return reasoning.strip(), [(name, json.loads(arguments.get(at) or "{}")) for at, name in sorted(names.items())]

    def feed(self, tools: list[dict[str, Any]], chunks: Chunks, *, reasons: bool) -> None:
        """The chunks through a fresh parser, for timing; what comes out is thrown away."""
        expect = [{"reasoning": ""}] if reasons else []
        parser, request = self._made({"tools": tools, "expect": expect})
        prompt = self.tokenizer.encode("Hello", add_special_tokens=False)
        for number, (text, ids) in enumerate(chunks, 1):
            parser.parse_delta(text, ids, request, prompt, finished=number == len(chunks))


if __name__ == "__main__":
    raise SystemExit(peer_cases.main(PARSERS, Peer, __doc__))
