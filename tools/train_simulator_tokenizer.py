"""Trains the tokenizer of the embedded engine's model from tools/simulator_text, and writes the model folder.

    python tools/train_simulator_tokenizer.py            writes src/smg_simulator/model
    python tools/train_simulator_tokenizer.py --check    fails unless the committed folder is what would be written

Byte-level BPE, so that any text can be encoded; about eight thousand tokens; the same text gives the same files. The chat
template is written by hand and copied into nothing: it lies in the folder as it is.
"""

import argparse
import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).parent.parent
TEXT = ROOT / "tools" / "simulator_text"
MODEL = ROOT / "src" / "smg_simulator" / "model"

VOCABULARY = 8192
CONTEXT = 32768
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Tokens that are text to the client: parsers read them, so decoding must not drop them.
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
# Words with the space before them, digits one by one, runs of other signs, line ends with what is before them.
SPLIT = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def texts() -> list[str]:
    """The lines to learn from. A list of words counts as a text with a space before each word."""
    lines: list[str] = []
    for path in sorted(TEXT.glob("*.txt")):
        content = path.read_text(encoding="utf-8")
        if path.name == "words.txt":
            lines += [" " + " ".join(content.split()), " ".join(word.capitalize() for word in content.split())]
        else:
            lines += content.splitlines(keepends=True)
    return lines


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS),
        min_frequency=1,
        max_token_length=15,  # or whole sentences of a script without spaces become one token
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False, special=False) for mark in MARKS])
    return tokenizer


def files() -> dict[str, str]:
    """The model folder but for the chat template: name to text."""
    tokenizer = train()
    end, start = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    added = {
        str(token_id): {
            "content": token.content,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": token.special,
        }
        for token_id, token in sorted(tokenizer.get_added_tokens_decoder().items())
    }
    tokenizer_config = {
        "added_tokens_decoder": added,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": CONTEXT,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }
    config = {
        "architectures": ["SimForCausalLM"],
        "eos_token_id": end,
        "max_position_embeddings": CONTEXT,
        "model_type": "sim",
        "pad_token_id": start,
        "torch_dtype": "bfloat16",
        "vocab_size": tokenizer.get_vocab_size(),
    }
    generation = {"eos_token_id": [end, start], "pad_token_id": start, "temperature": 0.7, "top_p": 0.9}
    return {
        "config.json": _json(config),
        "generation_config.json": _json(generation),
        "tokenizer.json": tokenizer.to_str(pretty=False) + "\n",
        "tokenizer_config.json": _json(tokenizer_config),
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the embedded engine's tokenizer.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the folder is stale")
    check = parser.parse_args().check
    stale = []
    for name, text in files().items():
        path = MODEL / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text, encoding="utf-8")
    if stale and check:
        print(f"stale: {', '.join(stale)}; run python tools/train_simulator_tokenizer.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
