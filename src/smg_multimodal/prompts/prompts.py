"""The text for an item in the prompt: one rule per family, from its features to token ids.

Above: `families.registry` picks a rule, `expand` applies it. Below: `records.types`. Decides markers, separators and the order
of feature tokens; does not search prompts and does not know pictures. Token ids come from the model's configuration where it
states them and from its vocabulary otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Protocol

from smg_multimodal.records.errors import UnsupportedModel
from smg_multimodal.records.types import ItemFeatures, Modality, Replacement, Span

__all__ = [
    "GEMMA_3N",
    "GEMMA_4",
    "Dictation",
    "ItemMarkers",
    "PromptRule",
    "PromptTokenizer",
    "ReplacementWriter",
    "audio_rule",
    "aya_rule",
    "begun_audio_rule",
    "enclosed_rule",
    "ernie_rule",
    "gemma_rule",
    "idefics_rule",
    "internvl_rule",
    "llama4_rule",
    "marked_rule",
    "minicpm_rule",
    "molmo2_rule",
    "ovis2_rule",
    "pixtral_rule",
    "repeat_rule",
    "step3_rule",
    "timed_video_rule",
    "token",
    "token_or_text",
    "ultravox_rule",
]


class PromptTokenizer(Protocol):
    """What a rule needs of a tokenizer."""

    def token_id(self, token: str) -> int | None:
        """The id of a special token, None if there is none."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """The ids of plain text, without special tokens around it."""
        ...


@dataclass(frozen=True, slots=True)
class Dictation:
    """How a recording is to be written down: its `language`, if that is known, in English instead (`translate`), and the text
    that came `before` it. `detects`: the language is asked for, and nothing else."""

    language: str | None = None
    translate: bool = False
    before: str | None = None
    detects: bool = False


@dataclass(frozen=True, slots=True)
class PromptRule:
    """How items of one modality enter the prompt.

    `text` is what a chat template writes for an item, `anchor` its token id: each occurrence is replaced by
    `replace(item, index)`, index counting the items of this modality. Where `around` tokens enclose the anchor they are
    replaced with it; without a second one, the one before it is. `feature` is the id of the tokens that receive embeddings.
    `joins` says which pairs of tokens that come to lie side by side at the edges become one.

    With `dictate` an item lies beside the prompt, from its first token on and as long as the item is, and the prompt, which has
    the anchor once, stays as it is: that is what `dictate` writes, where it is not given. An answer that is `paced` ends with the
    item: prompt and answer together are as long. `languages` are the tokens of those that the model tells apart.
    """

    modality: Modality
    text: str
    anchor: int
    feature: int
    replace: Callable[[ItemFeatures, int], Replacement]
    around: tuple[int, int | None] | None = None
    joins: Mapping[tuple[int, int], int] = field(default_factory=dict)
    dictate: Callable[[Dictation], tuple[int, ...]] | None = None
    paced: bool = False
    languages: frozenset[int] = frozenset()


def token(vocabulary: PromptTokenizer, text: str, configured: Any = None) -> int:
    """The id `configured` states, else that of `text`. Raises `UnsupportedModel` if there is neither."""
    found = configured if isinstance(configured, int) else vocabulary.token_id(text)
    if found is None:
        raise UnsupportedModel(f"the vocabulary has no token {text!r}, and the configuration names none")
    return found


class ReplacementWriter:
    """Gathers the ids of one replacement and remembers which runs of them are features. Rules write with it."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.features: list[Span] = []

    def put(self, *ids: int) -> "ReplacementWriter":
        """Append ids that receive no embeddings."""
        self.ids.extend(ids)
        return self

    def run(self, feature: int, count: int) -> "ReplacementWriter":
        """Append `feature` so many times: each receives an embedding."""
        self.features.append(Span(len(self.ids), count))
        self.ids.extend([feature] * count)
        return self

    def done(self) -> Replacement:
        """What was gathered."""
        return Replacement(tuple(self.ids), tuple(span for span in self.features if span.length))


