"""Model folders that take pictures and recordings, made from the embedded engine's own by adding tokens, and pictures to send."""

import base64
import io
import json
import math
import shutil
import wave
from array import array
from pathlib import Path
from typing import Any

from PIL import Image
from tokenizers import AddedToken, Tokenizer

from smg_simulator.engine.model_folder import MODEL_FOLDER

CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
MOST_PIXELS = 28 * 28 * 256

_WRITES = """{%- elif part.type == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif part.type == 'video' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
            {%- elif part.type == 'audio' -%}{{- '<|audio_bos|><|AUDIO|><|audio_eos|>' -}}
            {%- elif part.text is defined -%}"""

LLAVA_TEMPLATE = (
    "{% for message in messages %}{{ message.role | upper }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


def write_json(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps(fields))


def _with_tokens(folder: Path, *tokens: str) -> dict[str, int]:
    """Copy the engine's model to `folder` and add special tokens; their ids."""
    shutil.copytree(MODEL_FOLDER, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
    tokenizer.save(str(folder / "tokenizer.json"))
    return {token: int(tokenizer.token_to_id(token) or 0) for token in tokens}


def _config(folder: Path, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", **{**config, **fields})


def qwen2_vl(folder: Path) -> Path:
    """Patches, a grid per picture, and a template that walks over parts; also clips."""
    ids = _with_tokens(folder, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    _config(
        folder,
        model_type="qwen2_vl",
        architectures=["Qwen2VLForConditionalGeneration"],
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        vision_config={"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2},
    )
    write_json(
        folder / "preprocessor_config.json",
        min_pixels=3136,
        max_pixels=MOST_PIXELS,
        patch_size=14,
        temporal_patch_size=2,
        merge_size=2,
        **CLIP,
    )
    _write_parts(folder)
    return folder


def qwen2_audio(folder: Path) -> Path:
    """Recordings of up to two seconds, and a template that walks over parts."""
    ids = _with_tokens(folder, "<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>")
    _config(
        folder,
        model_type="qwen2_audio",
        architectures=["Qwen2AudioForConditionalGeneration"],
        audio_token_index=ids["<|AUDIO|>"],
        audio_config={"num_mel_bins": 80, "max_source_positions": 100},
    )
    _whisper_features(folder)
    _write_parts(folder)
    return folder


def whisper(folder: Path, **fields: Any) -> Path:
    """Two seconds of 80 mels at most, beside a prompt of control tokens; no chat template. `fields` are config.json's."""
    names = ("startofprev", "startoftranscript", "en", "de", "translate", "transcribe", "notimestamps")
    ids = _with_tokens(folder, *(f"<|{name}|>" for name in names))
    _config(
        folder,
        **{
            "model_type": "whisper",
            "architectures": ["WhisperForConditionalGeneration"],
            "num_mel_bins": 80,
            "max_source_positions": 100,
            "max_target_positions": 448,
            "decoder_start_token_id": ids["<|startoftranscript|>"],
            "vocab_size": 51865,
            **fields,
        },
    )
    _whisper_features(folder)
    (folder / "chat_template.jinja").unlink()
    return folder


def voxtral_realtime(folder: Path) -> Path:
    """A token for every 80 ms, which the answer is as long as."""
    ids = _with_tokens(folder, "<s>", "[STREAMING_PAD]")
    _config(
        folder,
        model_type="voxtral_realtime",
        architectures=["VoxtralRealtimeForConditionalGeneration"],
        audio_config={"num_mel_bins": 128},
        text_config={"bos_token_id": ids["<s>"]},
        audio_length_per_tok=8,
        default_num_delay_tokens=6,
    )
    write_json(folder / "preprocessor_config.json", feature_extractor_type="VoxtralRealtimeFeatureExtractor")
    return folder


def _whisper_features(folder: Path) -> None:
    write_json(
        folder / "preprocessor_config.json",
        feature_extractor_type="WhisperFeatureExtractor",
        feature_size=80,
        sampling_rate=16000,
        hop_length=160,
        n_fft=400,
        chunk_length=2,
    )


_OMNI_WRITES = """{%- elif part.type == 'video' -%}{{- '<|vision_start|><|VIDEO|><|vision_end|>' -}}
            {%- elif part.type == 'audio' -%}{{- '<|audio_bos|><|AUDIO|><|audio_eos|>' -}}
            {%- elif part.text is defined -%}"""


def qwen25_omni(folder: Path) -> Path:
    """Clips of up to 64 x 64 pixels, and recordings of up to thirty seconds."""
    marks = (
        "<|vision_start|>",
        "<|vision_end|>",
        "<|IMAGE|>",
        "<|VIDEO|>",
        "<|audio_bos|>",
        "<|AUDIO|>",
        "<|audio_eos|>",
    )
    ids = _with_tokens(folder, *marks)
    _config(
        folder,
        model_type="qwen2_5_omni",
        architectures=["Qwen2_5OmniModel"],
        thinker_config={
            **{f"{kind.lower()}_token_index": ids[f"<|{kind}|>"] for kind in ("IMAGE", "VIDEO", "AUDIO")},
            "audio_start_token_id": ids["<|audio_bos|>"],
            "audio_end_token_id": ids["<|audio_eos|>"],
        },
        vision_config={"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2},
        audio_config={"num_mel_bins": 128},
    )
    write_json(
        folder / "preprocessor_config.json",
        image_processor_type="Qwen2VLImageProcessor",
        feature_extractor_type="WhisperFeatureExtractor",
        feature_size=128,
        chunk_length=30,
        patch_size=14,
        temporal_patch_size=2,
        merge_size=2,
        **CLIP,
    )
    _write_parts(folder, _OMNI_WRITES)
    return folder


def phi4(folder: Path) -> Path:
    """Pictures and recordings, and a template that takes content as one string."""
    _with_tokens(folder, "<|endoftext10|>", "<|endoftext11|>")
    _config(
        folder,
        model_type="phi4mm",
        architectures=["Phi4MMForCausalLM"],
        vision_config={"model_type": "siglip"},
        audio_config={"model_type": "phi4_audio"},
    )
    write_json(folder / "preprocessor_config.json", size={"height": 448, "width": 448}, dynamic_hd=4)
    (folder / "chat_template.jinja").write_text(LLAVA_TEMPLATE)
    return folder


def _write_parts(folder: Path, writes: str = _WRITES) -> None:
    """Let the template write what stands for media."""
    template = folder / "chat_template.jinja"
    text = template.read_text()
    changed = text.replace("{%- elif part.text is defined -%}", writes)
    if changed == text:
        raise AssertionError("the engine's template has changed; this one is made of it")
    template.write_text(changed)


def llava(folder: Path) -> Path:
    """One square per picture, one anchor without markers, and a template that takes content as one string."""
    ids = _with_tokens(folder, "<image>")
    _config(
        folder,
        model_type="llava",
        architectures=["LlavaForConditionalGeneration"],
        image_token_index=ids["<image>"],
        vision_config={"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14},
        vision_feature_select_strategy="default",
    )
    write_json(
        folder / "preprocessor_config.json",
        size={"shortest_edge": 56},
        crop_size={"height": 56, "width": 56},
        resample=3,
        **CLIP,
    )
    (folder / "chat_template.jinja").write_text(LLAVA_TEMPLATE)
    return folder


def picture(width: int, height: int, colour: str = "steelblue", kind: str = "PNG") -> bytes:
    """An encoded picture of one colour with a corner of another, so that it can be told from its mirror image."""
    image = Image.new("RGB", (width, height), colour)
    image.paste("white", (0, 0, max(1, width // 4), max(1, height // 4)))
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def clip(width: int, height: int, frames: int) -> bytes:
    """An animated GIF, ten frames a second."""
    pictures = [Image.new("RGB", (width, height), (20 * at % 256, 90, 120)) for at in range(frames)]
    out = io.BytesIO()
    pictures[0].save(out, "GIF", save_all=True, append_images=pictures[1:], duration=100)
    return out.getvalue()


def sound(seconds: float, rate: int = 16000, tone: float = 440.0) -> bytes:
    """A WAV file with one tone, 16 bits, mono."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        samples = (round(9000 * math.sin(2 * math.pi * tone * at / rate)) for at in range(round(seconds * rate)))
        file.writeframes(array("h", samples).tobytes())
    return out.getvalue()


def audio_part(data: bytes, kind: str = "wav") -> dict[str, Any]:
    """An input_audio part."""
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": kind}}


def video_part(data: bytes) -> dict[str, Any]:
    """A video_url part of an animated GIF."""
    return {"type": "video_url", "video_url": {"url": data_url(data, "image/gif")}}


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def image_part(data: bytes | str, **more: Any) -> dict[str, Any]:
    """An image_url part of bytes, or of a URL."""
    return {"type": "image_url", "image_url": {"url": data if isinstance(data, str) else data_url(data), **more}}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
