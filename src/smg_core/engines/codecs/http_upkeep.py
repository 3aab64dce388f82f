"""The calls for operators that vLLM's and SGLang's HTTP servers have: caches, profiles, adapters, sleep, pauses, weights.

Decides which path and body each task has there; pure. Above: the codecs of these dialects. The fields are those of vLLM 0.33
(`entrypoints/rl`, `entrypoints/serve/lora`, and `/sleep` and `/collective_rpc` of its development mode) and SGLang 0.5.23. vLLM
lets adapters be loaded where VLLM_ALLOW_RUNTIME_LORA_UPDATING is set, and has an engine sleep where `--enable-sleep-mode` is.
"""

import msgspec

from smg_core.engines.base import Unary
from smg_core.engines.codecs.json_decoding import done_reply
from smg_core.engines.upkeep import (
    EngineReply,
    EngineTask,
    FallAsleep,
    FlushCache,
    LoadAdapter,
    LoadWeights,
    PauseGeneration,
    ResumeGeneration,
    StartProfile,
    StopProfile,
    TransferWeights,
    UnloadAdapter,
    WakeUp,
)

__all__ = ["sglang_task", "vllm_task"]

_VLLM_PAUSES = frozenset({"abort", "keep", "wait"})
_SGLANG_PAUSES = {"abort": "abort", "keep": "in_place", "retract": "retract"}
_VLLM_STEPS = {
    "connect": ("/init_weight_transfer_engine", "init_info"),
    "begin": ("/start_weight_update", ""),
    "update": ("/update_weights", "update_info"),
    "end": ("/finish_weight_update", ""),
    "disconnect": ("/shutdown_weight_transfer_engine", ""),
}
"""The path of each step, and the field that holds its description."""
_SGLANG_STEPS = {
    "connect": "/init_weights_update_group",
    "begin": "/begin_weight_update",
    "update": "/update_weights_from_distributed",
    "end": "/end_weight_update",
    "disconnect": "/destroy_weights_update_group",
}


def vllm_task(asked: EngineTask) -> Unary[EngineReply] | None:
    """The call of vLLM's server for it; None where it has none."""
    match asked:
        case FlushCache():
            return _call("/reset_prefix_cache")
        case StartProfile():
            return _call("/start_profile")
        case StopProfile():
            return _call("/stop_profile")
        case PauseGeneration(mode=mode) if mode in _VLLM_PAUSES:
            return _call(f"/pause?mode={mode}")
        case ResumeGeneration():
            return _call("/resume")
        case LoadWeights():
            return _call("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": asked.path}})
        case TransferWeights():
            path, field = _VLLM_STEPS[asked.step]
            body: dict[str, object] = {field: msgspec.Raw(asked.info)} if field else {}
            if asked.step == "end" and asked.version:
                body["weight_version"] = asked.version
            return _call(path, body)
    return _vllm_memory(asked)


def _vllm_memory(asked: EngineTask) -> Unary[EngineReply] | None:
    """The call of vLLM's server for what its memory holds."""
    match asked:
        case LoadAdapter():  # none is pinned there
            return _call("/v1/load_lora_adapter", {"lora_name": asked.name, "lora_path": asked.path})
        case UnloadAdapter():
            return _call("/v1/unload_lora_adapter", {"lora_name": asked.name})
        case FallAsleep():
            return _call("/sleep?level=1&mode=wait")
        case WakeUp():
            return _call("/wake_up")
    return None


def sglang_task(asked: EngineTask) -> Unary[EngineReply] | None:
    """The call of SGLang's server for it; None where it has none."""
    match asked:
        case FlushCache():
            return _call("/flush_cache")
        case StartProfile():
            return _call("/start_profile", _profile(asked))
        case StopProfile():
            return _call("/stop_profile")
        case PauseGeneration(mode=mode) if mode in _SGLANG_PAUSES:
            return _call("/pause_generation", {"mode": _SGLANG_PAUSES[mode]})
        case ResumeGeneration():
            return _call("/continue_generation", {})
        case LoadWeights():
            named = {"weight_version": asked.version} if asked.version else {}
            return _call("/update_weights_from_disk", {"model_path": asked.path, **named})
        case TransferWeights():
            body = msgspec.json.decode(asked.info, type=dict[str, object])
            if asked.step == "update" and asked.version:
                body["weight_version"] = asked.version
            return _call(_SGLANG_STEPS[asked.step], body)
    return _sglang_memory(asked)


def _sglang_memory(asked: EngineTask) -> Unary[EngineReply] | None:
    """The call of SGLang's server for what its memory holds."""
    match asked:
        case LoadAdapter():
            pinned = {"pinned": True} if asked.pinned else {}
            return _call("/load_lora_adapter", {"lora_name": asked.name, "lora_path": asked.path, **pinned})
        case UnloadAdapter():
            return _call("/unload_lora_adapter", {"lora_name": asked.name})
        case FallAsleep():  # without tags it would give up its weights too, and need not keep a copy of them
            return _call("/release_memory_occupation", {"tags": ["kv_cache"]})
        case WakeUp():
            return _call("/resume_memory_occupation", {"tags": ["kv_cache"]})
    return None


def _call(path: str, body: dict[str, object] | None = None) -> Unary[EngineReply]:
    return Unary(f"POST {path}", b"" if body is None else msgspec.json.encode(body), done_reply)


def _profile(asked: StartProfile) -> dict[str, object]:
    body: dict[str, object] = {name: True for name in ("with_stack", "record_shapes") if getattr(asked, name)}
    if asked.by_stage:
        body["profile_by_stage"] = True
    if asked.output_dir:
        body["output_dir"] = asked.output_dir
    if asked.activities:
        body["activities"] = list(asked.activities)
    for name in ("start_step", "num_steps"):
        if (value := getattr(asked, name)) is not None:
            body[name] = value
    return body
