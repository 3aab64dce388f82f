"""A picture and a question, from a data URL to what vLLM is sent: no engine, no model weights, no torch.

    pip install "smg-sdk[vision]" && python examples/vision.py [picture.jpg]

Shows the three calls that matter: make a `Preparer` of the model's files, bring the media, prepare the prompt. The tokenizer
here is a stand-in of a few lines; in a gateway it is the model's own.
"""

import asyncio
import base64
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from smg_multimodal import ModelFiles, Preparer, for_vllm
from smg_multimodal.fetching.fetch import Fetcher, MediaLoader, Source
from smg_multimodal.preparing.prepare import Detail

CONFIG = {"model_type": "qwen2_5_vl", "image_token_id": 151655, "video_token_id": 151656}
PREPROCESSOR = {"min_pixels": 3136, "max_pixels": 1003520, "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}


class Words:
    """Stands in for the model's tokenizer: what a prompt rule asks of it."""

    def token_id(self, token: str) -> int | None:
        return {"<|image_pad|>": 151655, "<|video_pad|>": 151656}.get(token)

    def encode(self, text: str) -> Sequence[int]:
        return list(text.encode())


def picture() -> bytes:
    """The file named on the command line, or one drawn now."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1]).read_bytes()
    image = Image.new("RGB", (640, 400), "steelblue")
    ImageDraw.Draw(image).ellipse((200, 80, 440, 320), fill="gold")
    out = io.BytesIO()
    image.save(out, "JPEG")
    return out.getvalue()


async def main() -> None:
    words = Words()
    preparer = Preparer(ModelFiles(CONFIG, PREPROCESSOR), words)
    url = "data:image/jpeg;base64," + base64.b64encode(picture()).decode()
    anchor = preparer.rules[0].anchor
    prompt = [*words.encode("user: "), anchor, *words.encode(" What is in this picture?")]
    async with Fetcher() as fetcher:
        loader = MediaLoader(preparer, fetcher)
        prepared = await loader.prepare(prompt, [Source(url, detail=Detail.HIGH)])
        loader.close()
    (place,), (item,) = prepared.expanded.placeholders, prepared.items
    (packed,) = for_vllm(prepared)
    print(f"{len(prompt)} tokens became {len(prepared.expanded.ids)}; the picture has {place.span}")
    print(f"grid {item.features.grid}, pixel values {packed.pixel_values.shape} {packed.pixel_values.dtype}")
    print(f"content hash {place.content_hash.hex()[:16]}..., flat by {packed.flat_keys}")


if __name__ == "__main__":
    asyncio.run(main())
