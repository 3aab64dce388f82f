"""Writes references.json.gz: what the processors that need torch make of every picture of the corpus.

Run in an environment of its own, which needs `torch` (its CPU build does), `transformers`, `pillow`, `numpy` and
`mistral-common`, which counts Voxtral's tokens:

    python tests/multimodal/make_references.py FOLDER     # or: make multimodal-references
    python tests/multimodal/make_references.py --keys     # the small pictures only: keys, and torch's resize
    python tests/multimodal/make_references.py --moving   # keys of clips and recordings only
    python tests/multimodal/make_references.py FOLDER --types TYPE,TYPE   # keys of clips and recordings of these model types
    python tests/multimodal/make_references.py FOLDER --only NAME,NAME   # of these families alone; the others stay as they are

FOLDER has vLLM's wheel, unpacked: its processors are the reference of families that transformers has not. They are loaded one
by one, from their files, and need nothing else of it.

transformers has Llama 4, Phi-4 multimodal and Kimi K2.5 for the torchvision backend alone. Here that backend's code runs as
it is, with a small stand-in for the five torchvision functions it calls: pictures of bytes are resized by Pillow, the rest
is torch. So geometry, padding, arithmetic and token counts are transformers' own, and the one difference to torchvision is
the rounding of its byte resize. Phi-3 vision's processor is published with the model and needs torchvision likewise; its
steps are written out below from the published description. compare_torchvision.py compares with torchvision itself.

For each picture and tensor the file holds shape and a hash of the bytes; for the overview of the Phi families, which torch
interpolates in floating point, it holds every 56th value as well, to be compared with a tolerance.
"""

import gzip
import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import math
import sys
import types
from copy import deepcopy
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))

import clip_variations
import recording_variations
from clip_variations import FILMED, Filmed
from pictures import encoded, fingerprint, pictures
from recording_variations import RECORDED, Recorded
from reference_families import FAMILIES, NOT_ITS, Family, opened, own_class, reference_class
from sound_files import CLIPS, RECORDINGS, SAMPLINGS, SPOKEN, clip, recording
from variations import Change, small_pictures, variations

