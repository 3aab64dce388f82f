"""The descriptor pool of engines' contracts, with the messages of protobuf that they use.

A pool of its own, for two files of one name with different messages cannot be in one pool. `Struct` is protobuf's, in this pool:
a field of these messages takes no other. Above: the modules *_pb2 beside it, and who fills their fields.
"""

from typing import Any

from google.protobuf import descriptor_pool, message_factory, struct_pb2, timestamp_pb2

__all__ = ["POOL", "Struct"]

POOL = descriptor_pool.DescriptorPool()
for _module in (struct_pb2, timestamp_pb2):
    POOL.AddSerializedFile(_module.DESCRIPTOR.serialized_pb)

Struct: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("google.protobuf.Struct"))
