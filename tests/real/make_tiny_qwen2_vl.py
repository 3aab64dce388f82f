"""Writes a tiny Qwen2-VL with random weights to a folder, and what transformers answers for it on a handful of requests.

    python tests/real/make_tiny_qwen2_vl.py build/tiny-qwen2-vl     # or: make tiny-qwen2-vl

The folder has all that an engine and a gateway load: config, weights, tokenizer, chat template, preprocessor. `cases.json`
beside them has chat completion requests with pictures in them and, for each, what transformers makes of it: the processor's
prompt ids, and the ids, logprobs and runners-up of a greedy answer in single precision. test_qwen2_vl.py sends the requests
through a gateway to a real engine with this folder, and expects the same.

Needs torch, torchvision (transformers' Qwen2-VL processor brings one for clips that is made of it) and transformers. Pictures are
processed by the torchvision backend, as by an engine of vLLM and so by the gateway before it. The weights' seed is the first for
which no step of any answer is a near tie, so that rounding cannot decide, and for which two requests that differ in pixels alone
are answered differently.
"""

import base64
import io
import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    Qwen2TokenizerFast,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
)
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

NEW_TOKENS = 12
TOP = 3
MARGIN = 0.005
LOW_SIDE = 512
PREPROCESSOR = {
    "min_pixels": 56 * 56,
    "max_pixels": 28 * 28 * 400,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
           "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
           "<|image_pad|>", "<|video_pad|>")  # fmt: skip
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEMPLATE = """{%- macro written(content) -%}
    {%- if content is string -%}{{- content -}}
    {%- else -%}
        {%- for part in content -%}
            {%- if part.type == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif part.type == 'video' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
            {%- else -%}{{- part.text -}}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
    {%- if loop.first and message.role != 'system' -%}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}
    {%- endif -%}
    {{- '<|im_start|>' + message.role + '\\n' -}}
    {%- if message.content -%}{{- written(message.content) -}}{%- endif -%}
    {%- for call in message.tool_calls or [] -%}
        {{- '<tool_call>\\n{"name": "' + call.function.name + '"}\\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


def picture(width: int, height: int, seed: int, container: str = "PNG") -> bytes:
    """Soft colours with a noisy rectangle: something that every stage of resizing and normalising shows in."""
    rng = np.random.default_rng(seed)
    soft = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    noise = rng.integers(0, 256, (max(1, height // 3), max(1, width // 3), 3), np.uint8)
    soft.paste(Image.fromarray(noise), (width // 4, height // 4))
    out = io.BytesIO()
    soft.save(out, container)
    return out.getvalue()


def shown(data: bytes, **more: Any) -> dict[str, Any]:
    """An image_url part that carries its picture."""
    return {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(data).decode(), **more},
    }


def said(text: str) -> dict[str, Any]:
    """A text part."""
    return {"type": "text", "text": text}


def requests() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The name and messages of every case."""
    wide, tall, photo = picture(280, 140, 1), picture(99, 201, 2), picture(1000, 700, 3, "JPEG")
    question = said("What do you see?")

    def user(*content: dict[str, Any]) -> dict[str, Any]:
        return {"role": "user", "content": list(content)}

    yield "no picture", [{"role": "user", "content": "What do you see?"}]
    yield "a picture, then words", [user(shown(wide), question)]
    yield "the same sizes, other pixels", [user(shown(picture(280, 140, 4)), question)]
    yield "words, then a picture", [user(question, shown(wide))]
    yield "two pictures", [user(shown(wide), said("and"), shown(tall), question)]
    yield "two pictures, the other way round", [user(shown(tall), said("and"), shown(wide), question)]
    yield "one picture twice", [user(shown(tall), shown(tall), question)]
    yield "a photograph", [user(shown(photo), question)]
    yield "low detail", [user(shown(photo, detail="low"), question)]
    yield "high detail", [user(shown(photo, detail="high"), question)]
    yield (
        "pictures in two turns",
        [
            user(shown(tall), question),
            {"role": "assistant", "content": "A shape."},
            user(said("And here?"), shown(wide)),
        ],
    )
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    yield (
        "a picture in a tool result",
        [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": [said("Seen: "), shown(wide)]},
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
    """Two layers of each tower. Weights are large for their size, so that answers depend on what is seen."""
    torch.manual_seed(seed)
    ids = {token: words.convert_tokens_to_ids(token) for token in SPECIAL}
    text = {
        "vocab_size": len(words),
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.12,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
    }
    vision = {"depth": 2, "embed_dim": 64, "num_heads": 2, "hidden_size": 128, "initializer_range": 0.12}
    config = Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=False,
        eos_token_id=ids["<|im_end|>"],
        pad_token_id=ids["<|endoftext|>"],
    )
    return Qwen2VLForConditionalGeneration(config).float().eval()


def opened(url: str, detail: str) -> Image.Image:
    """The picture of a data URL, smaller where the detail is low."""
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")
    scale = LOW_SIDE / max(image.size)
    if detail != "low" or scale >= 1:
        return image
    return image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)


def for_template(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    """The messages as transformers' templates take them, and their pictures."""
    images: list[Image.Image] = []
    turns = []
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            pictures = [part["image_url"] for part in content if part["type"] == "image_url"]
            images += [opened(each["url"], each.get("detail", "auto")) for each in pictures]
            content = [{"type": "image"} if part["type"] == "image_url" else part for part in content]
        turns.append({**message, "content": content})
    return turns, images


@torch.inference_mode()
def answered(network: Any, processor: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What transformers makes of one request, greedily; `margin` is the least lead of a chosen token."""
    turns, images = for_template(messages)
    prompt = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    inputs = processor(text=[prompt], images=images or None, return_tensors="pt")
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
    grid = inputs["image_grid_thw"].tolist() if images else []
    return {
        "prompt_ids": inputs["input_ids"][0].tolist(),
        "grid": grid,
        "ids": [step.indices.tolist() for step in steps],
        "logprobs": [[round(value, 6) for value in step.values.tolist()] for step in steps],
        "margin": min(float(step.values[0] - step.values[1]) for step in steps),
    }


def decisive(cases: dict[str, dict[str, Any]]) -> bool:
    """Whether no step is a near tie, and pixels and order alone make a difference."""

    def first(name: str) -> list[int]:
        return [step[0] for step in cases[name]["ids"]]

    return (
        all(case["margin"] > MARGIN for case in cases.values())
        and first("a picture, then words") != first("the same sizes, other pixels")
        and first("two pictures") != first("two pictures, the other way round")
    )


def main(folder: Path) -> None:
    """Make and write all of it."""
    torch.set_num_threads(1)
    words = tokenizer()
    images = Qwen2VLImageProcessor(**PREPROCESSOR)
    clips = Qwen2VLVideoProcessor(**{**PREPROCESSOR, "max_pixels": 28 * 28 * 64})
    processor = Qwen2VLProcessor(images, words, clips, chat_template=TEMPLATE)
    asked = dict(requests())
    for seed in count():
        network = model(words, seed)
        cases = {name: answered(network, processor, messages) for name, messages in asked.items()}
        print(f"seed {seed}: least lead {min(case['margin'] for case in cases.values()):.4f}", file=sys.stderr)
        if decisive(cases):
            break
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    stated = {"image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps({**PREPROCESSOR, **stated}, indent=1))
    made = [{"name": name, "messages": asked[name], **case} for name, case in cases.items()]
    (folder / "cases.json").write_text(json.dumps(made, indent=1))
    print(f"{folder}: {len(made)} cases", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
