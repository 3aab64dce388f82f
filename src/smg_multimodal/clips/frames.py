"""Clips whose frames are processed as pictures are, one by one, and laid after each other.

Above: `families.filmed`, which makes these for its families. Below: `sampling`, and the family's processor of pictures. Knows
no pixel: which frames are taken is a `FrameSampling`, what becomes of one is an `ImageProcessor`; the family says how many
tokens it takes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from smg_multimodal.clips.sampling import FrameSampling
from smg_multimodal.records.errors import BadClip
from smg_multimodal.records.types import Array, ImageProcessor, ItemFeatures, Modality, Size

__all__ = ["FrameProcessor", "counted", "of_one_size"]

_OVERHEAD = 4096
"""Bytes of a clip's small tensors."""


def of_one_size(frames: Iterable[Image.Image], count: int) -> Iterator[Image.Image]:
    """`frames`, one after the other. Raises `BadClip` where they are not `count`, or not of the first one's size."""
    size: tuple[int, int] | None = None
    taken = 0
    for taken, frame in enumerate(frames, 1):
        size = size or frame.size
        if frame.size != size or taken > count:
            raise BadClip("a clip's frames must be of one size, with a time for each")
        yield frame
    if not taken:
        raise BadClip("the clip has no frames")
    if taken < count:
        raise BadClip(f"the clip has {taken} of the {count} frames that were to be taken")


def counted(frames: int, per_frame: int) -> int:
    """Tokens of a clip each of whose frames has as many as a picture has."""
    return frames * per_frame


@dataclass(frozen=True, slots=True)
class FrameProcessor:
    """Clips to the tensors that `image` makes of each frame, joined along their first axis.

    `names` has, by their names for a picture, the tensors that are kept and what they are called for a clip. `tokens` makes
    the clip's count of the number of frames and the tokens of one picture. With `lead` the tensors get an axis for the clip in
    front: (1, frames, ...). `count` is the name of a tensor with the number of frames. All pictures must have tensors of one
    size, whatever their own: `per_frame` bytes of them.
    """

    image: ImageProcessor
    sampling: FrameSampling
    names: Mapping[str, str]
    per_frame: int
    tokens: Callable[[int, int], int] = counted
    lead: bool = True
    count: str | None = None

    @classmethod
    def of(
        cls,
        image: ImageProcessor,
        sampling: FrameSampling,
        names: Mapping[str, str],
        tokens: Callable[[int, int], int] = counted,
        *,
        lead: bool = True,
        count: str | None = None,
    ) -> "FrameProcessor":
        """One whose `per_frame` is found out with an empty picture."""
        made = image.item(Image.new("RGB", (32, 32))).tensors
        return cls(image, sampling, names, sum(made[name].nbytes for name in names), tokens, lead, count)

    def sample(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total` at `rate` per second."""
        return self.sampling(total, rate)

    def measure(self, size: Size, frames: int) -> tuple[int, tuple[int, ...]]:
        """Tokens, and (frames, *a picture's grid), of `frames` taken frames of `size`."""
        tokens, grid = self.image.measure(size)
        return self.tokens(frames, tokens), (frames, *grid)

    def nbytes(self, size: Size, frames: int) -> int:
        """Bytes of the tensors of `frames` taken frames of any size."""
        del size
        return frames * self.per_frame + _OVERHEAD

    def item(self, frames: Iterable[Image.Image], seconds: Sequence[float], rate: float | None = None) -> ItemFeatures:
        """The tensors of taken RGB `frames`, which come one after the other, shown at `seconds`.

        `rate` is how many a second were taken; the clip is as long as they last at it."""
        count, size = len(seconds), Size(0, 0)
        made: dict[str, Array] = {}
        for index, frame in enumerate(of_one_size(frames, count)):
            size = Size(frame.height, frame.width)
            tensors = self.image.item(frame).tensors
            for name, own in self.names.items():
                if own not in made:
                    made[own] = np.empty((count, *tensors[name].shape[1:]), tensors[name].dtype)
                made[own][index] = tensors[name][0]
        if not count:
            raise BadClip("the clip has no frames")
        tokens, grid = self.measure(size, count)
        if self.lead:
            made = {name: array[None] for name, array in made.items()}
        if self.count is not None:
            made[self.count] = np.array([count], np.int64)
        lasting = count / rate if rate else seconds[-1]
        return ItemFeatures(made, size, tokens, grid, Modality.VIDEO, {"seconds": tuple(seconds), "lasting": lasting})
