"""FlushCache, StartProfile and StopProfile as vLLM, SGLang and TokenSpeed have them: the same messages in three services.

Decides how they are written; pure. Above: the codecs of these dialects. The messages come from the package smg-grpc-proto.
"""

from smg_core.engines.base import Unary
from smg_core.engines.codecs.answers import parse
from smg_core.engines.upkeep import EngineReply, EngineTask, FlushCache, StartProfile, StopProfile
from smg_engine_contract.engines import common_pb2 as common

__all__ = ["reply_of", "upkeep_call"]

_MAX_TEXT = 1000  # characters of an engine's answer that are told


def upkeep_call(service: str, asked: EngineTask) -> Unary[EngineReply] | None:
    """The call of `service` for it; None for what these dialects do not share."""
    if isinstance(asked, FlushCache):
        message = common.FlushCacheRequest(timeout_s=asked.wait_s).SerializeToString()
        return Unary(f"/{service}/FlushCache", message, _flushed)
    if isinstance(asked, StartProfile):
        return Unary(f"/{service}/StartProfile", _start(asked).SerializeToString(), _profiled)
    return Unary(f"/{service}/StopProfile", b"", _profiled) if isinstance(asked, StopProfile) else None


def _start(asked: StartProfile) -> common.StartProfileRequest:
    out = common.StartProfileRequest(activities=asked.activities, profile_by_stage=asked.by_stage)
    for name in ("output_dir", "with_stack", "record_shapes"):
        if value := getattr(asked, name):
            setattr(out, name, value)
    for name in ("start_step", "num_steps"):
        if (number := getattr(asked, name)) is not None:
            setattr(out, name, number)
    return out


def _flushed(message: bytes) -> EngineReply:
    answer = parse(common.FlushCacheResponse, message)
    return reply_of(answer.success, answer.message)


def _profiled(message: bytes) -> EngineReply:
    answer = parse(common.ProfileResponse, message)
    return reply_of(answer.success, answer.message)


def reply_of(done: bool, message: str) -> EngineReply:
    """An engine's answer, with no more of its words than an operator reads."""
    return EngineReply(done, message[:_MAX_TEXT])
