# Made by tools/proto.py from smg-grpc-proto 0.4.28, tokenspeed_encoder.proto; do not edit.
"""The messages of TokenSpeed's contract of encoders."""

from google.protobuf import message_factory

from smg_engine_contract.engines import tokenspeed_scheduler_pb2 as tokenspeed_scheduler_pb2
from smg_engine_contract.engines.pool import POOL

_FILE = POOL.AddSerializedFile(
    b'\n\x18tokenspeed_encoder.proto\x12\x17tokenspeed.grpc.encoder\x1a\x1atokenspeed_scheduler.proto"\xbd\x01\n\rEncodeRequest\x12\x1d\n'
    b'\nrequest_id\x18\x01 \x01(\tR\trequestId\x12H\n\tmm_inputs\x18\x02 \x01(\x0b2+.tokenspeed.grpc.scheduler.MultimodalInputsR\x08mmInpu'
    b'ts\x12C\n\x05items\x18\x03 \x03(\x0b2-.tokenspeed.grpc.encoder.EncodeItemAssignmentR\x05items"=\n\x14EncodeItemAssignment\x12%\n\x0eb'
    b'ootstrap_room\x18\x01 \x01(\x03R\rbootstrapRoom",\n\x0eEncodeResponse\x12\x1a\n\x08accepted\x18\x01 \x01(\x08R\x08accepted2n\n\x11TokenSpeedEncode'
    b"r\x12Y\n\x06Encode\x12&.tokenspeed.grpc.encoder.EncodeRequest\x1a'.tokenspeed.grpc.encoder.EncodeResponseb\x06proto3"
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
EncodeRequest = _message("EncodeRequest")
EncodeItemAssignment = _message("EncodeItemAssignment")
EncodeResponse = _message("EncodeResponse")
