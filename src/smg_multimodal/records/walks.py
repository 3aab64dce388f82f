"""The bounds of a walk over the pieces of a media file: chunks, segments, blocks, boxes.

Above: `decoding.formats` and `recordings.audio`, which walk over files; `fetching.fetch`, which lets them walk a few steps on
the event loop and the rest of the way in a thread. Below: `errors`. Pure: steps are counted, not time, so that the bound is the
same on every machine.
"""

from smg_multimodal.records.errors import MediaTooLarge

__all__ = ["MOST_STEPS", "LongWalk", "StepCount"]

MOST_STEPS = 65536
"""Steps over one file: each takes microseconds in Python code, here and in the libraries that decode it."""


class LongWalk(MediaTooLarge):
    """The file is made of more pieces than may be gone through. Who gave a bound below `MOST_STEPS` may try again with more."""


class StepCount:
    """Counts the steps over one file, which `what` names. `step` raises LongWalk beyond `most`."""

    __slots__ = ("_most", "_what", "steps")

    def __init__(self, what: str, most: int = MOST_STEPS) -> None:
        self._what = what
        self._most = most
        self.steps = 0

    def step(self) -> None:
        """One more piece."""
        self.steps += 1
        if self.steps > self._most:
            raise LongWalk(f"the {self._what} is made of more than {self._most} pieces")
