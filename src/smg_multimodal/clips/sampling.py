"""The frames of a clip that a family takes: one class for each rule that transformers' video processors have.

Above: `video` and `frames`, whose processors are made with one of these. Below: numpy. A rule gets the number of frames and the
frames a second of the whole clip, and gives the numbers of those that are taken, ascending; it never sees a frame. Where
transformers' class refuses a clip that has fewer frames than it wants, all of them are taken here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from smg_multimodal.configs.key_kinds import refused
from smg_multimodal.configs.keys import positive_number
from smg_multimodal.records.errors import BadClip

__all__ = [
    "AtMostRate",
    "ByLength",
    "BySecond",
    "EvenGroups",
    "EvenRounded",
    "FrameSampling",
    "FromTheMiddle",
    "OneASecond",
    "Shifted",
    "SpreadAtRate",
    "Uniform",
    "WholeGroups",
    "count_or_rate",
]


class FrameSampling(Protocol):
    """A rule. Raises `BadClip` for a clip that it can take nothing of."""

    def __call__(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total` at `rate` a second."""
        ...


def _checked(total: int, rate: float) -> None:
    if total < 1 or not rate > 0:
        raise BadClip("the clip has no frames or no rate")


def count_or_rate(config: Mapping[str, Any]) -> tuple[int | None, float | None]:
    """`num_frames` and `fps` of a settled configuration, of which one at most may be there.

    Raises `UnsupportedModel` by the key's name for both, and for a value that is no number above nothing.
    """
    fps, count = config.get("fps"), config.get("num_frames")
    if fps is not None and count is not None:
        raise refused("num_frames", count, f"fps {fps!r} stands beside it; only one of them may be given")
    if fps is not None and (not isinstance(fps, int | float) or fps <= 0):
        raise refused("fps", fps, "a number above nothing is needed")
    return (None if count is None else positive_number(config, "num_frames")), (None if fps is None else float(fps))


def _steps(start: float, total: int, step: float) -> list[int]:
    """Whole numbers from `start` to below `total`, as torch's arange makes them: each rounded to single precision first."""
    return [int(np.float32(start + index * step)) for index in range(math.ceil((total - start) / step))]


@dataclass(frozen=True, slots=True)
class WholeGroups:
    """Qwen2-VL: `count` frames, or `fps` a second between `fewest` and `greatest`, as a multiple of `group`."""

    fps: float | None = 2.0
    count: int | None = None
    group: int = 2
    fewest: int = 4
    greatest: int = 768

    def __post_init__(self) -> None:
        """Refuse a count that is no group."""
        if self.count is not None and not round(self.count / self.group):
            raise refused("num_frames", self.count, f"frames are taken {self.group} by {self.group}")

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        if self.count is not None:
            wanted = float(min(round(self.count / self.group) * self.group, total))
        else:
            most = min(self.greatest, total) // self.group * self.group
            wanted = min(max(total / rate * (self.fps or 2.0), self.fewest), most)
        count = math.floor(wanted / self.group) * self.group
        if count < 1:
            raise BadClip(f"the clip has fewer than {self.group} frames")
        return _steps(0, total, total / count)


@dataclass(frozen=True, slots=True)
class EvenRounded:
    """Qwen3-VL: `fps` a second between `fewest` and `greatest`, the first and the last frame among them."""

    fps: float = 2.0
    fewest: int = 4
    greatest: int = 768

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        count = min(max(int(total / rate * self.fps), self.fewest), self.greatest, total)
        return [int(index) for index in np.linspace(0, total - 1, count).round().astype(np.int64)]


