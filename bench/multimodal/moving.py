"""A clip of 32 frames and a minute of sound to tensors, ours beside transformers' processors, one thread each, interleaved.

    OMP_NUM_THREADS=1 PYTHONPATH=src python bench/multimodal/moving.py [--rounds 5] [--report]

In an environment that has torch and torchvision (`make -f tests/multimodal/environments.mk multimodal-torchvision-env`):
transformers has clips for torchvision alone, and its extractors of sound use torch where it is. Frames are decoded already and
given to each as its own loader gives them: ours pictures, theirs one tensor of bytes. Milliseconds of processor time, the least
of the rounds. `--report` writes the table into docs/multimodal/performance.md.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import transformers
from bench import PAGE, timed
from PIL import Image

from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.families.registry import family_of
from smg_multimodal.recordings.audio import whisper
from smg_multimodal.records.types import Float32, Modality

BEGIN, END = "<!-- begin: written by bench/multimodal/moving.py -->", "<!-- end of clips and sound -->"
FRAMES, RATE, SECONDS = 32, 16_000, 60
SIZE = (640, 360)
CLIPS = {
    "qwen2_vl": "Qwen2VLVideoProcessor",
    "qwen3_vl": "Qwen3VLVideoProcessor",
    "glm4v": "Glm4vVideoProcessor",
    "llava_onevision": "LlavaOnevisionVideoProcessor",
    "internvl": "InternVLVideoProcessor",
}


def frames(size: tuple[int, int]) -> list[Image.Image]:
    """Frames with soft colours that move."""
    rng = np.random.default_rng(3)
    width, height = size
    soft = Image.fromarray(rng.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), np.uint8))
    whole = np.asarray(soft.resize((width + FRAMES, height), Image.Resampling.BICUBIC))
    return [Image.fromarray(np.ascontiguousarray(whole[:, at : at + width])) for at in range(FRAMES)]


def clip_works(model: str, name: str, resized_by: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Ours, with Pillow's arithmetic ("pil") or torch's, and theirs for one family."""
    pictures = frames(SIZE)
    files = ModelFiles(model={"model_type": model}).resized_by(resized_by)
    processor = family_of(files).others[Modality.VIDEO].process(files)
    theirs = getattr(transformers, name)()
    stacked = torch.from_numpy(np.stack([np.asarray(each) for each in pictures])).permute(0, 3, 1, 2).contiguous()
    moments = [number / 2 for number in range(FRAMES)]
    told: Any = {"fps": 2.0, "total_num_frames": FRAMES, "duration": FRAMES / 2, "frames_indices": list(range(FRAMES))}
    options = {"do_sample_frames": False, "return_tensors": "pt", "video_metadata": [told]}
    ours, made = processor.item(iter(pictures), moments, 2.0), theirs(videos=[stacked], **options)
    if ours.tensors["pixel_values_videos"].size != made["pixel_values_videos"].numel():
        raise ValueError(f"{model}: the two do not make the same of a clip")
    return lambda: processor.item(iter(pictures), moments, 2.0), lambda: theirs(videos=[stacked], **options)


def sound() -> Float32:
    """A minute that is not silent."""
    rng = np.random.default_rng(5)
    return (0.1 * rng.standard_normal(RATE * SECONDS)).astype(np.float32)


def sound_works() -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Ours and theirs for each extractor."""
    samples = sound()
    options: Any = {"sampling_rate": RATE, "return_tensors": "pt", "padding": "longest", "truncation": False}
    for mels in (80, 128):
        theirs = transformers.WhisperFeatureExtractor(feature_size=mels)
        ours = whisper({"feature_size": mels}, {})
        yield f"Whisper, {mels} mels", lambda o=ours: o.log_mel(samples), lambda t=theirs: t(samples, **options)
    files = ModelFiles(model={"model_type": "gemma3n", "audio_token_id": 1})
    gemma = family_of(files).others[Modality.AUDIO].process(files)
    extractor = transformers.Gemma3nAudioFeatureExtractor()
    short = samples[: int(RATE * min(SECONDS, gemma.longest))]
    yield (
        f"Gemma 3n, {len(short) / RATE:.0f} s",
        lambda: gemma.item(short),
        lambda: extractor([short], return_tensors="pt", padding="longest"),
    )


def row(name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[str, float, float]:
    """The least of the rounds of both."""
    ours(), theirs()
    pairs = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    return name, min(each[0] for each in pairs), min(each[1] for each in pairs)


def table(rows: list[tuple[str, float, float]]) -> str:
    """The rows in Markdown."""
    ratios = [ours / theirs for _, ours, theirs in rows]
    least, most, middle = min(ratios), max(ratios), statistics.median(ratios)
    within, versions = (
        sum(ratio <= 1 for ratio in ratios),
        f"transformers {transformers.__version__}, torch {torch.__version__}",
    )
    lines = [
        f"Ours takes {least:.2f} to {most:.2f} of transformers' time, {middle:.2f} in the median;",
        f"{within} of {len(ratios)} rows are at most 1.0 ({versions}).",
        "",
        "| clip or recording | ours | transformers | ratio |",
        "|---|---|---|---|",
    ]
    return "\n".join(
        lines + [f"| {name} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |" for name, ours, theirs in rows]
    )


def main() -> None:
    """Measure, print, and write the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for model, name in CLIPS.items():
        for resized_by, said in (("pil", ""), ("torch", ", `resize: torch`")):
            label = f"{model}, {FRAMES} frames of {SIZE[0]}x{SIZE[1]}{said}"
            rows.append(row(label, *clip_works(model, name, resized_by), options.rounds))
            print(rows[-1], flush=True)
    for name, ours, theirs in sound_works():
        rows.append(row(name, ours, theirs, options.rounds))
        print(rows[-1], flush=True)
    text = table(rows)
    print(text)
    if options.report:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
