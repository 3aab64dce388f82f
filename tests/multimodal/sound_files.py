"""The recordings and clips that features are compared on, the same on every run."""

from typing import Any

import numpy as np
from PIL import Image

RECORDINGS = ((0.05, 1), (0.31, 2), (1.7, 3), (4.0, 4))
"""(seconds, seed)."""

SPOKEN = (*RECORDINGS, (0.011, 5), (30.0, 6), (30.5, 7), (61.0, 8))
"""(seconds, seed) for models that take recordings of any length: around the edges of their pieces too."""

CLIPS = ((40, 30, 4), (64, 48, 5), (200, 150, 8), (33, 90, 2), (320, 240, 6))
"""(width, height, frames)."""

SAMPLINGS = tuple(
    (total, rate) for total in (1, 2, 3, 5, 17, 90, 301, 2000) for rate in (1.0, 23.976, 24.0, 30.0, 60.0)
)
"""(frames, frames per second) of whole clips."""


def recording(seconds: float, rate: int = 16000, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A chord with noise, swelling."""
    time = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(seed).normal(0, 0.02, len(time))
    chord = sum(np.sin(2 * np.pi * tone * time) for tone in (220.0, 1310.0, 5000.0))
    return ((0.1 + 0.2 * time / (time[-1] + 1)) * chord + noise).astype(np.float32)


def clip(width: int, height: int, frames: int) -> list[Image.Image]:
    """Frames that drift."""
    rng = np.random.default_rng(width * 1000 + frames)
    wide = rng.integers(0, 256, (height // 9 + 1, (width + 8 * frames) // 9 + 1, 3), np.uint8)
    scene = Image.fromarray(wide).resize((width + 8 * frames, height), Image.Resampling.BICUBIC)
    return [scene.crop((8 * index, 0, 8 * index + width, height)) for index in range(frames)]
