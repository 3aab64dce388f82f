"""The text for a clip in the prompt, where that is more than a token repeated: numbers or times of its frames between them.

Above: `families.filmed` picks a rule. Below: `prompts`, whose words these rules are written in. `item.facts["seconds"]` has the
second at which each frame, or group of frames, is shown, and `item.facts["lasting"]` how many seconds the clip has. Text
between frames is encoded by itself, as it stands between special tokens.
"""

from collections.abc import Mapping
from typing import Any

from smg_multimodal.prompts.prompts import GEMMA_4, PromptRule, PromptTokenizer, ReplacementWriter, token, token_or_text
from smg_multimodal.records.types import ItemFeatures, Modality, Replacement

__all__ = [
    "MOST_IN_WORDS",
    "gemma4_clip_rule",
    "glm_clip_rule",
    "in_words",
    "internvl_clip_rule",
    "minicpm_clip_rule",
    "molmo2_clip_rule",
    "smolvlm_clip_rule",
]


def internvl_clip_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """InternVL: a line for each frame, with its number and its tokens between `<img>` and `</img>`."""
    start, end = token(vocabulary, "<img>"), token(vocabulary, "</img>")
    feature = token(vocabulary, "<IMG_CONTEXT>", model.get("image_token_id"))
    anchor = token(vocabulary, "<video>", model.get("video_token_id"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, frames = ReplacementWriter(), item.grid[0]
        for number in range(1, frames + 1):
            line = "\n" if number > 1 else ""
            writer.put(*vocabulary.encode(f"{line}Frame{number}: "), start)
            writer.run(feature, item.tokens // frames).put(end)
        return writer.done()

    return PromptRule(Modality.VIDEO, "<video>", anchor, feature, replace)


def gemma4_clip_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """Gemma 4: before each frame the minute and second it is shown at, its tokens between the marks of a picture."""
    start = token(vocabulary, GEMMA_4.start.format(kind="image"), model.get("boi_token_id"))
    end = token(vocabulary, GEMMA_4.end.format(kind="image"), model.get("eoi_token_id"))
    feature = token(vocabulary, "<|video|>", model.get("video_token_id"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, moments = ReplacementWriter(), item.facts["seconds"]
        for number, second in enumerate(moments):
            space = " " if number else ""
            writer.put(*vocabulary.encode(f"{space}{_clock(second)} "), start)
            writer.run(feature, item.tokens // len(moments)).put(end)
        return writer.done()

    return PromptRule(Modality.VIDEO, "<|video|>", feature, feature, replace)


def _clock(second: float) -> str:
    return f"{int(second // 60):02d}:{int(second % 60):02d}"


_TIMES_IN_FULL = frozenset({"glm46v", "glm_ocr", "glm5_next"})
"""Models with GLM-4.6V's processor, which writes tenths of a second; that of GLM-4.1V writes whole seconds."""


def glm_clip_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """GLM-4.1V to 4.6V: each pair of frames as a picture, and after it the second at which it is shown."""
    start = token(vocabulary, "<|begin_of_image|>", model.get("image_start_token_id"))
    end = token(vocabulary, "<|end_of_image|>", model.get("image_end_token_id"))
    feature = token(vocabulary, "<|image|>", model.get("image_token_id"))
    anchor = token(vocabulary, "<|video|>", model.get("video_token_id"))
    in_full = model.get("model_type") in _TIMES_IN_FULL

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, moments = ReplacementWriter(), item.facts["seconds"]
        for second in moments:
            time = f"{second:.1f} seconds" if in_full else f"{int(second)}"
            writer.put(start).run(feature, item.tokens // len(moments)).put(end, *vocabulary.encode(time))
        return writer.done()

    return PromptRule(Modality.VIDEO, "<|video|>", anchor, feature, replace)


def molmo2_clip_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """Molmo 2: before each frame the second it is shown at, its tokens between the marks of a frame."""
    start = token(vocabulary, "<frame_start>", model.get("frame_start_token_id"))
    end = token(vocabulary, "<frame_end>", model.get("frame_end_token_id"))
    feature = token(vocabulary, "<im_patch>", model.get("image_patch_id"))
    anchor = token(vocabulary, "<|video|>")

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, moments = ReplacementWriter(), item.facts["seconds"]
        for number, second in enumerate(moments):
            space = " " if number else ""
            writer.put(*vocabulary.encode(f"{space}{second:.1f} "), start)
            writer.run(feature, item.tokens // len(moments)).put(end)
        return writer.done()

    return PromptRule(Modality.VIDEO, "<|video|>", anchor, feature, replace)


def minicpm_clip_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """MiniCPM-V: the clip's number, and each frame as a picture: the overview, then the slices row by row."""
    start, end = token(vocabulary, "<image>"), token(vocabulary, "</image>")
    slice_start, slice_end = token(vocabulary, "<slice>"), token(vocabulary, "</slice>")
    number = (token(vocabulary, "<image_id>"), token(vocabulary, "</image_id>"))
    feature = token(vocabulary, "<|video_pad|>", model.get("video_token_id"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        writer, (frames, _, columns) = ReplacementWriter(), item.grid
        if item.facts["numbered"]:
            writer.put(number[0], *vocabulary.encode(str(index)), number[1])
        overview, *slices = item.facts["tokens"]
        for _ in range(frames):
            writer.put(start).run(feature, overview).put(end)
            for place, count in enumerate(slices):
                if place and place % columns == 0:
                    writer.put(*vocabulary.encode("\n"))
                writer.put(slice_start).run(feature, count).put(slice_end)
        return writer.done()

    return PromptRule(Modality.VIDEO, "<|video_pad|>", feature, feature, replace)


_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
MOST_IN_WORDS = 999


def in_words(number: int) -> str:
    """A number from 0 to 999 as English spells it, as the package num2words does. Raises `ValueError` for others."""
    if not 0 <= number <= MOST_IN_WORDS:
        raise ValueError(f"{number} is not spelled here")
    hundreds, rest = divmod(number, 100)
    if hundreds:
        whole = f"{_ONES[hundreds]} hundred"
        return f"{whole} and {in_words(rest)}" if rest else whole
    if number < len(_ONES):
        return _ONES[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def smolvlm_clip_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """SmolVLM: a sentence on how many frames there are of how long a clip, then each after the time at which it is shown."""
    around = token(vocabulary, "<fake_token_around_image>")
    feature = token(vocabulary, "<image>", model.get("image_token_id"))
    whole = token_or_text(vocabulary, "<global-img>")
    anchor = token(vocabulary, "<video>", model.get("video_token_id"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, moments = ReplacementWriter(), item.facts["seconds"]
        seconds = int(item.facts["lasting"])
        length = f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        before = f"You are provided the following series of {in_words(len(moments))} frames from a {length} [H:MM:SS] video.\n"
        for second in moments:
            writer.put(*vocabulary.encode(f"{before}\nFrame from {_clock(second)}:"), around, *whole)
            writer.run(feature, item.tokens // len(moments)).put(around)
            before = ""
        return writer.put(*vocabulary.encode("\n\n")).done()

    return PromptRule(Modality.VIDEO, "<video>", anchor, feature, replace)