TARGET = Path(__file__).with_name("references.json.gz")
SAMPLE = 56
FLOATS = {"pixel_values", "pixel_values_local", "image_pixel_values", "image_attention_mask"}
"""Tensors of floats, which may have been left as bytes."""
VLLM = Path(next((each for each in sys.argv[1:] if not each.startswith("-")), "vllm"))
FILTERS = {
    "lanczos": Image.Resampling.LANCZOS,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


class InterpolationMode(Enum):
    """torchvision's names of the filters."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


BY_TORCH = False
"""Whether pictures of bytes are resized by torch's own kernel for them, as torchvision has them resized, or by Pillow."""


def resize(
    image: torch.Tensor, size: list[int], interpolation: Any = InterpolationMode.BILINEAR, antialias: bool = True
) -> torch.Tensor:
    """Bytes through Pillow or torch, floats through torch. Filters may come by Pillow's numbers, as torchvision takes them."""
    if isinstance(interpolation, int):
        codes = {1: InterpolationMode.LANCZOS, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC}
        interpolation = codes[interpolation]
    if image.dtype == torch.uint8 and not BY_TORCH:
        batch = image.reshape(-1, *image.shape[-3:])
        done = [
            np.asarray(
                Image.fromarray(each.permute(1, 2, 0).contiguous().numpy()).resize(
                    (int(size[1]), int(size[0])), FILTERS[interpolation.value]
                )
            )
            for each in batch
        ]
        out = torch.from_numpy(np.stack(done)).permute(0, 3, 1, 2).contiguous()
        return out.reshape(*image.shape[:-3], *out.shape[-3:])
    batch = image if image.ndim == 4 else image[None]
    out = torch.nn.functional.interpolate(
        batch, size=tuple(size), mode=interpolation.value, align_corners=False, antialias=antialias
    )
    return out if image.ndim == 4 else out[0]


def crop(image: torch.Tensor, top: int, left: int, height: int, width: int) -> torch.Tensor:
    """A part of the picture."""
    return image[..., top : top + height, left : left + width]


def pad(image: torch.Tensor, padding: list[int], fill: Any = 0, padding_mode: str = "constant") -> torch.Tensor:
    """Left, top, right, bottom, with one value or one per channel."""
    left, top, right, bottom = padding
    shape = (*image.shape[:-2], image.shape[-2] + top + bottom, image.shape[-1] + left + right)
    colour = torch.tensor(fill if isinstance(fill, list | tuple) else [fill] * image.shape[-3], dtype=image.dtype)
    out = colour[:, None, None].expand(shape).clone()
    out[..., top : top + image.shape[-2], left : left + image.shape[-1]] = image
    return out


def normalize(image: torch.Tensor, mean: Any, std: Any, inplace: bool = False) -> torch.Tensor:
    """(image - mean) / std in the image's own precision."""
    mean, std = torch.as_tensor(mean, dtype=image.dtype), torch.as_tensor(std, dtype=image.dtype)
    return (image - mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


def pil_to_tensor(image: Image.Image) -> torch.Tensor:
    """Bytes of a picture, channel by channel."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


class Compose:
    """One after the other."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps

    def __call__(self, image: Any) -> Any:
        for step in self.steps:
            image = step(image)
        return image


class ToTensor:
    """Bytes of a picture to floats from 0 to 1, in single precision."""

    def __call__(self, image: Image.Image) -> torch.Tensor:
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)


class Resize:
    """`resize` to a size that is kept, but nothing for what has it."""

    def __init__(self, size: tuple[int, int], interpolation: Any, antialias: bool) -> None:
        self.size, self.interpolation, self.antialias = list(size), interpolation, antialias

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        same = list(image.shape[-2:]) == self.size
        return image if same else resize(image, self.size, self.interpolation, self.antialias)


class Normalize:
    """`normalize` with values that are kept."""

    def __init__(self, mean: Any, std: Any) -> None:
        self.mean, self.std = mean, std

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return normalize(image, self.mean, self.std)


def stand_in() -> None:
    """Put the functions above where transformers looks for torchvision's."""
    names = ("torchvision", "torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms.functional")
    modules = {
        name: types.ModuleType(name) for name in (*names, "torchvision.transforms.v2.functional", "torchvision.io")
    }
    for name, module in modules.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module.__path__ = []  # type: ignore[attr-defined]
        parent, _, leaf = name.rpartition(".")
        if parent:
            setattr(modules[parent], leaf, module)
    modules["torchvision"].__version__ = "0.0"  # type: ignore[attr-defined]
    functions = modules["torchvision.transforms.v2.functional"]
    for module in (functions, modules["torchvision.transforms"]):
        module.InterpolationMode = InterpolationMode  # type: ignore[attr-defined]
    functions.resize = resize  # type: ignore[attr-defined]
    functions.pad, functions.normalize, functions.crop = pad, normalize, crop  # type: ignore[attr-defined]
    functions.pil_to_tensor = pil_to_tensor  # type: ignore[attr-defined]
    transforms = modules["torchvision.transforms"]
    transforms.Compose, transforms.ToTensor, transforms.Normalize = Compose, ToTensor, Normalize  # type: ignore[attr-defined]
    transforms.Resize = Resize  # type: ignore[attr-defined]
    modules["torchvision.transforms.functional"].InterpolationMode = InterpolationMode  # type: ignore[attr-defined]
    vllm = types.ModuleType("vllm.tokenizers")
    vllm.TokenizerLike = object  # type: ignore[attr-defined]
    modules |= {"vllm": types.ModuleType("vllm"), "vllm.tokenizers": vllm}
    functions.grayscale_to_rgb = lambda frames: frames  # type: ignore[attr-defined]  # the clips have colour
    modules["torchvision.transforms.functional"].pil_to_tensor = None  # type: ignore[attr-defined]
    sys.modules.update(modules)
    from transformers.utils import import_utils

    import_utils.is_torchvision_available.cache_clear()
    import_utils.is_torchvision_available = lambda: True
    import_utils.is_torchvision_greater_or_equal = lambda version: True
    import_utils.BACKENDS_MAPPING["torchvision"] = (lambda: True, "")


class Phi3:
    """Phi-3 vision's published processing, step by step, in torch."""

    def __init__(self, num_crops: int, num_img_tokens: int, image_mean: list[float], image_std: list[float]) -> None:
        self.crops, self.per_tile = num_crops, num_img_tokens
        self.mean, self.std = (torch.tensor(v).view(3, 1, 1) for v in (image_mean, image_std))

    def _canvas(self, image: Image.Image) -> Image.Image:
        turned = image.width < image.height
        if turned:
            image = image.transpose(Image.Transpose.ROTATE_90)
        ratio = image.width / image.height
        scale = 1
        while scale * math.ceil(scale / ratio) <= self.crops:
            scale += 1
        width = int((scale - 1) * 336)
        image = image.resize((width, int(width / ratio)), Image.Resampling.BILINEAR)
        tall = math.ceil(image.height / 336) * 336
        canvas = Image.new("RGB", (image.width, tall), (255, 255, 255))
        canvas.paste(image, (0, int((tall - image.height) / 2)))
        return canvas.transpose(Image.Transpose.ROTATE_270) if turned else canvas

    def __call__(self, images: list[Image.Image], return_tensors: str) -> dict[str, Any]:
        from transformers.image_transforms import convert_to_rgb

        image = Image.fromarray(convert_to_rgb(images[0], return_numpy=True))
        canvas = torch.from_numpy(np.array(self._canvas(image))).permute(2, 0, 1)
        floats = (canvas.float().div(255) - self.mean) / self.std
        _, height, width = floats.shape
        overview = torch.nn.functional.interpolate(floats[None], size=(336, 336), mode="bicubic")
        tiles = floats.reshape(3, height // 336, 336, width // 336, 336).permute(1, 3, 0, 2, 4).reshape(-1, 3, 336, 336)
        out = torch.zeros(1, self.crops + 1, 3, 336, 336)
        out[0, 0], out[0, 1 : 1 + len(tiles)] = overview[0], tiles
        rows, columns = height // 336, width // 336
        tokens = (rows * columns + 1) * self.per_tile + 1 + (rows + 1) * 12
        return {"pixel_values": out, "image_sizes": [[height, width]], "num_img_tokens": [tokens]}


def module_of_vllm(name: str) -> Any:
    """A module of vLLM's processors, from its file alone."""
    path = VLLM / "vllm" / "transformers_utils" / "processors" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"vllm_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_vllm_opens(image: Image.Image) -> Image.Image:
    """A picture in colour, on white where it is transparent."""
    from transformers.image_transforms import convert_to_rgb

    return Image.fromarray(convert_to_rgb(image, return_numpy=True))


class DeepseekOcr:
    """vLLM's processor without its tokenizer: the prompt is the picture alone."""

    def __init__(self, **config: Any) -> None:
        module = module_of_vllm("deepseek_ocr")
        self.processor = object.__new__(module.DeepseekOCRProcessor)
        facts = {"image_token": "<image>", "image_token_id": 9, "ignore_id": -100, "strategy": "v1", "image_size": 640}
        facts |= {"base_size": 1024, "patch_size": 16, "downsample_ratio": 4, "max_crops": 6}
        words = {"encode": lambda text, add_special_tokens: [], "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
        transform = module.ImageTransform(config["image_mean"], config["image_std"])
        for name, value in {
            **facts,
            "tokenizer": types.SimpleNamespace(**words),
            "image_transform": transform,
        }.items():
            setattr(self.processor, name, value)

    def __call__(self, images: list[Image.Image], return_tensors: str) -> dict[str, Any]:
        _, whole, tiles, _, shape, tokens, _ = self.processor.tokenize_with_images(
            "<image>", [as_vllm_opens(images[0])]
        )
        return {"pixel_values": whole, "images_crop": tiles, "images_spatial_crop": shape, "tokens": tokens}


class DeepseekVl2:
    """vLLM's processor without its tokenizer: the prompt is the picture alone."""

    def __init__(self, **config: Any) -> None:
        module, told = module_of_vllm("deepseek_vl2"), FAMILIES["deepseek-vl2"].processor
        self.processor = object.__new__(module.DeepseekVLV2Processor)
        words = {"encode": lambda text, add_special_tokens: [], "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
        facts = {
            **told,
            "image_token": "<image>",
            "image_token_id": 9,
            "image_size": told["candidate_resolutions"][0][0],
        }
        facts |= {"tokenizer": types.SimpleNamespace(**words)}
        facts |= {"image_transform": module.ImageTransform(told["image_mean"], told["image_std"])}
        for name, value in facts.items():
            setattr(self.processor, name, value)

    def __call__(self, images: list[Image.Image], return_tensors: str) -> dict[str, Any]:
        _, views, _, shape, tokens = self.processor.tokenize_with_images("<image>", [as_vllm_opens(images[0])])
        return {"pixel_values": torch.stack(views), "images_spatial_crop": shape, "tokens": tokens}


def nano_vl_module() -> Any:
    """vLLM's module of Nemotron Nano VL, with stand-ins for what its pictures do not need, and without compiling."""
    package = "vllm.transformers_utils.processors"
    names = ["einops", "vllm.platforms", "vllm.multimodal", *(f"vllm.multimodal.{name}" for name in _NEXT_TO_IT)]
    names += ["vllm.model_executor.models.parakeet", "vllm.tokenizers.hf", package]
    for name in names:
        module = sys.modules.setdefault(name, types.ModuleType(name))
        for wanted in _WANTED:
            setattr(module, wanted, type(wanted, (), {"simple_compile_backend": "eager"}))
    sys.modules[package].__path__ = [str(VLLM / "vllm" / "transformers_utils" / "processors")]
    torch.compile = lambda **_: lambda function: function  # type: ignore[assignment]
    return importlib.import_module(f"{package}.nano_nemotron_vl")


_NEXT_TO_IT = ("image", "inputs", "processing", "processing.processor", "video_prune.evs")
_WANTED = (
    *("ParakeetExtractor", "AudioItem", "PromptUpdateDetails", "cached_encode", "compute_retained_tokens_count"),
    *("current_platform", "HfTokenizer", "convert_image_mode"),
)


class NanoVl:
    """vLLM's tiles of a picture, configured as the family's config.json says."""

    def __init__(self) -> None:
        self.module, self.model = nano_vl_module(), FAMILIES["nemotron-nano-vl"].model

    def __call__(self, images: list[Image.Image], return_tensors: str) -> dict[str, Any]:
        side, means = self.model["force_image_size"], ("norm_mean", "norm_std")
        mean, std = (torch.tensor(self.model[key]).reshape(1, 3, 1, 1) for key in means)
        tiles = self.module.dynamic_preprocess(
            as_vllm_opens(images[0]), image_size=side, max_num_tiles=12, norm_mean=mean, norm_std=std
        )
        per_tile = (side // self.model["patch_size"] // 2) ** 2
        return {"pixel_values": tiles, "num_patches": [len(tiles)], "tokens": [len(tiles) * per_tile]}


class Step3:
    """vLLM's processor without its tokenizer: the text of the picture is counted by its marks."""

    def __init__(self) -> None:
        self.module = module_of_vllm("step3_vl")
        self.processor = self.module.Step3VLImageProcessor(enable_patch=True)

    def __call__(self, images: list[Image.Image], return_tensors: str) -> dict[str, Any]:
        image = as_vllm_opens(images[0])
        out = dict(self.processor(image))
        words = types.SimpleNamespace(convert_tokens_to_ids=lambda word: 0)
        written = self.module.Step3VLProcessor.get_image_repl_feature_text(
            step3_words(self.module, self.processor, words),
            1,
            out["num_patches"][0],
            out["patch_newline_mask"].tolist(),
        )
        assert self.processor.get_num_image_tokens(*image.size) == written.count("<")
        text = written.replace("<im_patch>" * 169, "{whole}").replace("<im_patch>" * 81, "{window}")
        return {**out, "tokens": [written.count("<im_patch>")], "text": text}


def step3_words(module: Any, processor: Any, words: Any) -> Any:
    """vLLM's text half, which needs no tokenizer to write."""
    made = object.__new__(module.Step3VLProcessor)
    module.Step3VLProcessor.__init__(made, processor, words)
    return made


VLLM_PROCESSORS = {
    "deepseek_ocr": DeepseekOcr,
    "deepseek_vl2": DeepseekVl2,
    "nano_nemotron_vl": NanoVl,
    "step3_vl": Step3,
}


def processor_of(family: Family, change: Change | None = None) -> Any:
    """The reference, configured as the family's row says, but for `change`."""
    config = deepcopy({**family.preprocessor, **(change or {})})  # some classes change a size that they are given
    if family.vllm:
        return VLLM_PROCESSORS[family.vllm](**config)
    return Phi3(**config) if family.torch == "phi3_v" else reference_class(family)(**config)


def noted(name: str, tensor: Any, floats: bool = False, clip: bool = False) -> dict[str, Any]:
    """What is kept of one tensor; with `floats` some of its values instead of a hash. A `clip` has no overview."""
    array = np.ascontiguousarray(tensor.float().numpy() if hasattr(tensor, "float") else np.asarray(tensor))
    row: dict[str, Any] = {"shape": list(array.shape)}
    if floats and array.dtype == np.float32:
        row["step"] = max(1, array.size // 40) | 1
        row["floats"] = [round(float(value), 5) for value in array.ravel()[:: row["step"]]]
    elif array.dtype == np.float32:
        whole = array
        if (name == "pixel_values" and array.ndim == 5 and not clip) or name == "image_pixel_values":
            whole = np.ascontiguousarray(array[:, 1:])
            row["overview"] = [round(float(value), 5) for value in array[0, 0].ravel()[:: SAMPLE * SAMPLE + 5]]
        row["sha256"] = hashlib.sha256(whole.tobytes()).hexdigest()[:32]
    elif array.size > 64:
        row["sha256"] = hashlib.sha256(array.astype(np.int64).tobytes()).hexdigest()[:32]
    else:
        row["values"] = array.tolist()
    return row


def row_of(family: Family, processor: Any, image: Image.Image) -> dict[str, Any]:
    """The row of one picture; `{"refused": reason}` where the reference raises an error."""
    try:
        out = processor(images=[image], return_tensors="pt", **family.call)
    except (ValueError, TypeError, ZeroDivisionError, RuntimeError, ImportError) as error:  # it may need OpenCV
        return {"refused": type(error).__name__}
    row: dict[str, Any] = {"tokens": [int(count) for count in out["tokens"]]} if "tokens" in out else {}
    row |= {"text": out["text"]} if "text" in out else {}
    for name in family.tensors:
        if name == "pixel_attention_mask" or name not in out:
            continue  # ones; or nothing, of a small picture
        value = out[name][0] if family.unbatched else out[name]
        of_floats = name in FLOATS or getattr(value, "is_floating_point", bool)()
        if not of_floats:
            value = (
                np.asarray(value, np.int64) if not isinstance(value, list) else np.array([np.asarray(v) for v in value])
            )
        row[name] = noted(name, value, family.floats)
    return row


def references(family: Family) -> dict[str, Any]:
    """Rows of every picture."""
    from transformers.image_transforms import convert_to_rgb

    processor, rows = processor_of(family), {}
    for picture in pictures():
        image = opened(encoded(picture))
        rows[picture.name] = row_of(family, processor, convert_to_rgb(image) if family.on_white else image)
    return rows


def key_references(family: Family) -> list[dict[str, Any]]:
    """Rows of the small pictures, first for the usual configuration and then for every variation of it."""

    def rows(change: Change) -> list[dict[str, Any]]:
        try:
            processor = processor_of(family, change)
        except (ValueError, TypeError, RuntimeError) as error:
            return [{"refused": type(error).__name__}] * len(small_pictures())
        return [row_of(family, processor, picture) for picture in small_pictures()]

    changes: list[Change] = [{}, *(change for _, change in variations(family))]
    return [{"change": change, "rows": rows(change)} for change in changes]


def audio_references() -> list[dict[str, Any]]:
    """Phi-4's features of every recording, sampled."""
    module = importlib.import_module("transformers.models.phi4_multimodal.feature_extraction_phi4_multimodal")
    extractor, rows = module.Phi4MultimodalFeatureExtractor(), []
    for seconds, seed in RECORDINGS:
        out = extractor(recording(seconds, seed=seed), sampling_rate=16000, return_tensors="pt")
        features = out["audio_input_features"].numpy()
        step = max(1, features.size // 400) | 1
        values = [round(float(value), 5) for value in features.ravel()[::step]]
        tokens = [int(size) for size in out["audio_embed_sizes"]]
        shape = list(features.shape)
        rows.append(
            {"seconds": seconds, "seed": seed, "shape": shape, "tokens": tokens, "step": step, "values": values}
        )
    return rows


def voxtral(samples: Any) -> tuple[dict[str, Any], int]:
    """transformers' features of a recording, and the tokens that mistral-common writes for it."""
    from mistral_common.tokens.tokenizers import audio as mistral
    from transformers import WhisperFeatureExtractor
    from transformers.models.voxtral.processing_voxtral import VoxtralProcessor

    processor = types.SimpleNamespace(feature_extractor=WhisperFeatureExtractor(feature_size=128))
    asked = {key: value for key, value in VoxtralProcessor.audio_kwargs.items() if key != "return_tensors"}
    features = VoxtralProcessor._retrieve_input_features(processor, [samples], return_tensors="pt", **asked)
    window = mistral.AudioSpectrogramConfig(num_mel_bins=128, hop_length=160, window_size=400)
    ids = mistral.SpecialAudioIDs(audio=24, begin_audio=25, streaming_pad=None, text_to_audio=None, audio_to_text=None)
    encoder = mistral.AudioEncoder(mistral.AudioConfig(16000, 12.5, window, chunk_length_s=30.0), ids)
    padded = encoder.pad(samples, 16000)
    tokens = encoder._encode_audio_tokens(len(padded))
    assert tokens[0] == 25
    assert set(tokens[1:]) == {24}
    return {"input_features": features, "audio_arrays": padded[None]}, len(tokens) - 1


def ultravox(samples: Any) -> tuple[dict[str, Any], int]:
    """What the processing published with Ultravox's models does, step by step, in torch."""
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=128)
    samples = np.pad(samples, (0, max(0, 320 - len(samples))))
    options = {"padding": "longest", "pad_to_multiple_of": 160, "truncation": False, "return_attention_mask": True}
    out = extractor([samples], sampling_rate=16000, **options)
    (features,), real = torch.as_tensor(np.asarray(out.input_features)), int(np.sum(out.attention_mask))
    pieces = [features[:, start : start + 3000] for start in range(0, real, 3000)]
    pieces[1:] = [torch.nn.functional.pad(piece, (0, 3000 - piece.shape[1])) for piece in pieces[1:]]
    lengths = torch.tensor([min(3000, real - start) for start in range(0, real, 3000)])
    tokens = torch.ceil(lengths / 16).to(torch.int64)
    made = {"audio_features": torch.stack(pieces), "audio_lens": lengths, "audio_token_len": tokens}
    return {**made, "audio_num_chunks": [len(pieces)]}, int(tokens.sum())


def qwen3_asr(samples: Any) -> tuple[dict[str, Any], int]:
    """transformers' features of a recording and its tokens."""
    from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor
    from transformers.models.qwen3_asr.processing_qwen3_asr import Qwen3ASRProcessor

    out = Qwen3ASRFeatureExtractor()(samples, return_tensors="pt", **Qwen3ASRProcessor.audio_kwargs)
    frames = out["attention_mask"].sum(-1)
    tokens = Qwen3ASRProcessor._get_audio_token_length(None, frames)
    made = {"input_features": out["input_features"], "input_features_mask": out["attention_mask"]}
    return {**made, "audio_feature_lengths": frames}, int(tokens[0])


def speech_references() -> dict[str, Any]:
    """Per family and recording: tokens, whole tensors of numbers, and of floats their shape and every so many."""
    made: dict[str, Any] = {}
    for name, process in (("voxtral", voxtral), ("ultravox", ultravox), ("qwen3-asr", qwen3_asr)):
        rows = []
        for seconds, seed in SPOKEN:
            tensors, tokens = process(recording(seconds, seed=seed))
            row: dict[str, Any] = {"seconds": seconds, "seed": seed, "tokens": tokens, "tensors": {}}
            for key, value in tensors.items():
                array = np.asarray(value)
                if array.dtype != np.float32:
                    row["tensors"][key] = {"shape": list(array.shape), "values": array.tolist()}
                    continue
                step = max(1, array.size // 400) | 1
                values = [round(float(each), 6) for each in array.ravel()[::step]]
                row["tensors"][key] = {"shape": list(array.shape), "step": step, "floats": values}
            rows.append(row)
        made[name] = rows
    return made


def video_references() -> dict[str, Any]:
    """Clips and frame samplings of Qwen2-VL and Qwen3-VL."""
    from transformers.video_utils import VideoMetadata

    made: dict[str, Any] = {}
    for name, kind in (("qwen2_vl", "Qwen2VLVideoProcessor"), ("qwen3_vl", "Qwen3VLVideoProcessor")):
        processor = getattr(importlib.import_module(f"transformers.models.{name}.video_processing_{name}"), kind)()
        fps = 2 if name == "qwen2_vl" else None
        samplings = []
        for total, rate in SAMPLINGS:
            metadata = VideoMetadata(total_num_frames=total, fps=rate)
            try:
                indices = processor.sample_frames(metadata, fps=fps)
            except (ValueError, ZeroDivisionError, RuntimeError):
                samplings.append(None)
                continue
            samplings.append([int(index) for index in indices])
        clips = []
        for width, height, count in CLIPS:
            frames = np.stack([np.asarray(frame) for frame in clip(width, height, count)]).transpose(0, 3, 1, 2)
            out = processor(videos=[torch.from_numpy(frames.copy())], do_sample_frames=False, return_tensors="pt")
            row = {key: noted(key, out[key]) for key in ("pixel_values_videos",)}
            clips.append({**row, "grid": out["video_grid_thw"].tolist()})
        made[name] = {"samplings": samplings, "clips": clips}
    return made


def of_clip(name: str, value: Any, floats: bool) -> dict[str, Any]:
    """What is kept of one tensor of a clip."""
    array = torch.as_tensor(value)
    kept = array.float() if name.startswith("pixel_values") else array.numpy().astype(np.int64)
    return noted(name, kept, floats, clip=True)


def filmed_rows(filmed: Filmed, change: Change) -> list[dict[str, Any]] | None:
    """Frames, times and tensors of each clip; None where transformers refuses the configuration or a clip."""
    from transformers.video_utils import VideoMetadata

    module = importlib.import_module(f"transformers.models.{filmed.module}.video_processing_{filmed.module}")
    rows = []
    try:
        processor = getattr(module, filmed.kind)(**{**filmed.config, **change})
        for frames, rate in clip_variations.films():
            pixels = np.stack([np.asarray(frame) for frame in frames]).transpose(0, 3, 1, 2)
            told = VideoMetadata(len(frames), rate, frames[0].width, frames[0].height, len(frames) / rate)
            options = {
                "do_sample_frames": True,
                "return_metadata": True,
                "return_tensors": "pt",
                **filmed.sampled(change),
                **filmed.always,
            }
            out = processor(videos=[torch.from_numpy(pixels.copy())], video_metadata=[told], **options)
            (seen,) = out["video_metadata"]
            row: dict[str, Any] = {"frames": [int(index) for index in seen.frames_indices], "rate": seen.sampled_fps}
            row["tensors"] = {
                name: of_clip(name, out[name][0] if filmed.in_one_row else out[name], filmed.floats)
                for name in filmed.tensors
            }
            rows.append(row)
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError, AttributeError, KeyError) as error:
        print(filmed.name, change, type(error).__name__, str(error)[:90])
        return None
    return rows


def filmed_references(filmed: Filmed) -> list[dict[str, Any]]:
    """Rows of the clips for the usual configuration, and then for every variation of it."""
    module = importlib.import_module(f"transformers.models.{filmed.module}.video_processing_{filmed.module}")
    keys = list(getattr(module, filmed.kind).valid_kwargs.__annotations__)
    varied = [("", {}), *clip_variations.variations(filmed, iter(keys))]
    return [{"key": key, "change": change, "rows": filmed_rows(filmed, change)} for key, change in varied]


def recorded_rows(recorded: Recorded, change: Change) -> list[dict[str, Any]] | None:
    """Tokens and every so many of the features of each recording; None where transformers refuses the configuration."""
    try:
        extractor = recorded.extractor(**{**recorded.config, **change})
        return [
            recorded_row(recorded, extractor, each) for each in recording_variations.sounds(extractor.sampling_rate)
        ]
    except (ValueError, RuntimeError) as error:
        print(recorded.name, change, type(error).__name__, str(error)[:90])
        return None


def recorded_row(recorded: Recorded, extractor: Any, samples: Any) -> dict[str, Any]:
    """Of one recording."""
    if recorded.name == "qwen3_asr":
        from transformers.models.qwen3_asr.processing_qwen3_asr import Qwen3ASRProcessor

        options = Qwen3ASRProcessor.audio_kwargs
        out = extractor(samples, **{"return_tensors": "pt", **options, "return_attention_mask": True})
        name, tokens = (
            "input_features",
            int(Qwen3ASRProcessor._get_audio_token_length(None, out["attention_mask"].sum(-1), options["n_window"])[0]),
        )
    elif recorded.name == "granite_speech":
        out = extractor(samples)
        name, tokens = "input_features", int(out["audio_embed_sizes"][0])
    elif recorded.name == "inkling_mm_model":
        from transformers.models.inkling.processing_inkling import InklingProcessor

        bins = torch.linspace(-7.0, 2.0, 16, dtype=torch.float64).to(torch.float32)
        counted = types.SimpleNamespace(bin_centers=bins, dmel_min_value=-7.0, dmel_max_value=2.0)
        made = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")
        out = {"audio_input_ids": InklingProcessor._extract_dmel_bins(counted, made["input_features"])}
        name, tokens = "audio_input_ids", int(made["input_features_mask"].sum())
    elif recorded.name == "voxtral_realtime":
        from mistral_common.tokens.tokenizers.audio import OFFLINE_STREAMING_BUFFER_TOKENS, AudioEncoder

        step, after = 8 * extractor.hop_length, 6 + 1 + OFFLINE_STREAMING_BUFFER_TOKENS
        config = {"raw_audio_length_per_tok": step, "n_right_pad_tokens": lambda _: after, "n_left_pad_tokens": 32}
        encoder = types.SimpleNamespace(audio_config=types.SimpleNamespace(**config))
        heard = np.pad(samples, AudioEncoder._get_streaming_pad(encoder, len(samples), None))
        out = extractor(heard, sampling_rate=extractor.sampling_rate, padding=True)
        name, tokens = "input_features", len(heard) // step
    elif recorded.name == "dots3_note":
        out = extractor(samples, sampling_rate=extractor.sampling_rate)
        name, tokens = "input_features", int(out["num_audio_tokens"].sum())
    elif recorded.name == "nemotron_h_omni":
        from transformers.models.nemotron_h_omni.processing_nemotron_h_omni import NemotronH_Omni_Reasoning_V3Processor

        counted = types.SimpleNamespace(audio_hop_length=160, audio_subsampling_factor=8)
        out = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")
        count = NemotronH_Omni_Reasoning_V3Processor._estimate_audio_num_embeddings(counted, len(samples))
        name, tokens = "input_features", max(1, count)
    else:
        out = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")
        name, tokens = "audio_input_features", int(out["audio_embed_sizes"][0])
    features = out[name].numpy()
    step = max(1, features.size // 200) | 1
    floats = [round(float(value), 5) for value in features.ravel()[::step]]
    return {"name": name, "tokens": tokens, "shape": list(features.shape), "step": step, "floats": floats}


def recorded_references(recorded: Recorded) -> list[dict[str, Any]]:
    """Rows of the recordings for the usual configuration, and then for every variation of it."""
    assert set(recorded.keys) == set(recorded.read), recorded.name
    changes: list[Change] = [{}, *(change for _, change in recording_variations.variations(recorded))]
    return [{"change": change, "rows": recorded_rows(recorded, change)} for change in changes]


def torch_references(family: Family) -> list[dict[str, Any]]:
    """Rows of the small pictures made by transformers' torchvision class of the family, with torch's own resize of bytes."""
    global BY_TORCH
    name = family.torch or family.reference
    module = importlib.import_module(f"transformers.models.{name}.image_processing_{name}")
    kind = own_class(module, "ImageProcessor")
    processor = kind(**deepcopy({key: value for key, value in family.preprocessor.items() if key not in NOT_ITS}))
    BY_TORCH = True
    try:
        return [row_of(family, processor, picture) for picture in small_pictures()]
    finally:
        BY_TORCH = False


def of_moving_media() -> dict[str, Any]:
    """What the keys of video processors and feature extractors make of clips and recordings."""
    return {
        "clip_keys": {filmed.name: filmed_references(filmed) for filmed in FILMED},
        "recording_keys": {each.name: recorded_references(each) for each in RECORDED if each.torch},
    }


def varied(families: list[Family], by_torch: list[Family]) -> dict[str, Any]:
    """What the keys make of the small pictures, and, of the families `by_torch`, the torchvision backend."""
    apart = {"phi3_v", "molmo2"}
    both = [each for each in by_torch if not (each.vllm or each.by_pillow or each.torch in apart)]
    return {
        "keys": {family.name: key_references(family) for family in families},
        "by_torch": {family.name: torch_references(family) for family in both},
    }


def written() -> dict[str, Any]:
    """What the file has now."""
    read: dict[str, Any] = json.loads(gzip.decompress(TARGET.read_bytes()))
    return read


def with_families(names: list[str]) -> dict[str, Any]:
    """What the file has, with the rows of these families made anew."""
    made, families = written(), [FAMILIES[name] for name in names]
    assert made["pictures"] == fingerprint()
    parts = varied([family for family in families if family.torch], families)
    for part, rows in parts.items():
        made[part] = {**made[part], **rows}
    made["families"] |= {family.name: references(family) for family in families if family.torch or family.vllm}
    return made


def main() -> None:
    """Make and write all of them, or with `--keys` those of the small pictures alone."""
    torch.set_num_threads(1)
    stand_in()
    import transformers

    if "--only" in sys.argv:
        write(with_families(sys.argv[sys.argv.index("--only") + 1].split(",")))
        return
    if "--moving" in sys.argv:
        write({**written(), **of_moving_media()})
        return
    if "--types" in sys.argv:
        made, names = written(), sys.argv[sys.argv.index("--types") + 1].split(",")
        made["clip_keys"] |= {each.name: filmed_references(each) for each in FILMED if each.name in names}
        recorded = [each for each in RECORDED if each.torch and each.name in names]
        made["recording_keys"] |= {each.name: recorded_references(each) for each in recorded}
        write(made)
        return

    families = [family for family in FAMILIES.values() if family.torch or family.vllm]
    of_transformers = [family for family in families if family.torch]
    if "--keys" in sys.argv:
        write({**written(), **varied(of_transformers, list(FAMILIES.values()))})
        return

    made = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "pictures": fingerprint(),
        "audio": audio_references(),
        "speech": speech_references(),
        "video": video_references(),
        "families": {},
        **varied(of_transformers, list(FAMILIES.values())),
        **of_moving_media(),
    }
    for family in families:
        made["families"][family.name] = references(family)
        print(family.name, len(made["families"][family.name]))
    write(made)


def write(made: dict[str, Any]) -> None:
    """Replace the file."""
    TARGET.write_bytes(gzip.compress(json.dumps(made, separators=(",", ":")).encode(), 9, mtime=0))
    print(TARGET, TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