@dataclass(frozen=True, slots=True)
class Uniform:
    """LLaVA-NeXT-Video, LLaVA-OneVision, Gemma 4: `count` frames, or `fps` a second, beginning with the first."""

    count: int | None = None
    fps: float | None = None

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        count = self.count if self.count is not None else max(1, int(total / rate * (self.fps or rate)))
        count = min(count, total)
        return [index * total // count for index in range(count)]


@dataclass(frozen=True, slots=True)
class AtMostRate:
    """Molmo 2: `count` frames, but not more than `most` a second, or `fps` a second, beginning with the first."""

    count: int | None = 64
    fps: float | None = None
    most: float = 2.0

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        seconds = total / rate
        wanted = int(seconds * self.fps) if self.count is None and self.fps else self.count or total
        if self.fps is None and rate > self.most:
            wanted = min(wanted, int(seconds * self.most))
        return _steps(0, total, total / max(min(wanted, total), 1))


@dataclass(frozen=True, slots=True)
class Shifted:
    """InternVL: as `Uniform`, but beginning `shift` frames later, with None in the middle of the first step."""

    count: int | None = None
    fps: float | None = None
    shift: float | None = None

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        count = self.count if self.count is not None else max(1, int(total / rate * (self.fps or rate)))
        step = total / min(count, total)
        taken = _steps(step / 2 if self.shift is None else self.shift, total, step)
        if not taken:
            raise BadClip(f"the clip has no frame after the first {self.shift:g}")
        return taken


@dataclass(frozen=True, slots=True)
class FromTheMiddle:
    """SmolVLM: `fps` a second, `most` frames at most, each once; of a long clip the first and the last second are left out."""

    fps: float = 1.0
    most: int = 64
    left_out: float = 1.0

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        seconds = total / rate
        count = max(1, min(round(self.fps * seconds), self.most))
        first, last = 0, total - 1
        if seconds - 2 * self.left_out > self.most * self.fps:
            first, last = int(self.left_out * rate), min(int(total - self.left_out * rate), total - 1)
        if first >= last:
            first, last = 0, total - 1
        return [int(index) for index in np.unique(np.linspace(first, last, count, dtype=np.int64))]


@dataclass(frozen=True, slots=True)
class OneASecond:
    """MiniCPM-V: the first frame of every second; of a clip of more than `most` seconds as many, spread over its tenths."""

    most: int = 128

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        seconds = total / rate
        if seconds <= self.most:
            return [min(int(second * rate), total - 1) for second in range(math.ceil(seconds))]
        tenths = int(seconds / 0.1)
        spread = np.linspace(0, tenths - 1, min(self.most, tenths), dtype=np.int64)
        return [min(int(round(int(tenth) * 0.1, 1) * rate), total - 1) for tenth in spread]


def _once_and_even(places: Sequence[int]) -> list[int]:
    """Each of `places` once; the last one twice where that makes their number even."""
    once = list(dict.fromkeys(int(place) for place in places))
    return [*once, once[-1]] if len(once) % 2 else once


@dataclass(frozen=True, slots=True)
class BySecond:
    """GLM-4.1V and 4.5V: `fps` a second; of a clip of more than `longest` seconds as many frames as those would have."""

    fps: float = 2.0
    longest: float = 300.0

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        seconds = total / rate
        if seconds <= self.longest:
            count = max(math.floor(seconds * self.fps), 1)
            return _once_and_even([min(total - 1, math.ceil(index * rate / self.fps)) for index in range(count)])
        count = int(self.longest * self.fps)
        if count >= total:
            return _once_and_even(range(total))
        moments = np.linspace(0, seconds, count, endpoint=True)
        return _once_and_even([min(total - 1, math.ceil(moment * rate)) for moment in moments])


_RATES = ((30.0, 3.0), (300.0, 1.0), (math.inf, 0.5))
"""GLM-4.6V: up to so many seconds, so many groups of frames a second."""
_LONGEST_SECONDS = 2400.0
_MOST_FRAMES = 640


@dataclass(frozen=True, slots=True)
class ByLength:
    """GLM-4.6V: groups of `group` frames, three groups a second of a short clip, fewer of a longer one, 640 frames at most."""

    group: int = 2

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        seconds = total / rate
        length = min(seconds, _LONGEST_SECONDS)
        groups = next(each for most, each in _RATES if length <= most)
        count = min(int(length * groups * self.group), _MOST_FRAMES)
        return _spread(total, rate, 1 / (self.group * groups), count)


def _spread(total: int, rate: float, spacing: float, count: int) -> list[int]:
    """`count` frames, `spacing` seconds from each other where that is as many, else evenly over the clip."""
    taken = _at_rate(total, rate, spacing) if total >= count else []
    if total < count:
        taken = np.linspace(0, total - 1, count, dtype=np.int64).tolist()
    if len(taken) < count:
        first, last = (taken[0], taken[-1]) if taken else (0, total - 1)
        taken = np.linspace(first, last, count, dtype=np.int64).tolist()
    elif len(taken) > count:
        taken = np.linspace(0, total - 1, count, dtype=np.int64).tolist()
    if not taken:
        raise BadClip(f"the clip has {total} frames in {total / rate:.3f} s; that is too short")
    return _once_and_even(taken)


def _at_rate(total: int, rate: float, spacing: float) -> list[int]:
    """The first frame that is shown at or after each multiple of `spacing` seconds, up to the last whole second."""
    taken, moment, last = [], 0.0, int(total / rate)
    for index in range(total):
        if index * (1 / rate) >= moment:
            moment += spacing
            taken.append(index)
            if moment >= last:
                break
    return taken


@dataclass(frozen=True, slots=True)
class SpreadAtRate:
    """GLM-5.3: `fps` a second of the clip, or of its first `seconds` (0: of all of it), at most `most`."""

    fps: float = 2.0
    most: int = 2048
    seconds: float = 0.0

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        lasting = total / rate if self.seconds <= 0 else min(total / rate, self.seconds)
        return _spread(total, rate, 1 / self.fps, min(int(lasting * self.fps), self.most))


@dataclass(frozen=True, slots=True)
class EvenGroups:
    """Muse: `fps` a second, at most `most`, in whole groups of `group`, from the first frame to the last."""

    fps: float = 2.0
    most: int = 96
    group: int = 2

    def __call__(self, total: int, rate: float) -> list[int]:
        """See `FrameSampling`."""
        _checked(total, rate)
        wanted = min(int(total * self.fps / rate), self.most, total)
        count = min(max(self.group, wanted // self.group * self.group), total)
        return _from_first_to_last(total, count)


def _from_first_to_last(total: int, count: int) -> list[int]:
    """`count` whole numbers from 0 to below `total`, as torch's linspace makes them: in single precision, from both ends."""
    if count == 1:
        return [0]
    step = np.float32(total - 1) / np.float32(count - 1)
    half = count // 2
    return [
        int(step * np.float32(index) if index < half else np.float32(total - 1) - step * np.float32(count - 1 - index))
        for index in range(count)
    ]
