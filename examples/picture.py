"""A picture becomes what an engine takes: tensors, a prompt with its tokens, and its place, without an engine or torch.

pip install 'smg-sdk[vision]' && python examples/picture.py [picture.jpg]
"""

import io
import sys
from pathlib import Path

from PIL import Image

from smg_multimodal import Media, ModelFiles, Preparer, for_vllm


class Words:
    """Stands in for the model's tokenizer: what a prompt rule asks of it."""

    def token_id(self, token: str) -> int | None:
        return {"<|image_pad|>": 151655, "<|video_pad|>": 151656}.get(token)

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


if len(sys.argv) > 1:
    picture = Path(sys.argv[1]).read_bytes()
else:
    Image.new("RGB", (640, 400), "steelblue").save(drawn := io.BytesIO(), "JPEG")
    picture = drawn.getvalue()

model = {"model_type": "qwen2_5_vl", "image_token_id": 151655, "video_token_id": 151656}
preparer = Preparer(ModelFiles(model, {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}), Words())
prompt = [*Words().encode("What is "), preparer.rules[0].anchor, *Words().encode("?")]
prepared = preparer.prepare(prompt, [Media(picture)])

(packed,) = for_vllm(prepared)
print(f"{len(prompt)} tokens became {len(prepared.expanded.ids)}; {prepared.expanded.placeholders[0].span}")
print(f"pixel values {packed.pixel_values.shape} {packed.pixel_values.dtype}")
