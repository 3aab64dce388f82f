"""The service of TokenSpeed's encode workers as such a worker speaks it: what it is asked, and its answer.

Decides how each message is read and put; pure. Above: server.grpc_server. The other side of engines.codecs.tokenspeed's Encode;
written after the source of its servicer, which takes one item and one room in a call.
"""

from smg_engine_contract.engines import tokenspeed_encoder_pb2 as pb
from smg_simulator.codecs.base import parse_message
from smg_simulator.codecs.tokenspeed import seen_item
from smg_simulator.engine.media import SeenMedia
from smg_simulator.engine.refusal import Refused

__all__ = ["ACCEPTED", "DECLINED", "ENCODE", "REFUSED_GENERATE", "encode_request"]

ENCODE = "/tokenspeed.grpc.encoder.TokenSpeedEncoder/Encode"
ACCEPTED = bytes(pb.EncodeResponse(accepted=True).SerializeToString())
DECLINED = bytes(pb.EncodeResponse(accepted=False).SerializeToString())
REFUSED_GENERATE = "Generate is unavailable on TokenSpeed encode workers"


def encode_request(message: bytes) -> tuple[str, SeenMedia, int]:
    """The request's id, its item, and the room that the embeddings are kept in. Raises Refused."""
    got = parse_message(pb.EncodeRequest, message)
    if len(got.mm_inputs.items) != 1 or len(got.items) != 1:
        raise Refused("EncodeRequest must contain exactly one mm item and one room assignment")
    item = got.mm_inputs.items[0]
    if any(each.length <= 0 for each in item.placeholders):
        raise Refused("encode MultimodalItem.placeholders.length must be > 0")
    return got.request_id, seen_item(item), got.items[0].bootstrap_room
