"""Which tests a real engine is asked: those for the tiny model whose folder is named, or those for any model of words."""

import json
import os
from pathlib import Path

TESTS = {"": "test_vllm.py", "qwen2_vl": "test_qwen2_vl.py", "qwen2_audio": "test_qwen2_audio.py"}


def _model_type() -> str:
    folder = os.environ.get("SMG_REAL_MODEL")
    return str(json.loads((Path(folder) / "config.json").read_text())["model_type"]) if folder else ""


collect_ignore = [file for kind, file in TESTS.items() if kind != _model_type()]
