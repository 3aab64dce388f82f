"""Which tests a real engine is asked: those with pictures where the folder of its tiny model is named, the others elsewhere."""

import os

collect_ignore = ["test_vllm.py" if os.environ.get("SMG_REAL_MODEL") else "test_qwen2_vl.py"]
