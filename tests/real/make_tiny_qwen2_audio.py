"""Writes a tiny Qwen2-Audio with random weights to a folder, and what transformers answers for it on a handful of requests.

    python tests/real/make_tiny_qwen2_audio.py build/tiny-qwen2-audio

As make_tiny_qwen2_vl.py does for pictures: config, weights, tokenizer, chat template and preprocessor, and in `cases.json` chat
completion requests with recordings and what transformers makes of each. test_qwen2_audio.py sends the requests through a
gateway to a real engine with this folder, and expects the same. Needs torch and transformers.
"""

import base64
import io
import json
import sys
import wave
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from make_tiny_qwen2_vl import MARGIN, NEW_TOKENS, TOP, WORDS, said
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    Qwen2AudioConfig,
    Qwen2AudioForConditionalGeneration,
    Qwen2AudioProcessor,
    Qwen2TokenizerFast,
    WhisperFeatureExtractor,
)

RATE = 16000
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_bos|>", "<|audio_eos|>", "<|AUDIO|>")
TEMPLATE = """{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\\n' -}}
    {%- if message.content is string -%}{{- message.content -}}
    {%- else -%}
        {%- for part in message.content -%}
            {%- if part.type == 'audio' -%}{{- '<|audio_bos|><|AUDIO|><|audio_eos|>' -}}
            {%- else -%}{{- part.text -}}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


def sound(seconds: float, seed: int) -> bytes:
    """A swelling chord with noise, as a WAV file of 16 bits."""
    time = np.arange(round(seconds * RATE)) / RATE
    rng = np.random.default_rng(seed)
    chord = sum(np.sin(2 * np.pi * tone * time) for tone in rng.uniform(100, 6000, 4))
    samples = (0.02 + 0.2 * time / (time[-1] + 1)) * chord + rng.normal(0, 0.01, len(time))
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return out.getvalue()


def heard(data: bytes) -> dict[str, Any]:
    """An input_audio part."""
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": "wav"}}


def requests() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The name and messages of every case."""
    short, long = sound(0.7, 1), sound(6.3, 2)
    question = said("What do you hear?")

    def user(*content: dict[str, Any]) -> dict[str, Any]:
        return {"role": "user", "content": list(content)}

    yield "no recording", [{"role": "user", "content": "What do you hear?"}]
    yield "a recording, then words", [user(heard(short), question)]
    yield "the same length, other sounds", [user(heard(sound(0.7, 4)), question)]
    yield "words, then a recording", [user(question, heard(long))]
    yield "two recordings", [user(heard(short), said("and"), heard(long), question)]
    yield "two recordings, the other way round", [user(heard(long), said("and"), heard(short), question)]
    yield (
        "recordings in two turns",
        [
            user(heard(short), question),
            {"role": "assistant", "content": "A tone."},
            user(said("And here?"), heard(long)),
        ],
    )


def tokenizer() -> Any:
    """Byte-level BPE as Qwen2's, with its special tokens after the words."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=480, initial_alphabet=sorted(alphabet), show_progress=False)
    made.train_from_iterator([str(__doc__), TEMPLATE], trainer)
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return Qwen2TokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=4096
    )


def model(words: Any, seed: int) -> Any:
    """Two layers of each tower. Weights are large for their size, so that answers depend on what is heard."""
    torch.manual_seed(seed)
    ids = {token: words.convert_tokens_to_ids(token) for token in SPECIAL}
    text = {
        "model_type": "qwen2",
        "vocab_size": len(words),
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.12,
        "tie_word_embeddings": False,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
    }
    audio = {
        "model_type": "qwen2_audio_encoder",
        "num_mel_bins": 128,
        "encoder_layers": 2,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 128,
        "d_model": 64,
        "init_std": 0.12,
        "initializer_range": 0.12,
    }
    config = Qwen2AudioConfig(
        text_config=text,
        audio_config=audio,
        audio_token_index=ids["<|AUDIO|>"],
        eos_token_id=ids["<|im_end|>"],
        pad_token_id=ids["<|endoftext|>"],
    )
    return Qwen2AudioForConditionalGeneration(config).float().eval()


def for_template(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The messages as transformers' templates take them, and their samples."""
    sounds, turns = [], []
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            for part in content:
                if part["type"] == "input_audio":
                    data = base64.b64decode(part["input_audio"]["data"])
                    sounds.append(np.frombuffer(data[44:], "<i2").astype(np.float32) / np.float32(32768))
            content = [{"type": "audio"} if part["type"] == "input_audio" else part for part in content]
        turns.append({**message, "content": content})
    return turns, sounds


@torch.inference_mode()
def answered(network: Any, processor: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What transformers makes of one request, greedily; `margin` is the least lead of a chosen token."""
    turns, sounds = for_template(messages)
    prompt = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    given = {"audio": sounds, "sampling_rate": RATE} if sounds else {}
    inputs = processor(text=[prompt], return_tensors="pt", **given)
    out = network.generate(
        **inputs,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=None,
        output_logits=True,
        return_dict_in_generate=True,
    )
    steps = [torch.log_softmax(logits[0].double(), -1).topk(TOP) for logits in out.logits]
    return {
        "prompt_ids": inputs["input_ids"][0].tolist(),
        "ids": [step.indices.tolist() for step in steps],
        "logprobs": [[round(value, 6) for value in step.values.tolist()] for step in steps],
        "margin": min(float(step.values[0] - step.values[1]) for step in steps),
    }


def decisive(cases: dict[str, dict[str, Any]]) -> bool:
    """Whether no step is a near tie, and sounds and order alone make a difference."""

    def first(name: str) -> list[int]:
        return [step[0] for step in cases[name]["ids"]]

    return (
        all(case["margin"] > MARGIN for case in cases.values())
        and first("a recording, then words") != first("the same length, other sounds")
        and first("two recordings") != first("two recordings, the other way round")
    )


def as_published(file: Path) -> None:
    """Weights under the names that published models have; transformers 5 doubles a part of them."""
    tensors = {name.replace(".model.model.", ".model."): tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})


def main(folder: Path) -> None:
    """Make and write all of it."""
    torch.set_num_threads(1)
    words = tokenizer()
    extractor = WhisperFeatureExtractor(feature_size=128)
    processor = Qwen2AudioProcessor(extractor, words, chat_template=TEMPLATE)
    asked = dict(requests())
    for seed in count():
        network = model(words, seed)
        cases = {name: answered(network, processor, messages) for name, messages in asked.items()}
        print(f"seed {seed}: least lead {min(case['margin'] for case in cases.values()):.4f}", file=sys.stderr)
        if decisive(cases):
            break
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)
    as_published(folder / "model.safetensors")
    words.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    stated = {"feature_extractor_type": "WhisperFeatureExtractor", "processor_class": "Qwen2AudioProcessor"}
    (folder / "preprocessor_config.json").write_text(
        json.dumps({**extractor.to_dict(), **stated}, indent=1, default=list)
    )
    made = [{"name": name, "messages": asked[name], **case} for name, case in cases.items()]
    (folder / "cases.json").write_text(json.dumps(made, indent=1))
    print(f"{folder}: {len(made)} cases", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
