"""A clip's frames: how many there are and at which rate, and those of them that a family takes, upright and in RGB.

Above: `reader`, `processes.worker_process`. Below: `av_input` for MP4, MOV and WebM, `decode` for animated pictures. Knows no
family: which frames are taken is said by numbers, and they come one after the other, so that no more than one is in memory.

A clip is seen as frames at one rate, as many as it has and for as long as it is shown. Where its own frames do not come at
one rate, each place has the frame that is on the screen in its middle: what is taken evenly is then even in time.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from PIL import Image

from smg_multimodal.decoding.av_input import ended_early, opened, prepared
from smg_multimodal.decoding.costs import needs_process
from smg_multimodal.decoding.decode import ImageLimits, animation_frames, picture_header
from smg_multimodal.decoding.formats import recognised
from smg_multimodal.records.errors import BadClip, MediaTooLarge
from smg_multimodal.records.types import Modality, Size

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

__all__ = ["ClipFacts", "animation_facts", "clip_facts", "clip_frames"]

_PIXEL_BYTES = 40
"""Memory that a decoder takes for each pixel of a frame: pictures that later ones refer to, and the one that is handed over."""
_OVERHEAD = 32 * 1024 * 1024
"""Memory that a decoder takes beside its frames."""
_LARGER = 4
"""Times the pixels that a header states beyond which a frame is not decoded; browsers enlarge while they record."""
_SMALL = 1 << 20
"""Pixels of a frame that is decoded whatever the header states."""


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """What is known of a clip before a frame is decoded. `rate` is in frames a second, `size` as stored, before it is turned
    upright; `memory` are the bytes that decoding takes at most. `isolated`: decode it in a process. `sound`: it has a recording
    too."""

    frames: int
    rate: float
    size: Size
    memory: int
    isolated: bool = True
    sound: bool = False

    def seconds(self, places: Sequence[int]) -> list[float]:
        """When the frames at `places` are shown."""
        return [place / self.rate for place in places]


def animation_facts(data: bytes, limits: ImageLimits) -> ClipFacts:
    """Of an animated GIF, WebP or PNG, from its header. Raises as `decode.picture_header` does."""
    header = picture_header(data, limits, animated=True)
    rate = header.frames / header.duration if header.duration > 0 else 1.0
    return ClipFacts(header.frames, rate, header.size, header.memory(2), needs_process(header, header.frames))


def clip_facts(data: bytes, limits: ImageLimits) -> ClipFacts:
    """Of any clip that is taken. Walks over the file's packets and decodes none.

    Raises BadClip for what is no clip, MediaTooLarge for more frames, pixels or memory than `limits` has.
    """
    if recognised(data) is not None:
        return animation_facts(data, limits)
    with opened(data, Modality.VIDEO, limits.max_pixels) as file:
        stream = _video(file, limits.max_pixels)
        size = Size(stream.height, stream.width)
        memory = _checked(size, limits)
        sound = bool(file.streams.audio)
        timeline = _timeline(file, stream, limits.max_frames)
        return ClipFacts(len(timeline.times), timeline.rate, size, memory, sound=sound)


def _video(file: "InputContainer", most_pixels: int) -> "VideoStream":
    found = prepared(file, Modality.VIDEO, most_pixels)
    return file.streams.video[[each.index for each in file.streams.video].index(found.index)]


def _checked(size: Size, limits: ImageLimits) -> int:
    """The memory that decoding frames of `size` takes."""
    height, width = size
    if height < 1 or width < 1:
        raise BadClip(f"the clip is {width}x{height}")
    if height * width > limits.max_pixels:
        raise MediaTooLarge(f"the clip is {width}x{height}; at most {limits.max_pixels} pixels are taken")
    memory = height * width * _PIXEL_BYTES + _OVERHEAD
    if limits.max_memory and memory > limits.max_memory:
        raise MediaTooLarge(
            f"the clip is {width}x{height}, which takes {memory} bytes of memory to decode; "
            f"at most {limits.max_memory} are taken"
        )
    return memory


@dataclass(frozen=True, slots=True)
class _Timeline:
    """`times` are the times of all frames in the order in which they are shown, `keys` those at which decoding can begin, each
    with the time to seek to, all in units of `base` seconds."""

    times: tuple[int, ...]
    keys: tuple[tuple[int, int], ...]
    rate: float
    base: Fraction

    def on_screen(self, place: int) -> int:
        """The time of the frame that is shown at `place`."""
        middle = self.times[0] + (place + Fraction(1, 2)) / Fraction(self.rate) / self.base
        return self.times[max(0, bisect_right(self.times, middle) - 1)]


def _timeline(file: "InputContainer", stream: "VideoStream", most: int) -> _Timeline:
    frames: list[tuple[int, int]] = []
    keys: list[tuple[int, int]] = []
    count = 0
    for packet in file.demux(stream):
        time = packet.dts if packet.pts is None else packet.pts
        if time is None or not packet.size:
            continue
        if packet.is_corrupt:
            raise ended_early(Modality.VIDEO)
        count += 1
        if packet.is_keyframe:
            keys.append((time, time if packet.dts is None else min(time, packet.dts)))
        if not packet.is_discard:
            frames.append((time, packet.duration or 0))
        if count > most:
            raise MediaTooLarge(f"the clip has more than {most} frames")
    if count < len(stream.index_entries):
        raise ended_early(Modality.VIDEO)
    if not frames:
        raise BadClip("the clip is damaged or truncated: it has no frames")
    base = Fraction(stream.time_base or 1)
    frames.sort()
    return _Timeline(tuple(time for time, _ in frames), tuple(sorted(keys)), _rate(frames, base, stream), base)


def _rate(frames: Sequence[tuple[int, int]], base: Fraction, stream: "VideoStream") -> float:
    """Frames a second over the whole clip; the rate that the file states where it is that one but for rounded times."""
    count, (last, lasting) = len(frames), frames[-1]
    if not lasting:
        lasting = (last - frames[0][0]) // max(1, count - 1)
    total = (last + lasting - frames[0][0]) * base
    stated = stream.average_rate
    if stated and stated > 0 and (total <= 0 or abs(count / stated - total) * stated * 2 < 1):
        return float(stated)
    return float(count / total) if total > 0 else 1.0


def clip_frames(data: bytes, limits: ImageLimits, places: Sequence[int]) -> Generator[Image.Image, None, None]:
    """The frames at `places`, which ascend, one after the other: upright, RGB, all of the first one's size.

    Raises as `clip_facts` does, and BadClip where a frame does not decode.
    """
    if recognised(data) is not None:
        facts = animation_facts(data, limits)
        yield from animation_frames(data, limits, [(place + 0.5) / facts.rate for place in places])
        return
    with opened(data, Modality.VIDEO, limits.max_pixels) as file:
        stream = _video(file, limits.max_pixels)
        size = Size(stream.height, stream.width)
        _checked(size, limits)
        timeline = _timeline(file, stream, limits.max_frames)
    most = min(limits.max_pixels, max(_SMALL, _LARGER * size.height * size.width))
    with opened(data, Modality.VIDEO, most) as file:
        times = [timeline.on_screen(place) for place in places]
        first: VideoFrame | None = None
        for frame in _Seeking(file, _video(file, most), timeline.keys).frames(times):
            first = first or frame
            if first.width * first.height > size.width * size.height:
                raise BadClip("the clip is not of the size that its header states")
            yield _upright(frame, first)


class _Seeking:
    """Frames at given times. Goes to the nearest place before each at which decoding can begin, rather than decode all
    between."""

    def __init__(self, file: "InputContainer", stream: "VideoStream", keys: Sequence[tuple[int, int]]) -> None:
        self._file = file
        self._stream = stream
        self._keys = keys
        self._begin()

    def _begin(self) -> None:
        self._decoded: Iterator[VideoFrame] = self._file.decode(self._stream)
        self._now: VideoFrame | None = None
        self._ahead: VideoFrame | None = None

    def frames(self, times: Sequence[int]) -> Iterator["VideoFrame"]:
        """The frame that is on the screen at each of ascending `times`."""
        for time in times:
            self._approach(time)
            found = self._reached(time)
            if found is None and self._keys:  # seeking led past it: from the beginning, then
                self._file.seek(self._keys[0][1], stream=self._stream)
                self._keys = ()
                self._begin()
                found = self._reached(time)
            found = found or self._ahead
            if found is None:
                raise ended_early(Modality.VIDEO)
            yield found

    def _approach(self, time: int) -> None:
        index = bisect_right(self._keys, (time, time)) - 1
        if index < 1:
            return
        key, place = self._keys[index]
        last = self._ahead or self._now
        if last is None or (last.pts or 0) < key:
            self._file.seek(place, stream=self._stream)
            self._begin()

    def _reached(self, time: int) -> "VideoFrame | None":
        """Decode up to the last frame that is shown at `time` or before."""
        while self._now is None or (self._now.pts or 0) < time:
            frame = self._ahead or next(self._decoded, None)
            self._ahead = None
            if frame is None:
                return self._now
            if (frame.pts or 0) > time:
                self._ahead = frame
                return self._now
            self._now = frame
        return self._now


_TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}


def _upright(frame: "VideoFrame", first: "VideoFrame") -> Image.Image:
    """`frame` as it is meant to be seen, at the size of `first`."""
    pixels = frame.to_ndarray(format="rgb24", width=first.width, height=first.height)
    turn = _TURNS.get(round(first.rotation / 90) * 90 % 360)
    image = Image.fromarray(pixels)
    return image if turn is None else image.transpose(turn)
