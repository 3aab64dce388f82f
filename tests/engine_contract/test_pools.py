"""The contracts of engines stand beside the package that publishes them, of whatever version, in one process."""

import subprocess
import sys

import pytest

from smg_engine_contract.engines import sglang_scheduler_pb2 as pb
from smg_engine_contract.engines.pool import Struct

OURS = (
    "from smg_engine_contract.engines import common_pb2, mlx_engine_pb2, sglang_scheduler_pb2, tokenspeed_encoder_pb2\n"
)
OURS += (
    "from smg_engine_contract.engines import tokenspeed_scheduler_pb2, trtllm_service_pb2, vllm_engine_pb2 as ours\n"
)
THEIRS = """
from smg_grpc_proto.generated import common_pb2, mlx_engine_pb2, sglang_scheduler_pb2, tokenspeed_encoder_pb2
from smg_grpc_proto.generated import tokenspeed_scheduler_pb2, trtllm_service_pb2, vllm_engine_pb2 as theirs
"""
OTHER_VERSION = """
from google.protobuf import descriptor_pb2, descriptor_pool
file = descriptor_pb2.FileDescriptorProto(name="vllm_engine.proto", package="vllm.grpc.engine", syntax="proto3")
file.message_type.add(name="GenerateRequest").field.add(name="new", number=1, type=8, label=1)
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
"""
ONE_WIRE = """
assert ours.GenerateRequest is not theirs.GenerateRequest
sent = ours.GenerateRequest(request_id="r", stream=True)
assert theirs.GenerateRequest.FromString(sent.SerializeToString()).request_id == "r"
"""


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(OURS + THEIRS + ONE_WIRE, id="ours first"),
        pytest.param(THEIRS + OURS + ONE_WIRE, id="theirs first"),
        pytest.param(OURS + OTHER_VERSION, id="ours, then another version"),
        pytest.param(OTHER_VERSION + OURS, id="another version, then ours"),
    ],
)
def test_the_published_package_can_be_loaded_before_and_after_ours(code: str) -> None:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr


def test_a_message_has_structs_and_messages_of_its_own_pool() -> None:
    arguments = Struct()
    arguments.update({"tp_size": 2})
    answer = pb.GetServerInfoResponse(server_args=arguments)

    assert pb.GetServerInfoResponse.FromString(answer.SerializeToString()).server_args["tp_size"] == 2