def repeat_rule(text: str, feature: int, modality: Modality = Modality.IMAGE) -> PromptRule:
    """One feature token per embedding, and nothing else."""

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        return Replacement((feature,) * item.tokens, (Span(0, item.tokens),) if item.tokens else ())

    return PromptRule(modality, text, feature, feature, replace)


def marked_rule(start: int, feature: int, end: int, text: str, modality: Modality = Modality.IMAGE) -> PromptRule:
    """Start, one feature token per embedding, end; the template writes the feature token alone."""

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        return ReplacementWriter().put(start).run(feature, item.tokens).put(end).done()

    return PromptRule(modality, text, feature, feature, replace, around=(start, end))


def ovis2_rule(vocabulary: PromptTokenizer, per_view: int, configured: Any) -> PromptRule:
    """The whole picture, then the tiles row by row with separators."""
    anchor, feature = token(vocabulary, "<image>"), token(vocabulary, "<IMG_ATOM>", configured)
    start, end, grid = (token(vocabulary, text) for text in ("<IMG_START>", "<IMG_END>", "<IMG_GRID>"))
    across, down = token(vocabulary, "<IMG_COL>"), token(vocabulary, "<IMG_ROW>")

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        rows, columns = item.grid
        writer = ReplacementWriter().put(start).run(feature, per_view).put(grid)
        for tile in range(rows * columns if rows * columns > 1 else 0):
            if tile:
                writer.put(across if tile % columns else down)
            writer.run(feature, per_view)
        return writer.put(end).done()

    return PromptRule(Modality.IMAGE, "<image>", anchor, feature, replace)


def pixtral_rule(image: int, line: int, end: int) -> PromptRule:
    """Rows of feature tokens, a break after each but the last, an end after that."""

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        rows, columns = item.grid
        writer = ReplacementWriter()
        for row in range(rows):
            writer.run(image, columns).put(end if row == rows - 1 else line)
        return writer.done()

    return PromptRule(Modality.IMAGE, "[IMG]", image, image, replace)


def llama4_rule(vocabulary: PromptTokenizer, per_tile: int, patch: int | None) -> PromptRule:
    """Tiles row by row with separators, then the whole picture's tile."""
    start, end = token(vocabulary, "<|image_start|>"), token(vocabulary, "<|image_end|>")
    across, down = token(vocabulary, "<|tile_x_separator|>"), token(vocabulary, "<|tile_y_separator|>")
    image, feature = token(vocabulary, "<|image|>"), token(vocabulary, "<|patch|>", patch)

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        rows, columns = item.grid
        writer = ReplacementWriter().put(start)
        for _ in range(rows if rows * columns > 1 else 0):
            for column in range(columns):
                writer.run(feature, per_tile)
                writer.put(across if column < columns - 1 else down)
        return writer.put(image).run(feature, per_tile).put(end).done()

    return PromptRule(Modality.IMAGE, "<|image|>", image, feature, replace)


