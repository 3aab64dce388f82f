"""What stands in the place of the H100s with `--simulated`: engines without a model, with the timing of real ones.

The timing is that of Llama 3.3 70B in FP8 on two H100 80 GB, as NVIDIA publishes it for its NIM 1.8.0, with prompts of 5,000
tokens and answers of 500 (https://docs.nvidia.com/nim/benchmarking/llm/1.0.0/performance): one request has its first token after
406.77 ms and then one every 18.58 ms; of 25 requests at once each has one every 38.75 ms, of 50 every 59.73 ms.
"""

import json
import shutil
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from smg_simulator import MODEL_FOLDER, SimulatorConfig, Timing

PROMPT, FIRST, TOKEN, TOKEN_OF_25 = 5000, 0.40677, 0.01858, 0.03875  # tokens, and seconds

H100 = Timing(
    prefill_rate=PROMPT / (FIRST - TOKEN),
    decode_rate=1 / TOKEN,
    slowdown=(TOKEN_OF_25 / TOKEN - 1) / 24,  # for each further request; of 50 this gives 59.8 ms
    batch=256,
)


def engine(model: str, dialect: str, part: str, folder: str) -> SimulatorConfig:
    """One engine of the fleet: `part` is what it does of a request, "" for all; `folder` has a model that takes pictures."""
    return SimulatorConfig(
        model=model,
        dialects=(dialect,),
        kv_role="kv_producer" if part == "prefill" else "kv_consumer" if part == "decode" else "",
        kv_connector="NixlConnector" if part else "",
        model_folder=folder,
        timing=H100,
        block_size=16,
        blocks=25_000,  # 400,000 tokens: two H100 have 160 GB, 70 of which the weights take
        context_length=131_072,
    )


def model_with_pictures(folder: Path) -> str:
    """A copy of the simulator's model that has a token for a picture."""
    shutil.copytree(MODEL_FOLDER, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken("<image>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "llava", "image_token_index": tokenizer.token_to_id("<image>"), "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps({**config, "vision_config": {"patch_size": 14, "image_size": 336}}))
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    size = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}
    (folder / "preprocessor_config.json").write_text(json.dumps(size))
    return str(folder)
