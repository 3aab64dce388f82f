"""A vocabulary for tests: special tokens have ids of their own, runs of line feeds too, other text is its characters."""

import re
from collections.abc import Sequence

SPECIAL = (
    "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<img>", "<imgpad>", "</img>", "<|image|>",
    "<image>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "<|image_start|>", "<|image_end|>", "<|tile_x_separator|>",
    "<|tile_y_separator|>", "<|patch|>", "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<IMG_CONTEXT>",
    "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>", "<|media_pad|>", "<|endoftext10|>", "<|endoftext11|>",
    "<|AUDIO|>", "<video>", "<audio_soft_token>", "<start_of_audio>", "<end_of_audio>", "<|IMAGE|>",
    "<|VIDEO|>", "<|audio_pad|>", "<|imgpad|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>",
    "<|image>", "<image|>", "<|audio>", "<|audio|>", "<audio|>", "<fake_token_around_image>", "<global-img>", "<unk>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
    "<|IMAGE_PLACEHOLDER|>", "[AUDIO]", "[BEGIN_AUDIO]",
    "<|reserved_special_token_0|>", "<｜hy_place▁holder▁no▁102｜>", "<|image@placeholder|>",
    "<IMG_ATOM>", "<IMG_START>", "<IMG_END>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<im_patch>",
    "<patch_newline>", "<patch_start>", "<patch_end>", "<im_start>", "<im_end>",
    "<im_col>", "<low_res_im_start>", "<|video|>", "<|begin_of_image|>", "<|end_of_image|>",
    "<|IMAGE_PAD|>", "<|VIDEO_PAD|>", "<|VISION_START|>", "<|VISION_END|>", "]<]image[>[", "]<]video[>[",
    "]<]start of image[>[", "]<]end of image[>[", "<|IMG_LINE_BREAK|>", "<|img_thumbnail|>",
    *(f"<|img_row_{row}_col_{column}|>" for row in range(1, 7) for column in range(1, 7)),
    "<image_placeholder>", "<|unused_200054|>", "<|soft_audio_start|>", "<|soft_audio_end|>", "<|pad|>",
    "<|vid_start|>", "<|vid_end|>", "<|vid_frame_separator|>",
    "<|kimi_image_placeholder|>",
    "<|kimi_k25_video_placeholder|>", "<|media_begin|>", "<|media_content|>", "<|media_end|>",
    "<frame_start>", "<frame_end>", "<so_start>", "<so_embedding>", "<so_end>",
    "<sound>", "<|img|>", "<|sound_bos|>", "<|sound_eos|>", "<|unused_200053|>", "<|audio_comp_pad|>",
    "<|audio_bos|>", "<|audio_eos|>", "<|audio_start|>", "<|audio_end|>",
    "<|endoftext|>", "<|startofprev|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|yue|>", "<|translate|>",
    "<|transcribe|>", "<|notimestamps|>", "<s>", "[STREAMING_PAD]",
)  # fmt: skip
RUNS = {"\n" * count: 500 + count for count in range(1, 5)}
_PIECES = re.compile("|".join(map(re.escape, sorted(SPECIAL, key=len, reverse=True))) + r"|\n{1,4}|.", re.DOTALL)


class TestVocabulary:
    """Ids from 1000 for special tokens, code points for characters."""

    __test__ = False

    def token_id(self, token: str) -> int | None:
        return 1000 + SPECIAL.index(token) if token in SPECIAL else None

    def encode(self, text: str) -> Sequence[int]:
        return [self._one(piece) for piece in _PIECES.findall(text)]

    def _one(self, piece: str) -> int:
        if piece in RUNS:
            return RUNS[piece]
        special = self.token_id(piece)
        return ord(piece) if special is None else special
