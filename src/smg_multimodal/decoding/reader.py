"""The readers of media files: the role, and its plain implementation, which reads in the thread that asks.

Above: `preparing.prepare`, which measures and decodes through a reader. Below: `decode` for pictures, `clips` and `sounds`. The
other implementation is `processes.workers.DecoderProcesses`, which does what may take long in processes that can be stopped.
"""

from collections.abc import Generator, Sequence
from typing import Protocol

from PIL import Image

from smg_multimodal.decoding import clips, sounds
from smg_multimodal.decoding.clips import ClipFacts
from smg_multimodal.decoding.containers import container_of
from smg_multimodal.decoding.decode import ImageLimits, decode_image
from smg_multimodal.decoding.sounds import RecordingFacts
from smg_multimodal.records.types import Float32, Modality

__all__ = ["MediaReader", "PlainReader", "needs_library"]


class MediaReader(Protocol):
    """Makes pixels and samples of files, within limits. Every method blocks, may be called in any thread, and raises MediaError.

    A clip's own sound is read as a recording: `recording_facts` and `recording` take MP4, MOV and WebM files for that too;
    `ClipFacts.sound` says whether there is any.
    """

    def picture(self, data: bytes, limits: ImageLimits) -> Image.Image:
        """An upright RGB picture."""
        ...

    def clip_facts(self, data: bytes, limits: ImageLimits) -> ClipFacts:
        """How many frames a clip has, how fast and how large."""
        ...

    def clip_frames(
        self, data: bytes, limits: ImageLimits, facts: ClipFacts, places: Sequence[int]
    ) -> Generator[Image.Image, None, None]:
        """The frames at ascending `places`, upright, RGB and of one size, one after the other. To be closed where not all are
        taken."""
        ...

    def recording_facts(self, data: bytes, limits: ImageLimits, rate: int) -> RecordingFacts:
        """How long a recording is that will be decoded to `rate` Hz."""
        ...

    def recording(self, data: bytes, limits: ImageLimits, facts: RecordingFacts, rate: int) -> Float32:
        """Its mono samples in [-1, 1] at `rate` Hz."""
        ...


class PlainReader:
    """Reads in the thread that asks; nothing stops a file that takes long. For applications that trust their files."""

    def picture(self, data: bytes, limits: ImageLimits) -> Image.Image:
        """`decode.decode_image`."""
        return decode_image(data, limits)

    def clip_facts(self, data: bytes, limits: ImageLimits) -> ClipFacts:
        """`clips.clip_facts`."""
        return clips.clip_facts(data, limits)

    def clip_frames(
        self, data: bytes, limits: ImageLimits, facts: ClipFacts, places: Sequence[int]
    ) -> Generator[Image.Image, None, None]:
        """`clips.clip_frames`."""
        del facts
        return clips.clip_frames(data, limits, places)

    def recording_facts(self, data: bytes, limits: ImageLimits, rate: int) -> RecordingFacts:
        """`sounds.recording_facts`."""
        return sounds.recording_facts(data, limits, rate)

    def recording(self, data: bytes, limits: ImageLimits, facts: RecordingFacts, rate: int) -> Float32:
        """`sounds.recording`."""
        return sounds.recording(data, limits, rate, facts.most_seconds)


def needs_library(data: bytes, modality: Modality) -> bool:
    """Whether a foreign library opens the file already to measure it, so that measuring it is work for a process."""
    return modality is not Modality.IMAGE and container_of(data) is not None
