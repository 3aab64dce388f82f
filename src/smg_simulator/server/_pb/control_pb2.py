# Made by tools/proto.py from proto/smg/simulator/v1/control.proto; do not edit.
"""The messages of what may be changed in the embedded engine."""

from google.protobuf import descriptor_pool, message_factory

_FILE = descriptor_pool.Default().AddSerializedFile(
    b'\n\x1esmg/simulator/v1/control.proto\x12\x10smg.simulator.v1"\x8e\x01\n\x05Fault\x12\x12\n\x04kind\x18\x01 \x01(\tR\x04kind\x12\x14\n\x05after\x18\x02 \x01(\rR\x05aft'
    b'er\x12\x1d\n\x07seconds\x18\x03 \x01(\x01H\x00R\x07seconds\x88\x01\x01\x12\x16\n\x06status\x18\x04 \x01(\tR\x06status\x12\x18\n\x07message\x18\x05 \x01(\tR\x07messageB\n\n\x08_seconds"D\n\x04T'
    b'urn\x122\n\x05fault\x18\x01 \x01(\x0b2\x17.smg.simulator.v1.FaultH\x00R\x05fault\x88\x01\x01B\x08\n\x06_fault"K\n\x04Rate\x12-\n\x05fault\x18\x01 \x01(\x0b2\x17.smg.simul'
    b'ator.v1.FaultR\x05fault\x12\x14\n\x05share\x18\x02 \x01(\x01R\x05share"\x86\x01\n\x10SetFaultsRequest\x12.\n\x06script\x18\x01 \x03(\x0b2\x16.smg.simulator.v1.T'
    b'urnR\x06script\x12,\n\x05rates\x18\x02 \x03(\x0b2\x16.smg.simulator.v1.RateR\x05rates\x12\x14\n\x05clear\x18\x03 \x01(\x08R\x05clear"\x12\n\x10GetFaultsRequest"'
    b'e\n\tFaultPlan\x12\x18\n\x07waiting\x18\x01 \x01(\rR\x07waiting\x12,\n\x05rates\x18\x02 \x03(\x0b2\x16.smg.simulator.v1.RateR\x05rates\x12\x10\n\x03met\x18\x03 \x01(\x04R\x03m'
    b'et2\xa5\x01\n\x07Control\x12L\n\tSetFaults\x12".smg.simulator.v1.SetFaultsRequest\x1a\x1b.smg.simulator.v1.FaultPlan\x12L\n\tGetF'
    b'aults\x12".smg.simulator.v1.GetFaultsRequest\x1a\x1b.smg.simulator.v1.FaultPlanb\x06proto3'
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
Fault = _message("Fault")
Turn = _message("Turn")
Rate = _message("Rate")
SetFaultsRequest = _message("SetFaultsRequest")
GetFaultsRequest = _message("GetFaultsRequest")
FaultPlan = _message("FaultPlan")