def gemma_rule(vocabulary: PromptTokenizer, per_view: int, model: Mapping[str, Any]) -> PromptRule:
    """Blank lines around each view, sentences between the picture and its crops.

    Runs of line feeds are single tokens, so those at the edges join with line feeds the prompt has there.
    """
    begin = token(vocabulary, "<start_of_image>", model.get("boi_token_index"))
    finish = token(vocabulary, "<end_of_image>", model.get("eoi_token_index"))
    feature = token(vocabulary, "<image_soft_token>", model.get("image_token_index"))
    blank = tuple(vocabulary.encode("\n\n"))
    before = tuple(vocabulary.encode("Here is the original image \n\n"))
    between = tuple(vocabulary.encode("\n\n and here are some crops to help you see better \n\n"))
    gap = tuple(vocabulary.encode("\n\n \n\n"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        (views,) = item.grid
        writer = ReplacementWriter().put(*(before if views > 1 else blank))
        for view in range(views):
            if view:
                writer.put(*(between if view == 1 else gap))
            writer.put(begin).run(feature, per_view).put(finish)
        return writer.put(*blank).done()

    return PromptRule(Modality.IMAGE, "<start_of_image>", begin, feature, replace, joins=_line_feeds(vocabulary))


@dataclass(frozen=True, slots=True)
class ItemMarkers:
    """How a family writes its items: start, soft token and end, each with a {kind} to fill in, and blank lines around or not."""

    start: str
    soft: str
    end: str
    blank: str


GEMMA_3N = ItemMarkers("<start_of_{kind}>", "<{kind}_soft_token>", "<end_of_{kind}>", "\n\n")
GEMMA_4 = ItemMarkers("<|{kind}>", "<|{kind}|>", "<{kind}|>", "")

_KINDS = {Modality.IMAGE: ("image", "boi", "eoi"), Modality.AUDIO: ("audio", "boa", "eoa")}


def enclosed_rule(
    vocabulary: PromptTokenizer, model: Mapping[str, Any], modality: Modality, spelling: ItemMarkers
) -> PromptRule:
    """Gemma 3n's and Gemma 4's pictures and recordings: a start, soft tokens and an end. The template writes a soft token.

    Runs of line feeds are single tokens, so those at the edges join with line feeds the prompt has there.
    """
    kind, start, end = _KINDS[modality]

    def one(text: str, key: str) -> int:
        return token(
            vocabulary, text.format(kind=kind), model.get(f"{key}_token_id") or model.get(f"{key}_token_index")
        )

    begin, feature, finish = one(spelling.start, start), one(spelling.soft, kind), one(spelling.end, end)
    blank = tuple(vocabulary.encode(spelling.blank)) if spelling.blank else ()

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        return ReplacementWriter().put(*blank, begin).run(feature, item.tokens).put(finish, *blank).done()

    joins = _line_feeds(vocabulary) if blank else {}
    return PromptRule(modality, spelling.soft.format(kind=kind), feature, feature, replace, joins=joins)


def idefics_rule(vocabulary: PromptTokenizer, per_tile: int, configured: Any) -> PromptRule:
    """Tiles row by row, each after its place, a line feed after every row; then the whole picture's."""
    around = token(vocabulary, "<fake_token_around_image>")
    feature = token(vocabulary, "<image>", configured)
    whole = token_or_text(vocabulary, "<global-img>")
    line, last = tuple(vocabulary.encode("\n")), tuple(vocabulary.encode("\n\n"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer, (rows, columns) = ReplacementWriter(), item.grid
        for row in range(1, rows + 1):
            for column in range(1, columns + 1):
                place = token_or_text(vocabulary, f"<row_{row}_col_{column}>")
                writer.put(around, *place).run(feature, per_tile)
            writer.put(*(last if row == rows else line))
        return writer.put(around, *whole).run(feature, per_tile).put(around).done()

    return PromptRule(Modality.IMAGE, "<image>", feature, feature, replace)


def token_or_text(vocabulary: PromptTokenizer, text: str) -> tuple[int, ...]:
    """The token `text`, or what plain text of that wording is where there is none."""
    found = vocabulary.token_id(text)
    return tuple(vocabulary.encode(text)) if found is None else (found,)


def _line_feeds(vocabulary: PromptTokenizer) -> dict[tuple[int, int], int]:
    """Which two runs of up to four line feeds are one token together."""
    runs = {count: vocabulary.encode("\n" * count) for count in range(1, 5)}
    single = {count: ids[0] for count, ids in runs.items() if len(ids) == 1}
    return {
        (single[left], single[right]): single[left + right]
        for left in single
        for right in single
        if left + right in single
    }


def ernie_rule(vocabulary: PromptTokenizer, model: Mapping[str, Any]) -> PromptRule:
    """ERNIE-4.5-VL: one token per embedding. The template of the code published with the models writes a mark of its own,
    that of transformers the token itself."""
    configured = model.get("image_token_id") or model.get("im_patch_id")
    feature = token(vocabulary, "<|IMAGE_PLACEHOLDER|>", configured)
    mark = None if model.get("model_type") == "ernie4_5_vl_moe" else vocabulary.token_id("<|image@placeholder|>")
    if mark is None:
        return repeat_rule("<|IMAGE_PLACEHOLDER|>", feature)
    return replace(repeat_rule("<|image@placeholder|>", feature), anchor=mark)


def internvl_rule(vocabulary: PromptTokenizer, configured: Any, text: str = "<IMG_CONTEXT>") -> PromptRule:
    """All tiles' feature tokens in one run between `<img>` and `</img>`; the template writes `text`."""
    start, end = token(vocabulary, "<img>"), token(vocabulary, "</img>")
    feature = token(vocabulary, "<IMG_CONTEXT>", configured)
    text, anchor = _anchor(vocabulary, text, "<IMG_CONTEXT>", feature)

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        return ReplacementWriter().put(start).run(feature, item.tokens).put(end).done()

    return PromptRule(Modality.IMAGE, text, anchor, feature, replace)


def _anchor(vocabulary: PromptTokenizer, text: str, otherwise: str, feature: int) -> tuple[str, int]:
    """What stands for an item and its id: `text` where that is one token, else the feature token, spelled `otherwise`."""
    found = vocabulary.token_id(text)
    return (otherwise, feature) if found is None else (text, found)


def aya_rule(vocabulary: PromptTokenizer, per_tile: int, configured: Any) -> PromptRule:
    """Between start and end the tiles, each after its number, and last the whole picture's tile.

    `item.grid` has the (rows, columns) of tiles; a picture of one tile has that alone.
    """
    start, end = token(vocabulary, "<|START_OF_IMG|>"), token(vocabulary, "<|END_OF_IMG|>")
    feature = token(vocabulary, "<|IMG_PATCH|>", configured)
    text, anchor = _anchor(vocabulary, "<image>", "<|IMG_PATCH|>", feature)
    whole = tuple(vocabulary.encode("TILE_GLOBAL"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        tiles = item.grid[0] * item.grid[1]
        writer = ReplacementWriter().put(start)
        for number in range(1, tiles + 1 if tiles > 1 else 1):
            writer.put(*vocabulary.encode(f"TILE_{number}")).run(feature, per_tile)
        return writer.put(*whole).run(feature, per_tile).put(end).done()

    return PromptRule(Modality.IMAGE, text, anchor, feature, replace)


def minicpm_rule(
    vocabulary: PromptTokenizer, configured: Any, *, numbered: bool, text: str = "<|image_pad|>"
) -> PromptRule:
    """The picture's number, the overview, and the slices row by row; `text` is the feature token.

    Where that is the unknown token (before 4.6), which anybody's text may become, the start token is the anchor.
    """
    start, end = token(vocabulary, "<image>"), token(vocabulary, "</image>")
    slice_start, slice_end = token(vocabulary, "<slice>"), token(vocabulary, "</slice>")
    feature = token(vocabulary, text, configured)
    anchor = start if text == "<unk>" else feature
    line = tuple(vocabulary.encode("\n"))
    number = (token(vocabulary, "<image_id>"), token(vocabulary, "</image_id>")) if numbered else None

    def replace(item: ItemFeatures, index: int) -> Replacement:
        writer = ReplacementWriter()
        if number is not None:
            writer.put(number[0], *vocabulary.encode(str(index)), number[1])
        overview, *slices = item.facts["tokens"]
        writer.put(start).run(feature, overview).put(end)
        for place, count in enumerate(slices):
            if place and place % item.grid[1] == 0:
                writer.put(*line)
            writer.put(slice_start).run(feature, count).put(slice_end)
        return writer.done()

    return PromptRule(Modality.IMAGE, "<image>" if anchor == start else text, anchor, feature, replace)


_QWEN_CLIP = ("<|vision_start|>", "<|video_pad|>", "<|vision_end|>")


def timed_video_rule(
    vocabulary: PromptTokenizer, model: Mapping[str, Any], texts: tuple[str, str, str] = _QWEN_CLIP
) -> PromptRule:
    """Qwen3-VL's clips: before each pair of frames the second it is at, around it the vision markers. `texts` are those of the
    start, the feature and the end.

    `item.facts["seconds"]` has one time per temporal patch. Markers that the template wrote around the anchor go.
    """
    start = token(vocabulary, texts[0], model.get("vision_start_token_id"))
    end = token(vocabulary, texts[2], model.get("vision_end_token_id"))
    feature = token(vocabulary, texts[1], model.get("video_token_id"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer = ReplacementWriter()
        moments = item.facts["seconds"]
        for second in moments:
            writer.put(*vocabulary.encode(f"<{second:.1f} seconds>"), start)
            writer.run(feature, item.tokens // len(moments)).put(end)
        return writer.done()

    return PromptRule(Modality.VIDEO, texts[1], feature, feature, replace, around=(start, end))


def audio_rule(vocabulary: PromptTokenizer, text: str, configured: Any = None) -> PromptRule:
    """One audio token per embedding."""
    return repeat_rule(text, token(vocabulary, text, configured), Modality.AUDIO)


def begun_audio_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """Voxtral: a token that begins the recording, then one audio token per embedding."""
    begin, feature = (
        token(vocabulary, "[BEGIN_AUDIO]"),
        token(vocabulary, "[AUDIO]", model.get("audio_token_id")),
    )

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        return ReplacementWriter().put(begin).run(feature, item.tokens).done()

    return PromptRule(Modality.AUDIO, "[AUDIO]", feature, feature, replace, around=(begin, None))


_NEVER_WRITTEN = ("<|audio|>", "<|reserved_special_token_0|>", "<unused0>", "<|fim_pad|>")
"""Ultravox's own mark where the text model has it as a token; else a token that neither template nor model writes."""


def ultravox_rule(model: Mapping[str, Any], vocabulary: PromptTokenizer) -> PromptRule:
    """Ultravox: one token per embedding, whichever the configuration names: the encoder's output takes its place.

    Its own mark for a recording is no token of the text models it is built on, and what it would be split into depends on
    what follows. So the anchor is a token that is in no text.
    """
    text = next((each for each in _NEVER_WRITTEN if vocabulary.token_id(each) is not None), _NEVER_WRITTEN[0])
    anchor = token(vocabulary, text)
    feature = token(vocabulary, text, model.get("audio_token_index"))

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        return ReplacementWriter().run(feature, item.tokens).done()

    return PromptRule(Modality.AUDIO, text, anchor, feature, replace)


def step3_rule(vocabulary: PromptTokenizer, per_window: int) -> PromptRule:
    """Step3-VL: the windows row by row with a mark between rows, then the whole picture."""
    feature, newline = token(vocabulary, "<im_patch>"), token(vocabulary, "<patch_newline>")
    begin, finish = token(vocabulary, "<patch_start>"), token(vocabulary, "<patch_end>")
    start, end = token(vocabulary, "<im_start>"), token(vocabulary, "<im_end>")

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        rows, columns = item.grid
        writer = ReplacementWriter()
        for window in range(rows * columns):
            if window and window % columns == 0:
                writer.put(newline)
            writer.put(begin).run(feature, per_window).put(finish)
        return writer.put(start).run(feature, item.tokens - rows * columns * per_window).put(end).done()

    return PromptRule(Modality.IMAGE, "<im_patch>", feature, feature, replace)


def molmo2_rule(vocabulary: PromptTokenizer, patch: int) -> PromptRule:
    """Molmo 2: the ids that the processor wrote, in which those of patches receive embeddings."""
    anchor = token(vocabulary, "<|image|>")

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer = ReplacementWriter()
        for id_, run in groupby(item.tensors["image_tokens"].tolist()):
            count = len(list(run))
            writer = writer.run(patch, count) if id_ == patch else writer.put(*[id_] * count)
        return writer.done()

    return PromptRule(Modality.IMAGE, "<|image|>", anchor, patch, replace)
