"""The simulated engine without network: which requests it refuses, the tokens of its answers, and when they are due.

Begin with `engine`: `SimulatorConfig` and `EngineCore`. `clockwork` says when tokens are due, `faults` what goes wrong and for
which request, `prefix_cache` which blocks of prompts it has and `kv_feed` how they change. `vocabulary` and `model_folder` are
its tokenizer; `media`, `tensor_names` and `shared_memory` check what comes with a prompt. All raise `refusal.Refused`.
"""
