"""Pictures in the prompts of Command A Vision and LFM2-VL, as marked tiles, and of Kimi K3.

Above: `families.rows_of_2026`. Below: `prompts`. A rule turns an item's grid into tokens; it knows no pixel.
"""

from collections.abc import Mapping
from typing import Any

from smg_multimodal.prompts.prompts import PromptRule, PromptTokenizer, ReplacementWriter, token, token_or_text
from smg_multimodal.records.types import ItemFeatures, Modality, Replacement

__all__ = ["cohere2_rule", "kimi3_rule", "lfm2_rule"]


def cohere2_rule(vocabulary: PromptTokenizer, per_tile: int, model: Mapping[str, Any]) -> PromptRule:
    """Command A Vision: a start, each tile with a line break behind it, an end. The template writes a patch."""
    start, end = token(vocabulary, "<|START_OF_IMG|>"), token(vocabulary, "<|END_OF_IMG|>")
    feature = token(vocabulary, "<|IMG_PATCH|>", model.get("image_token_id"))
    line = token(vocabulary, "<|IMG_LINE_BREAK|>")

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        writer = ReplacementWriter().put(start)
        for _ in range(item.tokens // per_tile):
            writer.run(feature, per_tile).put(line)
        return writer.put(end).done()

    return PromptRule(Modality.IMAGE, "<|IMG_PATCH|>", feature, feature, replace)


def lfm2_rule(
    vocabulary: PromptTokenizer, per_tile: int, model: Mapping[str, Any], processor: Mapping[str, Any]
) -> PromptRule:
    """LFM2-VL: tiles row by row, each behind its place, and the whole picture behind them. `use_image_special_tokens` of
    processor_config.json leaves all marks out."""
    feature = token(vocabulary, "<image>", model.get("image_token_id") or model.get("image_token_index"))
    marks = processor.get("use_image_special_tokens") is not False
    start, end, small = (
        token_or_text(vocabulary, text) if marks else ()
        for text in ("<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")
    )

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        rows, columns, whole, behind = item.grid
        writer = ReplacementWriter().put(*start)
        for tile in range(rows * columns if rows * columns > 1 else 0):
            if marks:
                row, column = divmod(tile, columns)
                writer.put(*token_or_text(vocabulary, f"<|img_row_{row + 1}_col_{column + 1}|>"))
            writer.run(feature, per_tile)
        if behind:
            writer.put(*small)
        if behind or rows * columns == 1:
            writer.run(feature, whole)
        return writer.put(*end).done()

    return PromptRule(Modality.IMAGE, "<image>", feature, feature, replace)


def kimi3_rule(vocabulary: PromptTokenizer, model: Mapping[str, Any]) -> PromptRule:
    """Kimi K3: the size of the picture as it was, and its tokens between the marks of media. The template writes a token of its
    own for a picture where the vocabulary has it."""
    begin, content = token(vocabulary, "<|media_begin|>"), token(vocabulary, "<|media_content|>")
    end = token(vocabulary, "<|media_end|>")
    feature = token(vocabulary, "<|media_pad|>", model.get("media_placeholder_token_id"))
    own = vocabulary.token_id("<|kimi_image_placeholder|>")
    text, anchor = ("<|media_pad|>", feature) if own is None else ("<|kimi_image_placeholder|>", own)

    def replace(item: ItemFeatures, index: int) -> Replacement:
        del index
        size_ids = vocabulary.encode(f"image {item.size.width}x{item.size.height}")
        return ReplacementWriter().put(begin, *size_ids, content).run(feature, item.tokens).put(end).done()

    return PromptRule(Modality.IMAGE, text, anchor, feature, replace)
